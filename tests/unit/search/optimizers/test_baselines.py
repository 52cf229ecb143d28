"""Baselines of the paper on objectives whose best sequence is known, and against brute force on a small pool."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.optimizers.baselines import Influence, Retrieval, influences, parse_selection, zero_shot
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.registry import create_optimizer
from ease_lib.search.pool_retrieval import bm25_similarities
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


@pytest.mark.parametrize("method", ["cosine", "bm25", "ot", "mmd", "dpp"])
def test_similarity_is_to_the_rows_that_evaluations_ask_and_to_no_others(method):
    problem = ordered_sum(n=30, k=2).problem
    some = [1, 2]
    alone = replace(
        problem,
        validation=problem.validation[some],
        validation_inputs=[problem.validation_inputs[row] for row in some],
        validation_outputs=[problem.validation_outputs[row] for row in some],
    )
    config = OptimizerConfig(method=method, sampled_candidates=500)
    chosen = [create_optimizer(config, each).ask(0).sequence for each in (replace(problem, evaluated=some), alone)]
    assert chosen[0] == chosen[1]


def test_evolution_moves_on_when_a_mutant_scores_the_same():
    problem = ordered_sum(n=30, k=3).problem
    optimizer = create_optimizer(OptimizerConfig(method="evolution", k=3, initial_design=1), problem)
    drawn = []
    for iteration in range(30):
        candidate = optimizer.ask(iteration)
        drawn.append(candidate.sequence)
        optimizer.tell(observed(candidate, 0.5))
    differences = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(drawn)]
    assert differences == [1] * 29
    assert drawn[0] != drawn[-1]


def test_of_equal_scores_the_earliest_wins_or_the_latest():
    winners = []
    for latest in (False, True):
        history = History(latest_of_equals=latest)
        for position, score in enumerate((0.5, 0.6, 0.6)):
            history.add(observed(Candidate(sequence=(position,), phase="search"), score))
        winners.append(history.incumbent.candidate.sequence)
    assert winners == [(1,), (2,)]


def test_zero_shot_asks_once_and_shows_nothing():
    optimizer = zero_shot()
    assert optimizer.ask(0).sequence == ()
    assert optimizer.ask(1) is None


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        (" 3, 17, 22, 4, 9", [3, 17, 22, 4, 9]),
        ("The 5 best are: 3, 17, 22, 4 and 9.", [3, 17, 22, 4, 9]),
        ("Of the 40 examples I would take these 3:\n\n**17**, **4**, **22**", [17, 4, 22]),
        ("1. 17\n2. 4\n3. 22", [17, 4, 22]),
        ("1. Example 17: it has 2 labels\n2. Example 4: short", [17, 4]),
        ("17. It is short\n4. It is clear\n22. It has 2 labels", [17, 4, 22]),
        ("- Example 17\n- Example 4", [17, 4]),
        ("[3, 3, 41, 0, 5]", [3, 5]),
        ("Example 7", [7]),
        ("Example 3, Example 17, Example 22", [3, 17, 22]),
        ("No. 3, No. 17 und 22", [3, 17, 22]),
        ("3 et 17 et 22", [3, 17, 22]),
        ('[{"id": 3}, {"id": 17}, {"id": 22}]', [3, 17, 22]),
        ("3rd, 17th and 22nd", [3, 17, 22]),
        ("Top 3: 5, 7, 9", [5, 7, 9]),
        ("选择3、17和22", [3, 17, 22]),
        ("I cannot tell.", []),
        ("", []),
        ("9" * 5000, []),
    ],
)
def test_the_list_of_an_answer_is_read_and_not_the_numbers_around_it(answer, numbers):
    assert parse_selection(answer, 40) == [number - 1 for number in numbers]
