"""DPP, MMD, OT: choose one set of exemplars by embeddings alone, and evaluate it once (baselines of the paper).

Of q sampled sequences S, with unit-length embeddings e of the exemplars and v of the validation set V:

    dpp   largest    mean_v sum_i cos(e_i, v) / 0.05 + log det K_S,  K_S = cosines within S     relevant and diverse
    mmd   smallest   || mean_i e_i - mean_v v ||^2                                               Gretton et al., 2012
    ot    smallest   optimal-transport cost of S to V (`search/candidates/optimal_transport.py`)

DPP: Ye et al., 2023 ("Compositional exemplars", CEIL), with the mean over V in the place of one query's cosine. CEIL
halves cosine + 1 and searches greedily; the paper takes cosines and random sets, and so do we. None of the three knows
the order of a sequence: it is that of the sample.

Differences from the authors' code: it keeps the set with the *smallest* DPP value, the worst by its own measure; it
samples q sets 165 times over to evaluate one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.optimal_transport import shortlist
from ease_lib.search.optimizers.history import Candidate, Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.seeding import rng

RELEVANCE_SCALE = 0.05
"""CEIL's weight of relevance against diversity."""
LEAST_DETERMINANT = 1e-10
"""Added to the determinant, so that repeated exemplars are bad and not impossible (the authors' code)."""
BLOCK = 4096

Choice = Callable[[NDArray[np.integer], Problem], int]
"""The position of the best of (q, k) sequences."""


class OneSubset:
    """Proposes the best of `sampled_candidates` sequences by a `Choice`, and nothing more."""

    def __init__(self, problem: Problem, choose: Choice, *, sampled_candidates: int) -> None:
        self._problem = problem
        self._choose = choose
        self._sampled_candidates = sampled_candidates

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if iteration:
            return None
        sampled = self._problem.space.sample(rng(self._problem.seed, "ask", iteration), self._sampled_candidates)
        best = sampled[self._choose(sampled, self._problem)]
        return Candidate(sequence=tuple(best.tolist()), phase="search")

    def tell(self, observation: Observation) -> None:
        """There is nothing to learn for a second proposal."""

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return False


def choose_by_dpp(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(np.argmax(dpp_values(sequences, problem)))


def choose_by_mmd(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(np.argmin(squared_mmd(sequences, problem)))


def choose_by_ot(sequences: NDArray[np.integer], problem: Problem) -> int:
    return int(shortlist(sequences, problem.cost, 1).positions[0])


def dpp_values(sequences: NDArray[np.integer], problem: Problem) -> NDArray[np.float64]:
    """(q,) relevance and diversity of each sequence; larger is better."""
    relevance = problem.relevance
    values = np.empty(len(sequences))
    for start in range(0, len(sequences), BLOCK):
        block = sequences[start : start + BLOCK]
        chosen = problem.pool[block].astype(np.float64)
        determinants = np.linalg.det(chosen @ chosen.transpose(0, 2, 1))
        diversity = np.log(np.maximum(determinants, 0.0) + LEAST_DETERMINANT)
        values[start : start + BLOCK] = relevance[block].sum(axis=1) / RELEVANCE_SCALE + diversity
    return values


def squared_mmd(sequences: NDArray[np.integer], problem: Problem) -> NDArray[np.float64]:
    """(q,) squared maximum mean discrepancy, linear kernel, of each sequence to the validation set."""
    centre = problem.validation.astype(np.float64).mean(axis=0)
    values = np.empty(len(sequences))
    for start in range(0, len(sequences), BLOCK):
        means = problem.pool[sequences[start : start + BLOCK]].astype(np.float64).mean(axis=1)
        values[start : start + BLOCK] = np.square(means - centre).sum(axis=1)
    return values
