"""Racing: stop an evaluation once it cannot, or very probably will not, beat the incumbent.

The validation rows are asked in blocks, in an order drawn for each evaluation, so the scores so far are a random sample
without replacement of all the row scores. After each block the evaluation is lost if

    exact bound   it would not beat the incumbent even with full marks on every row that is left;
    confidence    were its score better than the incumbent's, scores as low as these would be improbable:
                  row scores of 0 and 1 by the hypergeometric distribution, graded ones by Serfling's inequality
                  (Serfling, 1974, Ann. Statist. 2(1)). The allowed probability is shared among the looks (Bonferroni),
                  so a sequence that is better is dropped with probability at most 1 - confidence.

Racing bandits and successive halving go back to Maron & Moore (1994, Hoeffding races); the paper evaluates every
sequence in full, so racing is off by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ease_lib.seeding import rng

BLOCKS = 5
"""Most looks at an evaluation."""
FEWEST_ROWS = 4
"""Rows of a block at least."""
TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Race:
    """One evaluation against the incumbent.

    Args:
        incumbent: score to beat, in [0, 1]; None without an incumbent, and then nothing is stopped.
        confidence: of dropping no better sequence, in [0.5, 1]; 1 leaves the exact bound alone.
        seed, iteration: address of the order in which rows are asked.
    """

    incumbent: float | None
    confidence: float
    seed: int
    iteration: int

    def blocks(self, rows: int) -> Iterator[list[int]]:
        """Positions of the rows, block by block, in the order they are asked."""
        order = rng(self.seed, "racing", self.iteration).permutation(rows).tolist()
        size = block_size(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]

    def lost(self, scores: Sequence[float], rows: int) -> bool:
        """Whether an evaluation with these scores so far, of `rows` in all, is to be stopped."""
        if self.incumbent is None or not scores or len(scores) == rows:
            return False
        missing = rows - len(scores)
        if sum(scores) + missing <= self.incumbent * rows + TOLERANCE:
            return True
        looks = math.ceil(rows / block_size(rows)) - 1
        return probability_if_better(scores, rows, self.incumbent) < (1 - self.confidence) / looks


def block_size(rows: int) -> int:
    return max(FEWEST_ROWS, math.ceil(rows / BLOCKS))


def probability_if_better(scores: Sequence[float], rows: int, incumbent: float) -> float:
    """Upper bound of the probability of scores so low, had the whole evaluation a score above `incumbent`.

    Args:
        scores: of a random sample without replacement of the `rows` row scores, each in [0, 1].
    """
    asked, total = len(scores), sum(scores)
    if all(score in (0.0, 1.0) for score in scores):
        least_better = math.floor(incumbent * rows + TOLERANCE) + 1
        ways = sum(
            math.comb(least_better, right) * math.comb(rows - least_better, asked - right)
            for right in range(round(total) + 1)
        )
        return ways / math.comb(rows, asked)
    shortfall = incumbent - total / asked
    if shortfall <= 0:
        return 1.0
    return math.exp(-2 * asked * shortfall**2 / (1 - (asked - 1) / rows))
