"""Active: a Q-learning policy adds one exemplar after another (Zhang, Feng & Tan, 2022; baseline of the paper).

An episode builds one sequence of k exemplars. Its state is the sequence so far, its action the next exemplar, its
reward the change of the validation score, so a step is an evaluation and an episode k of them:

    Q(s, a)  ->  r + max_a' Q'(s', a')        no discount; Q' is the target network, a copy from time to time
    loss     =   |Q(s, a) - target| + 0.2 (logsumexp_a Q(s, a) - Q(s, a_taken))        conservative Q-learning

Of T evaluations the first is zero-shot, where every episode begins, the last is the greedy sequence of the policy, and
those between are epsilon-greedy episodes. The incumbent is the best of all evaluated sequences, including the
beginnings of episodes, which are shorter than k; so none of them counts as a random sequence of the initial design.

Differences from Zhang et al.: their features of state and action are perplexities, label probabilities and entropies
from the model, which a chat API does not return and open-ended tasks do not define. Ours are embeddings and observed
scores (`_Features`). They learn from 2 000 offline episodes in 8 000 x 16 updates; here T = 165 pays for 32 episodes.
The network is trained again on all steps so far whenever their number has doubled, and before the greedy sequence, with
a learning rate of 3e-3 (theirs: 3e-4), a copy of the target every 50 updates (theirs: 400) and features standardised
over the steps (theirs: raw). There is no exit action, because the paper compares methods at equal k. There is no
dropout, which with 16 hidden units and so few steps only adds noise. No sequence is proposed twice, so an episode takes
the best action that leads to a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ease_lib.arrays import FloatArray
from ease_lib.machine import one_thread
from ease_lib.search.candidates.sampling import Positions
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random
from ease_lib.seeding import derive_seed, rng

FIRST_EPSILON, LAST_EPSILON = 0.99, 0.2
"""Share of random actions, from the first evaluation to the last (Zhang et al.)."""
CONSERVATIVE_WEIGHT = 0.2
HIDDEN_WIDTH = 16
UPDATES = 2_000
"""Number of updates: with 300, greedy sequences of a toy problem were no better than random ones."""
BATCH = 16
TARGET_EVERY = 50
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-3
LARGEST_GRADIENT = 1.0
PRINCIPAL_DIRECTIONS = 8
"""Number of dimensions of the embeddings in the features; there are only about 160 steps to learn from."""
MOST_ACTIONS = 128
"""Number of exemplars drawn for each training from a larger pool (Zhang et al.: 100)."""

Step = tuple[Positions, int, float]
"""A step: the sequence before, the added exemplar, the change of the score."""


class Active:
    """Epsilon-greedy episodes, then the greedy sequence.

    Args:
        evaluations: of the whole search (T).
        updates: of each training.
    """

    one_threaded = True

    def __init__(self, problem: Problem, *, evaluations: int, updates: int = UPDATES) -> None:
        self._problem = problem
        self._updates = updates
        self._evaluations = evaluations
        self._history = History()
        self._coordinates = _principal_coordinates(problem.pool)
        self._policy = _Policy(problem, self._coordinates, (), updates)

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        proposed = self._history.proposed(pending)
        if () not in proposed:
            return Candidate(sequence=(), phase="search")
        last = iteration == self._evaluations - 1
        sequence = self._greedy(proposed) if last else self._continued(iteration, pending, proposed)
        if sequence is None:
            return ask_random(self._problem, self._history, iteration, pending, phase="search")
        return Candidate(sequence=sequence, phase="search")

    def tell(self, observation: Observation) -> None:
        """Learn at the end of an episode; the policy is a function of what was told and of nothing else."""
        self._history.add(observation)
        if self._trains(len(observation.candidate.sequence), len(self._history)):
            self._policy = _Policy(self._problem, self._coordinates, self._history.observations, self._updates)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        """Return True if the policy would be trained on the pending scores, or for the greedy sequence."""
        told = len(self._history)
        lengths = enumerate((len(candidate.sequence) for candidate in pending), told + 1)
        trains = any(self._trains(length, observations) for observations, length in lengths)
        return trains or iteration == self._evaluations - 1

    def _trains(self, length: int, observations: int) -> bool:
        """Whether the policy is trained again when a sequence of this length is the last of so many observations."""
        return length == self._problem.space.k and observations >= 2 * self._policy.observations

    def _continued(
        self, iteration: int, pending: Sequence[Candidate], proposed: Collection[Positions]
    ) -> Positions | None:
        """The episode's sequence with one more exemplar; None if all of these were proposed before."""
        sequence = (pending[-1] if pending else self._history.observations[-1].candidate).sequence
        if len(sequence) == self._problem.space.k:
            sequence = ()
        new = self._policy.new_actions(sequence, proposed)
        if not new:
            return None
        generator = rng(self._problem.seed, "ask", iteration)
        epsilon = FIRST_EPSILON + (LAST_EPSILON - FIRST_EPSILON) * iteration / self._evaluations
        explored = generator.random() < epsilon or not self._policy.trained
        return (*sequence, int(generator.choice(new)) if explored else self._policy.best(sequence, new))

    def _greedy(self, proposed: Collection[Positions]) -> Positions | None:
        """The sequence of the policy's best actions; the last one of those that lead to something new."""
        if self._policy.observations < len(self._history):
            self._policy = _Policy(self._problem, self._coordinates, self._history.observations, self._updates)
        k = self._problem.space.k
        sequence: Positions = ()
        for length in range(1, k + 1):
            new = self._policy.new_actions(sequence, proposed if length == k else set())
            if not new:
                return None
            sequence = (*sequence, self._policy.best(sequence, new))
        return sequence


