"""Cosine and BM25: random sequences of the exemplars most similar to the validation set (baselines of the paper).

The R = 10 exemplars with the largest mean similarity to the validation set (cosine of embeddings, or BM25 of inputs)
are kept, and as many random sequences of them as the budget allows are evaluated.

Differences from the authors' code: every exemplar of the pool is scored (theirs leaves the last n mod 100 out), and no
sequence is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem


class Retrieval:
    """Random sequences of the `nearest` exemplars.

    Args:
        nearest: R, at least k.
        similarity: (n,) of each exemplar to the validation set; equal ones are taken in the order of the pool.
    """

    def __init__(self, problem: Problem, similarity: NDArray[np.floating], *, nearest: int) -> None:
        self._seed = problem.seed
        kept = np.argsort(-similarity, kind="stable")[:nearest]
        self._kept = [int(position) for position in kept]
        self._place = {position: place for place, position in enumerate(self._kept)}
        self._space = SequenceSpace(len(self._kept), problem.space.k)
        self._history = History()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        proposed = self._history.proposed(pending)
        places = {tuple(self._place[position] for position in sequence) for sequence in proposed}
        drawn = self._space.draw(self._seed, iteration, places)
        if drawn is None:
            return None
        return Candidate(sequence=tuple(self._kept[place] for place in drawn), phase="search")

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False
