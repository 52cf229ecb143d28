"""A worker of a comparison: it runs cells one after the other, each in its own process, until none is left.

On a cluster a worker is a pod, on one machine a thread. Several workers share a comparison through files in its store.
A worker keeps nothing between two cells except, on its disk, data and embeddings of the last one, for the next cell on
the same data. It prefers data that no other worker has, so that few questions are asked by two workers at once.

A process that dies, or that fails for a temporary reason, is replaced by another, which reads the answers so far from
the journal. A worker that dies leaves its cell to the others, which stay as long as one of them has a cell.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing import connection
from pathlib import Path

from ease_lib.config.comparison import Cell
from ease_lib.errors import EXIT_STOPPED, EaseError
from ease_lib.machine import child_environment, take_environment
from ease_lib.running.comparison.comparison_store import (
    BEAT_SECONDS,
    MOST_LOST,
    ComparisonPlan,
    ComparisonStore,
    Finished,
)
from ease_lib.running.run_context import in_container
from ease_lib.running.supervision import DEADLY, RESTARTS, WAITS_SECONDS
from ease_lib.words import duration, grouped

PRELOADED = ("torch", "ease_lib.running.comparison.cells", "ease_lib.search.optimizers.registry")
"""Modules loaded once, in the process from which the processes of all cells are forked."""
LOST = 255
"""The exit code in `multiprocessing` if the process that forks all others has died."""
AGAIN = DEADLY | {EXIT_STOPPED, LOST}
"""Exit codes after which another process may succeed."""
CELL_SECONDS = 48 * 3600.0
"""Time after which a cell without a result has failed."""
LOOK_SECONDS = 1.0
"""Seconds between two checks whether a process should end."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 10.0
"""Seconds between two checks whether a cell has become free."""
PROGRESS_SECONDS = 60.0
_processes = threading.Lock()
"""Lock for starting and collecting processes, which two threads must not do at once."""


@dataclass(frozen=True, kw_only=True)
class CellProcess:
    """Instructions for the process of a cell.

    Args:
        place: of the comparison.
        folder: for artifacts; those of the cell before are there, where it had the same data.
        threads: that it computes with; 0 leaves it what the machine grants.
        is_task: whether it is part of a pipeline's task, which keeps a log and records.
        is_last: no other process follows.
        failure: why the cell has no result, which is all that is left to be recorded.
    """

    place: str
    number: int
    cell: Cell
    folder: Path
    threads: int
    is_task: bool
    is_last: bool = True
    failure: str = ""
    environment: Mapping[str, str] = field(default_factory=child_environment, repr=False)


def work(
    left: ComparisonStore,
    worker: str,
    run: Callable[[CellProcess], None],
    *,
    folder: Path,
    say: Callable[[str], None],
    threads: int = 0,
    is_task: bool = False,
    stop: threading.Event | None = None,
) -> None:
    """Run cells until every cell of the comparison has a result.

    Args:
        worker: a number; who continues by the same one goes on with the cell that was begun.
        run: the work of a cell's process, importable by its name.
        folder: of this worker alone.
        say: is told of each cell that is done, and how far the comparison is.
        stop: set by another thread, it ends this one's work.

    Raises:
        EaseError: when the store fails.
    """
    plan = left.plan()
    stop = stop or threading.Event()
    progress = _Progress(plan, left, say)
    processes = _Processes(run, stop, progress.now_and_then)
    queue = _Queue(left, plan.cells, worker, stop, progress.now_and_then)
    at = _Folders(folder)
    with _alive(left, worker):
        for number, failure in queue:
            cell = plan.cells[number]
            told = CellProcess(
                place=left.store.uri,
                number=number,
                cell=cell,
                folder=at.of(cell),
                threads=threads,
                is_task=is_task,
                failure=failure,
            )
            processes.finish(told)
            if stop.is_set():
                return
            if done := left.finished().get(number):
                say(done.line)
            progress.tell()


