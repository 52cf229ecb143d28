"""`python -m pipelines submit`, against a server that speaks the pipelines API."""

import json
import logging
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import kfp
import pytest
import yaml

from ease_lib import __version__
from ease_lib.artifacts.store import open_store
from ease_lib.config.comparison import plan
from ease_lib.errors import ConfigError
from ease_lib.running.stage import EXIT_STOPPED
from pipelines import submit
from pipelines.__main__ import main
from pipelines.arguments import assignments, written_bytes
from pipelines.cluster import connect, read_package
from pipelines.workflow import Task, Workflow
from tests.pipelines.kfp_api_server import Refused, checked, frame, kfp_api_server
from tests.s3_server import free_ports

SECRET = "s3cr3t-t0ken-of-a-person"


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch, tmp_path):
    """No cluster, session or kfp context of the developer's; no waiting."""
    for name in ("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "EASE_KFP_TOKEN", "KFP_COOKIES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("KF_PIPELINES_SA_TOKEN_PATH", raising=False)
    monkeypatch.setattr(kfp.Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "kfp/context.json"))
    monkeypatch.setattr(submit, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(submit, "RETRY_PAUSES", (0.01, 0.01))


@pytest.fixture
def server():
    with kfp_api_server() as running:
        yield running


def submitted(server, *options):
    return main(["submit", "--host", server.url, *options])


def in_one_line(message):
    """The message as it was raised: when shown, its remedy has a line of its own."""
    return message.replace("\n  ", "; ")


def test_a_run_starts_with_the_arguments_of_the_set_and_its_link_is_printed(server, capsys):
    assert submitted(server, "--params", "paper", "--set", "k=8", "--set", "task=lr", "--set", "nu=0.5") == 0
    (run,) = server.runs
    arguments = run.runtime_config.parameters
    assert arguments["k"] == 8
    assert arguments["task"] == "lr"
    assert arguments["embedder"] == "all-mpnet-base-v2"
    advanced = json.loads(arguments["advanced"])
    assert advanced["nu"] == 0.5
    out = capsys.readouterr().out
    assert f"run {run.run_id} of pipeline ease" in out
    assert out.endswith(f"\n{server.url}/#/runs/details/{run.run_id}\n")
    assert out.count("\n") == 2, "kfp's own lines are not printed"


def test_numbers_that_arrive_as_strings_are_sent_as_numbers(server):
    assert submitted(server, "--set", "k=3.0", "--set", "noise_ratio=1e-1", "--set", "llm_model=7") == 0
    arguments = server.runs[0].runtime_config.parameters
    assert (arguments["k"], arguments["noise_ratio"], arguments["llm_model"]) == (3, 0.1, "7")


def test_options_of_the_run_reach_the_cluster(server):
    given = (
        "--experiment",
        "tickets",
        "--run-name",
        "first",
        "--service-account",
        "runner",
        "--pipeline-root",
        "s3://b/r",
    )
    assert submitted(server, *given) == 0
    (run,) = server.runs
    assert [experiment.display_name for experiment in server.experiments] == ["tickets"]
    assert (run.display_name, run.service_account, run.runtime_config.pipeline_root) == ("first", "runner", "s3://b/r")


def test_equal_content_is_uploaded_once_under_version_and_hash(server):
    for _ in range(2):
        assert submitted(server) == 0
    (version,) = server.versions
    assert version.display_name == read_package(submit.PACKAGE).version
    assert version.display_name.startswith(f"{__version__}-")
    assert [pipeline.display_name for pipeline in server.pipelines] == ["ease"]
    assert {run.pipeline_version_reference.pipeline_version_id for run in server.runs} == {version.pipeline_version_id}
    assert len(server.experiments) == 1


def test_a_changed_package_is_a_new_version(server, tmp_path):
    changed = tmp_path / "ease_pipeline.yaml"
    changed.write_text(submit.PACKAGE.read_text() + "# changed\n")
    assert submitted(server) == submitted(server, "--package", str(changed)) == 0
    assert len(server.versions) == 2


def test_a_version_that_somebody_else_uploads_meanwhile_is_taken(server):
    assert submitted(server) == 0
    other, server.versions[:] = list(server.versions), []
    cluster = connect(server.url)
    route = server.route

    def racing(request):
        if request.path.endswith("upload_version"):
            server.versions[:] = other
        return route(request)

    server.route = racing
    assert cluster.uploaded_version(read_package(submit.PACKAGE)).version_id == other[0].pipeline_version_id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "k=200", "--set", "pool_size=100"), "k=200 exceeds pool_size=100; lower k or raise pool_size"),
        (("--set", "buget=3"), "unknown parameter buget; did you mean budget?"),
        (("--set", "k"), "--set k is not name=value, e.g. --set k=8"),
        (("--params", "nothing"), "no parameter set nothing"),
        (
            ("--params", "tests/benchmarks/sets/claims.yaml", "--package", submit.PACKAGE),
            "make several runs, but ",
        ),
        (("--params", "tests/benchmarks/sets/claims.yaml"), "needs task_uri: the folder with induce/"),
        (("--retries", "2"), "--retries 2 needs --wait"),
        (("--wait", "--retries", "-1"), "--retries -1 is below 0"),
        (("--timeout", "5"), "--timeout 5 needs --wait"),
        (("--wait", "--timeout", "0"), "--timeout 0 is not above 0"),
        (("--package", "/no/such.yaml"), "cannot read /no/such.yaml: No such file or directory"),
        (("--ca-cert", "/no/such.pem"), "--ca-cert /no/such.pem: no such file"),
    ],
)
def test_nothing_is_sent_when_something_is_wrong(server, capsys, options, message):
    assert submitted(server, *map(str, options)) == 2
    assert message in in_one_line(capsys.readouterr().err)
    assert server.script.requests == []


