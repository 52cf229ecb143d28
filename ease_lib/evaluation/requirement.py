"""Check of an answer against `require` (`ease_lib.config.requirement_terms`).

The paper's search looks at one score alone; what else a prompt does is left to later work there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ease_lib.config.requirement_terms import Requirement, requirement_of
from ease_lib.config.sections import JUDGE
from ease_lib.evaluation.metrics import Metric
from ease_lib.evaluation.own_metric import LoadedMetric
from ease_lib.prompts.messages import without_reasoning


@dataclass(frozen=True)
class LoadedRequirement:
    """A requirement with the functions that measure an answer.

    Args:
        sha256: by measure, of the files that they were read from.
        text: as the parameter has it.
    """

    text: str
    requirement: Requirement
    measures: Mapping[str, Metric]
    sha256: Mapping[str, str]

    def is_kept(self, answer: str, outputs: Sequence[str]) -> bool:
        """Whether the conditions hold that need no judge.

        Args:
            outputs: accepted ones of the row.

        Raises:
            DataError: if an own function fails on the answer.
        """
        return all(
            condition.holds(self.measures[condition.measure](answer, outputs))
            for condition in self.requirement.conditions
            if condition.measure != JUDGE
        )

    def is_approved(self, judged: float | None) -> bool:
        """Whether the conditions on the judge's score hold; not if there is none."""
        conditions = (each for each in self.requirement.conditions if each.measure == JUDGE)
        return all(judged is not None and condition.holds(judged) for condition in conditions)

    @property
    def document(self) -> dict[str, Any]:
        """The requirement as the summary of the data holds it."""
        return {"text": self.text, "sha256": dict(self.sha256)}


def load_requirement(
    text: str, load_metric: Callable[[str, str, str], LoadedMetric], sha256: Mapping[str, str] | None = None
) -> LoadedRequirement | None:
    """Requirement that `require` states; None if it is empty.

    Args:
        load_metric: gives a metric by its name, the SHA-256 that its file must have, of which empty takes any, and the
            parameter that names it.
        sha256: by measure, what their files must have.

    Raises:
        ConfigError: when it is not understood, or a file changed.
    """
    requirement = requirement_of(text)
    if requirement is None:
        return None
    others = [name for name in requirement.measures if name not in _MEASURES and name != JUDGE]
    loaded = {name: load_metric(name, (sha256 or {}).get(name, ""), "require") for name in others}
    digests = {name: metric.sha256 for name, metric in loaded.items() if metric.sha256}
    return LoadedRequirement(
        text, requirement, _MEASURES | {name: each.score for name, each in loaded.items()}, digests
    )


def _characters(answer: str, outputs: Sequence[str]) -> float:
    return len(_said(answer))


def _words(answer: str, outputs: Sequence[str]) -> float:
    return len(_said(answer).split())


def _lines(answer: str, outputs: Sequence[str]) -> float:
    return len([line for line in _said(answer).splitlines() if line.strip()])


def _json(answer: str, outputs: Sequence[str]) -> float:
    try:
        json.loads(_said(answer), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):  # nested too deep to be read
        return 0.0
    return 1.0


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON, though Python writes it")


def _said(answer: str) -> str:
    """The answer without hidden reasoning, and without blanks around it."""
    return without_reasoning(answer).strip()


_MEASURES: dict[str, Metric] = {"characters": _characters, "words": _words, "lines": _lines, "json": _json}
