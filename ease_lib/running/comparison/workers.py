"""The cells of a comparison on this machine, a few processes side by side.

A process makes data and embeddings anew only when the next cell has others, and keeps an endpoint of ours up.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.config.comparison import Cell
from ease_lib.errors import EaseError
from ease_lib.machine import available_cores
from ease_lib.running.comparison.cells import attempted
from ease_lib.running.inline import Workspace
from ease_lib.running.run import Host, open_host

LOOK_SECONDS = 1.0
"""Between two looks whether the processes are still there."""


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

    Raises:
        EaseError: when a process was killed; finished cells are stored.
    """
    results: dict[int, dict[str, Any]] = {}
    context = multiprocessing.get_context("spawn")
    waiting: Any = context.Queue()
    finished: Any = context.Queue()
    for numbered in enumerate(cells):
        waiting.put(numbered)
    for _ in range(jobs):
        waiting.put(None)
    with tempfile.TemporaryDirectory(prefix="ease-cells-") as folder:
        workers = [context.Process(target=_work, args=(waiting, finished, jobs, folder)) for _ in range(jobs)]
        try:
            for worker in workers:
                worker.start()
            while len(results) < len(cells):
                number, done = _next(finished, workers)
                results[number] = done.result
                on_done(done)
        finally:
            for worker in workers:
                worker.terminate()  # finished cells are stored, journals survive a kill
            for worker in workers:
                worker.join()
            for each in (waiting, finished):
                each.cancel_join_thread()
                each.close()
    return [results[number] for number in range(len(cells))]


def _next(finished: Any, workers: Sequence[BaseProcess]) -> tuple[int, Done]:
    while True:
        try:
            found: tuple[int, Done] = finished.get(timeout=LOOK_SECONDS)
            return found
        except queue.Empty:
            ended = next((worker for worker in workers if worker.exitcode), None)
            if ended is not None:
                raise EaseError(
                    f"a process of the comparison ended by itself (exit code {ended.exitcode}); the same command goes "
                    "on with what is not finished; with less memory use fewer --jobs"
                ) from None


def _work(waiting: Any, finished: Any, jobs: int, folder: str) -> None:
    """A process: its share of the cores; signals are the main process's business."""
    import torch
    from tqdm import tqdm

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tqdm.set_lock(threading.RLock())  # its own is a semaphore that a process which is told to end leaves behind
    torch.set_num_threads(max(1, available_cores() // jobs))
    with open_host(patience_seconds=PATIENCE_SECONDS) as host:
        worker = _CellWorker(host, Path(folder))
        while (numbered := waiting.get()) is not None:
            number, cell = numbered
            finished.put((number, worker.done(cell)))


class _CellWorker:
    """Runs cells, and keeps the artifacts of the last one for the next."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._shared: tuple[str, float, str, int] | None = None
        self._at: Workspace | None = None

    def done(self, cell: Cell) -> Done:
        result, kept = attempted(cell, self._workspace(cell), self._host)
        if result["failure"]:
            self._at = None  # what it left half made is not for the next one
        return Done(cell, result, kept=kept)

    def _workspace(self, cell: Cell) -> Workspace:
        """That of the cell before if it had the same data, so that they need not be made again."""
        if self._at is None or self._shared != cell.data_and_endpoint:
            self._shared = cell.data_and_endpoint
            self._at = Workspace(Path(tempfile.mkdtemp(dir=self._folder)))
        return self._at
