"""What is odd about the outputs of a source: labels that may be meant to be one, and inputs with several answers."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence

from ease_lib.tasks.base import Row
from ease_lib.tasks.splits import classes_of, input_key, same_input

logger = logging.getLogger("ease")
ALIKE = 0.85
"""Ratio of difflib above which two labels may be one that was misspelt."""
RARE = 0.1
"""Share of the other label's rows below which a label may be a slip."""
SHOWN = 3


def label_notices(rows: Sequence[Row]) -> Iterator[str]:
    """Sentences for people, the gravest first."""
    yield from _contradictions(rows)
    yield from _near_equal(rows)


def _contradictions(rows: Sequence[Row]) -> Iterator[str]:
    first: dict[bytes, tuple[str, ...]] = {}
    several: dict[bytes, str] = {}
    for row in rows:
        key = input_key(row.input)
        if first.setdefault(key, row.outputs) != row.outputs:
            several.setdefault(key, same_input(row.input))
    if several:
        logger.info("an input with several outputs: %r", next(iter(several.values()))[:60])  # not for what is kept
        yield f"inputs that stand there with different outputs: {len(several)}"


def _near_equal(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.outputs[0] for row in rows)
    labels = [label for label in counts if not label.startswith(("{", "["))]  # JSON differs in few characters
    labels = labels if classes_of([row.outputs[0] for row in rows]) else []
    pairs = [
        (one, other) for number, one in enumerate(labels) for other in labels[:number] if _alike(one, other, counts)
    ]
    for one, other in pairs[:SHOWN]:
        yield (
            f"the outputs {one!r} ({counts[one]} times) and {other!r} ({counts[other]} times) look alike; if they are "
            "one label, correct the data"
        )


def _alike(one: str, other: str, counts: Counter[str]) -> bool:
    if same_input(one) == same_input(other):
        return True
    is_rare = min(counts[one], counts[other]) <= RARE * max(counts[one], counts[other])
    return is_rare and difflib.SequenceMatcher(None, one, other).ratio() >= ALIKE
