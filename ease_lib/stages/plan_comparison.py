"""Stage `plan_comparison`: check every cell of the comparison, every task and every endpoint, and list the cells to
run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.config.comparison import AXES, Cell, plan
from ease_lib.config.parsing import SHARED, parse_parameter_text, parse_parameters
from ease_lib.config.sections import JUDGE, EndpointConfig, Parameters
from ease_lib.errors import ConfigError
from ease_lib.evaluation.rows import passes_of_test_set
from ease_lib.running.prerequisites import check, current_answers
from ease_lib.running.run import Run, open_host, open_run, run_of
from ease_lib.running.stage import Artifact, file_in, logger, recorded, user_errors, work_on
from ease_lib.running.under_way import may_change
from ease_lib.search.optimizers.registry import planned_answers
from ease_lib.tasks.catalog import most_validation_rows


def execute(
    form: Mapping[str, object], lineage: Artifact | None = None, chain: Artifact | None = None
) -> list[dict[str, Any]]:
    """Plan as a component of a pipeline.

    Args:
        form: the axes, and the field `parameters` for what all runs share, as YAML or JSON.
        lineage: folder that takes the record.
        chain: takes a page about it.

    Returns:
        the cells, as `run_cell` takes them.
    """
    with user_errors("plan_comparison"), open_host(patience_seconds=PATIENCE_SECONDS) as host:
        axes = {name: value for name, value in form.items() if name != SHARED}
        shared = parse_parameter_text(str(form.get(SHARED) or ""), SHARED)
        twice = sorted(set(axes) & set(shared))
        if twice:
            raise ConfigError(f"parameters repeats {', '.join(twice)}; set each in its own field of the form")
        values = {**shared, **axes}
        first = next((parse_parameters(cell.parameters) for cell in plan(values)), None)
        record = file_in(lineage, "plan_comparison.json") if lineage else None
        places = run_of(first) if first else ("", "")
        with open_run(host, *places) as run, recorded(work_on("plan_comparison", values), run, record, chain):
            cells = checked_plan(values, run.unrecorded())
        logger.info("%d cells to run, at most %d LLM requests", len(cells), most_requests(cells))
        return [cell.document for cell in cells]


def most_requests(cells: Sequence[Cell]) -> int:
    """LLM requests of all cells if none shares an answer with another."""
    total = 0
    for run in (parse_parameters(cell.parameters) for cell in cells):
        rows, cap = most_validation_rows(run.task), run.caps.max_llm_requests or math.inf
        answers = planned_answers(run.optimizer, rows, cap) + passes_of_test_set(run.task.baseline) * run.task.test_size
        total += answers * (2 if run.task.metric == JUDGE else 1)
    return total


def checked_plan(values: Mapping[str, object], run: Run) -> list[Cell]:
    """All cells, after every task and every endpoint was tried once.

    Raises:
        ConfigError: listing every problem found.
    """
    cells = plan(values)
    runs = [parse_parameters(cell.parameters) for cell in cells]
    trials = check(*runs, run=run)
    pinned: dict[tuple[EndpointConfig, str], str] = {}
    continued = []
    for cell, parameters in zip(cells, runs, strict=True):
        key = parameters.endpoint, parameters.run.store_uri
        if key not in pinned:
            with open_run(run.host, *run_of(parameters)) as own:
                pinned[key] = current_answers(parameters, trials, own) if own.store else ""
        passed = {"answers": pinned[key], "ledger": _ledger(values, parameters)}
        continued.append(
            replace(cell, parameters=cell.parameters | {name: each for name, each in passed.items() if each})
        )
    return continued


def _ledger(values: Mapping[str, object], run: Parameters) -> str:
    """The ledger that all cells share, so that a cap is one of the whole comparison; also with more methods later."""
    if not (run.caps.max_llm_requests or run.caps.max_cost_usd):
        return ""
    if not run.run.store_uri:
        raise ConfigError("a cap on requests or cost needs store_uri, where the cells keep what they have spent")
    ignored = {*AXES, *may_change()}
    shared = {name: str(value) for name, value in values.items() if name not in ignored}
    return f"comparison-{hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:32]}"
