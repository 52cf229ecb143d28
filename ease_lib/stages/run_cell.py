"""Stage `run_cell`: run one cell of a comparison, all stages in this container; a finished cell is read from the
store.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import stores_are_waited_for
from ease_lib.artifacts.tables import write_document
from ease_lib.config.parsing import flat_parameters, parse_parameters
from ease_lib.running.cells import attempted, decoded
from ease_lib.running.execution import Artifact, artifact, output_path, parts, recorded, user_errors, work_on
from ease_lib.running.graph import ALL_TASKS
from ease_lib.running.one_process import Artifacts
from ease_lib.running.run_context import run_context


@dataclass(frozen=True, kw_only=True)
class Outputs:
    result: str = artifact(contracts.COMPARISON_CELL, "Scores, costs and search curve of the cell.")


def execute(cell: str, result: Artifact, lineage: Artifact | None = None, chain: Artifact | None = None) -> None:
    """Run as a task of a pipeline; `cell` is JSON as `encoded` gives it. All its stages are one in the record."""
    with user_errors("run_cell"), stores_are_waited_for(), tempfile.TemporaryDirectory() as folder:
        wanted = decoded(cell)
        parameters = parse_parameters(wanted.parameters)
        work = work_on("run_cell", flat_parameters(parameters), outputs=parts(Outputs, {"result": result}))
        with recorded(work, parameters.lineage_root, lineage, chain, made=[result]):
            context = run_context()
            is_last = not context.pod or context.retry >= ALL_TASKS["run_cell"].retries  # whose failure is a result
            measured = attempted(wanted, Artifacts(Path(folder)), is_last=is_last)[0]
            write_document(output_path(result.path), contracts.COMPARISON_CELL, measured)
