"""`python -m pipelines schedule`, against a server that speaks the pipelines API."""

import dataclasses
import re
from datetime import UTC, datetime
from pathlib import Path

import kfp
import pytest
import yaml

from ease_lib.errors import ConfigError
from pipelines import schedules
from pipelines.__main__ import main
from pipelines.cluster import read_package
from pipelines.cron import next_start
from pipelines.schedules import Schedule, read_schedules
from pipelines.submit import PACKAGE
from tests.pipelines.kfp_api_server import graph, kfp_api_server

SHIPPED = Path(__file__).parents[2] / "manifests" / "schedules"
NIGHTLY = {"name": "nightly", "cron": "0 30 2 * * *", "set": {"k": 4}}


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch, tmp_path):
    for name in ("KF_PIPELINES_ENDPOINT", "EASE_KFP_TOKEN", "KFP_COOKIES", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kfp.Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "kfp/context.json"))


@pytest.fixture
def server():
    with kfp_api_server() as running:
        yield running


@pytest.fixture
def file(tmp_path):
    """Writes a schedule file and returns its path."""

    def write(file_name="nightly.yaml", **changes):
        path = tmp_path / file_name
        path.write_text(yaml.safe_dump({**NIGHTLY, **changes}))
        return str(path)

    return write


def acted(server, action, *options):
    return main(["schedule", action, *map(str, options), "--host", server.url])


def enabled(server):
    return [run.recurring_run_id for run in server.recurring_runs if run.status == "ENABLED"]


def writes(server):
    """The requests that changed something, in order."""
    return [re.sub(r"[a-z]+-\d+", "ID", path.removeprefix("/apis/v2beta1/")) for path in server.script.sent()]


def test_apply_creates_a_recurring_run_that_says_what_it_is_and_never_catches_up(server, file, capsys):
    given = {"max_concurrency": 2, "service_account": "runner", "pipeline_root": "s3://b/r", "experiment": "nights"}
    assert acted(server, "apply", file(**given, timezone_note="UTC")) == 0
    (run,) = server.recurring_runs
    version = read_package(PACKAGE).version
    assert re.fullmatch(rf"ease-schedule: nightly sha256:[0-9a-f]{{64}}\nease-version: {version}\nUTC", run.description)
    assert run.no_catchup is True
    assert (run.trigger.cron_schedule.cron, run.trigger.cron_schedule.start_time) == ("0 30 2 * * *", None)
    assert (run.max_concurrency, run.service_account, run.runtime_config.pipeline_root) == ("2", "runner", "s3://b/r")
    assert run.runtime_config.parameters["k"] == 4
    assert (run.display_name, run.mode) == ("nightly", "ENABLE")
    assert server.experiments[0].display_name == "nights"
    assert capsys.readouterr().out == f"nightly: created {run.recurring_run_id} (new)\n"


def test_apply_twice_leaves_one_recurring_run_and_writes_nothing(server, file, capsys):
    assert acted(server, "apply", file()) == 0
    server.script.requests.clear()
    assert acted(server, "apply", file()) == 0
    assert len(server.recurring_runs) == 1
    assert writes(server) == []
    assert capsys.readouterr().out.endswith("nightly: unchanged\n")


def test_a_change_creates_the_new_one_and_then_disables_the_old(server, file, capsys):
    acted(server, "apply", file())
    (old,) = enabled(server)
    server.script.requests.clear()
    assert acted(server, "apply", file(set={"k": 8}, cron="0 0 3 * * *")) == 0
    assert writes(server) == ["recurringruns", "recurringruns/ID:disable"]
    (new,) = enabled(server)
    assert new != old
    out = capsys.readouterr().out
    assert f"created {new} (cron 0 30 2 * * * -> 0 0 3 * * *, k 4 -> 8)\nnightly: disabled {old}\n" in out


@pytest.mark.parametrize(
    "change",
    [
        {"experiment": "e"},
        {"service_account": "s"},
        {"pipeline_root": "s3://x"},
        {"max_concurrency": 3},
        {"params": "paper"},
    ],
)
def test_every_setting_counts(server, file, change):
    acted(server, "apply", file())
    assert acted(server, "diff", file()) == 0
    assert acted(server, "diff", file(**change)) == 1


