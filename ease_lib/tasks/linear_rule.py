"""`lr`: y = ax + b over whole numbers, with y = 5x - 8 as the wrong rule (paper, Sec. 4)."""

from __future__ import annotations

from ease_lib.errors import ConfigError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Row, TaskSource

LARGEST_X = 499
WRONG_SLOPE, WRONG_INTERCEPT = 5, -8


def linear_rule(*, slope: int, intercept: int, rows: int, seed: int) -> TaskSource:
    """Rows with distinct x in 0..499, or up to as many more as `rows` asks for.

    Raises:
        ConfigError: when the rule asked for is the wrong one, so that noise would be none.
    """
    if (slope, intercept) == (WRONG_SLOPE, WRONG_INTERCEPT):
        raise ConfigError(f"lr_slope={slope} with lr_intercept={intercept} is the noise rule itself; choose another")
    values = rng(seed, "lr", "inputs").permutation(max(LARGEST_X + 1, rows))[:rows]
    return TaskSource(
        name="lr",
        metric="exact_match",
        rows=[Row(str(x), (str(slope * int(x) + intercept),), is_noisy=False) for x in values],
        noise_rule=lambda text: _wrong(int(text), slope, intercept),
    )


def _wrong(x: int, slope: int, intercept: int) -> str:
    wrong = WRONG_SLOPE * x + WRONG_INTERCEPT
    return str(wrong if wrong != slope * x + intercept else wrong + 1)
