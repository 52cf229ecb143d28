"""Numbers and texts as messages, logs and pages show them."""

from __future__ import annotations

import math


def grouped(number: float) -> str:
    """A whole number with separated thousands: `12 345`."""
    return f"{number:,.0f}".replace(",", " ")


def duration(seconds: float) -> str:
    """Approximate duration: `45 s`, `12 min`, `2.5 h`."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def cut(text: str, characters: int) -> str:
    """The beginning of a text that is longer than so many characters, with `…` as its last one."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
