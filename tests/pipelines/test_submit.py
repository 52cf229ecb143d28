"""`python -m pipelines submit`, against a server that speaks the pipelines API."""

import json
import time

import kfp
import pytest
import yaml

from ease_lib import __version__
from ease_lib.errors import ConfigError
from ease_lib.running.execution import EXIT_STOPPED
from pipelines import submit
from pipelines.__main__ import main
from pipelines.cluster import connect, read_package
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


@pytest.fixture
def server():
    with kfp_api_server() as running:
        yield running


def submitted(server, *options):
    return main(["submit", "--host", server.url, *options])


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
        (("--params", "paper-tables"), "make several runs; that is for ease compare"),
        (("--timeout", "5"), "--timeout 5 is for --wait"),
        (("--wait", "--timeout", "0"), "--timeout 0 is not above 0"),
        (("--package", "/no/such.yaml"), "cannot read /no/such.yaml: No such file or directory"),
        (("--ca-cert", "/no/such.pem"), "--ca-cert /no/such.pem: no such file"),
    ],
)
def test_nothing_is_sent_when_something_is_wrong(server, capsys, options, message):
    assert submitted(server, *options) == 2
    assert message in capsys.readouterr().err
    assert server.script.requests == []


def test_all_wrong_parameters_are_listed_at_once(server, capsys):
    assert submitted(server, "--set", "k=0", "--set", "noise_ratio=2") == 2
    err = capsys.readouterr().err
    assert "- k=0 is below 1" in err
    assert "- noise_ratio=2 is above 1" in err


def test_a_package_with_another_form_is_refused_before_anything_is_sent(server, capsys, tmp_path):
    spec = next(yaml.safe_load_all(submit.PACKAGE.read_text()))
    fields = spec["root"]["inputDefinitions"]["parameters"]
    fields["k"]["defaultValue"] = 4
    del fields["seed"]
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump(spec))
    assert submitted(server, "--package", str(old)) == 2
    err = capsys.readouterr().err
    assert f"{old} has default k=4, this version 5; run `python -m pipelines compile`" in err
    assert f"{old} lacks parameter seed" in err
    assert server.script.requests == []


def test_wait_prints_each_change_once_and_ends_with_0_when_the_run_succeeds(server, capsys):
    server.script.frames = [
        frame("PENDING"),
        frame("RUNNING", check_prerequisites="RUNNING"),
        frame("RUNNING", check_prerequisites="RUNNING"),
        frame("RUNNING", check_prerequisites="SUCCEEDED", build_dataset="RUNNING"),
        frame("SUCCEEDED", check_prerequisites="SUCCEEDED", build_dataset="SUCCEEDED"),
    ]
    assert submitted(server, "--wait") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1].split() for line in lines[2:-1]] == [
        ["run", "PENDING"],
        ["check-prerequisites", "RUNNING"],
        ["run", "RUNNING"],
        ["check-prerequisites", "SUCCEEDED"],
        ["build-dataset", "RUNNING"],
        ["build-dataset", "SUCCEEDED"],
        ["run", "SUCCEEDED"],
    ]
    assert lines[-1].startswith("run succeeded after 2 min 5 s; the report is at http://")


def test_a_failed_run_ends_with_1_and_what_its_task_said(server, capsys):
    server.script.frames = [
        frame("RUNNING"),
        frame("FAILED", optimize=("FAILED", "Error (exit code 2): no such model")),
    ]
    assert submitted(server, "--wait") == 1
    err = capsys.readouterr().err
    assert "run FAILED after 2 min 5 s\n- optimize: Error (exit code 2): no such model\nlogs and artifacts: http" in err
    assert "root" not in err


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (frame("FAILED", "out of quota"), "run FAILED after 2 min 5 s\n- run: out of quota\n"),
        (frame("FAILED", embed="FAILED"), "- embed: no message; see its log\n"),
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
    assert "run still RUNNING after 0.05 s; it goes on: http://" in capsys.readouterr().err


def test_ctrl_c_stops_following_and_not_the_run(server, capsys, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    server.script.frames = [frame("RUNNING")]
    monkeypatch.setattr(submit.time, "sleep", interrupted)
    assert submitted(server, "--wait") == EXIT_STOPPED
    assert "no longer followed; the run goes on: http://" in capsys.readouterr().err
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
    assert "(HTTP 503: restarting); the run goes on: http://" in capsys.readouterr().err


def test_a_session_that_ends_meanwhile_is_said_and_the_run_goes_on(server, capsys):
    server.script.fail("GET", "/runs/", 401, "expired")
    assert submitted(server, "--wait") == 2
    assert "the run goes on: http://" in capsys.readouterr().err


def test_a_server_that_is_down_is_one_quick_message(capsys):
    [free_port] = free_ports(1)
    host = f"http://127.0.0.1:{free_port}"
    start = time.monotonic()
    assert main(["submit", "--host", host]) == 2
    assert time.monotonic() - start < 5
    err = capsys.readouterr().err
    assert (
        f"error: {host} cannot be reached ([Errno 111] Connection refused); check --host or KF_PIPELINES_ENDPOINT"
        in err
    )
    assert err.count("\n") == 1


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
    assert "there is no cluster to talk to: no --host, no KF_PIPELINES_ENDPOINT" in err
    assert out == ""


@pytest.mark.parametrize(
    ("status", "path", "message"),
    [
        (401, "healthz", "does not know who we are (HTTP 401: scripted 401); set EASE_KFP_TOKEN to a token or KFP_"),
        (403, "healthz", "does not allow us to ask for its health (HTTP 403: scripted 403); ask for the right to"),
        (403, "/runs", "does not allow us to create run"),
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
    assert message in err
    assert server.runs == []


def test_a_login_page_is_not_taken_for_the_api(server, capsys):
    server.script.login_page = True
    assert submitted(server) == 2
    assert "answered with a page (text/html), not with the pipelines API: it wants a login" in capsys.readouterr().err


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
    assert f"renew {variable}, which it did not accept" in err


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
    assert "serves several users; give --namespace" in capsys.readouterr().err
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


def test_assignments_take_the_last_value_and_keep_further_equal_signs():
    assert submit.assignments(["k=3", "label_remapping=1=a;2=b", "k=4"]) == {"k": "4", "label_remapping": "1=a;2=b"}
    with pytest.raises(ConfigError, match="--set =3 is not name=value"):
        submit.assignments(["=3"])
