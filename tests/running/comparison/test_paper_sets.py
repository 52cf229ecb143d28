"""The sets of the paper's tables run from end to end, at a small size on the simulated LLM, every method of each."""

from dataclasses import replace

import pytest

from ease_lib.config.comparison import plan
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import without_unread
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
"""Of what a method asks for itself."""


@pytest.mark.parametrize("name", ["paper-table-1", "paper-table-2", "paper-ablations", "paper-large-pools"])
@pytest.mark.rooms(
    "ease_lib/config", "ease_lib/search", "ease_lib/running", "ease_lib/stages", "ease_lib/reporting", "ease_lib/tasks"
)
def test_every_method_of_the_set_ends_and_the_page_shows_them(name, real_data, tmp_path):
    values = read_parameter_set(name)
    known = {path.stem for path in (real_data / "instruction_induction/induce").glob("*.json")}
    tasks = [task for task in values["tasks"] if task.partition(":")[2] in known]
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
    report_comparison.run(results, tmp_path / "out")
    page = (tmp_path / "out/comparison.html").read_text()
    assert all(
        f"<td>{method['label'] if isinstance(method, dict) else method}</td>" in page for method in values["methods"]
    )
