"""The interface of every search method, and the problem it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ease_lib.candidates.sampling import SequenceSpace
from ease_lib.embeddings import Representation
from ease_lib.seeding import rng
from ease_lib.study.history import Candidate, History, Observation


class ExemplarOptimizer(Protocol):
    """Proposes candidates and learns from their scores. Knows no files, no LLM, no budget.

    `ask` is a pure function of what was told, of its settings and of `rng(seed, "ask", iteration)`: replaying the
    `tell`s of a history restores an optimizer completely.
    """

    def ask(self, iteration: int) -> Candidate | None:
        """The next candidate, never one already told; None when there is nothing more to propose."""
        ...

    def tell(self, observation: Observation) -> None:
        """Learn a score."""
        ...


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a search method may know: how many exemplars, their representation, their distance to the validation set.

    Args:
        representation: features of sequences, for the surrogate.
        cost: (n, m) distance 1 - cos of exemplar i to validation row j.
    """

    space: SequenceSpace
    representation: Representation
    cost: NDArray[np.floating]
    seed: int


def ask_random(space: SequenceSpace, history: History, seed: int, iteration: int) -> Candidate | None:
    """A random sequence not yet observed: the initial design of every method, and all of Best-of-N."""
    sequence = space.sample_unseen(rng(seed, "ask", iteration), history.seen)
    return None if sequence is None else Candidate(sequence=sequence, phase="initial")
