"""EASE (Wu et al., NeurIPS 2024, Alg. 1): a network learns to predict scores, NeuralUCB chooses what to try next.

    for t = T_init .. T:
        train m(h(E)) on all observations
        sample q ordered sequences; keep the q' with the smallest OT distance to the validation set
        E_t = argmax over them of  m(h(E)) + nu * sigma(h(E))

Differences from the paper: a sequence already observed is not proposed again; scores that racing cut short weigh less;
several candidates can be asked for before their scores are told. Those pending count as observed for sigma, which
needs no score, and not for m, so the candidates of a batch spread out (GP-BUCB: Desautels, Krause & Burdick, 2014).
From the authors' code: see `candidates/optimal_transport.py` and `surrogate/neural_ucb.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ease_lib.candidates.optimal_transport import shortlist
from ease_lib.optimizers.base import Problem, ask_random
from ease_lib.seeding import derive_seed, rng
from ease_lib.study.history import Candidate, History, Observation
from ease_lib.surrogate.network import ScoreNetwork
from ease_lib.surrogate.neural_ucb import acquisition_values


class Ease:
    """Neural bandit over exemplar sequences.

    Args:
        initial_design: T_init, random sequences before the first training.
        sampled_candidates: q, sequences drawn per iteration.
        shortlist_size: q', those kept.
        shortlist_by_ot: keep those with the smallest transport cost; else the first ones (ablation "NeuralUCB alone").
        fixed_candidates: sequences sampled once for the whole search in the place of q anew (ablation); 0: anew.
        nu: exploration weight.
        ridge: lambda of NeuralUCB and of the weight decay.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        initial_design: int,
        sampled_candidates: int,
        shortlist_size: int,
        nu: float,
        ridge: float,
        shortlist_by_ot: bool = True,
        fixed_candidates: int = 0,
    ) -> None:
        self._problem = problem
        self._initial_design = initial_design
        self._sampled_candidates = sampled_candidates
        self._shortlist_size = shortlist_size
        self._shortlist_by_ot = shortlist_by_ot
        self._fixed_candidates = fixed_candidates
        self._nu = nu
        self._ridge = ridge
        self._history = History()
        self._trained: tuple[int, ScoreNetwork] | None = None
        self._shortlists: dict[int, np.ndarray] = {}

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if iteration < self._initial_design or not len(self._history):
            return ask_random(self._problem, self._history, iteration, pending)
        candidates = self._unseen_shortlist(iteration, pending)
        if not len(candidates):
            return None
        represent = self._problem.representation
        values = acquisition_values(
            self._network(),
            represent(self._with_pending(pending)),
            represent(candidates),
            trust=np.append(self._trust(), np.ones(len(pending))),
            nu=self._nu,
            ridge=self._ridge,
        )
        best = int(np.argmax(values))
        return Candidate(sequence=tuple(candidates[best].tolist()), phase="search", acquisition=float(values[best]))

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def prepare(self, iterations: range, pending: Sequence[Candidate]) -> None:
        """Shortlists, which depend on no score."""
        observed = self._history.proposed(pending)
        self._shortlists = {
            iteration: self._shortlist(iteration, observed)
            for iteration in iterations
            if iteration >= self._initial_design
        }

    def _unseen_shortlist(self, iteration: int, pending: Sequence[Candidate]) -> np.ndarray:
        """(<= q', k) sequences most like the validation set among q sampled ones that are not proposed yet."""
        shortlisted = self._shortlists.pop(iteration, None)
        if shortlisted is None:
            shortlisted = self._shortlist(iteration, self._history.seen)
        unseen = _without(shortlisted, {candidate.sequence for candidate in pending})
        if len(unseen):
            return unseen
        rest = ask_random(self._problem, self._history, iteration, pending)  # almost everything is observed
        return np.array([] if rest is None else [rest.sequence], dtype=np.int64)

    def _shortlist(self, iteration: int, observed: Collection[tuple[int, ...]]) -> np.ndarray:
        unseen = _without(self._sampled(iteration), observed)
        if not self._shortlist_by_ot or not len(unseen):
            return unseen[: self._shortlist_size]
        return unseen[shortlist(unseen, self._problem.cost, self._shortlist_size).positions]

    def _sampled(self, iteration: int) -> np.ndarray:
        """(q, k) candidates of the iteration."""
        seed, space = self._problem.seed, self._problem.space
        if self._fixed_candidates:
            return space.sample(rng(seed, "fixed candidates"), self._fixed_candidates)
        return space.sample(rng(seed, "ask", iteration), self._sampled_candidates)

    def _network(self) -> ScoreNetwork:
        """Trained on all observations; once for all candidates of a batch."""
        if self._trained is None or self._trained[0] != len(self._history):
            observed = self._problem.representation(self._history.sequences)
            network = ScoreNetwork(observed.shape[1], seed=derive_seed(self._problem.seed, "network"))
            network.fit(observed, self._history.scores, ridge=self._ridge, trust=self._trust())
            self._trained = len(self._history), network
        return self._trained[1]

    def _trust(self) -> np.ndarray:
        """(t,) weight of each score: 1 for a full evaluation, the share of rows asked for one that racing stopped."""
        rows = self._history.validation_rows
        return np.asarray(rows / rows.max())

    def _with_pending(self, pending: Sequence[Candidate]) -> np.ndarray:
        """(t + p, k) sequences whose features are certain, or soon will be."""
        return np.array([*self._history.sequences.tolist(), *(list(candidate.sequence) for candidate in pending)])


def _without(sequences: np.ndarray, excluded: Collection[tuple[int, ...]]) -> np.ndarray:
    return sequences[[row not in excluded for row in map(tuple, sequences.tolist())]]