def test_all_wrong_parameters_are_listed_at_once(server, capsys):
    assert submitted(server, "--set", "k=0", "--set", "noise_ratio=2") == 2
    err = capsys.readouterr().err
    assert "- k=0 is below 1" in err
    assert "- noise_ratio=2 is above 1" in err


def test_a_package_with_another_form_is_refused_before_anything_is_sent(server, capsys, tmp_path):
    spec = next(yaml.safe_load_all(submit.PACKAGE.read_text()))
    fields = spec["root"]["inputDefinitions"]["parameters"]
    fields["size"] = fields.pop("seed")
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump(spec))
    assert submitted(server, "--package", str(old)) == 2
    err = capsys.readouterr().err
    assert f"{old} has parameter size, which this version does not have" in err
    assert f"{old} lacks parameter seed; run `python -m pipelines compile`" in err
    assert server.script.requests == []


@pytest.mark.parametrize("is_after_ml_metadata", [False, True])
def test_wait_prints_each_change_once_and_ends_with_0_when_the_run_succeeds(server, capsys, is_after_ml_metadata):
    server.script.is_after_ml_metadata = is_after_ml_metadata
    server.script.frames = [
        frame("PENDING"),
        frame("RUNNING", build_dataset="RUNNING"),
        frame("RUNNING", build_dataset="RUNNING"),
        frame("RUNNING", build_dataset="SUCCEEDED", embed="RUNNING"),
        frame("SUCCEEDED", build_dataset="SUCCEEDED", embed="SUCCEEDED"),
    ]
    assert submitted(server, "--wait") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1].split() for line in lines[2:-1]] == [
        ["run", "PENDING"],
        ["build-dataset", "RUNNING"],
        ["run", "RUNNING"],
        ["build-dataset", "SUCCEEDED"],
        ["embed", "RUNNING"],
        ["embed", "SUCCEEDED"],
        ["run", "SUCCEEDED"],
    ]
    assert lines[-1].startswith("run succeeded after 2 min 5 s; the report is at http://")


def test_a_failed_run_ends_with_1_and_what_its_task_said(server, capsys):
    server.script.frames = [
        frame("RUNNING"),
        frame("FAILED", optimize=("FAILED", "main: Error (exit code 143)")),
    ]
    assert submitted(server, "--wait") == 1
    err = capsys.readouterr().err
    assert "run FAILED after 2 min 5 s\n- optimize: main: Error (exit code 143)\nlogs and artifacts: http" in err
    assert "root" not in err


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (frame("FAILED", "out of quota"), "run FAILED after 2 min 5 s\n- run: out of quota\n"),
        (frame("FAILED", embed="FAILED"), "- embed: no message\n"),
        (
            frame("FAILED"),
            "- run: Kubeflow names no task and no error; probably the parameters are too long for one",
        ),
        (frame("CANCELED"), "run CANCELED\n"),
    ],
)
def test_every_other_end_is_1_too(server, capsys, last, said):
    server.script.frames = [last]
    assert submitted(server, "--wait") == 1
    assert said in capsys.readouterr().err


def test_timeout_stops_following_and_says_that_the_run_goes_on(server, capsys):
    server.script.frames = [frame("RUNNING")]
    assert submitted(server, "--wait", "--timeout", "0.05") == 1
    assert "run still RUNNING after 0.05 s; it continues: http://" in capsys.readouterr().err


