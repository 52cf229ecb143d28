"""Influence: how much better sequences score with an exemplar than without it (baseline of the paper).

    I(e) = mean score of the sequences with e - mean score of those without,   0 where one of the two means is empty

(Nguyen & Wong, 2023). All evaluations but the last are random sequences; the last one is the k most influential
exemplars, in ascending order, so that the best stands next to the query. The incumbent is the best of all.

Differences from the authors' code: theirs evaluates the chosen sequence beyond the budget, and reports it even when a
random one was better. From Nguyen & Wong: no label balance within a sequence, which open-ended tasks do not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random


class Influence:
    """Random sequences, then the most influential exemplars.

    Args:
        evaluations: of the whole search (T); the last is the chosen sequence.
    """

    def __init__(self, problem: Problem, *, evaluations: int) -> None:
        self._problem = problem
        self._evaluations = evaluations
        self._history = History()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if iteration == self._evaluations - 1 and len(self._history):
            space = self._problem.space
            values = influences(self._history.sequences, self._history.scores, space.n)
            best = np.argsort(-values, kind="stable")[: space.k][::-1]
            chosen = tuple(int(position) for position in best)
            if chosen not in self._history.proposed(pending):
                return Candidate(sequence=chosen, phase="search")
        return ask_random(self._problem, self._history, iteration, pending)

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return iteration == self._evaluations - 1


def influences(sequences: NDArray[np.integer], scores: NDArray[np.floating], n: int) -> NDArray[np.float64]:
    """(n,) influence of each exemplar.

    Args:
        sequences: (t, k) positions in a pool of n; scores: (t,).
    """
    member = np.zeros((len(sequences), n), dtype=bool)
    np.put_along_axis(member, sequences, True, axis=1)
    times = member.sum(axis=0)
    total = scores @ member
    with_it = np.divide(total, times, out=np.zeros(n), where=times > 0)
    rest = len(sequences) - times
    without = np.divide(scores.sum() - total, rest, out=np.zeros(n), where=rest > 0)
    return np.where((times > 0) & (rest > 0), with_it - without, 0.0)
