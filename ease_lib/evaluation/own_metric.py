"""A custom metric: `metric: path/to/metric.py:score`, the same on s3://, or `installed.module:score`.

    def score(answer: str, outputs: list[str]) -> float:      # 0 is wrong, 1 is right
        ...

`answer` is the LLM's answer without its thinking; `outputs` are the accepted outputs of the row. Every stage that
scores reads the file, which must be the same as when the data was made: its SHA-256 is part of the data's summary, and
so of the lineage and of a search's identity. It is the user's own code and runs as such. A program that calls
`ease_lib.optimize` passes the function itself.

`metric: path/to/costs.csv` is a matrix of costs, with a line for each expected label and a column for each answered
one. The column `*` is any other answer, which otherwise costs as much as the most expensive one of its line.

    expected, urgent, normal, *
    urgent,        0,     10, 5
    normal,        1,      0, 5

The score of an answer is 1 minus its cost divided by the highest cost of all, so a mean score gives the mean cost.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ease_lib.artifacts.functions import LoadedFunction, load_function, note_what_was_given
from ease_lib.artifacts.sources import Sources
from ease_lib.config.sections import EVALUATED, FUNCTION, JUDGE
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.metrics import METRICS, Metric, normalise

OwnMetric = Callable[[str, list[str]], float]
MATRIX, OTHERS = ".csv", "*"
WITHOUT_JUDGE = "exact_match"
"""Metric that replaces `metric=judge`, and that of a program, where nothing may be asked: to decide what noise is, and
whether an answer fits any row."""


class LoadedMetric(NamedTuple):
    """A metric, and the SHA-256 of the file that it was read from; empty for a built-in metric."""

    score: Metric
    sha256: str = ""


def load_metric(
    name: str,
    sources: Sources,
    *,
    sha256: str = "",
    own: LoadedFunction | None = None,
    parameter: str = "metric",
) -> LoadedMetric:
    """A metric by its name, or of a file or module.

    Args:
        sha256: that its file must have; empty takes any.
        own: the function that a metric of the module `function` is, and its source.
        parameter: that names it, for messages.

    Raises:
        ConfigError: when there is none, or its file changed.
        StoreError: when it cannot be read.
    """
    title = f"{parameter}={name}"
    if name in METRICS:
        return LoadedMetric(METRICS[name])
    if name == EVALUATED:
        return LoadedMetric(METRICS[WITHOUT_JUDGE])
    if name == JUDGE:
        return LoadedMetric(METRICS[WITHOUT_JUDGE], sha256)
    if name.endswith(MATRIX):
        source = sources.read(name)
        return LoadedMetric(_by_costs(title, source), _digest(title, source, sha256))
    if name.rpartition(":")[0] == FUNCTION and own is not None:
        return LoadedMetric(_checked(title, own.call), _digest(title, own.source, sha256))
    loaded = load_function(title, name, sources, lambda source: _digest(title, source, sha256))
    return LoadedMetric(_checked(title, loaded.call), _digest(title, loaded.source, sha256))


def file_of(name: str) -> str:
    """The file that a metric is read from, a path or s3://; empty of any other."""
    place = name if name.endswith(MATRIX) else name.rpartition(":")[0]
    return place if place.endswith((MATRIX, ".py")) else ""


def _digest(title: str, source: bytes, expected: str) -> str:
    found = sha256_of(source)
    if expected and found != expected:
        raise ConfigError(
            f"{title} changed since the data was made (SHA-256 {found[:12]}…, then {expected[:12]}…); "
            "restore the file, or start again with build_dataset"
        )
    return found


def _by_costs(title: str, source: bytes) -> Metric:
    try:
        header, *lines = [[cell.strip() for cell in row] for row in csv.reader(source.decode("utf-8-sig").splitlines())]
        answers = [label if label == OTHERS else normalise(label) for label in header[1:]]
        costs = {normalise(row[0]): dict(zip(answers, map(float, row[1:]), strict=True)) for row in lines if any(row)}
    except (ValueError, IndexError) as error:
        raise ConfigError(
            f"{title} is not a cost matrix ({error}); write a line `expected,LABEL,LABEL,...`, and below it a line "
            "of costs for each label"
        ) from error
    each = [cost for row in costs.values() for cost in row.values()]
    if not each or not all(0 <= cost < math.inf for cost in each) or not any(each):
        raise ConfigError(f"{title}: costs are numbers from 0 on, and one of them is more; found {each[:5]}")

    def score(answer: str, outputs: Sequence[str]) -> float:
        given = normalise(answer)
        rows = [costs.get(normalise(output)) for output in outputs]
        unknown = [output for output, row in zip(outputs, rows, strict=True) if row is None]
        if unknown:
            raise DataError(f"{title} has no line for the output {unknown[0]!r}; add it")
        least = min(row.get(given, row.get(OTHERS, max(row.values()))) for row in rows if row)
        return 1 - least / max(each)

    return score


def name_of(function: Callable[..., Any]) -> str:
    """Name of a caller's function."""
    return getattr(function, "__name__", type(function).__name__)


def _checked(title: str, function: Callable[[str, list[str]], Any]) -> Metric:
    def score(answer: str, outputs: Sequence[str]) -> float:
        try:
            value = function(answer, list(outputs))
            number = float(value)
        except Exception as error:
            note_what_was_given(error, title, f"the answer {answer!r} and the outputs {list(outputs)!r}")
            raise DataError(f"{title} failed on an answer: {type(error).__name__}: {error}") from error
        if not 0 <= number <= 1:
            raise DataError(f"{title} returned {value!r} for an answer; return a number from 0 to 1")
        return number

    return score
