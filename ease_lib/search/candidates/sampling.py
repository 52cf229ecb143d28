"""Random ordered sequences of k distinct exemplars out of n, or of a range of lengths.

In arrays every sequence is a row of k positions in the pool; a shorter one is filled up with `PADDING` at its end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import IntArray
from ease_lib.errors import ConfigError
from ease_lib.seeding import rng

Positions = tuple[int, ...]

PADDING = -1

LISTABLE_SEQUENCES = 20_000
"""Spaces up to this size are enumerated to find the last unseen sequences."""
REJECTION_TRIES = 1_000
REDRAWS = 100
"""Number of redraws for a sequence with too many tokens."""


@dataclass(frozen=True)
class SequenceSpace:
    """All ordered sequences of `k` out of `n` exemplars, given by their positions in the pool.

    Args:
        k_min: the shortest length, 0 for none at all; None is k.
        tokens: (n,) prompt tokens of each exemplar; None is no limit.
        most_tokens: of a sequence.

    Raises:
        ConfigError: when k exceeds n.
    """

    n: int
    k: int
    k_min: int | None = None
    tokens: IntArray | None = field(default=None, compare=False)
    most_tokens: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise ConfigError(
                f"k={self.k} exceeds the pool's {self.n} exemplars; lower k or raise pool_size or retained"
            )
        if self.k_min is not None and not 0 <= self.k_min <= self.k:
            raise ValueError(f"k_min={self.k_min} must be between 0 and k={self.k}, or None")

    @property
    def lengths(self) -> range:
        return range(self.k if self.k_min is None else self.k_min, self.k + 1)

    def allows(self, rows: IntArray) -> NDArray[np.bool_]:
        """(b,) mask of the sequences within the token limit."""
        if self.tokens is None:
            return np.ones(len(rows), dtype=bool)
        sums = np.where(rows == PADDING, 0, self.tokens[rows]).sum(axis=1)
        return np.asarray(sums <= self.most_tokens)

    @property
    def size(self) -> int:
        """Sum of n! / (n - k)! over the lengths."""
        return sum(math.perm(self.n, length) for length in self.lengths)

    def sample(self, generator: np.random.Generator, count: int) -> IntArray:
        """(count, k) sequences, independent of each other, every length as likely as another.

        Memory is O(count * k) unless k is close to n. Fewer than `count` where hardly any keeps the limit of tokens.
        """
        sequences = self._sample_any(generator, count)
        for _ in range(REDRAWS):
            excess = np.flatnonzero(~self.allows(sequences))
            if not len(excess):
                return sequences
            sequences[excess] = self._sample_any(generator, len(excess))
        return sequences[self.allows(sequences)]

    def _sample_any(self, generator: np.random.Generator, count: int) -> IntArray:
        sequences = self._sample_longest(generator, count)
        if len(self.lengths) > 1:
            lengths = generator.integers(self.lengths.start, self.lengths.stop, size=count)
            sequences[np.arange(self.k) >= lengths[:, None]] = PADDING
        return sequences

    def _sample_longest(self, generator: np.random.Generator, count: int) -> IntArray:
        if self.k * self.k > 2 * self.n:  # few draws would be free of repetitions: shuffle whole pools instead
            return self._sample_by_shuffling(generator, count)
        sequences = generator.integers(self.n, size=(count, self.k))
        repeated = _rows_with_repetition(sequences)
        while len(repeated):
            sequences[repeated] = generator.integers(self.n, size=(len(repeated), self.k))
            repeated = repeated[_rows_with_repetition(sequences[repeated])]
        return sequences

    def sample_unseen(self, generator: np.random.Generator, seen: Collection[Positions]) -> Positions | None:
        """One sequence that is not in `seen`, as `sample` draws; None when there is none left."""
        for _ in range(REJECTION_TRIES):
            for sequence in as_tuples(self.sample(generator, 1)):
                if sequence not in seen:
                    return sequence
        if self.size > LISTABLE_SEQUENCES:
            return None
        unseen = [sequence for sequence in self._all() if sequence not in seen]
        return unseen[int(generator.integers(len(unseen)))] if unseen else None

    def draw(self, seed: int, iteration: int, seen: Collection[Positions]) -> Positions | None:
        """The random sequence of an iteration: the same for every method, unless it is in `seen`."""
        return self.sample_unseen(rng(seed, "ask", iteration), seen)

    def _all(self) -> Iterator[Positions]:
        for length in self.lengths:
            for sequence in itertools.permutations(range(self.n), length):
                if self.tokens is None or sum(self.tokens[list(sequence)]) <= self.most_tokens:
                    yield sequence

    def _sample_by_shuffling(self, generator: np.random.Generator, count: int) -> IntArray:
        sequences = np.empty((count, self.k), dtype=np.int64)
        rows = max(1, 2**22 // self.n)
        for start in range(0, count, rows):
            chunk = sequences[start : start + rows]
            pools = np.tile(np.arange(self.n), (len(chunk), 1))
            chunk[:] = generator.permuted(pools, axis=1)[:, : self.k]
        return sequences


def as_tuples(rows: IntArray) -> list[Positions]:
    """The sequences of an array, without padding."""
    return [tuple(position for position in row if position != PADDING) for row in rows.tolist()]


def as_rows(sequences: Iterable[Positions], k: int) -> NDArray[np.int64]:
    """(t, k) array of sequences of at most k exemplars."""
    filled = [[*sequence, *[PADDING] * (k - len(sequence))] for sequence in sequences]
    return np.array(filled, dtype=np.int64).reshape(len(filled), k)


def lengths_of(rows: IntArray) -> NDArray[np.int64]:
    """(b,) number of exemplars of each sequence."""
    return np.asarray((rows != PADDING).sum(axis=1))


def among(rows: IntArray, sequences: Collection[Positions]) -> NDArray[np.bool_]:
    """(b,) mask of the rows that are one of the sequences."""
    multipliers = rng(0, "sequence hash").integers(1, 2**62, size=rows.shape[1])  # sums wrap around
    sought = as_rows((sequence for sequence in sequences if len(sequence) <= rows.shape[1]), rows.shape[1])
    found = np.isin(rows @ multipliers, sought @ multipliers)
    for index in np.flatnonzero(found):  # equal hashes need not be equal rows
        found[index] = as_tuples(rows[index : index + 1])[0] in sequences
    return found


def _rows_with_repetition(sequences: IntArray) -> NDArray[np.intp]:
    ordered = np.sort(sequences, axis=1)
    return np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
