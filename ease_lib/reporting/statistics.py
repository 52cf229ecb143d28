"""Uncertainty of scores: how far a number could be off, and whether a difference is more than luck."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ease_lib.seeding import rng

Z_95 = 1.959964
RESAMPLES = 10_000


def mean_interval(scores: Sequence[float]) -> tuple[float, float]:
    """95 % Wilson interval of the mean of scores in [0, 1]; for graded scores it is wider than need be."""
    n, mean = len(scores), sum(scores) / len(scores)
    shrunk = 1 + Z_95**2 / n
    centre = (mean + Z_95**2 / (2 * n)) / shrunk
    half = Z_95 / shrunk * math.sqrt(mean * (1 - mean) / n + Z_95**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean with its standard error; None for a single value."""
    mean = sum(values) / len(values)
    return mean, float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


def paired_p_value(scores: Sequence[float], others: Sequence[float]) -> float:
    """Two-sided paired t-test of equal means; 1 where there are no two pairs, or no pair differs."""
    from scipy.stats import ttest_rel  # most of a second, which runs without a comparison need not spend

    differences = np.subtract(scores, others)
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) < 1e-12:
        return 0.0
    return float(ttest_rel(scores, others).pvalue)


def paired_gain(scores: Sequence[float], baseline: Sequence[float]) -> dict[str, object]:
    """Mean difference on the same rows with its 95 % bootstrap interval over rows.

    `evidence` is true when the interval is above 0.
    """
    differences = np.asarray(scores) - np.asarray(baseline)
    draws = rng(0, "bootstrap").integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    return {"mean": float(differences.mean()), "interval": [float(low), float(high)], "evidence": bool(low > 0)}
