"""Candidates, observations, and the history of a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.candidates.sampling import Positions, as_rows

Phase = Literal["initial", "search", "confirmation"]
"""Phases of evaluations. The last one is for methods that choose rows: its answers select only the winner."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A sequence proposed for evaluation, by positions in the pool; `acquisition` is the value that chose it.

    `instruction`: its position among the instructions; 0 is the empty one. `rows`: positions of the validation rows on
    which it is evaluated: those that a method chose which chooses rows, and else those that the search loop says.
    """

    sequence: Positions
    phase: Phase
    acquisition: float | None = None
    instruction: int = 0
    rows: tuple[int, ...] = ()

    @property
    def prompt(self) -> Prompt:
        return self.instruction, self.sequence


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A candidate and its score in [0, 1], the mean over `validation_rows` rows.

    `failed_rows`: rows that the endpoint refused; they are among the `validation_rows` only where they count as wrong.
    `rows`: positions of those that were asked, in order, and `scores`: of each, None if it was refused and left out.
    """

    candidate: Candidate
    score: float
    validation_rows: int
    failed_rows: int = 0
    rows: tuple[int, ...] = ()
    scores: tuple[float | None, ...] = ()


class Proposed(Collection[Positions]):
    """Union of two sets without copying the larger one, because a long search needs it in every iteration."""

    def __init__(self, seen: set[Positions], coming: set[Positions]) -> None:
        self._seen = seen
        self._coming = coming - seen

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._seen or sequence in self._coming

    def __iter__(self) -> Iterator[Positions]:
        yield from self._seen
        yield from self._coming

    def __len__(self) -> int:
        return len(self._seen) + len(self._coming)


@dataclass
class History:
    """All observations in order.

    The incumbent is replaced by a strictly better score only, so that ties keep the earlier one, unless the latest of
    them is wanted, as in the authors' code (the paper leaves it open). Methods that choose rows have none; they say
    themselves which prompt they recommend (`search/optimizers/problem.py`).

    Args:
        comparable: scores are of the same rows, so that one can be better than another.
        latest_of_equals: an equal score replaces the incumbent too.
    """

    comparable: bool = True
    latest_of_equals: bool = False

    observations: list[Observation] = field(default_factory=list)
    incumbent: Observation | None = None
    seen: set[Prompt] = field(default_factory=set)
    _seen_with: dict[int, set[Positions]] = field(default_factory=dict, repr=False, compare=False)

    def add(self, observation: Observation) -> None:
        self.observations.append(observation)
        candidate = observation.candidate
        self.seen.add(candidate.prompt)
        self._seen_with.setdefault(candidate.instruction, set()).add(candidate.sequence)
        if self.comparable and self._is_incumbent(observation.score):
            self.incumbent = observation

    def _is_incumbent(self, score: float) -> bool:
        best = self.incumbent.score if self.incumbent else None
        return best is None or score > best or (self.latest_of_equals and score == best)

    def proposed(self, pending: Iterable[Candidate], instruction: int = 0) -> Proposed:
        """Sequences that must not be proposed again with this instruction: observed, or being evaluated."""
        coming = {candidate.sequence for candidate in pending if candidate.instruction == instruction}
        return Proposed(self._seen_with.get(instruction, set()), coming)

    def __len__(self) -> int:
        return len(self.observations)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    @property
    def sequences(self) -> NDArray[np.int64]:
        """(t, k) positions in the pool, k the length of the longest."""
        sequences = [observation.candidate.sequence for observation in self.observations]
        return as_rows(sequences, max(map(len, sequences), default=0))

    @property
    def instructions(self) -> NDArray[np.int64]:
        """(t,) positions among the instructions."""
        return np.array([observation.candidate.instruction for observation in self.observations], dtype=np.int64)

    @property
    def scores(self) -> NDArray[np.float64]:
        """(t,) scores."""
        return np.array([observation.score for observation in self.observations])
