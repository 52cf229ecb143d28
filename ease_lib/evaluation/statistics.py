"""Uncertainty of scores: how far a number could be off, and whether a difference is more than chance.

Claims of a difference rest on exact tests that hold with few values: scores are exchanged within rows, and no normal
distribution of them is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ease_lib.seeding import rng

Z_95 = 1.959964
SIGNIFICANCE = 0.05
"""Two-sided significance level; a claim that something is better is made at half of it."""
FEWEST_ROWS = 10
"""Number of rows below which nothing is claimed about a difference."""
MOST_ENUMERATED = 16
"""Rows whose exchanges with one other are all tried; of up to `MOST_DRAWN`, `RANDOM_EXCHANGES` are drawn."""
MOST_DRAWN = 400
RANDOM_EXCHANGES = 10_000


def mean_interval(scores: Sequence[float]) -> tuple[float, float]:
    """95 % Wilson interval of the mean of scores in [0, 1]; for graded scores it is wider than need be."""
    return wilson_interval(sum(scores) / len(scores), len(scores))


def wilson_interval(mean: float, n: int) -> tuple[float, float]:
    """The same, of n scores with this mean."""
    shrunk = 1 + Z_95**2 / n
    centre = (mean + Z_95**2 / (2 * n)) / shrunk
    half = Z_95 / shrunk * math.sqrt(mean * (1 - mean) / n + Z_95**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean with its standard error; None for a single value."""
    mean = sum(values) / len(values)
    return mean, float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


Scores = Sequence[float | None]
"""Scores of rows in [0, 1]; None for a row without one."""


def paired_p_value(scores: Scores, *others: Scores) -> float:
    """Two-sided p-value that one prompt does as well as others, by exchanging its scores with theirs, row by row.

    Were it one of them, each of a row's scores could as well be its own; p is twice the share of exchanges that give it
    as large a sum. With one other this is the test of sign flips. It is exact where all exchanges can be listed (up to
    2^`MOST_ENUMERATED`), and holds for any number of rows: n that differ never give less than 2 / 2^n with one other,
    so three equal differences are no proof (p = 0.25). A t-test would call them certain. Of more than `MOST_DRAWN` rows
    that differ the sum is normal.
    """
    table = np.array([scores, *others], dtype=np.float64).T
    table = table[~np.isnan(table[:, 0]) & ~np.isnan(table[:, 1:]).all(axis=1)]
    table = table[np.nanmax(table, axis=1, initial=-np.inf) - np.nanmin(table, axis=1, initial=np.inf) > 1e-12]
    if not len(table):
        return 1.0
    table -= np.nanmean(table, axis=1, keepdims=True)
    n, total = len(table), float(table[:, 0].sum())
    if n > MOST_DRAWN:
        return math.erfc(abs(total) / math.sqrt(2 * float(np.nanmean(np.square(table), axis=1).sum())))
    choices = [row[~np.isnan(row)] for row in table]
    if sum(math.log2(len(each)) for each in choices) <= MOST_ENUMERATED:
        sums = np.zeros(1)
        for each in choices:
            sums = np.add.outer(sums, each).ravel()
        tails = [float(np.mean(sign * sums >= sign * total - 1e-9)) for sign in (1, -1)]
        return min(1.0, 2 * min(tails))
    draw = rng(0, "exchanges").random((n, RANDOM_EXCHANGES))
    sums = sum((each[(row * len(each)).astype(np.intp)] for each, row in zip(choices, draw, strict=True)), np.zeros(1))
    tails = [(int((sign * sums >= sign * total - 1e-9).sum()) + 1) / (RANDOM_EXCHANGES + 1) for sign in (1, -1)]
    return min(1.0, 2 * min(tails))  # what was observed is one of the draws


def paired_gain(scores: Scores, *others: Scores) -> dict[str, Any]:
    """Whether one prompt is better than others, from their scores on the same rows.

    Several others stand for one: a row's difference is from the mean of theirs. With prompts of random exemplars, drawn
    anew for every row, rows are independent of each other, and what is tested is whether it is better than exemplars
    picked at random are on average. A test simulates how often that is claimed falsely.

    Returns:
        `score` of the others, `mean` difference, its 95 % `interval` (Agresti & Min, 2005, Stat. Med. 24(5): one pair
        more for and one more against), `p` that there is none (two-sided), `rows` that both have a score of, and
        `evidence`: better, and not by chance, which the interval and p both say. Nothing where no row has both.
    """
    own, table = np.array(scores, dtype=np.float64), np.array(others, dtype=np.float64)
    both = ~np.isnan(own) & ~np.isnan(table).all(axis=0)
    if not both.any():
        return {}
    beside = np.nanmean(table[:, both], axis=0)
    differences = own[both] - beside
    mean, rows = float(differences.mean()), len(differences)
    p = paired_p_value(scores, *others)
    n, total = rows + 2, float(differences.sum())
    half = Z_95 * math.sqrt(max(0.0, float(np.square(differences).sum()) + 2 - total**2 / n)) / n
    low, high = max(-1.0, total / n - half), min(1.0, total / n + half)
    return {
        "score": float(beside.mean()),
        "mean": mean,
        "interval": [low, high],
        "p": p,
        "rows": rows,
        "evidence": low > 0 and p < SIGNIFICANCE and rows >= FEWEST_ROWS,
    }
