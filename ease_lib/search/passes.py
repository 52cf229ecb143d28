"""How often the test set is asked: once for winner, no exemplars and baseline, three times for random sequences."""

from __future__ import annotations

RANDOM_SEQUENCES, ROW_SHARES = 9, 3
"""Random sequences, each of which is asked every third row."""


def passes_of_test_set(baseline: object) -> int:
    """How often every row of the test set is asked in all.

    Args:
        baseline: true where there is one.
    """
    return 2 + RANDOM_SEQUENCES // ROW_SHARES + bool(baseline)
