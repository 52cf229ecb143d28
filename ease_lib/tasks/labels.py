"""What is odd about the outputs of a source: labels that may be meant to be one, and inputs with several answers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from ease_lib.tasks.base import Row
from ease_lib.tasks.splits import classes_of, input_key, same_input
from ease_lib.words import cut

ALIKE = 0.85
"""Ratio of difflib above which two labels may be one that was misspelt."""
RARE = 0.1
"""Share of the other label's rows below which a label may be a slip."""
SHOWN = 3
CUT = 60
"""Characters that are shown of a text."""


def label_notices(rows: Sequence[Row]) -> Iterator[str]:
    """Notices of a task, the gravest first."""
    yield from _contradictions(rows)
    yield from _near_equal(rows)


def _contradictions(rows: Sequence[Row]) -> Iterator[str]:
    first: dict[bytes, Row] = {}
    several: dict[bytes, list[Row]] = {}
    for row in rows:
        before = first.setdefault(key := input_key(row.input), row)
        if before.outputs != row.outputs:
            several.setdefault(key, [before]).append(row)
    if several:
        written = [
            f"{cut(row.input, CUT)!r} → {cut(row.output, CUT)!r}" + (f" ({row.origin})" if row.origin else "")
            for row in next(iter(several.values()))[:SHOWN]
        ]
        yield "\n  ".join([f"inputs that stand there with different outputs: {len(several)}", *written])


def _near_equal(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.outputs[0] for row in rows)
    labels = [label for label in counts if not label.startswith(("{", "["))]  # JSON differs in few characters
    labels = labels if classes_of([row.outputs[0] for row in rows]) else []
    pairs = [
        (one, other) for number, one in enumerate(labels) for other in labels[:number] if _alike(one, other, counts)
    ]
    for pair in pairs[:SHOWN]:
        often, rare = sorted(pair, key=lambda label: -counts[label])
        origin = next(row.origin for row in rows if row.outputs[0] == rare)
        yield (
            f"the outputs {often!r} ({counts[often]} times) and {rare!r} ({counts[rare]} times"
            f"{f', first at {origin}' if origin else ''}) look alike; if they are one label, correct the data"
        )


def _alike(one: str, other: str, counts: Counter[str]) -> bool:
    if same_input(one) == same_input(other):
        return True
    is_rare = min(counts[one], counts[other]) <= RARE * max(counts[one], counts[other])
    return is_rare and difflib.SequenceMatcher(None, one, other).ratio() >= ALIKE