def test_ctrl_c_stops_following_and_not_the_run(server, capsys, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    server.script.frames = [frame("RUNNING")]
    monkeypatch.setattr(submit.time, "sleep", interrupted)
    assert submitted(server, "--wait") == EXIT_STOPPED
    assert "no longer followed; the run continues: http://" in capsys.readouterr().err
    assert not any("terminate" in path for path in server.script.sent())


def test_an_api_that_is_away_for_a_while_is_waited_for(server, capsys):
    server.script.frames = [frame("RUNNING"), frame("SUCCEEDED")]
    server.script.fail("GET", "/runs/", 503, "restarting", times=3)
    assert submitted(server, "--wait") == 0
    assert capsys.readouterr().err.count("trying on: ") == 1


def test_an_api_that_stays_away_is_given_up_and_the_run_goes_on(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "PATIENCE_SECONDS", 0.03)
    server.script.fail("GET", "/runs/", 503, "restarting")
    assert submitted(server, "--wait") == 2
    assert "(HTTP 503: restarting)\n  the run continues: http://" in capsys.readouterr().err


def test_a_session_that_ends_meanwhile_is_said_and_the_run_goes_on(server, capsys):
    server.script.fail("GET", "/runs/", 401, "expired")
    assert submitted(server, "--wait") == 2
    assert "the run continues: http://" in capsys.readouterr().err


def test_a_login_page_in_place_of_the_run_is_said_and_the_run_goes_on(server, capsys):
    """A login page is not a run without a state, which would be followed for ever."""
    server.script.login_page = "/runs/"
    assert submitted(server, "--wait") == 2
    err = capsys.readouterr().err
    assert "answered with a web page (text/html) instead of the pipelines API" in err
    assert "the run continues: http://" in err


def test_a_run_that_somebody_deletes_meanwhile_does_not_go_on(server, capsys):
    server.script.fail("GET", "/runs/", 404, "run not found")
    assert submitted(server, "--wait") == 2
    err = capsys.readouterr().err
    assert "run not found" in err
    assert "goes on" not in err


def test_a_server_that_is_down_is_one_quick_message(capsys):
    [free_port] = free_ports(1)
    host = f"http://127.0.0.1:{free_port}"
    start = time.monotonic()
    assert main(["submit", "--host", host]) == 2
    assert time.monotonic() - start < 5
    err = capsys.readouterr().err
    assert f"error: {host} cannot be reached ([Errno 111] Connection refused)\n  check --host or KF_PIPELINES_" in err
    assert err.count("\n") == 2


def test_the_host_comes_from_the_environment_too(server, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", server.url)
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://kubeflow.example.org/pipeline/")
    assert main(["submit"]) == 0
    assert connect().run_link("r1") == "https://kubeflow.example.org/pipeline/#/runs/details/r1"


def test_without_any_cluster_the_message_says_how_to_name_one(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr("kubernetes.config.load_kube_config", lambda **_: (_ for _ in ()).throw(OSError("none")))
    assert main(["submit"]) == 2
    out, err = capsys.readouterr()
    assert "no cluster found: no --host, no KF_PIPELINES_ENDPOINT" in err
    assert out == ""


@pytest.mark.parametrize(
    ("status", "path", "message"),
    [
        (401, "healthz", "does not know this client (HTTP 401: scripted 401); set EASE_KFP_TOKEN to a token or KFP_"),
        (
            403,
            "healthz",
            "does not allow this client to ask for its health (HTTP 403: scripted 403); ask for the right to",
        ),
        (403, "/runs", "does not allow this client to create run"),
        (500, "/experiments", "the request to find or create experiment ease failed (HTTP 500: scripted 500)"),
        (400, "/pipelines", "the request to find pipeline ease failed (HTTP 400"),
    ],
)
def test_a_refusal_names_the_host_and_the_remedy_at_once(server, capsys, status, path, message):
    for method in ("GET", "POST"):
        server.script.fail(method, path, status)
    start = time.monotonic()
    assert submitted(server) == 2
    assert time.monotonic() - start < 3
    err = capsys.readouterr().err
    assert err.startswith(f"python -m pipelines: error: {server.url}")
    assert message in in_one_line(err)
    assert server.runs == []


def test_a_login_page_is_not_taken_for_the_api(server, capsys):
    server.script.login_page = "."
    assert submitted(server) == 2
    assert (
        "answered with a web page (text/html) instead of the pipelines API: it wants a login" in capsys.readouterr().err
    )


def test_https_to_a_server_without_a_certificate_says_so(server, capsys):
    assert main(["submit", "--host", server.url.replace("http:", "https:")]) == 2
    assert "no secure connection" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["EASE_KFP_TOKEN", "KFP_COOKIES"])
def test_token_and_cookie_come_from_the_environment_and_are_never_printed(server, capsys, monkeypatch, variable):
    value = SECRET if variable == "EASE_KFP_TOKEN" else f"authservice_session={SECRET}"
    monkeypatch.setenv(variable, value)
    setattr(server.script, "token" if variable == "EASE_KFP_TOKEN" else "cookie", value)
    assert submitted(server) == 0
    setattr(server.script, "token" if variable == "EASE_KFP_TOKEN" else "cookie", "another")
    assert submitted(server) == 2  # the server's message quotes what it was sent
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert "(secret)" in err
    assert f"renew {variable}, which it rejected" in err


def test_the_token_of_the_pods_service_account_is_read_from_its_file(server, monkeypatch, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text(SECRET)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(token_file))
    server.script.token = SECRET
    assert submitted(server) == 0


def test_a_password_in_the_host_is_refused_and_not_printed(capsys):
    assert main(["submit", "--host", f"https://me:{SECRET}@kubeflow.example.org"]) == 2
    assert SECRET not in capsys.readouterr().err


def test_a_cluster_of_several_users_needs_a_namespace(server, capsys):
    server.script.multi_user = True
    assert submitted(server) == 2
    assert "serves several users\n  pass --namespace" in capsys.readouterr().err
    assert submitted(server, "--namespace", "team-a") == 0
    assert server.experiments[0].namespace == "team-a"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"display_name": "a", "descripton": "b"}, 'unknown field "descripton"'),
        ({"display_name": 3}, "body.display_name: expected str"),
        ({"runtime_config": {"parameters": []}}, "expected an object"),
        ({"state": "DONE"}, "expected one of"),
    ],
)
def test_the_test_server_refuses_what_the_models_do_not_know(body, message):
    with pytest.raises(Refused, match=message):
        checked(body, "V2beta1Run")


def test_tables_of_the_paper_may_be_a_list_in_a_set(server, tmp_path):
    (tmp_path / "own.yaml").write_text("figures: [Tab. 2, Tab. 2 test]\nrepeats: 2\nstore_uri: s3://b/x\n")
    assert submitted(server, "--params", str(tmp_path / "own.yaml")) == 0
    assert server.runs[0].runtime_config.parameters["figures"] == "Tab. 2, Tab. 2 test"