class _Queue:
    """The cells for a worker, with the reason if one cannot have a result; the worker holds each until the next."""

    def __init__(
        self,
        left: ComparisonStore,
        cells: Sequence[Cell],
        worker: str,
        stop: threading.Event,
        meanwhile: Callable[[], None],
    ) -> None:
        self._left = left
        self._worker = worker
        self._stop = stop
        self._meanwhile = meanwhile
        self._cells = cells
        self._searches = Counter(cell.search for cell in cells)
        self._groups: dict[object, list[int]] = {}
        for number, cell in enumerate(cells):
            self._groups.setdefault(cell.data_and_endpoint, []).append(number)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, claims in self._open().items():
            if self._left.holder(number, claims) == self._worker:
                yield number, ""  # an earlier process of this worker had begun it
        wait = FIRST_WAIT_SECONDS
        while not self._stop.is_set():
            for group in self._free():
                for number in group:
                    if number not in self._searched([number]) and self._left.claim(number, self._worker):
                        yield number, ""
                        wait = FIRST_WAIT_SECONDS
                break  # others have gone on
            else:
                left_over = self._open()
                if not left_over:
                    return
                if abandoned := self._abandoned(left_over):
                    yield abandoned
                else:
                    self._meanwhile()
                    self._stop.wait(wait)
                    wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _open(self) -> dict[int, int]:
        """Number of claims of the claimed cells without a result."""
        claims, finished = self._left.claims(), self._left.finished_numbers()
        return {number: count for number, count in claims.items() if number not in finished}

    def _free(self) -> list[list[int]]:
        """Unclaimed cells by their data: first the data that no worker has begun, in another order for each worker."""
        known = {*self._left.claims(), *self._left.finished_numbers()}
        free = [(group, [number for number in group if number not in known]) for group in self._groups.values()]
        searched = self._searched([number for _, rest in free for number in rest])
        free = [(group, [number for number in rest if number not in searched]) for group, rest in free]
        untouched = [rest for group, rest in free if len(rest) == len(group)]
        begun = [rest for group, rest in free if 0 < len(rest) < len(group)]
        turn = int(self._worker) % max(1, len(untouched))
        return untouched[turn:] + untouched[:turn] + [rest[-1:] for rest in sorted(begun, key=len, reverse=True)]

    def _searched(self, numbers: Sequence[int]) -> set[int]:
        """Numbers of the cells whose search another cell is running, so that its end is noticed."""
        shared = {number for number in numbers if self._searches[self._cells[number].search] > 1}
        if not shared:
            return set()
        going_on = {self._cells[number].search for number in self._open()}
        return {number for number in shared if self._cells[number].search in going_on}

    def _abandoned(self, claimed: Mapping[int, int]) -> tuple[int, str] | None:
        for number, claims in claimed.items():
            if self._left.seems_dead(self._left.holder(number, claims)):
                if claims >= MOST_LOST:
                    return number, f"{claims} workers were lost while they ran it, {_for_memory()}"
                if self._left.claim(number, self._worker, claims):
                    return number, ""
        return None


class _Processes:
    """Does the work of cells, one process after another."""

    def __init__(
        self, run: Callable[[CellProcess], None], stop: threading.Event, meanwhile: Callable[[], None]
    ) -> None:
        self._run = run
        self._stop = stop
        self._meanwhile = meanwhile
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(PRELOADED))

    def finish(self, told: CellProcess) -> None:
        """Return when the cell has a result or a failure, or when the worker must stop."""
        died: list[str] = []
        for restart in range(RESTARTS + 1):
            is_last = restart == RESTARTS or not in_container()
            code = self._ended(replace(told, is_last=is_last))
            if code == 0 or self._stop.is_set():
                return
            died.append(_way(code))
            if code not in AGAIN:
                break
            if restart < RESTARTS:
                self._stop.wait(WAITS_SECONDS[restart])
        reason = f"its process {' or '.join(dict.fromkeys(died))}{' each time' if len(died) > 1 else ''}"
        if _way(-signal.SIGKILL) in died:
            reason += f", {_for_memory()}"
        if self._ended(replace(told, failure=reason)) and not self._stop.is_set():
            raise EaseError(f"{told.cell.name}: {reason}; and this could not be saved in {told.place}")

    def _ended(self, told: CellProcess) -> int:
        """The exit code of a process, negative for a signal."""
        process = self._context.Process(target=_process, args=(self._run, told))
        end = time.monotonic() + CELL_SECONDS
        took_too_long = False
        try:
            with _processes:
                process.start()
        except (EOFError, OSError):  # the process that it is forked from has died; the next start makes another one
            return LOST
        try:
            while not (connection.wait([process.sentinel], LOOK_SECONDS) or self._stop.is_set() or took_too_long):
                self._meanwhile()
                took_too_long = time.monotonic() > end
        finally:
            with _processes:
                if process.is_alive():
                    process.kill()  # its journal survives it
                process.join()
        return -signal.SIGALRM if took_too_long else process.exitcode or 0


