"""`lr`: y = -4x + 6 over whole numbers, with y = 5x - 8 as the wrong rule (paper, Sec. 4). They are equal nowhere."""

from __future__ import annotations

from ease_lib.seeding import rng
from ease_lib.tasks.base import Row, TaskSource

LARGEST_X = 499
SLOPE, INTERCEPT = -4, 6
WRONG_SLOPE, WRONG_INTERCEPT = 5, -8


def linear_rule(*, rows: int, seed: int) -> TaskSource:
    """Rows with distinct x in 0..499, or up to as many more as `rows` asks for."""
    values = rng(seed, "lr", "inputs").permutation(max(LARGEST_X + 1, rows))[:rows]
    return TaskSource(
        name="lr",
        metric="exact_match",
        rows=[Row(str(x), (str(SLOPE * int(x) + INTERCEPT),), is_noisy=False) for x in values],
        noise_rule=lambda text: str(WRONG_SLOPE * int(text) + WRONG_INTERCEPT),
    )