def test_a_table_of_the_paper_is_no_folder_of_that_name(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "components").mkdir()
    given = ("figures=components", "repeats=2", "store_uri=s3://b/x")
    assert submitted(server, *(part for each in given for part in ("--set", each))) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["task=table", "task_uri=rows.csv"], "task_uri=rows.csv is a file on this machine, which pods cannot read"),
        (["metric=own.py:score"], "metric=own.py:score is a file on this machine"),
        (["require=own.py:polite>=1"], "require=own.py:polite is a file on this machine"),
        (["evaluate=own.py:score"], "evaluate=own.py:score is a file on this machine"),
        (["llm_base_url=python:own.py:answer"], "llm_base_url=python:own.py:answer is a file on this machine"),
        (["llm_base_url=python:tests.simulation.models:knows", "store_uri=s3://b/x"], "is a file on this machine"),
        (
            ["tasks={task: table, task_uri: rows.csv}", "store_uri=s3://b/x"],
            "task_uri=rows.csv is a file on this machine",
        ),
        (["repeats=2", "figures=rows.csv", "store_uri=s3://b/x"], "figures=rows.csv has no column task"),
        (["repeats=2", "figures=theirs.csv", "store_uri=s3://b/x"], "figures=theirs.csv is a file on this machine"),
        (["repeats=2", "figures=Tab. 9", "store_uri=s3://b/x"], "figures=Tab. 9 is neither a file.csv nor a table of "),
        (
            ["repeats=2", "figures=s3://b/x.txt", "store_uri=s3://b/x"],
            "figures=s3://b/x.txt is neither a file.csv nor ",
        ),
        (
            ["methods=ease, best_of_n"],
            "a comparison in a pipeline needs store_uri, through which its workers",
        ),
        (
            ["methods=ease, best_of_n", "repeats=2", "max_llm_requests=400", "store_uri=s3://b/x"],
            "max_llm_requests=400 is 100 for each of 4 runs, and customer_feedback, ease, repeat 1 takes at least 400",
        ),
        (["max_llm_requests=100"], "one evaluation takes 2 requests or more, and the test set 380"),
        (
            ["task=table", "task_uri=s3://b/x.csv", "test_size=30", "baseline=Of {input}:", "max_llm_requests=180"],
            "max_llm_requests=180 is too small: one evaluation takes 2 requests",
        ),
        (
            ["baseline={{$.inputs.parameters['k']}} {input}"],
            "advanced holds {{, where Kubeflow inserts its own values",
        ),
        (["baseline=Of {{workflow.name}}: {input}"], "advanced holds {{"),
        (["metric=tests.support.runs:check"], "metric=tests.support.runs:check is a file on this machine"),
        (["store_uri=/tmp/store"], "store_uri=/tmp/store is a folder, which pods do not share"),
        (["task=table", "task_uri=s3://b/{{$}}.csv"], "task_uri holds {{"),
    ],
)
def test_what_no_pod_could_read_as_it_stands_is_refused_before_anything_is_sent(
    server, values, message, capsys, tmp_path, monkeypatch
):
    (tmp_path / "rows.csv").write_text("input,output\na,b\n")
    (tmp_path / "own.py").write_text("")
    (tmp_path / "theirs.csv").write_text("task,method,score\nlr,ease,0.5\n")
    monkeypatch.chdir(tmp_path)
    assert submitted(server, *(f"--set={value}" for value in values)) == 2
    assert message in capsys.readouterr().err
    assert server.script.requests == []


def test_defaults_of_a_form_that_no_pod_could_read_are_refused_too(tmp_path, capsys):
    given = ["--set=store_uri=/tmp/store", "--set=baseline={{workflow.name}} {input}"]
    assert main(["compile", "--output-dir", str(tmp_path / "out"), *given]) == 2
    err = capsys.readouterr().err
    assert "store_uri=/tmp/store is a folder, which pods do not share" in err
    assert "advanced holds {{" in err


def test_the_dashboards_summary_has_the_table_of_fields(server):
    assert submitted(server) == 0
    assert "| llm_base_url |" in server.pipelines[0].description
    (sent,) = [request for request in server.script.requests if request.path.endswith("/upload_version")]
    assert sent.query["description"] == server.pipelines[0].description


