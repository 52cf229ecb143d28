"""Stage `plan_comparison`: check a whole comparison within a minute, and list its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ease_lib.comparison import Cell, plan
from ease_lib.config import parse_parameter_text, parse_parameters
from ease_lib.errors import ConfigError
from ease_lib.optimizers.registry import ONE_EVALUATION
from ease_lib.stages.check_prerequisites import check
from ease_lib.stages.evaluate import TESTED_SEQUENCES
from ease_lib.stages.execution import Artifact, logger, recorded, user_errors, work_on
from ease_lib.stages.run_cell import encoded


def execute(
    axes: Mapping[str, object], parameters: str, lineage: Artifact | None = None, chain: Artifact | None = None
) -> list[str]:
    """Plan as a task of a pipeline; `parameters` is the form's field for what all runs share, as YAML or JSON."""
    with user_errors("plan_comparison"):
        shared = parse_parameter_text(parameters, "parameters")
        twice = sorted(set(axes) & set(shared))
        if twice:
            raise ConfigError(f"parameters repeats {', '.join(twice)}; set each in its own field of the form")
        values = {**shared, **axes}
        first = next((parse_parameters(cell.parameters) for cell in plan(values)), None)
        with recorded(work_on("plan_comparison", values), first.lineage_root if first else "", lineage, chain):
            cells = checked_plan(values)
        logger.info("%d cells to run, at most %d LLM requests", len(cells), most_requests(cells))
        return [encoded(cell) for cell in cells]


def most_requests(cells: Sequence[Cell]) -> int:
    """LLM requests of all cells if none shares an answer with another."""
    total = 0
    for run in (parse_parameters(cell.parameters) for cell in cells):
        evaluations = 1 if run.optimizer.method in ONE_EVALUATION else run.optimizer.budget
        total += evaluations * run.task.validation_size + TESTED_SEQUENCES * run.task.test_size
    return total


def checked_plan(values: Mapping[str, object]) -> list[Cell]:
    """All cells, after every task and every endpoint was tried once.

    Raises:
        ConfigError: listing every problem found.
    """
    cells = plan(values)
    check(*(parse_parameters(cell.parameters) for cell in cells))
    return cells
