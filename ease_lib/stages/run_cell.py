"""Stage `run_cell`: run one cell of a comparison, all its stages in one process; a finished one is read from the store.

`execute` is a worker of a pipeline, which runs many; `run` is what the process of a cell does, here and on a laptop.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.artifacts.tables import write_document
from ease_lib.config.parsing import flat_parameters, parse_parameters
from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED, EaseError
from ease_lib.notes import Notes
from ease_lib.running.comparison.cells import attempted, failed
from ease_lib.running.comparison.comparison_store import ComparisonStore
from ease_lib.running.comparison.workers import CellProcess, work
from ease_lib.running.inline import Workspace
from ease_lib.running.run import open_host, open_run, run_of
from ease_lib.running.stage import (
    log_to_stderr,
    logger,
    makes,
    output_path,
    parts,
    print_error,
    recorded,
    user_errors,
    work_on,
)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    result: str = makes(contracts.COMPARISON_CELL)


def execute(worker: int, place: str) -> None:
    """Work of a pipeline's worker: run cells until each has a result.

    Args:
        worker: its number, from 0.
        place: of the comparison, as `plan_comparison` gives it.
    """
    with user_errors("run_cells"), tempfile.TemporaryDirectory() as folder:
        work(ComparisonStore.at(place), str(worker), run, folder=Path(folder), say=logger.info, is_task=True)


def run(told: CellProcess) -> None:
    """Run a cell in this process, which was started for it, and store its result.

    Raises:
        SystemExit: with `EXIT_STOPPED`, where another attempt may end better.
    """
    _compute_with(told.threads)
    if told.is_task:
        log_to_stderr()
    try:
        _run(told)
    except EaseError as error:
        if told.is_last:
            print_error(error)
        else:  # no error of the worker's, which tries it again
            logger.info("notice: %s: %s", told.cell.name, error)
        sys.exit(EXIT_STOPPED if error.time_may_cure else EXIT_ERROR)


def _compute_with(threads: int) -> None:
    import torch
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # its own is a semaphore that a process which is told to end leaves behind
    if threads:
        torch.set_num_threads(threads)


def _run(told: CellProcess) -> None:
    left, cell = ComparisonStore.at(told.place), told.cell
    parameters = parse_parameters(cell.parameters)
    made = left.new_result(told.number, told.folder)
    with open_host(patience_seconds=PATIENCE_SECONDS) as host, ExitStack() as stack:
        notes = Notes()
        if told.is_task:
            recorded_run = stack.enter_context(open_run(host, *run_of(parameters)))
            work = work_on("run_cell", flat_parameters(parameters), outputs=parts(Outputs, {"result": made}))
            notes = stack.enter_context(recorded(work, recorded_run, made=[made])).notes
        if told.failure:
            measured, kept = failed(cell, told.failure), False
        else:
            measured, kept = attempted(cell, Workspace(told.folder), host, notes=notes, is_last=told.is_last)
        write_document(output_path(made.path), contracts.COMPARISON_CELL, measured)
    left.finish(told.number, cell.name, made, kept=kept)