def test_help_and_submission_load_no_compiler():
    """Modules that take seconds to import are for compiling only."""
    program = (
        "import sys, contextlib, io\nfrom pipelines.__main__ import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main(['submit', '--help'])\n"
        "print(sorted({'kfp.kubernetes', 'scipy', 'torch', 'aiohttp', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_assignments_take_the_last_value_and_keep_further_equal_signs():
    assert assignments(["k=3", "label_remapping=1=a;2=b", "k=4"]) == {"k": "4", "label_remapping": "1=a;2=b"}
    with pytest.raises(ConfigError, match="--set =3 is not name=value"):
        assignments(["=3"])


# --- what failed, and how far it is -----------------------------------------------------------------------------------


@pytest.fixture(params=["API server", "dashboard", "dashboard after ML Metadata"])
def either(request, server):
    """Each answers other routes about logs, and the last tells of no tasks."""
    server.script.is_dashboard = "dashboard" in request.param
    server.script.is_after_ml_metadata = "after" in request.param
    return server


def test_a_failed_stage_says_its_own_last_words(either, capsys):
    either.script.frames = [frame("FAILED", embed=("FAILED", "main: Error (exit code 2)"))]
    either.script.logs = {"embed": "[ease] embed: started\n[ease] error: no such model; name another\nI1123 launcher"}
    assert submitted(either, "--wait") == 1
    assert "- embed: no such model; name another\n" in capsys.readouterr().err


def test_a_pod_that_was_killed_is_not_explained_by_what_it_had_survived(either, capsys):
    either.script.frames = [frame("FAILED", optimize=("FAILED", "OOMKilled (exit code 137)"))]
    either.script.logs = {"optimize": "[ease] error: answered 503\n[ease] notice: trying again may help\n[ease] on"}
    assert submitted(either, "--wait") == 1
    assert "- optimize: OOMKilled (exit code 137); it ends with '[ease] on'\n" in capsys.readouterr().err


def test_errors_before_a_process_began_again_are_past(either, capsys):
    either.script.frames = [frame("FAILED", optimize=("FAILED", "main: Error (exit code 2)"))]
    again = "[ease] notice: the stage's process was killed by SIGKILL; it continues in 5 s (1 of 3 times)"
    either.script.logs = {"optimize": f"[ease] error: answered 503\n{again}\n[ease] error: wrong key\n"}
    assert submitted(either, "--wait") == 1
    assert "- optimize: wrong key\n" in capsys.readouterr().err


def test_what_a_pod_printed_that_has_gone_is_read_from_the_bucket(either, capsys, s3_prefix):
    store = open_store(s3_prefix)
    store.write("embed/1/executor-logs-0", b"[ease] error: no such model; name another\n")
    either.script.root = s3_prefix
    either.script.frames = [frame("FAILED", embed=("FAILED", "main: Error (exit code 2)"))]
    assert submitted(either, "--wait") == 1
    assert "- embed: no such model; name another\n" in capsys.readouterr().err


def test_where_the_bucket_cannot_be_read_either_the_place_is_named(either, capsys):
    either.script.root = "gs://private/ease"
    either.script.frames = [frame("FAILED", embed=("FAILED", "OOMKilled (exit code 137)"))]
    assert submitted(either, "--wait") == 1
    said = "- embed: OOMKilled (exit code 137); if it ended by itself, what it printed is in "
    assert f"{said}gs://private/ease/embed/1/executor-logs-0\n" in capsys.readouterr().err


def test_a_driver_that_failed_is_named_with_its_message_and_the_end_of_its_log(either, capsys):
    either.script.frames = [frame("FAILED", root_driver=("FAILED", "main: Error (exit code 1)"))]
    either.script.logs = {"root-driver": "I1125 driver\nF1125 KFP driver: connection refused\n"}
    assert submitted(either, "--wait") == 1
    said = "- root (driver): main: Error (exit code 1); it ends with 'F1125 KFP driver: connection refused'\n"
    assert said in capsys.readouterr().err


def test_parameters_that_are_too_long_for_an_argument_are_named_and_not_tried_again(server, capsys):
    """Argo's message as a cluster gave it, for 140 KB of `advanced`."""
    forbidden = (
        'configmaps is forbidden: User "system:serviceaccount:kubeflow:argo" cannot create resource "configmaps"'
    )
    server.script.frames = [frame("FAILED", root_driver=("FAILED", forbidden))]
    assert submitted(server, "--wait", "--retries", "3") == 1
    remedy = "put long values into files and name them s3://..."
    assert f"for one argument of a program: {remedy} (Argo: {forbidden})\n" in capsys.readouterr().err
    assert not any(sent.endswith(":retry") for sent in server.script.sent())


@pytest.mark.parametrize("length", [20_000, 140_000])
def test_parameters_that_would_not_fit_into_an_argument_are_refused_before_anything_is_sent(server, capsys, length):
    assert submitted(server, "--set", f"prompt={'x' * length}") == 2
    err = in_one_line(capsys.readouterr().err)
    assert re.search(r"the parameters have \d+,\d{3} bytes as Kubeflow writes them, most of them in advanced", err)
    assert "may have 20,000: the run's state holds them many times, and may have 1 MiB; put a long prompt" in err
    assert server.script.requests == []


def test_a_quote_counts_as_kubeflow_escapes_it():
    assert written_bytes({"advanced": '"' * 1000}) - written_bytes({"advanced": "x" * 1000}) == 7000


def test_in_a_namespace_of_ones_own_the_dashboard_is_asked_for_that(server, capsys):
    server.script.is_dashboard = server.script.multi_user = True
    server.script.frames = [frame("FAILED", embed=("FAILED", "main: Error (exit code 2)"))]
    server.script.logs = {"embed": "[ease] error: no such model"}
    assert submitted(server, "--wait", "--namespace", "team") == 1
    assert "- embed: no such model\n" in capsys.readouterr().err


def test_the_server_of_these_tests_has_no_route_that_kubeflow_lacks(server):
    for path in ("/apis/v2beta1/runs/r/nodes/n/log", "/apis/v2beta1/tasks", "/k8s/pod/logs?podname=p"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{server.url}{path}")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{server.url}/apis/v2beta1/runs?order=name")
    server.script.is_dashboard = True
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{server.url}/apis/v1alpha1/runs/r/nodes/n/log")


def test_a_run_that_succeeded_ends_with_its_verdict_scores_and_cost(either, capsys):
    either.script.frames = [frame("SUCCEEDED", evaluate="SUCCEEDED")]
    either.script.logs = {
        "evaluate": "[ease] report: started\n[ease] result: better than random exemplars by 9 points\n"
        "[ease] result: LLM requests 800, of small-1; $0.0400\n[ease] report: done in 0.1 s\n"
    }
    assert submitted(either, "--wait") == 0
    said = "better than random exemplars by 9 points\nLLM requests 800, of small-1; $0.0400\nrun succeeded after"
    assert said in capsys.readouterr().out


def test_the_last_tasks_of_a_run_that_succeeded_have_succeeded(server, capsys):
    server.script.frames = [frame("RUNNING", evaluate="RUNNING"), frame("SUCCEEDED", evaluate="RUNNING")]
    assert submitted(server, "--wait") == 0
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines()]
    assert ["evaluate", "RUNNING"] in lines
    assert ["evaluate", "SUCCEEDED"] in lines


def test_how_far_the_search_is_is_told_as_it_prints_it(either, capsys, monkeypatch):
    monkeypatch.setattr(submit, "LOG_SECONDS", 0)
    either.script.frames = [frame("RUNNING", optimize="RUNNING")] * 3 + [frame("SUCCEEDED", optimize="SUCCEEDED")]
    either.script.logs = {"optimize": "[ease] optimize: started\n[ease] answers 200/800  best so far 0.610\n"}
    assert submitted(either, "--wait") == 0
    assert capsys.readouterr().out.count("answers 200/800  best so far 0.610") == 1


