import numpy as np
import pytest

from ease_lib.reporting.statistics import mean_interval, paired_gain
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


def test_gain_has_evidence_only_when_its_interval_is_above_zero():
    assert paired_gain([1.0] * 20, [0.0] * 10 + [1.0] * 10)["evidence"]
    none = paired_gain([1.0, 0.0] * 20, [0.0, 1.0] * 20)
    assert none["mean"] == 0
    assert not none["evidence"]
    assert none["interval"][0] < 0 < none["interval"][1]
