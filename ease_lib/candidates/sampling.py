"""Uniform random ordered sequences of k distinct exemplars out of n."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ease_lib.seeding import rng

IntArray = NDArray[np.integer]
Sequence = tuple[int, ...]

LISTABLE_SEQUENCES = 20_000
"""Spaces up to this size are enumerated to find the last unseen sequences."""
REJECTION_TRIES = 1_000


@dataclass(frozen=True)
class SequenceSpace:
    """All ordered sequences of `k` out of `n` exemplars, given by their positions in the pool."""

    n: int
    k: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise ValueError(f"k={self.k} must be between 1 and the pool's {self.n} exemplars")

    @property
    def size(self) -> int:
        """n! / (n - k)!"""
        return math.perm(self.n, self.k)

    def sample(self, generator: np.random.Generator, count: int) -> IntArray:
        """(count, k) sequences, independent of each other; memory is O(count * k) unless k is close to n."""
        if self.k * self.k > 2 * self.n:  # few draws would be free of repetitions: shuffle whole pools instead
            return self._sample_by_shuffling(generator, count)
        sequences = generator.integers(self.n, size=(count, self.k))
        repeated = _rows_with_repetition(sequences)
        while len(repeated):
            sequences[repeated] = generator.integers(self.n, size=(len(repeated), self.k))
            repeated = repeated[_rows_with_repetition(sequences[repeated])]
        return sequences

    def sample_unseen(self, generator: np.random.Generator, seen: Collection[Sequence]) -> Sequence | None:
        """One sequence that is not in `seen`, uniformly; None when there is none left."""
        if self.size <= LISTABLE_SEQUENCES:
            unseen = [sequence for sequence in itertools.permutations(range(self.n), self.k) if sequence not in seen]
            return unseen[int(generator.integers(len(unseen)))] if unseen else None
        for _ in range(REJECTION_TRIES):
            sequence = tuple(self.sample(generator, 1)[0].tolist())
            if sequence not in seen:
                return sequence
        return None

    def draw(self, seed: int, iteration: int, seen: Collection[Sequence]) -> Sequence | None:
        """The random sequence of an iteration: the same for every method, unless it is in `seen`."""
        return self.sample_unseen(rng(seed, "ask", iteration), seen)

    def _sample_by_shuffling(self, generator: np.random.Generator, count: int) -> IntArray:
        sequences = np.empty((count, self.k), dtype=np.int64)
        rows = max(1, 2**22 // self.n)
        for start in range(0, count, rows):
            chunk = sequences[start : start + rows]
            pools = np.tile(np.arange(self.n), (len(chunk), 1))
            chunk[:] = generator.permuted(pools, axis=1)[:, : self.k]
        return sequences


def _rows_with_repetition(sequences: IntArray) -> NDArray[np.intp]:
    ordered = np.sort(sequences, axis=1)
    return np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
