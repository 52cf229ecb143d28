import itertools

import numpy as np
import pytest

from ease_lib.search.optimizers.active_selection import UPDATES, Active
from ease_lib.search.optimizers.history import Observation
from ease_lib.seeding import rng
from tests.support.objectives import ordered_sum

ROWS = 20


def play(objective, evaluations, updates=50):
    """Candidates of a whole search; few updates where it does not matter how well it learns."""
    optimizer = Active(objective.problem, evaluations=evaluations, updates=updates)
    candidates = []
    for iteration in range(evaluations):
        candidate = optimizer.ask(iteration)
        score = objective(candidate.sequence).score
        optimizer.tell(Observation(candidate=candidate, score=score, validation_rows=ROWS))
        candidates.append(candidate)
    return candidates


def test_first_comes_zero_shot_then_episodes_of_k_steps_then_the_greedy_sequence():
    lengths = [len(candidate.sequence) for candidate in play(ordered_sum(n=10, k=3), 12)]
    assert lengths == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 3]


def test_beginnings_of_episodes_are_no_random_sequences_of_an_initial_design():
    assert {candidate.phase for candidate in play(ordered_sum(n=10, k=3), 8)} == {"search"}


def test_each_step_of_an_episode_adds_one_exemplar_to_the_one_before():
    sequences = [candidate.sequence for candidate in play(ordered_sum(n=10, k=3), 10)]
    for before, after in itertools.pairwise(sequences[:-1]):
        assert after[:-1] == (before if len(before) < 3 else ())


@pytest.mark.timeout(900)  # 42 trainings, two minutes of an idle core
@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
def test_the_greedy_sequence_is_better_than_random_ones_where_order_matters():
    """The later of two exemplars weighs more, so a policy that takes the best first does worse than chance.

    A seed's lead is 0.8 standard deviations on average and varies by 0.9; which one a CPU gets depends on its rounding.
    """
    leads = []
    for seed in range(7):
        objective = ordered_sum(n=12, k=3, seed=seed)
        greedy = play(objective, 100, UPDATES)[-1].sequence
        sampled = objective.problem.space.sample(rng(seed, "random sequences"), 1000)
        random = np.array([objective(tuple(sequence)).score for sequence in sampled.tolist()])
        leads.append((objective(greedy).score - random.mean()) / random.std())
    assert np.mean(leads) > 0


@pytest.mark.parametrize("n", [40, 400])
def test_proposals_are_new_sequences_of_distinct_exemplars(n):
    sequences = [candidate.sequence for candidate in play(ordered_sum(n=n, k=4), 30)]
    assert len(set(sequences)) == 30
    assert all(len(set(sequence)) == len(sequence) for sequence in sequences)
