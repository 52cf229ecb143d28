"""Order of rows: of validation rows that are asked in parts, and of the passes over the test set."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.seeding import rng
from ease_lib.tasks.splits import classes_of


def row_order(outputs: Sequence[str], seed: int) -> tuple[int, ...]:
    """Positions of all rows, so that every stretch of them is a small validation set.

    At random by seed; where outputs are classes, each class is spread evenly, so a stretch has them in their
    proportion.

    Args:
        outputs: the first output of each row.
    """
    draw = rng(seed, "row order")
    class_of = classes_of(outputs)
    places: list[tuple[float, int]] = []
    for label in dict.fromkeys(class_of.values()) or [""]:
        rows = [position for position, output in enumerate(outputs) if class_of.get(output, "") == label]
        start = draw.random()
        places += [((rank + start) / len(rows), row) for rank, row in enumerate(draw.permutation(rows).tolist())]
    return tuple(row for _, row in sorted(places))


RANDOM_DRAWS = 3
"""Number of random sequences for each row of the test set."""


def passes_of_test_set(baseline: object) -> int:
    """Number of times that each row of the test set is asked in total.

    Args:
        baseline: true where there is one.
    """
    return 2 + RANDOM_DRAWS + bool(baseline)
