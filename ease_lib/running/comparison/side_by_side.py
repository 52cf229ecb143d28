"""The workers of a comparison on this machine, a thread each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from ease_lib.machine import available_cores
from ease_lib.running.comparison.comparison_store import ComparisonStore
from ease_lib.running.comparison.workers import CellProcess, work


def run_cells(
    planned: Mapping[str, Any],
    run: Callable[[CellProcess], None],
    *,
    workers: int,
    folder: Path,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All results, in the order of the cells; finished cells are read, not run. A failed cell does not stop the others.

    Args:
        planned: a document under `COMPARISON_PLAN`.
        run: as of `work`.
        workers: cells at a time.
        folder: for what the cells make.
        say: is told of each cell that is done, and how far the comparison is; by several threads.

    Raises:
        EaseError: when the store fails; finished cells are stored.
    """
    place = planned["place"]
    ComparisonStore.at(place).keep_plan(planned)
    stop = threading.Event()
    threads = max(1, available_cores() // workers)

    def begin(worker: str) -> None:
        work(ComparisonStore.at(place), worker, run, folder=folder / worker, say=say, threads=threads, stop=stop)

    with ThreadPoolExecutor(workers) as pool:
        try:
            working = [pool.submit(begin, str(number)) for number in range(workers)]
            wait(working, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # finished cells are stored, journals survive a kill
    for worker in working:
        worker.result()
    left = ComparisonStore.at(place)
    finished = left.finished()
    results = left.fetched((finished[number] for number in range(len(planned["cells"]))), folder)
    return [json.loads(Path(result.path).read_bytes()) for result in results]
