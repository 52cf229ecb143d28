"""The winner's answers on the test set, counted: label by label, and field by field of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ease_lib.errors import DataError
from ease_lib.evaluation.metrics import fields_right, normalise

MOST_LABELS = 12
MOST_FIELDS = 40
OTHER = "(other)"
Predictions = Sequence[Mapping[str, Any]]
"""Rows of the predictions' contract, all with a score."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """Args: counts: answers by column of the table."""

    name: str
    counts: list[int]
    precision: float | None
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Expected against answered labels; the mean of their F1 counts rare ones as much as frequent ones."""

    columns: list[str]
    rows: list[Label]

    @property
    def macro_f1(self) -> float:
        return sum(row.f1 for row in self.rows) / len(self.rows)


def labels_of(answers: Predictions) -> Labels | None:
    """Of a task with few labels; of any other None, and of one whose outputs are JSON, which is read field by field."""
    if any(row["outputs"][0].startswith(("{", "[")) for row in answers):
        return None
    expected = Counter(normalise(row["outputs"][0]) for row in answers)
    if not 2 <= len(expected) <= MOST_LABELS or len(expected) * 2 > len(answers):
        return None
    predicted = [normalise(row["prediction"]) for row in answers]
    given = [answer if answer in expected else OTHER for answer in predicted]
    pairs = Counter(zip((normalise(row["outputs"][0]) for row in answers), given, strict=True))
    answered = Counter(label for _, label in pairs.elements())
    columns = [*sorted(expected), *([OTHER] if answered[OTHER] else [])]
    rows = [
        Label(
            name=label,
            counts=[pairs[label, column] for column in columns],
            precision=pairs[label, label] / answered[label] if answered[label] else None,
            recall=pairs[label, label] / expected[label],
            f1=2 * pairs[label, label] / (answered[label] + expected[label]),
        )
        for label in sorted(expected)
    ]
    return Labels(columns=columns, rows=rows)


def fields_of(answers: Predictions) -> list[tuple[str, int, int]]:
    """Fields of JSON outputs: name, how often it is right, of how many; empty where outputs are no objects."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    try:
        for row in answers:
            found = fields_right(row["prediction"], row["outputs"])
            asked.update(list(found))
            right.update(name for name, same in found.items() if same)
    except DataError:
        return []
    return [(name, right[name], count) for name, count in asked.most_common(MOST_FIELDS)] if set(asked) - {""} else []
