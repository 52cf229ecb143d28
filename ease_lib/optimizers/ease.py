"""EASE (Wu et al., NeurIPS 2024, Alg. 1): a network learns to predict scores, NeuralUCB chooses what to try next.

    for t = T_init .. T:
        train m(h(E)) on all observations
        sample q ordered sequences; keep the q' with the smallest OT distance to the validation set
        E_t = argmax over them of  m(h(E)) + nu * sigma(h(E))

Differences from the paper: a sequence already observed is not proposed again. From the authors' code: see
`candidates/optimal_transport.py` and `surrogate/neural_ucb.py`.
"""

from __future__ import annotations

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
        shortlist_size: q', those kept by optimal transport.
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
    ) -> None:
        self._problem = problem
        self._initial_design = initial_design
        self._sampled_candidates = sampled_candidates
        self._shortlist_size = shortlist_size
        self._nu = nu
        self._ridge = ridge
        self._history = History()

    def ask(self, iteration: int) -> Candidate | None:
        if iteration < self._initial_design or not len(self._history):
            return ask_random(self._problem.space, self._history, self._problem.seed, iteration)
        candidates = self._unseen_shortlist(iteration)
        if not len(candidates):
            return None
        network, observed = self._train()
        values = acquisition_values(
            network, observed, self._problem.representation(candidates), nu=self._nu, ridge=self._ridge
        )
        best = int(np.argmax(values))
        return Candidate(sequence=tuple(candidates[best].tolist()), phase="search", acquisition=float(values[best]))

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def _unseen_shortlist(self, iteration: int) -> np.ndarray:
        """(<= q', k) sequences most like the validation set among q sampled ones that are not observed yet."""
        generator = rng(self._problem.seed, "ask", iteration)
        sampled = self._problem.space.sample(generator, self._sampled_candidates)
        unseen = sampled[[row not in self._history.seen for row in map(tuple, sampled.tolist())]]
        if not len(unseen):  # almost everything is observed: look for what is left
            sequence = self._problem.space.sample_unseen(generator, self._history.seen)
            return np.array([] if sequence is None else [sequence], dtype=np.int64)
        return unseen[shortlist(unseen, self._problem.cost, self._shortlist_size).positions]

    def _train(self) -> tuple[ScoreNetwork, np.ndarray]:
        observed = self._problem.representation(self._history.sequences)
        network = ScoreNetwork(observed.shape[1], seed=derive_seed(self._problem.seed, "network"))
        network.fit(observed, self._history.scores, ridge=self._ridge)
        return network, observed
