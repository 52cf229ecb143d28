"""What is said of a difference is false at most as often as stated."""

import resource

import numpy as np
import pytest

from ease_lib.evaluation.statistics import (
    RANDOM_FLIPS,
    SequenceScores,
    gain_over_random,
    mean_interval,
    paired_gain,
    paired_p_value,
)
from ease_lib.seeding import rng


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (50, 100, 0.404, 0.596), (1, 1, 0.207, 1.0)],
)
def test_interval_equals_published_wilson_values(right, n, low, high):
    assert mean_interval([1.0] * right + [0.0] * (n - right)) == pytest.approx((low, high), abs=0.001)


def test_interval_covers_the_truth_as_often_as_it_says():
    draws = rng(0, "coverage").random((2000, 40)) < 0.3
    covered = [low <= 0.3 <= high for low, high in map(mean_interval, draws.astype(float).tolist())]
    assert 0.93 < np.mean(covered) < 0.98


# --- pairs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.5, 0.5], 0.5),
        ([0.5, 0.5, 0.5], 0.25),
        ([1.0, 0.5, 2.0], 0.25),
        ([1.0] * 6, 2 / 64),
        ([1.0] * 4 + [0.0] * 6, 0.125),  # four wins to none: the sign test
        ([1.0, -1.0], 1.0),
        ([0.0, 0.0], 1.0),
        ([], 1.0),
    ],
)
def test_p_values_are_those_of_all_sign_flips(differences, p):
    assert paired_p_value(differences, [0.0] * len(differences)) == pytest.approx(p)


def test_many_pairs_are_judged_by_drawn_flips():
    """30 wins to 10: the sign test gives 0.0022."""
    assert paired_p_value([1.0] * 30 + [0.0] * 10, [0.0] * 30 + [1.0] * 10) == pytest.approx(0.0022, abs=0.0012)
    assert paired_p_value([1.0] * 100, [0.0] * 100) == pytest.approx(1 / (RANDOM_FLIPS + 1))


def test_hundreds_of_pairs_are_judged_as_their_sum_is_distributed():
    """220 wins to 180 among 400 pairs that differ, and 221 to 180: drawn and normal agree, as the sign test does."""
    drawn = paired_p_value([1.0] * 220 + [0.0] * 180, [0.0] * 220 + [1.0] * 180)
    normal = paired_p_value([1.0] * 221 + [0.0] * 180, [0.0] * 221 + [1.0] * 180)
    assert (drawn, normal) == (pytest.approx(0.051, abs=0.01), pytest.approx(0.041, abs=0.005))


def test_equal_prompts_are_told_apart_at_most_as_often_as_stated():
    generator = rng(0, "equal prompts")
    claims = 0
    for _ in range(1000):
        one, other = generator.random((2, 12)) < generator.uniform(0.2, 0.8)
        claims += paired_gain(one.astype(float), other.astype(float))["evidence"]
    assert claims / 1000 <= 0.025 + 3 * 0.005


def test_four_wins_to_none_are_no_evidence_and_ten_are():
    assert not paired_gain([1.0] * 4 + [0.0] * 6, [0.0] * 10)["evidence"]
    assert paired_gain([1.0] * 10, [0.0] * 10)["evidence"]
    assert not paired_gain([1.0] * 6, [0.0] * 6)["evidence"], "too few rows to claim anything"


def test_a_hundred_thousand_rows_fit_into_a_pod():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scores = rng(0, "many rows").random(100_000)
    assert paired_p_value(scores, scores[::-1]) > 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "KiB"


# --- the winner against random sequences ------------------------------------------------------------------------------


def drawn_test(generator, spread, lead, *, rows=100, sequences=9, folds=3):
    """Scores of a winner and of random sequences with means of this standard deviation, rows of unequal difficulty."""
    difficulty = generator.normal(0, 0.15, rows)
    means = 0.5 + spread * generator.normal(size=sequences + 1)
    means[0] += lead
    right = generator.random((sequences + 1, rows)) < np.clip(means[:, None] + difficulty, 0, 1)
    winner, *others = right.astype(float)
    return winner, [
        SequenceScores(range(number % folds, rows, folds), scores[number % folds :: folds])
        for number, scores in enumerate(others)
    ]


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("rows", [12, 100])
def test_a_winner_that_is_a_random_sequence_is_called_better_in_no_more_than_2_5_percent_of_cases(spread, rows):
    generator = rng(0, "claims", str(spread), rows)
    claims = [gain_over_random(*drawn_test(generator, spread, 0.0, rows=rows))["evidence"] for _ in range(1000)]
    assert np.mean(claims) <= 0.025 + 2 * 0.005


def test_a_winner_far_above_random_sequences_is_called_better():
    generator = rng(0, "claims of a good winner")
    claims = [gain_over_random(*drawn_test(generator, 0.03, 0.42))["evidence"] for _ in range(200)]
    assert np.mean(claims) > 0.9


def test_a_handful_of_rows_claims_nothing():
    all_right, all_wrong = [1.0] * 9, [SequenceScores(range(9), [0.0] * 9)] * 9
    assert not gain_over_random(all_right, all_wrong)["evidence"]


def test_rows_without_a_score_are_left_out():
    winner = [1.0, float("nan"), 1.0, 0.0]
    randoms = [SequenceScores([0, 1], [0.0, 1.0]), SequenceScores([2, 3], [0.0, float("nan")])]
    assert gain_over_random(winner, randoms)["mean"] == 1.0


def test_one_random_sequence_says_nothing_of_the_others():
    assert gain_over_random([1.0, 1.0], [SequenceScores([0, 1], [0.0, 0.0])]) == {}
    assert gain_over_random([1.0, 1.0], []) == {}