def test_a_new_version_of_the_pipeline_counts(server, file, tmp_path, capsys):
    acted(server, "apply", file())
    changed = tmp_path / "ease_pipeline.yaml"
    changed.write_text(PACKAGE.read_text() + "# changed\n")
    assert acted(server, "apply", file(), "--package", changed) == 0
    assert len(enabled(server)) == 1
    assert f"version {read_package(PACKAGE).version} -> {read_package(changed).version}" in capsys.readouterr().out


def test_numbers_as_strings_are_the_same_schedule(server, file):
    acted(server, "apply", file(set={"k": "4.0"}, max_concurrency="1"))
    assert server.recurring_runs[0].runtime_config.parameters["k"] == 4
    assert acted(server, "diff", file(set={"k": 4})) == 0


def test_when_the_cluster_refuses_the_new_one_the_old_one_goes_on(server, file, capsys):
    acted(server, "apply", file())
    before = enabled(server)
    server.script.fail("POST", "/recurringruns$", 500, "no room")
    assert acted(server, "apply", file(set={"k": 8})) == 2
    assert enabled(server) == before
    err = capsys.readouterr().err
    assert f"nightly: {server.url}: the request to create recurring run nightly failed (HTTP 500: no room)" in err
    assert f"{before[0]} goes on" in err


def test_an_apply_that_died_between_create_and_disable_is_finished_by_the_next(server, file):
    acted(server, "apply", file())
    (old,) = enabled(server)
    server.script.fail("POST", ":disable", 500, times=1)
    assert acted(server, "apply", file(set={"k": 8})) == 2
    assert len(enabled(server)) == 2
    assert acted(server, "diff", file(set={"k": 8})) == 1
    assert acted(server, "apply", file(set={"k": 8})) == 0
    assert len(server.recurring_runs) == 2
    assert enabled(server) != [old]
    assert len(enabled(server)) == 1


def test_enabled_false_disables_and_true_again_starts_a_new_one_that_missed_nothing(server, file):
    acted(server, "apply", file())
    assert acted(server, "apply", file(enabled=False)) == 0
    assert enabled(server) == []
    assert acted(server, "diff", file(enabled=False)) == 0
    assert acted(server, "apply", file()) == 0
    assert enabled(server) == [server.recurring_runs[-1].recurring_run_id]
    assert len(server.recurring_runs) == 2


def test_a_schedule_that_was_never_enabled_is_not_created(server, file):
    assert acted(server, "apply", file(enabled=False)) == 0
    assert writes(server) == []


def test_dry_run_and_diff_write_nothing_not_even_a_version(server, file, capsys):
    assert acted(server, "apply", "--dry-run", file()) == 0
    assert acted(server, "diff", file()) == 1
    assert writes(server) == []
    assert capsys.readouterr().out == "nightly: would create a recurring run (new)\n" * 2


def test_schedules_without_a_file_and_runs_of_others_are_left_alone(server, file):
    acted(server, "apply", file(), file("weekly.yaml", name="weekly"))
    server.recurring_runs[1].description = "by hand"
    assert acted(server, "apply", file(set={"k": 8})) == 0
    assert server.recurring_runs[1].status == "ENABLED"


def test_all_pages_of_recurring_runs_are_read(server, file):
    paths = [file(f"{name}.yaml", name=name) for name in ("a", "b", "c", "d", "e")]
    acted(server, "apply", *paths)
    server.script.most_per_page = 2
    assert acted(server, "diff", *paths) == 0


def test_a_version_on_the_cluster_can_be_named(server, file, tmp_path, capsys):
    acted(server, "apply", file())
    version = server.versions[0].display_name
    changed = tmp_path / "ease_pipeline.yaml"
    changed.write_text(PACKAGE.read_text() + "# changed\n")
    assert acted(server, "diff", file(version=version), "--package", changed) == 0
    assert acted(server, "apply", file(version="0.0.1-none")) == 2
    assert "pipeline ease has no version 0.0.1-none on the cluster\n  take current" in capsys.readouterr().err


