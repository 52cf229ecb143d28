"""State of a search, read from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ease_lib.artifacts.store import Store
from ease_lib.evaluation.statistics import wilson_interval
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.journal import Evaluated, Found, usage_of_records, written
from ease_lib.search.mean_scores import MeanScores
from ease_lib.search.surrogate.answers import PRIOR_ANSWERS

CONTENDERS = 5
RECENT = 20
"""Number of recent evaluations that determine the current pace."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One of the best sequences so far.

    Args:
        score: mean over its `rows`, with a 95 % interval of these rows alone.
    """

    prompt: Prompt
    score: float
    interval: tuple[float, float]
    rows: int


@dataclass(frozen=True, kw_only=True)
class Watched:
    """State of a search.

    Args:
        name: of its journal.
        planned: answers in all; None if the method's journal does not say it.
        under_way: sequences that were proposed and are not evaluated yet, with the number of their rows.
        retries: requests that failed and were tried again.
        refused: answers that the endpoint refused to give.
        tokens: of prompts and answers.
        left_seconds: at the pace of the last evaluations.
        last_answer: ISO 8601; empty if no answer has a time.
        records: of which `history` is made.
    """

    name: str
    answers: int
    planned: int | None
    sequences: int
    requests: int
    retries: int
    refused: int
    tokens: int
    contenders: Sequence[Contender]
    under_way: Sequence[tuple[Prompt, int]]
    left_seconds: float | None
    last_answer: str
    records: Sequence[Evaluated]

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Rows for charts; they take time proportional to evaluations times sequences, so only pages compute them."""
        return _history(self.records)

    @property
    def failures(self) -> str:
        """Failures so far; empty if there are none."""
        said = [(self.retries, "request", "tried again"), (self.refused, "answer", "refused")]
        return "; ".join(
            f"{count} {noun} was {what}" if count == 1 else f"{count} {noun}s were {what}"
            for count, noun, what in said
            if count
        )

    @property
    def is_over(self) -> bool:
        return self.planned is not None and self.answers >= self.planned

    def silent_seconds(self, now: datetime) -> float:
        """Seconds since the last answer."""
        return (now - datetime.fromisoformat(self.last_answer)).total_seconds() if self.last_answer else 0.0


def watched(store: Store) -> Watched | None:
    """The search of a run's store that was answered last; None before the first one.

    Raises:
        JournalError: when its journal is damaged.
    """
    found = {name: each for name, each in written(store).items() if each[0] or each[1]}
    if not found:
        return None
    name = max(found, key=lambda name: (_last_answer(found[name][0]), len(found[name][0])))
    return _of(name, found[name])


def _of(name: str, found: Found) -> Watched:
    records, proposed = found
    known = {record.iteration for record in records}
    end = name.rpartition("-")[2]
    planned = int(end) if "-" in name and end.isdecimal() else None
    answers = sum(len(record.observation.rows) for record in records)
    recent = records[-RECENT:]
    pace = sum(record.seconds for record in recent) / max(1, sum(len(each.observation.rows) for each in recent))
    usage = usage_of_records(records)
    return Watched(
        name=name,
        answers=answers,
        planned=planned,
        sequences=len({record.observation.candidate.prompt for record in records}),
        requests=usage.requests,
        retries=usage.retries,
        refused=sum(record.observation.failed_rows for record in records),
        tokens=usage.prompt_tokens
        + usage.completion_tokens
        + usage.judge_prompt_tokens
        + usage.judge_completion_tokens,
        contenders=_contenders(records),
        under_way=[(each.prompt, len(each.rows)) for number, each in sorted(proposed.items()) if number not in known],
        left_seconds=pace * (planned - answers) if planned is not None and records else None,
        last_answer=_last_answer(records),
        records=records,
    )


def _last_answer(records: Sequence[Evaluated]) -> str:
    return max((record.usage.oldest_answer for record in records), default="")


def _add(scores: MeanScores, record: Evaluated) -> None:
    observation = record.observation
    scores.add(observation.candidate.prompt, observation.score, observation.validation_rows)


def _contenders(records: Sequence[Evaluated]) -> list[Contender]:
    """The best sequences by the lower ends of their intervals, so that few rows do not suffice."""
    scores = MeanScores()
    for record in records:
        _add(scores, record)
    found = [
        Contender(prompt=prompt, score=total / rows, interval=wilson_interval(total / rows, rows), rows=rows)
        for prompt, (total, rows) in scores.sums.items()
        if rows
    ]
    return sorted(found, key=lambda each: -each.interval[0])[:CONTENDERS]


def _history(records: Sequence[Evaluated]) -> list[dict[str, Any]]:
    """Rows for the search curve; the incumbent is the best by its shrunk mean until then."""
    rows: list[dict[str, Any]] = []
    scores = MeanScores()
    total, count = 0.0, 0
    for record in records:
        observation = record.observation
        more = observation.validation_rows
        _add(scores, record)
        total, count = total + observation.score * more, count + more
        mean = total / max(1, count)
        incumbent = max((own + PRIOR_ANSWERS * mean) / (asked + PRIOR_ANSWERS) for own, asked in scores.sums.values())
        rows.append(
            {
                "phase": observation.candidate.phase,
                "score": observation.score,
                "validation_rows": more,
                "incumbent_score": incumbent,
                "instruction_id": observation.candidate.instruction,
                "exemplar_ids": observation.candidate.sequence,
                "cost_usd": 0.0,  # a journal knows no prices
            }
        )
    return rows
