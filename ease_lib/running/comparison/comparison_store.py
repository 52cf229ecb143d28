"""Files that workers of a comparison leave for each other and the report: plan, claims, signs of life, results.

plan.json               the cells in the order of the tables, and when the comparison began
claims/00012-0          the worker that runs the cell of that number; -1: who took it over from that one, and so on
workers/3               changes as long as worker 3 is alive
results/00012-5f3a....  the result of a cell, from each attempt at it one of its own
finished/00012.json     which result counts, what it says in short, and the link to its record

A claim is a conditional write, so of several workers one gets the cell. A worker that waits for another checks whether
that one's sign of life changes: no clocks are compared. Two workers at one cell, where one seemed to be dead, cost
requests and nothing else: a failure never replaces a result, and a result no other result.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import PATIENCE_SECONDS, Store, joined, open_store, read_all
from ease_lib.config.comparison import Cell
from ease_lib.errors import StoreError
from ease_lib.running.stage import FileIn

PLAN, CLAIMS, WORKERS, RESULTS, FINISHED = "plan.json", "claims", "workers", "results", "finished"
BEAT_SECONDS = 30.0
"""Seconds between two signs of life of a worker."""
STILL_SECONDS = 150.0
"""Time without a sign of life after which other workers consider a worker dead."""
MOST_LOST = 2
"""Number of workers that may die of a cell; after that it counts as failed, because other cells need workers."""


def place_of(store_uri: str, run_id: str) -> str:
    """Place for the shared files of a comparison's workers, by the run's id, so that a retry finds it again."""
    return joined(store_uri, "comparisons", run_id)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A cell that has a result.

    Args:
        name: what people call the cell.
        score: of its winner on test rows.
        failure: why it has none.
        kept: whether an earlier comparison had the result already.
        requests: as if it had been run alone.
        result: name of the file with the whole result, in the store of the comparison.
        metadata: the link to its record.
    """

    name: str
    score: float | None
    failure: str
    kept: bool
    requests: int
    result: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """`customer_feedback, ease, repeat 3: 0.91`."""
        said = f"FAILED: {self.failure}" if self.failure else f"{self.score:.2f}"
        return f"{self.name}: {said}{' (finished before)' if self.kept else ''}"


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """The cells of a comparison, in the order of the tables, its start, and its maximum number of requests."""

    cells: Sequence[Cell]
    started: datetime
    requests: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ComparisonPlan:
        """Read a plan from a document under `COMPARISON_PLAN`."""
        return cls(
            cells=[Cell.of(each) for each in document["cells"]],
            started=datetime.fromisoformat(document["started"]),
            requests=int(document["requests"]),
        )


