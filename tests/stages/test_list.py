"""`ease list`, asked of real runs."""

import json
import shutil
import uuid
from pathlib import Path

import pytest

from ease_lib.cli import __main__ as cli
from ease_lib.cli.list import cells_of
from ease_lib.errors import EaseError, LineageError
from ease_lib.lineage.runs import RunEntry, link_to, listed
from ease_lib.reporting.runs_page import runs_page
from ease_lib.stages import build_dataset, embed, evaluate, optimize, prefilter, propose_instructions, rank_pool
from tests.recorded_run import RecordedRun

BEFORE_THE_SEARCH = (build_dataset, rank_pool, prefilter, propose_instructions, embed)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs below one folder, which must not be changed: done, begun, and failed, in this order."""
    folder = tmp_path_factory.mktemp("runs")
    RecordedRun(folder / "done", llm_prompt_usd=1.0).remembered()
    RecordedRun(folder / "begun", seed=1).remembered(*BEFORE_THE_SEARCH)
    failed = RecordedRun(folder / "failed", seed=2)
    failed(*BEFORE_THE_SEARCH, optimize)
    Path(failed.path("test")).unlink()
    with pytest.raises((EaseError, SystemExit)):
        failed(evaluate)
    return folder


def test_the_newest_is_first_and_each_says_how_far_it_is(runs):
    found = listed(str(runs))
    assert [entry.state for entry in found] == ["failed", "unfinished", "done"]
    assert all(entry.started for entry in found)
    assert "test" in found[0].reason


def test_of_a_run_that_is_done_there_is_what_its_report_says(runs):
    *_, done = listed(str(runs))
    said = json.loads((runs / "done" / "evaluate" / "result" / "numbers.json").read_text())
    assert (done.task, done.method, done.model) == ("customer_feedback", "ease", said["llm"]["model"])
    assert (done.test, done.expected) == (said["best"]["test_score"], said["best"]["estimate"])
    assert done.gain == (said["gain"]["mean"], *said["gain"]["interval"])
    assert done.cost_usd == said["llm"]["cost_usd"] > 0
    assert Path(done.page).read_text().startswith("<!doctype html>")


def test_a_run_whose_artifacts_are_gone_is_listed_without_scores(runs, tmp_path):
    store = tmp_path / "lineage" / "runs"
    shutil.copytree(runs / "done" / "store" / "lineage" / "runs", store)
    for record in store.glob("*/report-*.json"):
        record.write_text(record.read_text().replace("numbers.json", "gone.json"))  # and so it is damaged
    (entry,) = listed(str(tmp_path))
    assert (entry.state, entry.test, entry.page) == ("done", None, "")


def result_folder(run, folder):
    """The folder as `ease run` leaves it: results and the last record, with the store somewhere else."""
    shutil.copytree(run / "evaluate" / "result" / "report", folder)
    shutil.copyfile(run / "evaluate" / "lineage" / "publish.json", folder / "lineage.json")
    return folder


def test_a_folder_of_results_is_listed_wherever_it_lies_and_wherever_its_store_is(runs, tmp_path):
    *_, made = listed(str(runs))
    folder = result_folder(runs / "done", tmp_path / "elsewhere ü" / "run")
    (entry,) = listed(str(tmp_path))
    assert (entry.id, entry.test, entry.task, entry.method) == (made.id, made.test, made.task, made.method)
    assert entry.page == str(folder / "report.html"), "of this folder, not of where it was made"
    assert listed(str(folder)) == [entry]


@pytest.mark.parametrize("content", ["[1]", "null", "", '{"a": 1}', "[" * 100_000, '{"gain": {}, "best": NaN}'])
def test_a_report_that_cannot_be_read_hides_no_other_run(runs, tmp_path, content, capsys):
    shutil.copytree(runs / "begun", tmp_path / "begun")
    folder = result_folder(runs / "done", tmp_path / "done")
    (folder / "report.json").write_text(content)
    (tmp_path / "comparison.parquet").write_bytes(b"junk")
    assert cli.main(["list", str(tmp_path)]) == 0
    assert [entry.state for entry in listed(str(tmp_path))] == ["unfinished", "damaged", "damaged"]
    assert "nan" not in capsys.readouterr().out.lower()


def test_a_run_that_another_one_took_up_is_said_to_be_continued(tmp_path):
    begun = RecordedRun(tmp_path / "run", seed=3)
    begun(*BEFORE_THE_SEARCH)
    begun.run_id = str(uuid.uuid4())
    begun()
    assert [entry.state for entry in listed(str(tmp_path))] == ["done", "continued"]


def test_runs_in_a_bucket_are_found_too(s3_prefix, tmp_path, capsys):
    RecordedRun(tmp_path / "run", store_uri=f"{s3_prefix}/team/store")()
    assert cli.main(["list", s3_prefix, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["state"], entry["task"]) == ("done", "customer_feedback")


def test_where_there_is_nothing_the_remedy_is_said(tmp_path, capsys):
    with pytest.raises(LineageError, match="is not a folder"):
        listed(str(tmp_path / "nothing"))
    with pytest.raises(LineageError, match="name an --output-dir"):
        listed(str(tmp_path))
    assert cli.main(["list", str(tmp_path)]) == 2


def test_a_page_that_cannot_be_written_is_named(runs, tmp_path, capsys):
    assert cli.main(["list", str(runs), "--page", str(tmp_path / "no" / "page.html")]) == 2
    assert "page.html: No such file or directory" in capsys.readouterr().err


def test_the_records_of_one_run_are_a_place_too(runs):
    *_, done = listed(str(runs))
    (alone,) = listed(done.place)
    assert alone.id == done.id


def test_nothing_from_outside_moves_the_cursor_of_a_terminal():
    hostile = "a\nb\x1b[2J\x07"
    cells = cells_of(RunEntry(kind="run", id="1", place=hostile, state="done", task=hostile, model=hostile))
    assert all(cell.isprintable() for cell in cells)


def test_the_table_has_scores_as_the_eye_compares_them(runs, capsys):
    assert cli.main(["list", str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:4]] == ["failed", "unfinished", "done"]
    assert "customer_feedback: " in lines[-1], "the reason of the failed one"


def test_a_long_name_does_not_push_the_table_aside():
    cells = cells_of(RunEntry(kind="run", id="1", place="p", state="done", task="t" * 200))
    assert max(map(len, cells)) == 28


def test_the_page_links_to_each_report_and_escapes_what_comes_from_outside(runs, tmp_path):
    page = tmp_path / "runs.html"
    assert cli.main(["list", str(runs), "--page", str(page)]) == 0
    *_, done = listed(str(runs))
    assert f'<a href="{link_to(done.page)}" title=' in page.read_text()
    attack = "<script>alert(1)</script>"
    hostile = RunEntry(kind="run", id="1", place=attack, state="failed", task=attack, model=attack, reason=attack)
    shown = runs_page([hostile])
    assert attack not in shown
    assert shown.count("<script") == 1, "our own, which sorts"


def test_what_lies_in_an_object_store_has_no_link():
    assert link_to("s3://bucket/run/report.html") == ""
