"""The sets of the paper's tables run from end to end, at a small size on the simulated LLM, every method of each."""

from dataclasses import replace

import pytest

from ease_lib.config.comparison import plan
from ease_lib.config.named_sets import FOLDER, read_parameter_set
from ease_lib.config.parsing import without_unread
from ease_lib.reporting.figures import Figures
from ease_lib.running.comparison.cells import attempted
from ease_lib.running.inline import Workspace
from ease_lib.running.run import open_host
from ease_lib.stages import report_comparison
from tests.simulation.models import SIMULATED

SMALL = {
    "test_size": 8,
    "validation_size": 6,
    "budget": 8,
    "initial_design": 4,
    "sampled_candidates": 300,
    "shortlist_size": 20,
    "embedder": "bundled-minilm",
}
MOST = {"pool_size": 40, "retained": 20, "fixed_candidates": 60, "instructions": 3, "k": 8}
"""Largest values of what a method asks for itself."""


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("paper-*.yaml")))
def test_every_cell_of_a_set_has_its_figure_and_every_figure_its_cell(name):
    values = read_parameter_set(name)
    folder = {} if "task_uri" in str(values["tasks"]) else {"task_uri": "folder"}
    found = Figures.read(values["figures"])
    cells = plan({**folder, **values})
    assert all(found.find(cell.task, 0.0, cell.method, "validation") for cell in cells)
    assert {(cell.task, cell.method) for cell in cells} == {(task, method) for task, _, method, _ in found.scores}


@pytest.mark.parametrize(
    "name",
    [
        *("paper-table-1", "paper-table-2", "paper-table-3", "paper-components", "paper-nu", "paper-ablations"),
        *("paper-large-pools", "paper-k", "paper-range-of-k"),
    ],
)
@pytest.mark.rooms(
    "ease_lib/config", "ease_lib/search", "ease_lib/running", "ease_lib/stages", "ease_lib/reporting", "ease_lib/tasks"
)
def test_every_method_of_the_set_ends_and_the_page_shows_them(name, real_data, tmp_path):
    values = read_parameter_set(name)
    known = {path.stem for path in (real_data / "instruction_induction/induce").glob("*.json")}
    tasks = [task for task in values["tasks"] if _file_of(task) in known]
    folder = {"task_uri": str(real_data / "instruction_induction"), "llm_base_url": SIMULATED}
    cells = plan({**values, **folder, "tasks": tasks[:1], "repeats": 1})
    results = []
    with open_host() as host:
        for number, cell in enumerate(cells):
            most = {key: min(limit, cell.parameters[key]) for key, limit in MOST.items() if key in cell.parameters}
            small = without_unread({**cell.parameters, **SMALL, **most, "store_uri": str(tmp_path / "store")})
            own = replace(cell, parameters=small)
            results.append(attempted(own, Workspace(tmp_path / str(number)), host)[0])
    assert [result["failure"] for result in results] == [""] * len(cells)
    report_comparison.run(results, tmp_path / "out", Figures.read(values["figures"]))
    page = (tmp_path / "out/comparison.html").read_text()
    assert all(
        f"<td>{method['label'] if isinstance(method, dict) else method}</td>" in page for method in values["methods"]
    )
    assert page.count("\n[") >= len(cells), "each of our scores has the paper's next to it"


def _file_of(task):
    return task["task_name"] if isinstance(task, dict) else task.partition(":")[2]
