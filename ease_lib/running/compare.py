"""The cells of a comparison on this machine, a few processes side by side.

A process makes data and embeddings anew only when the next cell has others, and keeps an endpoint of ours up.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.ambient import Ambient
from ease_lib.artifacts.store import stores_are_waited_for
from ease_lib.comparison import Cell
from ease_lib.endpoints.child import shared_endpoints
from ease_lib.processes import available_cores
from ease_lib.running.cells import attempted
from ease_lib.running.inline import Workspace


@dataclass(frozen=True)
class Done:
    """A cell that ended: its result, and whether an earlier comparison had it already."""

    cell: Cell
    result: dict[str, Any]
    kept: bool


def run_cells(cells: Sequence[Cell], *, jobs: int, on_done: Callable[[Done], None]) -> list[dict[str, Any]]:
    """All results, in the order of the cells; finished ones are read, not run. One that fails stops no others.

    Args:
        jobs: processes side by side.
        on_done: called with each cell as it is done, for progress.
    """
    results: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="ease-cells-") as folder:
        pool = multiprocessing.get_context("spawn").Pool(jobs, _prepare_process, (jobs, folder))
        try:
            for number, done in pool.imap_unordered(_run, enumerate(cells)):
                results[number] = done.result
                on_done(done)
        finally:
            pool.terminate()  # finished cells are stored, journals survive a kill
            pool.join()
    return [results[number] for number in range(len(cells))]


@dataclass
class _Process:
    """What a process of the pool keeps from cell to cell."""

    resources: ExitStack
    folder: Path
    data_and_endpoint: tuple[str, float, str, int] | None = None
    at: Workspace | None = None

    def artifacts(self, cell: Cell) -> Workspace:
        """Those of the cell before if it had the same data, so that they need not be made again."""
        if self.at is None or self.data_and_endpoint != cell.data_and_endpoint:
            self.data_and_endpoint = cell.data_and_endpoint
            self.at = Workspace(Path(tempfile.mkdtemp(dir=self.folder)))
        return self.at


_process = Ambient[_Process | None](None)
"""Set in the processes of the pool."""


def _prepare_process(jobs: int, folder: str) -> None:
    """Its share of the cores; endpoints of ours stay up until it ends; signals are the main process's business."""
    import torch
    from tqdm import tqdm

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tqdm.set_lock(threading.RLock())  # its own is a semaphore that a process which is told to end leaves behind
    torch.set_num_threads(max(1, available_cores() // jobs))
    resources = ExitStack()
    resources.enter_context(shared_endpoints())
    resources.enter_context(stores_are_waited_for())
    _process.value = _Process(resources, Path(folder))


def _run(numbered: tuple[int, Cell]) -> tuple[int, Done]:
    number, cell = numbered
    process = _process.value
    assert process is not None
    result, kept = attempted(cell, process.artifacts(cell))
    if result["failure"]:
        process.at = None  # what it left half made is not for the next one
    return number, Done(cell, result, kept=kept)
