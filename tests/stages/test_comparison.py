"""A comparison's tasks hand each other little, and what one of them lacks does not lose the others."""

import json
import re
from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.errors import StoreError
from ease_lib.lineage.runs import listed
from ease_lib.running.comparison.comparison_store import ComparisonStore
from ease_lib.running.run_context import RUN_ID
from ease_lib.running.stage import LocalArtifact
from ease_lib.stages import plan_comparison, report_comparison, run_cell
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

SMALL = {"pool_size": 12, "validation_size": 8, "test_size": 4, "budget": 3, "k": 2, "llm_model": MODEL}


class Comparison:
    """Run the tasks of a comparison one after another, as Kubeflow would call them."""

    def __init__(self, folder, url, **form):
        self.folder = folder
        store = str(folder / "store")
        self.form = {"methods": "best_of_n, zero_shot", "endpoints": url, "repeats": 1, "store_uri": store, **form}
        self.form.setdefault("parameters", json.dumps(SMALL))
        self.plan = self.artifact("plan")

    def artifact(self, name):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return LocalArtifact(str(self.folder / name))

    def planned(self):
        self.place = plan_comparison.execute(self.form, self.plan)
        return self.place

    @property
    def left(self):
        return ComparisonStore.at(self.place)

    def work(self, worker=0):
        run_cell.execute(worker, self.place)

    def reported(self):
        made = [self.artifact(name) for name in ("page", "results", "lineage", "verdict")]
        report_comparison.execute(self.plan, *made)
        return (self.folder / "results" / report_comparison.MARKDOWN).read_text()


@pytest.fixture
def endpoint():
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 2 else "question") as server:
        yield server.base_url


def test_the_report_has_what_the_workers_left_and_each_cell_has_its_record(tmp_path, endpoint):
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    comparison.work()
    assert "zero_shot" in comparison.reported()
    dashboard = (tmp_path / "verdict").read_text()
    assert dashboard.startswith(("## No method is significantly", "## `No method is significantly")), (
        "what one looks for needs no click"
    )
    assert "best_of_n, 1 runs" in dashboard
    record = json.loads((tmp_path / "lineage" / "report_comparison.json").read_text())
    assert [part["name"] for part in record["inputs"]] == ["plan", "cells[0]", "cells[1]"]
    assert all(part["record_sha256"] for part in record["inputs"])
    for part in record["inputs"][1:]:
        of_cell = json.loads(Path(part["record"]).read_text())
        assert (of_cell["stage"], of_cell["state"]) == ("run_cell", "complete")
        assert of_cell["outputs"][0]["uri"] == part["uri"]
        assert read_document(Path(part["uri"]), contracts.COMPARISON_CELL)["failure"] == ""


def test_a_cell_without_a_result_fails_the_report_by_its_name(tmp_path, endpoint, capsys):
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    with pytest.raises(SystemExit):
        comparison.reported()
    assert (
        "error: customer_feedback, best_of_n, repeat 1; customer_feedback, zero_shot, repeat 1 left no result in"
        in (capsys.readouterr().err)
    )


def test_a_cell_that_fails_is_in_the_report_with_its_reason(tmp_path, endpoint, capsys):
    methods = "zero_shot, {method: ease, k: 240, pool_size: 0, label: too many}"
    comparison = Comparison(tmp_path, endpoint, methods=methods)
    comparison.planned()
    comparison.work()
    said = capsys.readouterr().err
    assert "[ease] customer_feedback, too many, repeat 1: FAILED: " in said
    assert "[ease] 2 of 2 cells, 1 failed; " in said
    assert "1 of 2 runs failed" in comparison.reported() + (tmp_path / "verdict").read_text()


def test_a_worker_says_each_cell_by_its_name_and_how_far_all_are(tmp_path, endpoint, capsys):
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    comparison.work()
    said = capsys.readouterr().err
    assert "[ease] customer_feedback, best_of_n, repeat 1: " in said
    assert "[ease] 1 of 2 cells; " in said
    assert "[ease] 2 of 2 cells; " in said


def test_a_worker_that_finds_nothing_left_ends_at_once_and_a_second_comparison_asks_nothing(
    tmp_path, endpoint, monkeypatch
):
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    comparison.work()
    comparison.work(1)
    again = Comparison(tmp_path, endpoint)
    monkeypatch.setenv(RUN_ID, "another run")
    again.planned()
    again.work()
    assert [cell.kept for cell in again.left.finished().values()] == [True, True]


def test_a_comparison_of_a_pipeline_is_listed_as_one_with_its_scores_when_it_has_ended(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv(RUN_ID, "the run of all its pods")
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    comparison.work()
    store = str(tmp_path / "store")
    (under_way,) = listed(store)
    assert (under_way.kind, under_way.state, under_way.method) == ("comparison", "unfinished", "best_of_n, zero_shot")
    comparison.reported()
    (done,) = listed(store)
    assert (done.kind, done.state, done.method) == ("comparison", "done", "best_of_n, zero_shot")
    assert done.test is not None
    assert done.requests > 0
    assert done.started
    assert [each.kind for each in listed(str(tmp_path))] == ["comparison"], "its table, which lies there too, is it"


def test_a_result_that_was_removed_is_named_with_what_to_do(tmp_path, endpoint, capsys):
    comparison = Comparison(tmp_path, endpoint)
    comparison.planned()
    comparison.work()
    next((Path(comparison.place) / "results").iterdir()).unlink()
    with pytest.raises(SystemExit):
        comparison.reported()
    said = capsys.readouterr().err
    assert re.search(r"the result of customer_feedback, \w+, repeat 1, is gone; submit the comparison again", said)


def test_a_plan_that_has_gone_is_said(tmp_path, endpoint, capsys):
    comparison = Comparison(tmp_path, endpoint)
    place = comparison.planned()
    (Path(place) / "plan.json").unlink()
    with pytest.raises((SystemExit, StoreError)):
        comparison.work()
    assert "plan.json, the plan of this comparison, is not there; start it again" in capsys.readouterr().err


def test_workers_are_told_a_place_and_tasks_hand_nothing_else_on(tmp_path, endpoint):
    """All inputs of a task are one argument of a program, which has 128 KiB."""
    comparison = Comparison(tmp_path, endpoint, repeats=30)
    assert comparison.planned().startswith(str(tmp_path / "store" / "comparisons"))
    assert comparison.left.plan().cells[59].repeat == 29