class _Policy:
    """Q, trained on the steps of `observations` observations."""

    def __init__(self, problem: Problem, coordinates: FloatArray, told: Sequence[Observation], updates: int) -> None:
        self._k = problem.space.k
        self._updates = updates
        self.observations = len(told)
        generator = rng(problem.seed, "active", len(told))
        n = problem.space.n
        drawn = generator.permutation(n)[:MOST_ACTIONS] if n > MOST_ACTIONS else np.arange(n)
        self.actions = [int(action) for action in drawn]
        self._features = _Features(problem, coordinates, told)
        self._mean, self._scale = np.zeros(self._features.count), np.ones(self._features.count)
        self._network = _network(self._features.count, derive_seed(problem.seed, "active", "network"))
        steps = _steps_of(told)
        self.trained = len(steps) > 0
        if steps:
            taken = np.concatenate([self._features.of(before, [action]) for before, action, _ in steps])
            self._mean, self._scale = taken.mean(axis=0), taken.std(axis=0) + 1e-6
            with one_thread():
                self._train(steps, generator)

    def new_actions(self, sequence: Positions, proposed: Collection[Positions]) -> list[int]:
        """Exemplars that may be added and lead to no proposed sequence."""
        return [action for action in self.actions if action not in sequence and (*sequence, action) not in proposed]

    def best(self, sequence: Positions, actions: Sequence[int]) -> int:
        with torch.no_grad():
            values: Tensor = self._network(self._inputs(sequence, actions))[:, 0]
        return actions[int(values.argmax())]

    def _train(self, steps: Sequence[Step], generator: np.random.Generator) -> None:
        taken = torch.cat([self._inputs(before, [action]) for before, action, _ in steps])
        reward = torch.tensor([change for *_, change in steps], dtype=torch.float32)
        choices, allowed = self._choices([before for before, *_ in steps])
        coming, coming_allowed = self._choices([(*before, action) for before, action, _ in steps])
        ends = torch.tensor([len(before) + 1 == self._k for before, *_ in steps])
        weights = self._network.parameters()
        optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
        for update in range(self._updates):
            if update % TARGET_EVERY == 0:  # the target network is this copy's values, which is all of it that is used
                with torch.no_grad():
                    future = _masked(self._network(coming)[..., 0], coming_allowed).amax(dim=1)
                target = reward + torch.where(ends, torch.zeros(()), future)
            batch = torch.as_tensor(generator.integers(len(steps), size=BATCH))
            value = self._network(taken[batch])[:, 0]
            others = _masked(self._network(choices[batch])[..., 0], allowed[batch]).logsumexp(dim=1)
            loss = (value - target[batch]).abs().mean() + CONSERVATIVE_WEIGHT * (others - value).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self._network.parameters(), LARGEST_GRADIENT)
            optimizer.step()

    def _choices(self, sequences: Sequence[Positions]) -> tuple[Tensor, Tensor]:
        """(t, a, f) features of every action in every state, and (t, a) which actions are allowed."""
        features = torch.stack([self._inputs(sequence, self.actions) for sequence in sequences])
        allowed = torch.tensor([[action not in sequence for action in self.actions] for sequence in sequences])
        return features, allowed

    def _inputs(self, sequence: Positions, actions: Sequence[int]) -> Tensor:
        features = (self._features.of(sequence, actions) - self._mean) / self._scale
        return torch.as_tensor(features, dtype=torch.float32)