def test_where_the_log_cannot_be_read_that_is_said_once_and_a_search_at_work_is_not_called_stuck(
    either, capsys, monkeypatch
):
    monkeypatch.setattr(submit, "LOG_SECONDS", 0)
    monkeypatch.setattr(submit, "STILL_SECONDS", 0.2)
    either.script.frames = [frame("RUNNING", optimize="RUNNING")] * 4 + [frame("SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(either, "--wait") == 0
    out = capsys.readouterr().out
    assert out.count("the progress of the run cannot be read at") == 1
    assert re.search(
        r"`kubectl -n kubeflow logs -f ease-x7k2p-metadata-2-1-retry-system-container-impl-\d+ -c main`", out
    )
    assert "nothing has changed" not in out


def test_a_log_that_can_be_read_again_is_read(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "LOG_SECONDS", 0)
    monkeypatch.setattr(submit, "LOG_AWAY_SECONDS", 0)
    server.script.logs = {"optimize": "[ease] answers 200/800  best so far 0.610\n"}
    server.script.fail("GET", "/log", 502, "restarting", times=4)
    server.script.frames = [frame("RUNNING", optimize="RUNNING")] * 8 + [frame("SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(server, "--wait") == 0
    out = capsys.readouterr().out
    assert out.index("the progress of the run cannot be read at") < out.index("answers 200/800  best so far 0.610")


def test_a_run_whose_pod_is_at_work_is_not_called_stuck(either, capsys, monkeypatch):
    monkeypatch.setattr(submit, "STILL_SECONDS", 0.03)
    either.script.frames = [frame("RUNNING", embed="RUNNING")] * 12 + [frame("SUCCEEDED", embed="SUCCEEDED")]
    assert submitted(either, "--wait") == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"embed has been running for \d+ min \d+ s\n", out)) == 1
    assert "nothing has changed" not in out


def test_a_run_of_which_kubeflow_tells_no_more_says_so_once(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "STILL_SECONDS", 0.03)
    server.script.is_large = True
    server.script.frames = [frame("RUNNING", embed="RUNNING")] * 12 + [frame("SUCCEEDED")]
    assert submitted(server, "--wait") == 0
    out = capsys.readouterr().out
    assert out.count("Kubeflow reports no more tasks of this run") == 1
    assert "nothing has changed" not in out


WORKING = "[ease] customer_feedback, ease, repeat 1: 0.91\n[ease] evaluation 3/3 search\n[ease] {} of 30 cells; 5 of 9"


def test_the_cells_of_a_comparison_are_told_by_name_and_how_far_all_are_once(either, capsys, monkeypatch):
    monkeypatch.setattr(submit, "LOG_SECONDS", 0)
    both = {"run_cells": "RUNNING", "run_cells_2": "RUNNING"}
    either.script.frames = [frame("RUNNING", **both)] * 3 + [frame("SUCCEEDED", report_comparison="SUCCEEDED")]
    either.script.logs = {
        "run-cells": WORKING.format(11),
        "run-cells-2": WORKING.format(12).replace("ease, repeat 1: 0.91", "ot, repeat 1: FAILED: k=9 exceeds the pool"),
        "report-comparison": "[ease] result: `ease` is best\n",
    }
    assert submitted(either, "--set", "methods=ease, ot", "--set", "store_uri=s3://b/x", "--wait") == 0
    out = capsys.readouterr().out
    assert out.count("customer_feedback, ease, repeat 1: 0.91\n") == 1
    assert out.count("customer_feedback, ot, repeat 1: FAILED: k=9 exceeds the pool\n") == 1
    assert out.count("12 of 30 cells; 5 of 9\n") == 1
    assert "11 of 30" not in out
    assert "evaluation 3/3" not in out
    assert "`ease` is best\n" in out


def test_what_ends_between_two_looks_is_told_at_the_end(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "LOG_SECONDS", 0.01)
    server.script.frames = [frame("RUNNING", run_cells="RUNNING"), frame("SUCCEEDED", run_cells="SUCCEEDED")]
    server.script.logs = {"run-cells": "[ease] 1 of 30 cells; 5 of 9\n"}
    monkeypatch.setattr(submit, "_say", lambda text, say=submit._say: (say(text), finish(server, text)))
    assert submitted(server, "--set", "methods=ease", "--set", "store_uri=s3://b/x", "--wait") == 0
    assert "30 of 30 cells" in capsys.readouterr().out


def finish(server, text):
    if "1 of 30 cells" in text:
        server.script.logs = {"run-cells": "[ease] 30 of 30 cells; 9 of 9\n"}


def test_tasks_of_one_name_are_counted():
    states = ["RUNNING"] * 3 + ["FAILED"]
    tasks = [Task(str(number), "rank-shard", state, "", "") for number, state in enumerate(states)]
    assert submit._states([*tasks, Task("", "run", "RUNNING", "", "")]) == {
        "rank-shard": "3 RUNNING, 1 FAILED",
        "run": "RUNNING",
    }


def test_a_pod_that_waits_for_a_place_says_what_kubernetes_says(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "STILL_SECONDS", 0.03)
    waiting = ("PENDING", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.")
    server.script.frames = [frame("RUNNING", optimize=waiting)] * 12 + [frame("SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(server, "--wait") == 0
    out = capsys.readouterr().out
    assert out.count("optimize waits: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.") == 1


def test_a_run_that_stands_still_says_where_to_look(server, capsys, monkeypatch):
    monkeypatch.setattr(submit, "STILL_SECONDS", 0.03)
    server.script.frames = [frame("RUNNING", embed="PENDING")] * 12 + [frame("SUCCEEDED", embed="SUCCEEDED")]
    assert submitted(server, "--wait") == 0
    out = capsys.readouterr().out
    assert out.count("nothing has changed for") == 1
    assert f"kubectl -n kubeflow get pods -l pipeline/runid={server.runs[0].run_id}" in out


def test_a_connection_that_breaks_prints_no_lines_of_urllib3(server, caplog):
    connect(server.url)
    assert logging.getLogger("urllib3.connectionpool").getEffectiveLevel() == logging.ERROR


# --- again ------------------------------------------------------------------------------------------------------------

DIED = frame("FAILED", build_dataset="SUCCEEDED", optimize=("FAILED", "OOMKilled"))


def test_what_failed_is_begun_again_by_kubeflows_retry(server, capsys):
    server.script.frames = [DIED, DIED, frame("SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(server, "--wait", "--retries", "3") == 0
    assert capsys.readouterr().out.count("optimize failed; repeating them") == 2
    assert [path for path in server.script.sent() if path.endswith(":retry")] == [
        f"/apis/v2beta1/runs/{server.runs[0].run_id}:retry"
    ] * 2


def test_after_a_retry_only_what_has_changed_is_printed(server, capsys):
    goes_on = frame("RUNNING", build_dataset="SUCCEEDED", optimize="RUNNING")
    ends = frame("SUCCEEDED", build_dataset="SUCCEEDED", optimize="SUCCEEDED")
    server.script.frames = [DIED, goes_on, ends]
    assert submitted(server, "--wait", "--retries", "1") == 0
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines()]
    assert lines.count(["build-dataset", "SUCCEEDED"]) == 1
    assert lines.count(["optimize", "FAILED"]) == 1
    assert lines.index(["optimize", "RUNNING"]) > lines.index(["optimize", "FAILED"])


def test_what_had_failed_before_a_retry_by_hand_is_no_news(server, capsys):
    server.script.frames = [DIED, DIED, frame("SUCCEEDED", build_dataset="SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(server, "--wait") == 1
    capsys.readouterr()
    assert main(["retry", "--host", server.url, server.runs[0].run_id, "--wait"]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_a_retry_of_a_large_run_says_what_to_do_instead(server, capsys):
    server.script.frames = [DIED]
    assert submitted(server, "--wait") == 1
    server.script.is_large = True
    assert main(["retry", "--host", server.url, server.runs[0].run_id]) == 2
    assert "submit the run again with the same store_uri" in in_one_line(capsys.readouterr().err)


def test_retries_end(server, capsys):
    server.script.frames = [DIED]
    assert submitted(server, "--wait", "--retries", "1") == 1
    assert "- optimize: OOMKilled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "log", "is_tried_again"),
    [
        ("build_dataset", "[ease] error: k=0 is below 1", False),
        ("plan_comparison", "[ease] error: method=greedy is not one of", False),
        ("optimize", "[ease] error: answers all score 0", False),
        ("build_dataset", "", True),  # its pod was evicted
        ("optimize", "[ease] error: the endpoint is away\n[ease] notice: trying again may help", True),
    ],
)
def test_a_mistake_is_not_tried_again_and_everything_else_is(server, task, log, is_tried_again):
    server.script.frames = [frame("FAILED", **{task: ("FAILED", "main: Error (exit code 1)")})]
    server.script.logs = {task.replace("_", "-"): log} if log else {}
    assert submitted(server, "--wait", "--retries", "3") == 1
    assert len([path for path in server.script.sent() if path.endswith(":retry")]) == (3 if is_tried_again else 0)


def test_a_task_that_fails_without_a_pod_says_what_argo_says(server, capsys):
    manifest = {
        "metadata": {"name": "w"},
        "status": {
            "nodes": {
                "w-1": {"id": "w-1", "name": "w", "type": "DAG", "phase": "Error"},
                "w-2": {"id": "w-2", "name": "w.root.embed", "type": "DAG", "phase": "Error", "message": "no quota"},
            }
        },
    }
    found = Workflow(json.dumps(manifest))
    assert [(task.name, task.state, task.message) for task in found.tasks] == [
        ("w", "FAILED", ""),
        ("embed", "FAILED", "no quota"),
    ]
    assert Workflow("null").tasks == Workflow("").pods == []


def test_a_run_of_yesterday_is_begun_again_by_its_id(server, capsys):
    server.script.frames = [DIED, DIED, frame("SUCCEEDED", optimize="SUCCEEDED")]
    assert submitted(server, "--wait") == 1
    run_id = server.runs[0].run_id
    assert main(["retry", "--host", server.url, run_id, "--wait"]) == 0
    out = capsys.readouterr().out
    assert f"run {run_id} continues\n{server.url}/#/runs/details/{run_id}\n" in out
    assert "run succeeded" in out


def test_a_run_that_is_not_there_or_did_not_fail_is_said(server, capsys):
    assert main(["retry", "--host", server.url, "none"]) == 2
    assert "run_id none not found" in capsys.readouterr().err
    server.script.frames = [frame("SUCCEEDED")]
    assert submitted(server) == 0
    assert main(["retry", "--host", server.url, server.runs[0].run_id]) == 0
    assert "is SUCCEEDED: there is nothing to repeat" in capsys.readouterr().out


def test_a_retry_of_a_run_that_has_not_ended_follows_it(server, capsys):
    server.script.frames = [frame("RUNNING", optimize="RUNNING"), frame("RUNNING", optimize="RUNNING"), DIED]
    assert submitted(server) == 0
    assert main(["retry", "--host", server.url, server.runs[0].run_id, "--wait"]) == 1
    assert "is RUNNING: there is nothing to repeat" in capsys.readouterr().out
    assert not any(path.endswith(":retry") for path in server.script.sent())


def test_a_retry_that_meets_others_who_write_the_workflow_is_asked_for_again(server):
    server.script.frames = [DIED, DIED, DIED, frame("SUCCEEDED", optimize="SUCCEEDED")]
    server.script.fail("POST", ":retry", 500, "the object has been modified", times=2)
    assert submitted(server, "--wait", "--retries", "1") == 0
    assert len([path for path in server.script.sent() if path.endswith(":retry")]) == 3


@pytest.mark.parametrize(
    ("said", "asked"), [("trying to send message larger than max (2257017 vs. 2097152)", 1), ("no such node", 3)]
)
def test_a_retry_that_kubeflow_cannot_do_says_what_to_do_instead(server, capsys, said, asked):
    server.script.frames = [DIED]
    server.script.fail("POST", ":retry", 500, said, times=9)
    assert submitted(server, "--wait", "--retries", "1") == 2
    message = capsys.readouterr().err
    assert "submit the run again with the same store_uri\n  answers so far are reused" in message
    assert "the run continues" not in message
    assert "- optimize: OOMKilled" in message, "what failed is said all the same"
    assert len([path for path in server.script.sent() if path.endswith(":retry")]) == asked


# --- an installation's own defaults, comparisons, pipelines that are Kubernetes objects -------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Compiled for an endpoint and a store of its own."""
    folder = tmp_path_factory.mktemp("installed")
    own = ("llm_base_url=http://llm/v1", "store_uri=s3://b/ease", "order_report=2")
    assert main(["compile", "--output-dir", str(folder), *(f"--set={value}" for value in own)]) == 0
    return folder


def test_the_form_begins_with_the_installations_own_defaults(installed):
    fields = read_package(installed / "ease_pipeline.yaml").spec["root"]["inputDefinitions"]["parameters"]
    assert fields["llm_base_url"]["defaultValue"] == "http://llm/v1"
    assert json.loads(fields["advanced"]["defaultValue"]) == {"order_report": 2}
    shared = read_package(installed / "comparison_pipeline.yaml").spec["root"]["inputDefinitions"]["parameters"]
    assert shared["store_uri"]["defaultValue"] == "s3://b/ease"
    assert json.loads(shared["parameters"]["defaultValue"]) == {"llm_base_url": "http://llm/v1", "order_report": "2"}


def test_only_what_differs_from_them_is_sent_and_the_others_hold(server, installed):
    package = str(installed / "ease_pipeline.yaml")
    assert submitted(server, "--package", package, "--set", "k=3", "--set", "evaluation_rows=9") == 0
    arguments = server.runs[0].runtime_config.parameters
    assert arguments.keys() == {"k", "advanced"}
    assert json.loads(arguments["advanced"]) == {"order_report": 2, "evaluation_rows": 9}
    assert submitted(server, "--package", package, "--set", "llm_base_url=local") == 0
    assert server.runs[1].runtime_config.parameters["llm_base_url"] == "local"


def test_defaults_that_cannot_work_or_for_the_committed_files_are_refused(capsys, tmp_path):
    assert main(["compile", "--output-dir", str(tmp_path), "--set", "k=0"]) == 2
    assert "k=0 is below 1" in capsys.readouterr().err
    assert main(["compile", "--set", "k=3"]) == 2
    assert "pass another --output-dir" in capsys.readouterr().err


def test_upload_puts_both_pipelines_there_once(server, installed, capsys):
    files = [str(installed / name) for name in ("ease_pipeline.yaml", "comparison_pipeline.yaml")]
    for _ in range(2):
        assert main(["upload", "--host", server.url, *files]) == 0
    assert [pipeline.display_name for pipeline in server.pipelines] == ["ease", "ease-comparison"]
    assert len(server.versions) == 2
    assert capsys.readouterr().out.startswith("pipeline ease, version ")


def test_a_comparison_is_submitted_as_a_set_that_varies_something(server, tmp_path):
    (tmp_path / "set.yaml").write_text(
        "methods: [ease, {method: ease, shortlist: none}]\ntasks: lr, lp_variant\nrepeats: 2\nseed: 4\nbudget: 60\n"
    )
    assert submitted(server, "--params", str(tmp_path / "set.yaml"), "--set", "store_uri=s3://b/c") == 0
    (run,) = server.runs
    arguments = run.runtime_config.parameters
    assert run.display_name.startswith("ease-comparison ")
    assert arguments["repeats"] == 2
    assert arguments["store_uri"] == "s3://b/c"
    assert json.loads(arguments["parameters"]) == {"budget": 60}
    axes = {name: value for name, value in arguments.items() if name not in ("parameters",)}
    methods = {(cell.task, cell.method) for cell in plan({**axes, "budget": 60})}
    assert methods == {(task, method) for task in ("lr", "lp_variant") for method in ("ease", "ease, shortlist=none")}


def test_a_pipeline_that_is_a_kubernetes_object_is_found_by_its_name(server):
    package = read_package(submit.PACKAGE)
    assert submitted(server) == 0
    server.pipelines[0].display_name = "EASE: exemplar sequence search"
    server.versions[0].name, server.versions[0].display_name = f"ease-{package.version}", "another title"
    assert submitted(server) == 0
    assert (len(server.pipelines), len(server.versions)) == (1, 1)
