"""Candidate prompts as arrays: sequences, each with the instruction before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.sampling import PADDING, as_rows, as_tuples

Prompt = tuple[int, tuple[int, ...]]
"""Position of the instruction, and the sequence."""
PROMPTS_PER_BLOCK = 4096


@dataclass(frozen=True)
class Prompts:
    """Sequences (b, k), shorter ones filled up with `PADDING` at their end, and instructions (b,)."""

    sequences: NDArray[np.integer]
    instructions: NDArray[np.integer]

    @classmethod
    def of(cls, prompts: Collection[Prompt], k: int) -> Prompts:
        return cls(
            as_rows((sequence for _, sequence in prompts), k),
            np.array([instruction for instruction, _ in prompts], dtype=np.int64),
        )

    @classmethod
    def paired(cls, sequences: NDArray[np.integer], instructions: NDArray[np.integer]) -> Prompts:
        """Every sequence with every instruction."""
        return cls(np.repeat(sequences, len(instructions), axis=0), np.tile(instructions, len(sequences)))

    def without(self, proposed: Collection[Prompt]) -> Prompts:
        new = [prompt not in proposed for prompt in self.tuples()]
        return Prompts(self.sequences[new], self.instructions[new])

    def blocks(self) -> Iterator[Prompts]:
        """Iterate over parts whose features fit into memory."""
        for start in range(0, len(self), PROMPTS_PER_BLOCK):
            part = slice(start, start + PROMPTS_PER_BLOCK)
            yield Prompts(self.sequences[part], self.instructions[part])

    def tuples(self) -> list[Prompt]:
        return list(zip(self.instructions.tolist(), as_tuples(self.sequences), strict=True))

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """(b, k) mask of the places with an exemplar."""
        return np.asarray(self.sequences != PADDING)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(b,) number of exemplars."""
        return np.asarray(self.present.sum(axis=1), dtype=np.int64)

    @cached_property
    def from_end(self) -> NDArray[np.int64]:
        """(b, k) exemplars that follow; meaningless if there is none."""
        return np.asarray(np.maximum(self.lengths[:, None] - 1 - np.arange(self.sequences.shape[1]), 0))

    def reversed(self) -> NDArray[np.int64]:
        """(b, k) exemplars, the last one first; `PADDING` behind the first one."""
        places = self.lengths[:, None] - 1 - np.arange(self.sequences.shape[1])
        found = np.take_along_axis(self.sequences.astype(np.int64), self.from_end, axis=1)
        return np.where(places >= 0, found, PADDING)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Prompts:
        return Prompts(self.sequences[chosen], self.instructions[chosen])
