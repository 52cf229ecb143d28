"""Claims of a difference are false at most as often as stated."""

import resource

import numpy as np
import pytest

from ease_lib.evaluation.statistics import (
    RANDOM_EXCHANGES,
    mean_interval,
    paired_gain,
    paired_p_value,
)
from ease_lib.seeding import rng

STATISTICS = pytest.mark.rooms("ease_lib/evaluation/statistics.py")


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


def test_many_pairs_are_judged_by_drawn_exchanges():
    """30 wins to 10: the sign test gives 0.0022."""
    assert paired_p_value([1.0] * 30 + [0.0] * 10, [0.0] * 30 + [1.0] * 10) == pytest.approx(0.0022, abs=0.0012)
    assert paired_p_value([1.0] * 100, [0.0] * 100) == pytest.approx(2 / (RANDOM_EXCHANGES + 1))


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


# --- the winner against random exemplars ------------------------------------------------------------------------------


def drawn_test(generator, gain, *, rows, level=0.42, difficulty=0.15, own=0.1):
    """Scores of a winner and of three random draws for each row; true means differ by about `gain`.

    Rows are of unequal difficulty, and each sequence answers each of them a little better or worse than the others do.
    """
    rights = level + gain * np.array([[1.0], [0.0], [0.0], [0.0]]) + generator.normal(0, difficulty, rows)
    rights = np.clip(rights + generator.normal(0, own, (4, rows)), 0, 1)
    return (generator.random((4, rows)) < rights).astype(float)


@pytest.mark.parametrize("rows", [12, *(pytest.param(rows, marks=STATISTICS) for rows in (100, 200))])
@pytest.mark.parametrize("level", [0.1, 0.42, 0.9])
@pytest.mark.parametrize("difficulty", [0.0, 0.15, 0.3])
def test_a_winner_no_better_than_random_exemplars_is_called_better_in_no_more_than_2_5_percent_of_cases(
    rows, level, difficulty
):
    generator = rng(0, "claims", rows, str(level), str(difficulty))
    worlds = [drawn_test(generator, 0.0, rows=rows, level=level, difficulty=difficulty) for _ in range(500)]
    claims = np.mean([paired_gain(*scores)["evidence"] for scores in worlds])
    assert claims <= 0.025 + 2 * (0.025 * 0.975 / 500) ** 0.5


@pytest.mark.parametrize(("rows", "share"), [(100, 0.6), (200, 0.85)])
@STATISTICS
def test_a_gain_of_13_points_over_random_exemplars_is_found(rows, share):
    generator = rng(0, "a true gain", rows)
    found = [paired_gain(*drawn_test(generator, 0.13, rows=rows)) for _ in range(500)]
    assert np.mean([gain["mean"] for gain in found]) == pytest.approx(0.13, abs=0.01)
    assert np.mean([gain["evidence"] for gain in found]) >= share


@STATISTICS
def test_the_interval_of_200_rows_covers_the_true_gain_and_is_about_9_points_wide_on_either_side():
    generator = rng(0, "intervals")
    intervals = np.array([paired_gain(*drawn_test(generator, 0.13, rows=200))["interval"] for _ in range(500)])
    covered = (intervals[:, 0] <= 0.13) & (intervals[:, 1] >= 0.13)
    assert covered.mean() > 0.93
    assert np.mean(intervals[:, 1] - intervals[:, 0]) / 2 == pytest.approx(0.08, abs=0.01)


def test_exchanges_of_a_row_with_three_others_are_counted_exactly():
    """Right where three others are wrong, in three rows: one of 4^3 exchanges gives as much."""
    assert paired_p_value([1.0] * 3, *[[0.0] * 3] * 3) == pytest.approx(2 / 64)


def test_many_rows_with_several_others_are_judged_alike_by_drawn_exchanges_and_by_the_normal_distribution():
    generator = rng(0, "drawn and normal")
    scores = drawn_test(generator, 0.05, rows=800)
    drawn = drawn_test(generator, 0.0, rows=300)
    assert 0 < paired_p_value(*scores) < 1
    for table in (drawn, np.hstack([drawn] * 2)):
        assert paired_p_value(*table) == pytest.approx(paired_p_value(*table[:, ::-1]), abs=0.03)


def test_a_handful_of_rows_claims_nothing():
    assert not paired_gain([1.0] * 9, *[[0.0] * 9] * 3)["evidence"]


def test_what_is_called_better_has_an_interval_above_0():
    generator = rng(0, "interval and claim")
    found = [paired_gain(*drawn_test(generator, 0.1, rows=60)) for _ in range(300)]
    assert all(gain["interval"][0] > 0 for gain in found if gain["evidence"])


def test_rows_without_a_score_are_left_out():
    winner = [1.0, None, 1.0, 0.0]
    gain = paired_gain(winner, [0.0, 1.0, None, None], [1.0, 1.0, 0.0, None])
    assert (gain["mean"], gain["rows"], gain["score"]) == (0.75, 2, 0.25)


def test_nothing_to_compare_with_says_nothing():
    assert paired_gain([1.0, None], [None, 1.0]) == {}
