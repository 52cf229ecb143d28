"""Baselines of the paper on objectives whose best sequence is known, and against brute force on a small pool."""

import numpy as np

from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.optimizers.baselines import Influence, Retrieval, influences, zero_shot
from ease_lib.search.optimizers.history import Observation
from ease_lib.search.optimizers.registry import create_optimizer
from ease_lib.search.prefilter import bm25_similarities
from tests.support.objectives import ordered_sum


def observed(candidate, score):
    return Observation(candidate=candidate, score=score, validation_rows=20)


def test_influence_by_hand():
    """0 is in every sequence and 4 in none: no difference can be told."""
    sequences = np.array([[0, 1], [2, 0], [0, 3], [1, 0]])
    scores = np.array([0.8, 0.2, 0.4, 0.6])
    expected = [0.0, 0.7 - 0.3, 0.2 - 0.6, 0.4 - (1.6 / 3), 0.0]
    np.testing.assert_allclose(influences(sequences, scores, 5), expected)


def test_the_most_influential_exemplars_come_last_and_best_next_to_the_query():
    objective = ordered_sum(n=20, k=3)
    optimizer = Influence(objective.problem, evaluations=60)
    sequences, scores = [], []
    for iteration in range(59):
        candidate = optimizer.ask(iteration)
        score = objective(candidate.sequence).score
        optimizer.tell(observed(candidate, score))
        sequences.append(candidate.sequence)
        scores.append(score)
    final = optimizer.ask(59)
    values = influences(np.array(sequences), np.array(scores), 20)
    assert final.phase == "search"
    assert list(final.sequence) == sorted(np.argsort(-values)[:3], key=lambda position: values[position])


def test_retrieval_draws_from_the_nearest_exemplars_only():
    problem = ordered_sum(n=30, k=3).problem
    similarity = np.arange(30.0)
    optimizer = Retrieval(problem, similarity, nearest=5)
    drawn = []
    for iteration in range(60):
        candidate = optimizer.ask(iteration)
        assert set(candidate.sequence) <= {25, 26, 27, 28, 29}
        drawn.append(candidate.sequence)
        optimizer.tell(observed(candidate, 0.1))
    assert len(set(drawn)) == 60 == 5 * 4 * 3
    assert optimizer.ask(60) is None


def test_cosine_and_bm25_take_the_mean_over_the_validation_set():
    objective = ordered_sum(n=30, k=2)
    problem = objective.problem
    for method, similarity in (
        ("cosine", [np.mean([exemplar @ row for row in problem.validation]) for exemplar in problem.pool]),
        ("bm25", np.mean(list(bm25_similarities(problem.inputs, problem.validation_inputs)), axis=0)),
    ):
        optimizer = create_optimizer(OptimizerConfig(method=method, nearest=4), problem)
        kept = set(np.argsort(-np.array(similarity), kind="stable")[:4].tolist())
        proposed = {position for iteration in range(30) for position in optimizer.ask(iteration).sequence}
        assert proposed == kept, method


def test_zero_shot_asks_once_and_shows_nothing():
    optimizer = zero_shot()
    assert optimizer.ask(0).sequence == ()
    assert optimizer.ask(1) is None
