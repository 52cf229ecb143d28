"""EASE (Wu et al., NeurIPS 2024, Alg. 1): a network learns to predict scores, NeuralUCB chooses what to try next.

    for t = T_init .. T:
        train m(h(E)) on all observations
        sample q ordered sequences; keep the q' with the smallest OT distance to the validation set
        (optional) pair them with instructions
        E_t = argmax over them of  m(h(E)) + nu * sigma(h(E))

With instructions P, an iteration draws the empty one and r |P| others. It pairs each with the q' / (1 + r |P|)
sequences of smallest distance, so that q' prompts are compared for any |P| (paper, appendix; the authors' code compares
ten times as many). With a range of lengths, each length keeps its share of q', because a longer sequence is nearer to
the validation set only for its length.

Differences from the paper: an observed prompt is not proposed again, and several candidates can be asked for before
their scores are known. Pending candidates count as observed for sigma, which needs no score, but not for m, so the
candidates of a batch spread out (GP-BUCB: Desautels, Krause & Burdick, 2014). Differences from the authors' code are
listed in `search/candidates/optimal_transport.py` and `search/surrogate/neural_ucb.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.optimal_transport import shortlist
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.candidates.sampling import among, as_tuples, lengths_of
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random
from ease_lib.search.surrogate.network import TRAINING_STEPS, ScoreNetwork
from ease_lib.search.surrogate.neural_ucb import Acquisition
from ease_lib.seeding import derive_seed, rng


class Ease:
    """Neural bandit over exemplar sequences.

    Args:
        initial_design: T_init, random sequences before the first training.
        sampled_candidates: q, number of sequences drawn per iteration.
        shortlist_size: q', number of sequences kept.
        shortlist_by: `ot` keeps the sequences with the smallest transport cost, `random` the first ones (ablation
            "NeuralUCB alone"), `none` all q.
        fixed_candidates: number of sequences sampled once for the whole search (ablation); 0 samples q in each
            iteration.
        nu: exploration weight.
        ridge: lambda of NeuralUCB and of the weight decay.
        instruction_share: r, share of the instructions drawn in an iteration.
        training_steps: number of steps in each training of the network.
    """

    one_threaded = True

    def __init__(
        self,
        problem: Problem,
        *,
        initial_design: int,
        sampled_candidates: int,
        shortlist_size: int,
        nu: float,
        ridge: float,
        shortlist_by: str = "ot",
        fixed_candidates: int = 0,
        instruction_share: float = 0.1,
        training_steps: int = TRAINING_STEPS,
    ) -> None:
        self._problem = problem
        self._initial_design = initial_design
        self._sampled_candidates = sampled_candidates
        self._shortlist_size = shortlist_size
        self._shortlist_by = shortlist_by
        self._fixed_candidates = fixed_candidates
        self._nu = nu
        self._ridge = ridge
        self._instruction_share = instruction_share
        self._training_steps = training_steps
        self._history = History()
        self._trained: tuple[int, ScoreNetwork] | None = None
        self._prepared: dict[int, Prompts] = {}

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        if iteration < self._initial_design or not len(self._history):
            return ask_random(self._problem, self._history, iteration, pending)
        candidates = self._unseen_candidates(iteration, pending)
        if not len(candidates):  # almost everything is observed
            return ask_random(self._problem, self._history, iteration, pending, phase="search")
        acquisition = Acquisition(
            self._network(),
            self._features(self._observed(pending)),
            nu=self._nu,
            ridge=self._ridge,
        )
        values = np.concatenate([acquisition(self._features(block)) for block in candidates.blocks()])
        best = int(np.argmax(values))
        return Candidate(
            sequence=as_tuples(candidates.sequences[best : best + 1])[0],
            phase="search",
            acquisition=float(values[best]),
            instruction=int(candidates.instructions[best]),
        )

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return iteration >= self._initial_design

    def prepare(self, iterations: range, pending: Sequence[Candidate]) -> None:
        """Shortlists, which depend on no score."""
        coming = {candidate.prompt for candidate in pending}
        self._prepared = {
            iteration: self._candidates(iteration, self._history.seen | coming)
            for iteration in iterations
            if iteration >= self._initial_design
        }

    def _unseen_candidates(self, iteration: int, pending: Sequence[Candidate]) -> Prompts:
        candidates = self._prepared.pop(iteration, None)
        if candidates is None:
            candidates = self._candidates(iteration, self._history.seen)
        return candidates.without({candidate.prompt for candidate in pending})

    def _candidates(self, iteration: int, proposed: Collection[Prompt]) -> Prompts:
        """Up to q' new prompts: of q sampled sequences those that are most like the validation set."""
        instructions = self._drawn_instructions(iteration)
        used_up = set.intersection(
            *({sequence for given, sequence in proposed if given == instruction} for instruction in instructions)
        )
        sampled = self._sampled(iteration)
        kept = self._shortlisted(sampled[~among(sampled, used_up)], max(1, self._shortlist_size // len(instructions)))
        return Prompts.paired(kept, instructions).without(proposed)

    def _drawn_instructions(self, iteration: int) -> NDArray[np.int64]:
        """The empty instruction and, of all others, a share of r."""
        others = self._problem.instructions - 1
        if not others:
            return np.zeros(1, dtype=np.int64)
        order = rng(self._problem.seed, "instructions", iteration).permutation(others) + 1
        return np.append(0, order[: max(1, round(self._instruction_share * others))])

    def _sampled(self, iteration: int) -> NDArray[np.integer]:
        """(q, k) candidates of the iteration."""
        seed, space = self._problem.seed, self._problem.space
        if self._fixed_candidates:
            return space.sample(rng(seed, "fixed candidates"), self._fixed_candidates)
        return space.sample(rng(seed, "ask", iteration), self._sampled_candidates)

    def _shortlisted(self, sampled: NDArray[np.integer], size: int) -> NDArray[np.integer]:
        if self._shortlist_by == "none":
            return sampled
        if self._shortlist_by == "random" or not len(sampled):
            return sampled[:size]
        kept = []
        lengths = lengths_of(sampled)
        for length in np.unique(lengths):
            group = sampled[lengths == length]
            share = max(1, round(size * len(group) / len(sampled)))
            kept.append(group[shortlist(group[:, :length], self._problem.cost, share).positions])
        return np.concatenate(kept)

    def _network(self) -> ScoreNetwork:
        """The surrogate, trained on all observations, once for all candidates of a batch."""
        if self._trained is None or self._trained[0] != len(self._history):
            observed = self._features(self._observed())
            seed, device = derive_seed(self._problem.seed, "network"), self._problem.device
            network = ScoreNetwork(observed.shape[1], seed=seed, device=device)
            network.fit(observed, self._history.scores, ridge=self._ridge, steps=self._training_steps)
            self._trained = len(self._history), network
        return self._trained[1]

    def _features(self, prompts: Prompts) -> NDArray[np.floating]:
        assert self._problem.representation
        return self._problem.representation(prompts.sequences, prompts.instructions)

    def _observed(self, pending: Sequence[Candidate] = ()) -> Prompts:
        """Observed and pending evaluations; the features of pending ones are certain, or soon will be."""
        told = [observation.candidate.prompt for observation in self._history]
        return Prompts.of([*told, *(candidate.prompt for candidate in pending)], self._problem.space.k)
