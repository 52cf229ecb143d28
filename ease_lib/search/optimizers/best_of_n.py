"""Best-of-N: random sequences, the best one wins (baseline of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random


class BestOfN:
    """Draws every sequence at random; never draws one twice."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._history = History()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        return ask_random(self._problem, self._history, iteration, pending)

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False