def _process(run: Callable[[CellProcess], None], told: CellProcess) -> None:
    """Work of the process of a cell."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    take_environment(told.environment)
    tempfile.tempdir = None  # that of the environment
    run(told)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(EXIT_STOPPED)


def _way(code: int) -> str:
    if code == LOST:
        return "was lost with the one that it was forked from"
    if code == -signal.SIGALRM:
        return f"took more than {CELL_SECONDS / 3600:.0f} h"
    if code == EXIT_STOPPED:
        return "failed for a reason that may be temporary"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _for_memory() -> str:
    more = "give run_cells more of it" if in_container() else "use fewer --workers, or a machine with more of it"
    return f"perhaps for lack of memory: {more}"


class _Folders:
    """A folder for the artifacts of cells on the same data; the folder of the previous data is removed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._data: object = None
        self._count = 0

    def of(self, cell: Cell) -> Path:
        if cell.data_and_endpoint != self._data:
            self._data = cell.data_and_endpoint
            if self._count:
                shutil.rmtree(self._root / str(self._count), ignore_errors=True)
            self._count += 1
        return self._root / str(self._count)


@contextmanager
def _alive(left: ComparisonStore, worker: str) -> Iterator[None]:
    """Send the worker's signs of life while the context is open; a failing store is noticed by the work itself."""
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(BEAT_SECONDS):
            with suppress(EaseError):
                left.live(worker)

    left.live(worker)
    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


class _Progress:
    """Progress of the comparison, in a line."""

    def __init__(self, plan: ComparisonPlan, left: ComparisonStore, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._left = left
        self._say = say
        self._said = ""
        self._began = self._told_at = time.monotonic()
        self._before = len(left.finished())

    def now_and_then(self) -> None:
        if time.monotonic() > self._told_at + PROGRESS_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._told_at = time.monotonic()
        line = progress_line(
            self._plan, self._left.finished(), before=self._before, seconds=self._told_at - self._began
        )
        if line != self._said:
            self._said = line
            self._say(line)


def progress_line(plan: ComparisonPlan, finished: Mapping[int, Finished], *, before: int, seconds: float) -> str:
    """`12 of 30 cells, 2 failed; 41 000 of 96 000 requests; since 01:50 UTC; to go about 18 min`.

    Args:
        before, seconds: cells finished when watching began, and how long ago that was.
    """
    done, total = len(finished), len(plan.cells)
    failed = sum(bool(cell.failure) for cell in finished.values())
    requests = sum(cell.requests for cell in finished.values())
    started = plan.started.astimezone()
    day = f"{started:%d %b} " if (datetime.now(UTC) - plan.started).days else ""
    parts = [
        f"{done} of {total} cells{f', {failed} failed' if failed else ''}",
        f"{grouped(requests)} of {grouped(plan.requests)} requests",
        f"since {day}{started:%H:%M %Z}",
    ]
    if before < done < total:
        parts.append(f"to go about {duration(seconds * (total - done) / (done - before))}")
    return "; ".join(parts)
