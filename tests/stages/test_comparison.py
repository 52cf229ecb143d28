"""A comparison's tasks hand each other little, and what one of them lacks does not lose the others."""

import json
from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.config.comparison import MOST_CELLS
from ease_lib.errors import EaseError
from ease_lib.running.run_context import LAST_ATTEMPT
from ease_lib.running.stage import LocalArtifact
from ease_lib.stages import plan_comparison, report_comparison, run_cell
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

ROOM_FOR_ONE_ARGUMENT = 131_072
"""Bytes that Linux gives an argument of a program; Kubeflow puts all inputs of a task into one."""
SMALL = {"pool_size": 12, "validation_size": 8, "test_size": 4, "budget": 3, "k": 2, "llm_model": MODEL}


class Comparison:
    """Its tasks one after another, as Kubeflow would call them."""

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
        return plan_comparison.execute(self.form, self.plan)

    def run(self, cell):
        result = self.artifact(f"cells/{cell['number']}")
        assert run_cell.execute(cell, result) == cell["number"]
        return read_document(Path(result.path), contracts.COMPARISON_CELL)

    def reported(self):
        made = [self.artifact(name) for name in ("page", "results", "lineage", "chain")]
        report_comparison.execute(self.plan, *made)
        return (self.folder / "results" / report_comparison.MARKDOWN).read_text()


@pytest.fixture
def endpoint():
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 2 else "question") as server:
        yield server.base_url


def test_the_report_has_what_the_cells_left_and_names_those_that_left_nothing(tmp_path, endpoint):
    comparison = Comparison(tmp_path, endpoint)
    first, second = comparison.planned()
    comparison.run(first)
    text = comparison.reported()
    assert "zero_shot" in text
    assert report_comparison.LEFT_NOTHING in text
    dashboard = (tmp_path / "chain").read_text()
    assert "1 of 2 runs failed and are missing here." in dashboard
    comparison.run(second)
    assert report_comparison.LEFT_NOTHING not in comparison.reported()
    dashboard = (tmp_path / "chain").read_text()
    assert dashboard.startswith(("## No method is shown", "## `No method is shown")), (
        "what one looks for needs no click"
    )
    assert "best_of_n, 1 runs" in dashboard
    record = json.loads((tmp_path / "lineage" / "report_comparison.json").read_text())
    assert [part["name"] for part in record["inputs"]] == ["plan", "cells[0]", "cells[1]"]
    assert all(part["record_sha256"] for part in record["inputs"])


def test_a_cell_whose_process_is_killed_each_time_is_a_result_and_not_the_end_of_the_comparison(
    tmp_path, endpoint, monkeypatch
):
    comparison = Comparison(tmp_path, endpoint)
    first, second = comparison.planned()
    comparison.run(first)
    monkeypatch.setenv(LAST_ATTEMPT, "was killed by SIGKILL")
    assert comparison.run(second)["failure"].startswith("its process was killed by SIGKILL each time")
    assert "was killed by SIGKILL" in comparison.reported()


def test_what_a_cell_has_left_is_not_lost_to_a_later_attempt_that_is_killed(tmp_path, endpoint, monkeypatch):
    comparison = Comparison(tmp_path, endpoint)
    first, _ = comparison.planned()
    measured = comparison.run(first)
    monkeypatch.setenv(LAST_ATTEMPT, "was killed by SIGKILL")
    assert comparison.run(first) == measured


def test_a_cell_that_was_killed_among_other_things_is_tried_again(tmp_path, endpoint, monkeypatch):
    comparison = Comparison(tmp_path, endpoint)
    first, _ = comparison.planned()
    monkeypatch.setenv(LAST_ATTEMPT, "failed for a reason that may pass or was killed by SIGKILL")
    assert comparison.run(first)["failure"] == ""


def test_a_cell_whose_endpoint_stays_away_is_a_result_at_the_last_attempt(tmp_path, endpoint, monkeypatch):
    comparison = Comparison(tmp_path, endpoint, parameters=json.dumps({**SMALL, "llm_deadline_seconds": 1}))
    first, _ = comparison.planned()
    plan = json.loads(Path(comparison.plan.path).read_text())
    plan["cells"][0]["parameters"]["llm_base_url"] = "http://127.0.0.1:9/v1"
    (Path(first["place"]) / "plan.json").write_text(json.dumps(plan))
    monkeypatch.setenv("EASE_IMAGE", "cpu:1")
    with pytest.raises(SystemExit):
        comparison.run(first)
    monkeypatch.setenv(LAST_ATTEMPT, "failed for a reason that may pass")
    assert "127.0.0.1:9" in comparison.run(first)["failure"]


def test_as_many_cells_as_are_allowed_fit_into_what_tasks_are_handed(tmp_path, endpoint):
    """The numbers of all cells, which the report waits for; and one cell, which is told place and number."""
    comparison = Comparison(tmp_path, endpoint)
    cells = comparison.planned()
    assert set(cells[0]) == {"place", "number"}
    assert len(json.dumps(list(range(MOST_CELLS)))) < ROOM_FOR_ONE_ARGUMENT / 10


def test_a_plan_that_has_gone_is_said(tmp_path, endpoint, capsys):
    comparison = Comparison(tmp_path, endpoint)
    first, _ = comparison.planned()
    (Path(first["place"]) / "plan.json").unlink()
    with pytest.raises((SystemExit, EaseError)):
        comparison.run(first)
    assert "plan.json, the plan of this comparison, is not there; begin it again" in capsys.readouterr().err
