"""A bounded random sample of rows that are read one by one: the same for the same seed on every machine.

Each row draws a number by its position; those with the smallest stay (bottom-k sampling). So rows need not be counted
beforehand, and a sample that is cut further, because its texts are long, is a random sample still.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Row

LARGEST_SAMPLE = 100_000
"""Number of rows of a file that are kept to draw from, unless a run needs more than a tenth of them."""
ROWS_PER_ROW_NEEDED = 10
KEPT_BYTES = 2**30
"""Bytes of rows kept in memory, of the 4 GiB that the stage has: splits, labels and files of the pool take as much
again."""
ROW_BYTES = 400
"""Bytes of a row in addition to its texts: objects, and its places in lists."""
DRAWN_AT_ONCE = 65536


@dataclass(frozen=True)
class Limit:
    """Limit on the part of a file that is kept.

    Args:
        rows: at most; None keeps every row, or none of them: what does not fit is an error.
        memory: bytes, at most.
    """

    seed: int
    rows: int | None
    memory: int = KEPT_BYTES


class Sample:
    """Rows within a limit.

    Args:
        name: of the file, for its own draws and for errors.
    """

    def __init__(self, limit: Limit, name: str) -> None:
        self._limit = limit
        self._name = name
        self._numbers = rng(limit.seed, "sample", name)
        self._drawn = np.empty(0)
        self._kept: list[tuple[float, int, Row]] = []
        self._memory = 0
        self._bound = -np.inf
        self.seen = 0

    def wants_next(self) -> bool:
        """Count the next row of the file; return whether it should be added."""
        place = self.seen % DRAWN_AT_ONCE
        if place == 0:
            self._drawn = -self._numbers.random(DRAWN_AT_ONCE)
        self.seen += 1
        return bool(self._drawn[place] > self._bound)

    def add(self, row: Row) -> None:
        """Keep the row that was counted last.

        Raises:
            DataError: when every row is wanted and this one does not fit any more.
        """
        number = float(self._drawn[(self.seen - 1) % DRAWN_AT_ONCE])
        heapq.heappush(self._kept, (number, self.seen, row))
        self._memory += _memory(row)
        if self._limit.rows is None and self._memory > self._limit.memory:
            raise DataError(
                f"{self._name}: pool_size=0 takes all rows, but after {self.seen} they need more than the "
                f"{self._limit.memory / 2**30:.3g} GiB of memory available for them; set pool_size, which draws from "
                "all rows, or use a smaller file"
            )
        while self._is_over():
            self._bound, _, dropped = heapq.heappop(self._kept)
            self._memory -= _memory(dropped)

    def _is_over(self) -> bool:
        rows = self._limit.rows
        return rows is not None and (len(self._kept) > rows or self._memory > self._limit.memory)

    def __len__(self) -> int:
        return len(self._kept)

    def rows(self) -> list[Row]:
        """Rows kept, in the order of the file."""
        return [row for _, _, row in sorted(self._kept, key=lambda entry: entry[1])]


def _memory(row: Row) -> int:
    """Estimated size in bytes; texts beyond ASCII take up to four times their length."""
    return ROW_BYTES + sum(len(text) if text.isascii() else 4 * len(text) for text in (row.input, *row.outputs))
