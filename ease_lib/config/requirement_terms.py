"""Conditions that every answer must meet: `require`, e.g. `characters<=200; judge>=0.75 in 95%`.

A condition is a measure, `>=` or `<=`, and a number such as 200 or 0.75; conditions are separated by `;`. A measure is
`characters`, `words`, `lines`, `json` (1 if the answer is one JSON value, else 0), any metric by its name, a custom
function (`FILE.py:NAME`, `MODULE:NAME`, as for `metric`), or `judge`, whose scale is then from 0 to 1. An answer that
violates a condition scores 0, in the search and in the test. `in 95%`, at the end, is the share of the test set's
answers that must meet all conditions for `publish_if=better` to publish the prompt; without it, all answers must.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ease_lib.errors import ConfigError

MEASURES = ("characters", "words", "lines", "json")
_CONDITION = re.compile(r"\s*(?P<measure>\S.*?)\s*(?P<sign>>=|<=)\s*(?P<limit>[\d.]+)\s*")
_SHARE = re.compile(r"\bin\s+(?P<percent>[\d.]+)\s*%\s*\Z")
EXAMPLE = "write e.g. `characters<=200, json>=1; judge>=0.75 in 95%`, or FILE.py:NAME>=1"


@dataclass(frozen=True)
class Condition:
    """A measure of an answer and the number that it may not fall below, or not exceed."""

    measure: str
    is_least: bool
    limit: float

    def holds(self, value: float) -> bool:
        """Whether a value meets the condition, up to its last digits: a mean of thirds differs from a third there."""
        return value >= self.limit - 1e-9 if self.is_least else value <= self.limit + 1e-9


@dataclass(frozen=True)
class Requirement:
    """All conditions, and the share of answers that must keep all of them for a prompt to be published, in (0, 1]."""

    conditions: tuple[Condition, ...]
    share: float

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(condition.measure for condition in self.conditions))


def requirement_of(text: str) -> Requirement | None:
    """The requirement that a text states; None of an empty one.

    Raises:
        ConfigError: with what is not understood.
    """
    if not text.strip():
        return None
    parts, share = _divided(text)
    conditions = []
    for part in parts:
        found = _CONDITION.fullmatch(part)
        limit = _number(found["limit"]) if found else None
        if found is None or limit is None:
            raise ConfigError(f"require={text}: {part.strip()!r} is not a condition; {EXAMPLE}")
        conditions.append(Condition(found["measure"], found["sign"] == ">=", limit))
    percent = _number(share["percent"]) if share else 100.0
    if not conditions or percent is None or not 0 < percent <= 100:
        raise ConfigError(f"require={text} is not understood; {EXAMPLE}")
    return Requirement(tuple(conditions), percent / 100)


def with_measures(text: str, names: Mapping[str, str]) -> str:
    """A parsed requirement with other names of measures, for files that were moved.

    Args:
        names: the new ones by the old.
    """
    parts, share = _divided(text)
    found = [match for match in map(_CONDITION.fullmatch, parts) if match]
    renamed = [f"{names.get(each['measure'], each['measure'])}{each['sign']}{each['limit']}" for each in found]
    return "; ".join(renamed) + (f" {share.group()}" if share else "")


def _divided(text: str) -> tuple[list[str], re.Match[str] | None]:
    """Split a requirement into its conditions and the share behind them."""
    share = _SHARE.search(text)
    return list(filter(str.strip, text[: share.start() if share else len(text)].split(";"))), share


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
