"""What the log says of a search: a line for each evaluation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.journal import Evaluated
from ease_lib.search.optimizers.history import History
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, Recommendation, RowAllocating

logger = logging.getLogger("ease")

PARTS = 20
"""Of a search, that the log has a line for each."""


class Progress:
    """A line for each evaluation, or for every part of a search whose evaluations are of a few rows each.

    Args:
        tell: called after every evaluation with the answers until then, those that are planned, and the best score.
        known: what an earlier attempt at the search left; it counts.
    """

    def __init__(
        self,
        optimizer: ExemplarOptimizer,
        settings: OptimizerConfig,
        problem: Problem,
        tell: Callable[[int, int, float], None],
        known: Iterable[Evaluated] = (),
    ) -> None:
        self._tell = tell
        self._optimizer = optimizer
        self._budget = settings.budget
        self._answers = problem.answers
        self._asked = sum(len(record.observation.rows) for record in known)
        self._told = 0
        self._shown = self._asked * PARTS // max(1, self._answers)
        self._best = 0.0

    def __call__(self, record: Evaluated, history: History) -> None:
        self._asked += len(record.observation.rows)
        if isinstance(self._optimizer, RowAllocating):
            if self._asked * PARTS >= self._answers * (self._shown + 1):
                self._shown = self._asked * PARTS // self._answers
                self._log_part(self._optimizer.recommend(), history)
        else:
            self._best = _best_of(record, history)
            _log_evaluation(record, self._best, self._budget)
        self._tell(self._asked, self._answers, self._best)

    def _log_part(self, best: Recommendation | None, history: History) -> None:
        told = sum(len(observation.rows) for observation in history)
        if best is None or told == self._told:
            return
        self._told, self._best = told, best.score
        logger.info(
            "answers %d/%d  %d sequences  best so far %.3f ± %.3f: %d exemplars, asked %d rows",
            told,
            self._answers,
            len(history.seen),
            best.score,
            best.error,
            len(best.candidate.sequence),
            best.rows,
        )


def _best_of(record: Evaluated, history: History) -> float:
    """The incumbent's score, this record among the others."""
    scores = [history.incumbent.score] if history.incumbent else []
    return max([*scores, record.observation.score])


def _log_evaluation(record: Evaluated, incumbent: float, budget: int) -> None:
    """Number, score, incumbent, requests and seconds."""
    observation = record.observation
    logger.info(
        "evaluation %d/%d %s  score %.3f  incumbent %.3f  %d requests  %.1f s",
        record.iteration + 1,
        budget,
        observation.candidate.phase,
        observation.score,
        incumbent,
        record.usage.requests,
        record.seconds,
    )
