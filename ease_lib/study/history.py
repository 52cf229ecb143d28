"""Candidates, observations, and the history of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ease_lib.candidates.sampling import Sequence

Phase = Literal["initial", "search"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A sequence proposed for evaluation, by positions in the pool; `acquisition` is the value that chose it."""

    sequence: Sequence
    phase: Phase
    acquisition: float | None = None


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A candidate and its score in [0, 1], the mean over `validation_rows` rows."""

    candidate: Candidate
    score: float
    validation_rows: int


@dataclass
class History:
    """All observations in order.

    The incumbent is replaced by a strictly better score only: ties keep the earlier one.
    """

    observations: list[Observation] = field(default_factory=list)
    incumbent: Observation | None = None
    seen: set[Sequence] = field(default_factory=set)

    def add(self, observation: Observation) -> None:
        self.observations.append(observation)
        self.seen.add(observation.candidate.sequence)
        if self.incumbent is None or observation.score > self.incumbent.score:
            self.incumbent = observation

    def __len__(self) -> int:
        return len(self.observations)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    @property
    def sequences(self) -> NDArray[np.int64]:
        """(t, k) positions in the pool."""
        return np.array([observation.candidate.sequence for observation in self.observations], dtype=np.int64)

    @property
    def scores(self) -> NDArray[np.float64]:
        """(t,) scores."""
        return np.array([observation.score for observation in self.observations])