def test_a_named_version_with_another_form_is_refused(server, file, capsys):
    acted(server, "apply", file())
    del graph(server.versions[0].pipeline_spec)["root"]["inputDefinitions"]["parameters"]["seed"]
    assert acted(server, "apply", file(version=server.versions[0].display_name, set={"k": 8})) == 2
    assert "lacks parameter seed" in capsys.readouterr().err
    assert len(server.recurring_runs) == 1


def test_list_shows_ours_with_the_next_start(server, file, capsys):
    acted(server, "apply", file(), file("weekly.yaml", name="weekly", cron="0 0 4 * * MON"))
    acted(server, "apply", file(set={"k": 8}))
    acted(server, "pause", "weekly")
    capsys.readouterr()
    assert acted(server, "list") == 0
    head, nightly, weekly = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", head) == ["NAME", "CRON", "ENABLED", "NEXT (UTC)", "VERSION", "RECURRING RUN"]
    coming = next_start("0 30 2 * * *", datetime.now(UTC))
    version = read_package(PACKAGE).version
    assert re.split(r"\s{2,}", nightly)[:5] == [
        "nightly",
        "0 30 2 * * *",
        "yes",
        f"{coming:%Y-%m-%d %H:%M:%S}",
        version,
    ]
    assert re.split(r"\s{2,}", weekly)[:4] == ["weekly", "0 0 4 * * MON", "no", "-"]
    assert acted(server, "list", "--all") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_pause_by_name_or_file_disables_and_says_how_it_stays_so(server, file, capsys):
    acted(server, "apply", file(), file("weekly.yaml", name="weekly"))
    assert acted(server, "pause", "weekly", file(cron="broken, which is no reason not to pause")) == 0
    assert enabled(server) == []
    assert capsys.readouterr().out.count("set enabled: false in its file, or the next apply starts it again") == 2
    assert acted(server, "pause", "weekly") == 0
    assert capsys.readouterr().out == "weekly: unchanged, is disabled already\n"


def test_pause_of_an_unknown_schedule_pauses_nothing(server, file, capsys):
    acted(server, "apply", file())
    assert acted(server, "pause", "nightly", "weekly") == 2
    assert "no schedule weekly on the cluster\n  it has nightly" in capsys.readouterr().err
    assert len(enabled(server)) == 1


def test_a_namespace_is_used_for_everything(server, file, capsys):
    server.script.multi_user = True
    assert acted(server, "apply", file()) == 2
    assert acted(server, "apply", file(), "--namespace", "team-a") == 0
    assert acted(server, "diff", file(), "--namespace", "team-a") == 0


