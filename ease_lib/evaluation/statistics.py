"""Uncertainty of scores: how far a number could be off, and whether a difference is more than luck.

Claims of a difference rest on tests that hold with few values: no normal distribution of scores is assumed where pairs
are compared (sign flips), and where the winner of a search is compared with random sequences, these are a sample too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ease_lib.seeding import rng

Z_95 = 1.959964
SIGNIFICANCE = 0.05
"""Two-sided; a claim that something is better is made at half of it."""
FEWEST_ROWS = 10
"""Below which nothing is claimed about a difference."""
MOST_ENUMERATED = 16
"""Differences whose sign flips are all tried; of up to `MOST_DRAWN`, `RANDOM_FLIPS` are drawn."""
MOST_DRAWN = 400
RANDOM_FLIPS = 10_000


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
    """Two-sided p-value of equal means, from pairs: the share of sign flips of the differences with as large a sum.

    It is exact for up to `MOST_ENUMERATED` pairs that differ, and holds for any number of them: n pairs never give less
    than 2 / 2^n, so three equal differences are no proof (p = 0.25). A t-test would call them certain. Of more than
    `MOST_DRAWN` pairs the sum under sign flips is normal.
    """
    differences = np.subtract(scores, others, dtype=np.float64)
    differences = differences[np.abs(differences) > 1e-12]
    n, reached = len(differences), abs(float(differences.sum())) - 1e-9
    if n == 0:
        return 1.0
    if n > MOST_DRAWN:
        return math.erfc(reached / math.sqrt(2 * float(np.square(differences).sum())))
    if n <= MOST_ENUMERATED:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float(np.mean(np.abs(signs @ differences) >= reached))
    signs = rng(0, "sign flips").choice((1.0, -1.0), size=(RANDOM_FLIPS, n))
    extreme = int((np.abs(signs @ differences) >= reached).sum())
    return (extreme + 1) / (RANDOM_FLIPS + 1)  # the signs that were observed are one of the draws


def paired_gain(scores: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    """Whether one prompt is better than another one, from their scores on the same rows.

    Returns:
        `mean` difference, its 95 % `interval` (Agresti & Min, 2005, Stat. Med. 24(5): one pair more for and one more
        against), `p` that there is none (two-sided), and `evidence`: better, and not by luck.
    """
    differences = np.subtract(scores, others, dtype=np.float64)
    mean = float(np.mean(differences))
    p = paired_p_value(scores, others)
    n, total = len(differences) + 2, float(differences.sum())
    half = Z_95 * math.sqrt(max(0.0, float(np.square(differences).sum()) + 2 - total**2 / n)) / n
    interval = [max(-1.0, total / n - half), min(1.0, total / n + half)]
    return {
        "mean": mean,
        "interval": interval,
        "p": p,
        "evidence": mean > 0 and p < SIGNIFICANCE and len(scores) >= FEWEST_ROWS,
    }


@dataclass(frozen=True)
class SequenceScores:
    """Row scores of one random sequence, on these positions of the test set."""

    rows: Sequence[int]
    scores: Sequence[float]


def gain_over_random(winner: Sequence[float], randoms: Sequence[SequenceScores]) -> dict[str, object]:
    """How much better the winner is than a random sequence, and whether another random sequence could be as good.

    The random sequences are a sample of all there are. Of each, the winner's mean on the same rows less its own is a
    difference d; were the winner itself a random sequence, the mean of m differences would lie within

        t(m - 1) sqrt((1 + 1/m) s^2 + e^2)        s: standard deviation of d, e: standard error of the winner's rows

    of zero in 95 % of cases (t interval for one more draw). `interval` is the mean with that half-width, and `evidence`
    is claimed when it lies above 0: falsely in at most 2.5 % of cases (a test simulates it). Resampling the rows alone,
    as if the few random sequences were all there are, claimed it in up to a third.

    Args:
        winner: score on each row of the test set, in [0, 1]; NaN where there is none.

    Returns:
        nothing where there are not two random sequences to compare with.
    """
    from scipy.special import stdtrit  # a fifth of a second, which stages that test nothing need not spend

    known = np.asarray(winner, dtype=np.float64)
    differences = [
        float(np.nanmean(pairs))
        for random in randoms
        if (pairs := known[list(random.rows)] - np.asarray(random.scores, dtype=np.float64)).size
        and not np.isnan(pairs).all()
    ]
    m, rows = len(differences), int((~np.isnan(known)).sum())
    if m < 2:
        return {}
    smoothed = (float(np.nansum(known)) + 2) / (rows + 4)  # Agresti & Coull: rows that are all right prove little
    variance = (1 + 1 / m) * float(np.var(differences, ddof=1)) + smoothed * (1 - smoothed) / rows
    half = float(stdtrit(m - 1, 1 - SIGNIFICANCE / 2)) * math.sqrt(variance)
    mean = float(np.mean(differences))
    evidence = mean > half and rows >= FEWEST_ROWS
    interval = [max(-1.0, mean - half), min(1.0, mean + half)]
    return {"mean": mean, "interval": interval, "evidence": evidence, "sequences": m}
