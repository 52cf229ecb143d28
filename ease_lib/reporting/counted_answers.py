"""The winner's answers on the test set, counted: label by label, and field by field of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ease_lib.errors import DataError
from ease_lib.evaluation.metrics import LABEL, METRICS, Metric, fields_right, label_metric, normalise
from ease_lib.evaluation.own_metric import WITHOUT_JUDGE

MOST_LABELS = 12
MOST_WRITTEN = 100
"""Number of different outputs above which outputs do not count as labels."""
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


def labels_of(answers: Predictions, metric: str) -> Labels | None:
    """Labels of a task that has few of them; None for other tasks and for outputs in JSON, which are read field by
    field.

    An answer is read by the metric's rule: one that scored 1 gave the label that is expected, any other one the label
    that it would be right for.

    Args:
        metric: its name; a rule of another origin, and a judge, compare wrong answers as `exact_match` does.
    """
    if any(row["outputs"][0].startswith(("{", "[")) for row in answers):
        return None
    written = Counter(row["outputs"][0] for row in answers)
    if not 2 <= len(written) <= MOST_WRITTEN:
        return None
    score = METRICS.get(metric, METRICS[WITHOUT_JUDGE])
    named = _named(written, score)
    labels = sorted(set(named.values()))
    if not 2 <= len(labels) <= MOST_LABELS or len(labels) * 2 > len(answers):
        return None
    if metric == LABEL:
        score = label_metric(written)
    pairs = Counter((named[row["outputs"][0]], _given(row, named, score)) for row in answers)
    expected, answered = Counter(), Counter()  # type: Counter[str], Counter[str]
    for (wanted, given), count in pairs.items():
        expected[wanted] += count
        answered[given] += count
    columns = [*labels, *([OTHER] if answered[OTHER] else [])]
    rows = [
        Label(
            name=label,
            counts=[pairs[label, column] for column in columns],
            precision=pairs[label, label] / answered[label] if answered[label] else None,
            recall=pairs[label, label] / expected[label],
            f1=2 * pairs[label, label] / (answered[label] + expected[label]),
        )
        for label in labels
    ]
    return Labels(columns=columns, rows=rows)


def _named(written: Counter[str], score: Metric) -> dict[str, str]:
    """The label of each output: outputs that are right for each other are one, by its most frequent form."""
    firsts: list[str] = []
    first_of: dict[str, str] = {}
    for output, _ in written.most_common():
        same = (first for first in firsts if score(output, [first]) == 1 == score(first, [output]))
        first_of[output] = first = next(same, output)
        if first == output:
            firsts.append(output)
    plain = Counter(map(normalise, firsts))
    names = {first: normalise(first) if plain[normalise(first)] == 1 else first.strip() for first in firsts}
    return {output: names[first] for output, first in first_of.items()}


def _given(row: Mapping[str, Any], named: Mapping[str, str], score: Metric) -> str:
    if row["score"] == 1:
        return named[row["outputs"][0]]
    others = (output for output in named if named[output] != named[row["outputs"][0]])
    return next((named[output] for output in others if score(row["prediction"], [output]) == 1), OTHER)


def fields_of(answers: Predictions) -> list[tuple[str, int, int]]:
    """Fields of JSON outputs: name, how often it is right, of how many; empty if outputs are not objects."""
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