class _Features:
    """Features of a state and an action that the policy sees.

    State: length, observed score (of an unobserved sequence the mean score at its length), mean embedding. Action:
    embedding, similarity to the validation set, largest similarity to an exemplar already chosen, how much better than
    others of their length the observed sequences with the exemplar scored, how many these are. Embeddings are given by
    their coordinates along the pool's principal directions.
    """

    def __init__(self, problem: Problem, coordinates: FloatArray, told: Sequence[Observation]) -> None:
        self._problem = problem
        self._coordinates = coordinates
        self._score = {observation.candidate.sequence: observation.score for observation in told}
        by_length: dict[int, list[float]] = {}
        for sequence, score in self._score.items():
            by_length.setdefault(len(sequence), []).append(score)
        self._mean_score = {length: float(np.mean(scores)) for length, scores in by_length.items()}
        self._lead, self._times = np.zeros(problem.space.n), np.zeros(problem.space.n)
        for sequence, score in self._score.items():
            self._lead[list(sequence)] += score - self._mean_score[len(sequence)]
            self._times[list(sequence)] += 1
        self._lead /= self._times + 1

    @property
    def count(self) -> int:
        return 2 * int(self._coordinates.shape[1]) + 6

    def of(self, sequence: Positions, actions: Sequence[int]) -> FloatArray:
        """(len(actions), count)"""
        chosen, pool = list(sequence), self._problem.pool
        expected = self._mean_score.get(len(sequence), 0.0)
        centre = self._coordinates[chosen].mean(axis=0) if chosen else np.zeros(self._coordinates.shape[1])
        state = np.array([len(sequence) / self._problem.space.k, self._score.get(sequence, expected), *centre])
        nearest = (pool[actions] @ pool[chosen].T).max(axis=1) if chosen else np.zeros(len(actions))
        action = [self._problem.relevance[actions], nearest, self._lead[actions], self._times[actions]]
        return np.column_stack([np.tile(state, (len(actions), 1)), self._coordinates[actions], *action])


def _steps_of(told: Sequence[Observation]) -> list[Step]:
    """Replay: every observed sequence whose beginning was observed too."""
    score = {observation.candidate.sequence: observation.score for observation in told}
    return [
        (sequence[:-1], sequence[-1], score[sequence] - score[sequence[:-1]])
        for sequence in score
        if sequence and sequence[:-1] in score
    ]


def _principal_coordinates(pool: FloatArray) -> FloatArray:
    """(n, <= 8) coordinates of the embeddings along the directions in which they differ most."""
    centred = pool.astype(np.float64) - pool.mean(axis=0)
    *_, directions = np.linalg.svd(centred, full_matrices=False)
    coordinates: FloatArray = centred @ directions[:PRINCIPAL_DIRECTIONS].T
    return coordinates


def _network(features: int, seed: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed % 2**63)
    layers: list[nn.Module] = []
    for into, out in ((features, HIDDEN_WIDTH), (HIDDEN_WIDTH, HIDDEN_WIDTH), (HIDDEN_WIDTH, 1)):
        linear = nn.Linear(into, out)
        nn.init.kaiming_uniform_(linear.weight, generator=generator)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.LeakyReLU()]
    return nn.Sequential(*layers[:-1])


def _masked(values: Tensor, allowed: Tensor) -> Tensor:
    return values.masked_fill(~allowed, -torch.inf)
