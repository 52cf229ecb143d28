"""Progress of a search: lines in the log, and a state for bars and pages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.journal import Evaluated
from ease_lib.search.optimizers.history import History
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, RowAllocating

logger = logging.getLogger("ease")

PARTS, SECONDS = 20, 10.0
"""Number of parts of a search per line in the log, and number of seconds after which a line is due."""


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """State of a search.

    Args:
        answers: told or evaluated so far, of `planned`.
        best: the incumbent's score, once it is known, with its standard deviation where the method says it.
        requests, cost_usd: of the search alone.
    """

    answers: int
    planned: int
    best: float | None
    error: float | None
    requests: int
    cost_usd: float


class SearchProgress:
    """Called after every evaluation.

    Args:
        prices: as `Usage.cost_usd` takes them.
        tell: called with every state.
        known: what an earlier attempt at the search left; it counts.
    """

    def __init__(
        self,
        optimizer: ExemplarOptimizer,
        settings: OptimizerConfig,
        problem: Problem,
        prices: Mapping[str, float],
        tell: Callable[[SearchState], None],
        known: Iterable[Evaluated] = (),
    ) -> None:
        known = list(known)
        self._tell = tell
        self._optimizer = optimizer
        self._budget = settings.budget
        self._planned = problem.answers
        self._prices = prices
        self._usage = sum((record.usage for record in known), start=Usage())
        self._asked = sum(len(record.observation.rows) for record in known)
        self._shown = self._asked * PARTS // max(1, self._planned)
        self._shown_at = time.monotonic()
        self._told = 0
        self._best: float | None = None
        self._error: float | None = None

    def __call__(self, record: Evaluated, history: History) -> None:
        self._asked += len(record.observation.rows)
        self._usage += record.usage
        part = self._asked * PARTS // max(1, self._planned)
        is_due = part > self._shown or time.monotonic() > self._shown_at + SECONDS
        if isinstance(self._optimizer, RowAllocating):
            if is_due:
                self._log_part(self._optimizer, history)
        else:
            scores = [history.incumbent.score] if history.incumbent else []
            self._best = max([*scores, record.observation.score])
            if is_due or record.iteration + 1 >= self._budget:
                self._log_evaluation(record)
        if is_due:
            self._shown, self._shown_at = part, time.monotonic()
        self._tell(
            SearchState(
                answers=self._asked,
                planned=self._planned,
                best=self._best,
                error=self._error,
                requests=self._usage.requests,
                cost_usd=self._usage.cost_usd(**self._prices),
            )
        )

    def _log_part(self, optimizer: RowAllocating, history: History) -> None:
        best = optimizer.recommend()
        told = sum(len(observation.rows) for observation in history)
        if best is None or told == self._told:
            return
        self._told, self._best, self._error = told, best.score, best.error
        _log(
            "answers %d/%d  %d sequences  best so far %.3f ± %.3f: %d exemplars, on %d rows",
            told,
            self._planned,
            len(history.seen),
            best.score,
            best.error,
            len(best.candidate.sequence),
            best.rows,
        )

    def _log_evaluation(self, record: Evaluated) -> None:
        observation = record.observation
        _log(
            "evaluation %d/%d %s  score %.3f  incumbent %.3f  %d requests  %.1f s",
            record.iteration + 1,
            self._budget,
            observation.candidate.phase,
            observation.score,
            self._best,
            record.usage.requests,
            record.seconds,
        )


def _log(line: str, *values: object) -> None:
    logger.info(line, *values, extra={"is_progress": True})
