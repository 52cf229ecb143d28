"""Oddities of outputs: labels that may be meant to be one, labels of one split alone, inputs with several answers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

from ease_lib.equality import as_read, equality_key, unseen_difference
from ease_lib.errors import DataError
from ease_lib.tasks.base import Row, TaskData
from ease_lib.tasks.splits import classes_of
from ease_lib.words import cut

ALIKE = 0.85
"""Ratio of difflib above which two labels may be one that was misspelt."""
RARE = 0.1
"""Share of the other label's rows below which a label may be a slip."""
SHOWN = 3
MOST_WRITTEN = 100
"""Maximum number of different outputs that are compared with each other."""
MOST_DIGITS = 40
TRUTHS = dict.fromkeys(("true", "yes"), Decimal(1)) | dict.fromkeys(("false", "no"), Decimal(0))
CUT = 60
"""Number of characters shown of a text."""


def label_notices(rows: Sequence[Row]) -> Iterator[str]:
    """Notices of a task, the gravest first."""
    yield from _contradictions(rows)
    yield from _near_equal(rows)


def _contradictions(rows: Sequence[Row]) -> Iterator[str]:
    first: dict[bytes, Row] = {}
    several: dict[bytes, list[Row]] = {}
    for row in rows:
        before = first.setdefault(key := equality_key(row.input), row)
        if before.outputs != row.outputs and set(map(as_read, before.outputs)) != set(map(as_read, row.outputs)):
            several.setdefault(key, [before]).append(row)
    if several:
        written = [
            f"{cut(row.input, CUT)!r} → {cut(row.output, CUT)!r}" + (f" ({row.origin})" if row.origin else "")
            for row in next(iter(several.values()))[:SHOWN]
        ]
        yield "\n  ".join([f"inputs that occur with different outputs: {len(several)}", *written])


def _near_equal(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.output for row in rows)
    labels = [label for label, _ in counts.most_common() if not label.startswith(("{", "["))]  # JSON is nearly alike
    labels = labels[:MOST_WRITTEN] if classes_of([row.output for row in rows]) else []
    pairs = [
        (one, other, why)
        for number, one in enumerate(labels)
        for other in labels[:number]
        if (why := _why_alike(other, one, counts))
    ]
    for rare, often, why in pairs[:SHOWN]:
        origin = next(row.origin for row in rows if row.output == rare)
        yield (
            f"the outputs {often!r} ({counts[often]} times) and {rare!r} ({counts[rare]} times"
            f"{f', first at {origin}' if origin else ''}) {why}"
        )


def _why_alike(often: str, rare: str, counts: Counter[str]) -> str:
    """Similarity of two labels and a remedy; empty if there is none."""
    if unseen := unseen_difference(often, rare):
        return f"count as one label, because they differ only in invisible characters: {unseen}; write them in one way"
    is_rare = counts[rare] <= RARE * counts[often]
    if as_read(often) == as_read(rare) or (is_rare and difflib.SequenceMatcher(None, often, rare).ratio() >= ALIKE):
        return "look alike; if they are one label, correct the data"
    return ""


def value_of(label: str) -> Decimal | None:
    """The number or truth value of a label, however it is written: 1.0, 1 and True are equal; None for other text."""
    text = as_read(label)
    if text in TRUTHS:
        return TRUTHS[text]
    try:
        value = Decimal(text) if len(text) <= MOST_DIGITS else None
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def split_notices(data: TaskData, score: Callable[[str, Sequence[str]], float]) -> Iterator[str]:
    """Notices about outputs that the sets write differently (1.0, 1, True), and about labels that no pool row has.

    Args:
        score: the metric; outputs that are right by it do not count as different.
    """
    pool = {as_read(output): output for row in data.pool for output in row.outputs}
    values: dict[Decimal, str] = {}
    for output in pool.values():
        if (value := value_of(output)) is not None:
            values.setdefault(value, output)
    everything = (*data.pool, *data.validation, *data.test)
    are_labels = bool(classes_of([row.output for row in everything if not row.output.startswith(("{", "["))]))
    for name, rows in (("pool", data.pool), ("validation set", data.validation), ("test set", data.test)):
        others = pool if rows is not data.pool else {as_read(output) for output in values.values()}
        lacking = Counter(row.output for row in rows if not any(as_read(output) in others for output in row.outputs))
        value_alike = {output: values[value] for output in lacking if (value := value_of(output)) in values}
        apart = {output: alike for output, alike in value_alike.items() if not _is_right(score, alike, output)}
        if apart:
            written = ", ".join(f"{output!r} and {alike!r}" for output, alike in list(apart.items())[:SHOWN])
            whose = "other rows of the pool" if rows is data.pool else "rows of the pool"
            yield (
                f"{sum(lacking[output] for output in apart)} rows of the {name} have an output that {whose} write "
                "differently, so an answer right by one is wrong by the other; write both the same way\n"
                f"  {cut(written, CUT * SHOWN)}"
            )
        unseen = lacking.keys() - value_alike.keys() if are_labels and rows is not data.pool else set()
        labels = sorted(each for each in unseen if not any(_is_right(score, shown, each) for shown in pool.values()))
        if labels:
            listed = ", ".join(f"{label!r} ({lacking[label]} rows)" for label in labels[:SHOWN])
            yield (
                f"the {name} has {len(labels)} label{'s' * (len(labels) > 1)} that no row of the pool has, so no "
                f"exemplar shows {'them' if len(labels) > 1 else 'it'}; add such rows to the pool, or correct the "
                f"{name}\n  {cut(listed, CUT * SHOWN)}"
            )


def _is_right(score: Callable[[str, Sequence[str]], float], answer: str, output: str) -> bool:
    try:
        return score(answer, [output]) == 1
    except DataError:  # on an output that the metric cannot read; scoring answers reports it
        return False
