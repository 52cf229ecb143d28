"""Stage `run_cell`: run one cell of a comparison, all stages in this container; a finished cell is read from the
store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.artifacts.tables import read_document, write_document
from ease_lib.config.parsing import flat_parameters, parse_parameters
from ease_lib.running.comparison.cells import attempted, failed
from ease_lib.running.comparison.comparison_store import ComparisonStore
from ease_lib.running.inline import Workspace
from ease_lib.running.run import open_host, open_run, run_of
from ease_lib.running.run_context import how_earlier_attempts_died, is_last_attempt
from ease_lib.running.stage import (
    Artifact,
    file_in,
    makes,
    output_path,
    parts,
    recorded,
    user_errors,
    work_on,
)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    result: str = makes(contracts.COMPARISON_CELL)


def execute(
    cell: Mapping[str, Any], result: Artifact, lineage: Artifact | None = None, chain: Artifact | None = None
) -> int:
    """Run a cell as a component of a pipeline and leave its result for the report; all its stages are one record.

    Args:
        cell: the place of the plan and its number there, as `plan_comparison` lists them.
        lineage: folder that takes the record.
        chain: takes a page about it.

    Returns:
        its number.
    """
    number = int(cell["number"])
    with (
        user_errors("run_cell"),
        tempfile.TemporaryDirectory() as folder,
        open_host(patience_seconds=PATIENCE_SECONDS) as host,
    ):
        left = ComparisonStore.at(str(cell["place"]))
        wanted = left.cells()[number]
        parameters = parse_parameters(wanted.parameters)
        work = work_on("run_cell", flat_parameters(parameters), outputs=parts(Outputs, {"result": result}))
        record = file_in(lineage, "run_cell.json") if lineage else None
        with (
            open_run(host, *run_of(parameters)) as run,
            recorded(work, run, record, chain, made=[result]) as given,
        ):
            at = Workspace(Path(folder))
            earlier = left.result(number, Path(folder))
            if earlier:  # of an attempt that died after it had left it
                measured = read_document(Path(earlier.path), contracts.COMPARISON_CELL)
            elif death := how_earlier_attempts_died():
                measured = failed(wanted, f"its process {death} each time; give run_cell more memory")
            else:
                measured = attempted(wanted, at, host, notes=given.notes, is_last=is_last_attempt())[0]
            write_document(output_path(result.path), contracts.COMPARISON_CELL, measured)
        left.leave(number, result)
    return number
