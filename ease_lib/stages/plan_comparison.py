"""Stage `plan_comparison`: check every cell of the comparison, every task and every endpoint, and keep the plan for its
workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.artifacts.tables import write_document
from ease_lib.config.comparison import Cell, check_for_cluster, figures_named, plan
from ease_lib.config.parsing import SHARED, Value, parse_parameter_text, parse_parameters
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import ConfigError
from ease_lib.reporting.figures import Figures
from ease_lib.running.comparison.comparison_store import ComparisonStore, place_of
from ease_lib.running.planning import check_cap, least_requests, most_requests
from ease_lib.running.prerequisites import check, current_answers
from ease_lib.running.run import Run, open_host, open_run, run_of
from ease_lib.running.stage import (
    Artifact,
    file_in,
    logger,
    makes,
    output_path,
    parts,
    recorded,
    user_errors,
    work_on,
)
from ease_lib.words import grouped


@dataclass(frozen=True, kw_only=True)
class Outputs:
    plan: str = makes(contracts.COMPARISON_PLAN)


def execute(
    form: Mapping[str, object],
    planned: Artifact,
    lineage: Artifact | None = None,
) -> str:
    """Plan as a component of a pipeline; the plan is also kept in the store, for the workers.

    Args:
        form: the axes, and the field `parameters` for what all runs share, as YAML or JSON.
        planned: takes the plan.
        lineage: folder that takes the record.

    Returns:
        the place of the comparison, which its workers are told.
    """
    with user_errors("plan_comparison"), open_host(patience_seconds=PATIENCE_SECONDS) as host:
        axes = {name: value for name, value in form.items() if name != SHARED}
        shared = parse_parameter_text(str(form.get(SHARED) or ""), SHARED)
        twice = sorted(set(axes) & set(shared))
        if twice:
            raise ConfigError(f"parameters repeats {', '.join(twice)}; set each in its own field of the form")
        values = {**shared, **axes}
        wanted = plan(values)
        check_for_cluster(wanted)
        figures = figures_of(values)
        record = file_in(lineage, "plan_comparison.json") if lineage else None
        places = run_of(parse_parameters(wanted[0].parameters))
        work = work_on("plan_comparison", values, outputs=parts(Outputs, {"plan": planned}))
        with open_run(host, *places) as run, recorded(work, run, record, made=[planned]):
            cells = checked(wanted, run.unrecorded())
            place = place_of(places[0], host.context.run_id)
            document = document_of(cells, place, figures)
            write_document(output_path(planned.path), contracts.COMPARISON_PLAN, document)
            ComparisonStore.at(place).keep_plan(document)
        logger.info(
            "%d cells to run, at most %s LLM requests besides trial questions",
            len(cells),
            grouped(document["requests"]),
        )
        return place


def figures_of(values: Mapping[str, object]) -> Figures | None:
    """The published scores that a comparison names.

    Raises:
        ConfigError: as `Figures.read`.
    """
    named = figures_named(values)
    return Figures.read(named) if named else None


def document_of(cells: Sequence[Cell], place: str, figures: Figures | None = None) -> dict[str, Any]:
    """The plan of a comparison that begins now, under `COMPARISON_PLAN`."""
    return {
        "place": place,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "requests": sum(most_requests(parse_parameters(cell.parameters)) for cell in cells),  # if none share an answer
        "cells": [cell.document for cell in cells],
        "figures": figures.document if figures else None,
    }


def checked(planned: Sequence[Cell], run: Run) -> list[Cell]:
    """The cells of a plan, after every task and every endpoint was tried once; each has an equal share of the caps.

    Raises:
        ConfigError: listing every problem found.
    """
    cells = with_shares(planned)
    runs = [parse_parameters(cell.parameters) for cell in cells]
    trials = check(*runs, run=run)
    pinned: dict[tuple[EndpointConfig, str], str] = {}
    continued = []
    for cell, parameters in zip(cells, runs, strict=True):
        key = parameters.endpoint, parameters.run.store_uri
        if key not in pinned:
            with open_run(run.host, *run_of(parameters)) as own:
                pinned[key] = current_answers(parameters, trials, own) if own.store else ""
        continued.append(replace(cell, parameters=cell.parameters | {"answers": pinned[key]}) if pinned[key] else cell)
    return continued


def with_shares(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Equal shares of the caps for each cell; with a common cap, one cell could take what another needs, and cells
    could not be compared.

    Raises:
        ConfigError: if a share leaves a cell no search, with the least cap that would do.
    """
    caps = [parse_parameters(cell.parameters).caps for cell in cells]
    requests, dollars = min(each.max_llm_requests for each in caps), min(each.max_cost_usd for each in caps)
    if not (requests or dollars):
        return cells
    if any(not cell.parameters.get("store_uri") for cell in cells):
        raise ConfigError(
            "a cap on requests or cost needs store_uri, through which the cells share what they have spent"
        )
    if requests and len(cells) == 1:
        check_cap(parse_parameters(cells[0].parameters))
    count = len(cells)
    shares: dict[str, Value] = {"max_llm_requests": requests // count} if requests else {}
    shares |= {"max_cost_usd": dollars / count} if dollars else {}
    shared = [replace(cell, parameters=cell.parameters | shares) for cell in cells]
    if requests:
        least = [sum(least_requests(parse_parameters(cell.parameters))) for cell in shared]
        most = least.index(max(least))
        if requests // count < least[most]:
            raise ConfigError(
                f"max_llm_requests={requests} is {requests // count} for each of {count} runs, and "
                f"{cells[most].name} takes "
                f"at least {least[most]} to find and test one sequence; set at least {count * least[most]}, or "
                "compare fewer runs"
            )
        logger.info("max_llm_requests=%d is %d for each of %d runs", requests, requests // count, count)
    return shared
