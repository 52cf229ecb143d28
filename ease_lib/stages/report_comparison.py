"""Stage `report_comparison`: report which method is best: a page, Markdown and Parquet."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.artifacts.tables import read_document, write_table, write_text
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import EaseError
from ease_lib.reporting.comparison_results import (
    finished_of,
    found_by_comparison,
    render_comparison_page,
    render_markdown,
)
from ease_lib.reporting.figures import Figures
from ease_lib.running.comparison.comparison_store import ComparisonPlan, ComparisonStore
from ease_lib.running.log import RESULT
from ease_lib.running.run import open_host, open_run, run_of
from ease_lib.running.stage import (
    Artifact,
    file_in,
    logger,
    makes,
    output_path,
    parts,
    reads,
    recorded,
    user_errors,
    work_on,
)

MOST_NAMED = 5
"""Maximum number of named cells without a result."""
TABLE, MARKDOWN, PAGE = "comparison.parquet", "comparison.md", "comparison.html"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    plan: str = reads("plan_comparison.plan")
    cells: Sequence[str] = reads("run_cell.result", many=True)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    page: str = makes()
    results: str = makes()


def execute(
    plan: Artifact,
    page: Artifact,
    results: Artifact,
    lineage: Artifact | None = None,
    verdict: Artifact | None = None,
) -> None:
    """Report as a component of a pipeline, which has no parameters.

    Args:
        plan: of `plan_comparison`.
        lineage: folder that takes the record.
        verdict: takes a page about it.
    """
    with (
        user_errors("report_comparison"),
        tempfile.TemporaryDirectory() as folder,
        open_host(patience_seconds=PATIENCE_SECONDS) as host,
    ):
        planned = read_document(Path(plan.path), contracts.COMPARISON_PLAN)
        cells = ComparisonPlan.of(planned).cells
        left = ComparisonStore.at(planned["place"])
        finished = left.finished()
        missing = [cell.name for number, cell in enumerate(cells) if number not in finished]
        if missing:
            raise EaseError(
                f"{_few(missing)} left no result in {planned['place']}; repeat the failed tasks of this run (`python "
                "-m pipelines retry`)"
            )
        found = left.fetched((finished[number] for number in range(len(cells))), Path(folder))
        made = {"page": page, "results": results}
        work = work_on(
            "report_comparison", {}, inputs=parts(Inputs, {"plan": plan, "cells": found}), outputs=parts(Outputs, made)
        )
        record = file_in(lineage, "report_comparison.json") if lineage else None
        with (
            open_run(host, *run_of(parse_parameters(cells[0].parameters))) as run_here,
            recorded(work, run_here, record, verdict, made=list(made.values())) as given,
        ):
            measured = [read_document(Path(result.path), contracts.COMPARISON_CELL) for result in found]
            figures = Figures.of(planned["figures"]) if planned["figures"] else None
            run(measured, Path(results.path), figures)
            shutil.copyfile(Path(results.path) / PAGE, output_path(page.path))
            found_here = found_by_comparison(measured)
            if given.attempt:
                given.attempt.found = found_here
            for sentence in found_here["said"]:
                logger.info("%s%s", RESULT, sentence)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more cells" if len(names) > MOST_NAMED else ""
    return "; ".join(names[:MOST_NAMED]) + more


def run(cells: Sequence[Mapping[str, Any]], folder: Path, figures: Figures | None = None) -> None:
    """Write the three files into `folder`; cells that failed are in the page and the Markdown with their reason.

    Args:
        figures: published scores, next to which ours stand.

    Raises:
        EaseError: when every cell failed.
    """
    finished = finished_of(cells)
    if not finished:
        raise EaseError(f"all {len(cells)} runs failed; the first: {cells[0]['failure']}")
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: [cell[name] for cell in finished] for name in contracts.COMPARISON.schema.names}
    write_table(folder / TABLE, contracts.COMPARISON, columns)
    write_text(folder / MARKDOWN, render_markdown(cells, figures))
    write_text(folder / PAGE, render_comparison_page(cells, figures))