class ComparisonStore:
    """Store of one comparison.

    Args:
        store: there.
        clock: seconds, for how long a worker gave no sign of life.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self._clock = clock
        self._finished: dict[int, Finished] = {}
        self._alive: dict[str, tuple[bytes | None, float, float]] = {}

    @classmethod
    def at(cls, place: str) -> ComparisonStore:
        """Open the store at a place that `place_of` returned; waits for a store that cannot be reached."""
        return cls(open_store(place, patience_seconds=PATIENCE_SECONDS))

    def keep_plan(self, document: Mapping[str, Any]) -> None:
        """Keep a document under `COMPARISON_PLAN`; that of an earlier attempt stays."""
        self.store.create(PLAN, json.dumps(document).encode())

    def plan(self) -> ComparisonPlan:
        """
        Raises:
            StoreError: when there is none.
        """
        content = self.store.read(PLAN)
        if content is None:
            raise StoreError(
                f"{self.store.address(PLAN)}, the plan of this comparison, is not there; start it again with a "
                "store_uri that all pods can reach"
            )
        return ComparisonPlan.of(json.loads(content))

    def claims(self) -> dict[int, int]:
        """Number of claims of each cell, by its number; cells without a claim are missing."""
        found: dict[int, int] = {}
        for name in self.store.find_names(CLAIMS):
            number, _, earlier = name.partition("-")
            found[int(number)] = max(found.get(int(number), 0), int(earlier) + 1)
        return found

    def claim(self, number: int, worker: str, earlier: int = 0) -> bool:
        """Claim the cell; return whether this worker has it now.

        Args:
            earlier: how many had it before, all of them dead.
        """
        return self.store.create(_claim(number, earlier), worker.encode())

    def holder(self, number: int, claims: int) -> str:
        """The worker that has claimed the cell last.

        Args:
            claims: how often it was claimed.
        """
        return (self.store.read(_claim(number, claims - 1)) or b"").decode()

    def live(self, worker: str) -> None:
        """Give a sign of life."""
        self.store.write(f"{WORKERS}/{worker}", uuid.uuid4().hex.encode())

    def seems_dead(self, worker: str) -> bool:
        """Whether a worker gave no sign of life for `STILL_SECONDS`, during which this object watched it.

        Between two looks there is no more than `BEAT_SECONDS`; else this process may have been stopped with the other.
        """
        content, now = self.store.read(f"{WORKERS}/{worker}"), self._clock()
        before, since, looked = self._alive.get(worker, (None, now, now))
        if content != before or now - looked > BEAT_SECONDS:
            since = now
        self._alive[worker] = content, since, now
        return now - since > STILL_SECONDS

    def new_result(self, number: int, folder: Path) -> FileIn:
        """A local file for the result of a cell, and its address in the store; each attempt has its own."""
        name = f"{number:05}-{uuid.uuid4().hex[:12]}.json"
        return FileIn(str(folder / name), self.store.address(f"{RESULTS}/{name}"))

    def finish(self, number: int, name: str, result: FileIn, *, kept: bool = False) -> None:
        """Store the result of a cell, unless it has a better one.

        Args:
            name: the cell's.
            result: of `new_result`, a document under `COMPARISON_CELL`, with the link to its record; one that says why
                there is no result gives way to a result.
        """
        content = Path(result.path).read_bytes()
        measured = json.loads(content)
        entry = Finished(
            name=name,
            score=measured.get("test_score"),
            failure=measured["failure"],
            kept=kept,
            requests=measured.get("llm_requests", 0),
            result=f"{RESULTS}/{Path(result.path).name}",
            metadata=result.metadata,
        )
        self.store.write(entry.result, content)
        place, encoded = _finished(number), json.dumps(vars(entry)).encode()
        if self.store.create(place, encoded) or entry.failure:
            return
        before = self.store.read(place)
        if before and json.loads(before)["failure"]:
            self.store.swap(place, encoded, before)

    def finished_numbers(self) -> set[int]:
        """Numbers of all cells that have a result."""
        return {int(name.removesuffix(".json")) for name in self.store.find_names(FINISHED)}

    def finished(self) -> dict[int, Finished]:
        """All cells that have a result, by number."""
        missing = {_finished(number): number for number in self.finished_numbers() - self._finished.keys()}
        for name, content in read_all(self.store, missing).items():
            self._finished[missing[name]] = Finished(**json.loads(content or b"{}"))
        return self._finished

    def fetched(self, cells: Iterable[Finished], folder: Path) -> list[FileIn]:
        """The results of cells, as artifacts that were downloaded into a folder.

        Raises:
            StoreError: when one is gone, as after `ease forget`.
        """
        wanted = list(cells)
        contents = read_all(self.store, [cell.result for cell in wanted])
        found = []
        for cell in wanted:
            content = contents[cell.result]
            if content is None:
                raise StoreError(
                    f"{self.store.address(cell.result)}, the result of {cell.name}, is gone; submit the comparison "
                    "again; answers so far are reused"
                )
            path = folder / cell.result.rpartition("/")[2]
            path.write_bytes(content)
            found.append(FileIn(str(path), self.store.address(cell.result), dict(cell.metadata)))
        return found


def _claim(number: int, earlier: int) -> str:
    return f"{CLAIMS}/{number:05}-{earlier}"


def _finished(number: int) -> str:
    return f"{FINISHED}/{number:05}.json"