def test_a_forbidden_cluster_is_one_message(server, file, capsys):
    server.script.fail("GET", "/recurringruns", 403, "not yours")
    assert acted(server, "apply", file()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    assert "does not allow this client to list recurring runs (HTTP 403: not yours)" in err


def test_every_problem_of_every_file_is_listed_and_nothing_is_sent(server, file, capsys, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: x\ncron: * * *\n")
    wrong = file("wrong.yaml", name="No Good", cron="0 61 2 * * MON", set={"k": 200, "buget": 3}, max_concurrency=11)
    assert acted(server, "apply", file(), wrong, file("typo.yaml", crom="x"), broken, tmp_path / "absent.yaml") == 2
    err = capsys.readouterr().err
    for said in (
        "wrong.yaml: name=No Good must be 1 to 63 of a-z, 0-9 and -",
        "wrong.yaml: max_concurrency=11 is not from 1 to 10",
        "wrong.yaml: cron=0 61 2 * * MON: bad minute",
        "wrong.yaml: unknown parameter buget; did you mean budget?",
        "typo.yaml: unknown key crom; did you mean cron?",
        "broken.yaml is not valid YAML",
        "absent.yaml: No such file or directory",
    ):
        assert said in err
    assert server.script.requests == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"enabled": "maybe"}, "enabled='maybe' is neither true nor false"),
        ({"set": ["k=3"]}, "must map parameter names to values"),
        ({"max_concurrency": 0}, "max_concurrency=0 is not from 1 to 10"),
        ({"max_concurrency": "two"}, "max_concurrency='two' is not a whole number from 1 to 10"),
        ({"service_account": 7}, "service_account=7 is not text; put it in quotes"),
        ({"params": "nothing"}, "no parameter set nothing"),
        ({"params": "tests/benchmarks/sets/claims.yaml"}, "needs task_uri: the folder with induce/"),
        ({"set": {"k": 200, "pool_size": 100}}, "k=200 exceeds pool_size=100"),
        ({"cron": None}, "cron is missing; every schedule needs it"),
        ({"version": ""}, "version is empty; take current"),
        ({"timezone_note": "a\nb"}, "timezone_note has several lines"),
        ({"name": "-a"}, "name=-a must be"),
    ],
)
def test_a_wrong_value_names_the_key_and_the_remedy(file, change, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_schedules([Path(file(**change))])


def test_two_files_with_one_name_are_refused(file):
    first, second = Path(file()), Path(file("other.yaml"))
    with pytest.raises(ConfigError, match=f"{second}: name nightly is taken by {first}; give each file its own"):
        read_schedules([first, second])


def test_a_folder_means_its_files(file, tmp_path):
    file()
    assert [each.name for each in read_schedules([tmp_path])] == ["nightly"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="a folder without"):
        read_schedules([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        (
            "30 2 * * *",
            "has 5 fields, not six (second, minute, hour, day of month, month, day of week); put the",
        ),
        ("@daily", "has 1 fields, not six"),
        ("TZ=Europe/Berlin 0 0 2 * * *", "has 7 fields"),
        ("60 * * * * *", "cron=60 * * * * *: bad second; its fields are second, minute, hour,"),
        ("0 0 24 * * *", "bad hour"),
        ("0 0 0 0 * *", "bad day-of-month"),
        ("0 0 0 * 13 *", "bad month"),
        ("0 0 0 * MAI *", "bad month"),
        ("0 0 0 * * 7", "Kubeflow knows neither L nor # nor 7 for Sunday; write days as numbers, Sunday as 0"),
        ("0 0 0 * * MON#1", "Kubeflow knows neither"),
        ("0 0 0 L * *", "Kubeflow knows neither"),
        ("0 */0 * * * *", "bad minute"),
        ("0 40-20 * * * *", "bad minute"),
        ("0 1,,2 * * * *", "bad minute"),
        ("0 1.5 * * * *", "bad minute"),
        ("* 0 2 * * *", "starts 60 runs a minute; give one second, e.g. 0"),
        ("0 0 0 31 2,4 *", "bad day-of-month"),
        ("0 0 0 29 2 MON#5", "Kubeflow knows neither"),
    ],
)
def test_a_wrong_cron_names_the_field_and_the_remedy(cron, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        next_start(cron, datetime.now(UTC))


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 30 2 * * *", "2026-07-28 02:29:59", "2026-07-28 02:30:00"),
        ("0 30 2 * * *", "2026-07-28 02:30:00", "2026-07-29 02:30:00"),
        ("15 */20 8-10/2 ? * mon-fri", "2026-07-31 10:40:15", "2026-08-03 08:00:15"),
        ("0 0 0 1 JAN,jul ?", "2026-07-28 00:00:00", "2027-01-01 00:00:00"),
        ("0 0 0 29 2 *", "2097-01-01 00:00:00", "2104-02-29 00:00:00"),
        ("0 0 0 13 * FRI", "2026-07-28 00:00:00", "2026-07-31 00:00:00"),
        ("0 0 12/6 * * 0", "2026-08-02 12:00:00", "2026-08-02 18:00:00"),
    ],
)
def test_next_start_of_a_cron(cron, after, expected):
    start = next_start(cron, datetime.fromisoformat(f"{after}+00:00"))
    assert start == datetime.fromisoformat(f"{expected}+00:00")


def test_shipped_schedules_are_valid_and_their_readme_lists_every_key():
    assert "nightly" in [each.name for each in read_schedules([SHIPPED])]
    keys = re.findall(r"^\| `(\w+)` \|", (SHIPPED / "README.md").read_text(), re.MULTILINE)
    assert keys == [field.name for field in dataclasses.fields(Schedule)]
    assert schedules.MOST_AT_ONCE == 10
