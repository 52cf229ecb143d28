"""What a search ends with: the winner, and what is known of its score on rows that nobody has seen.

The best of many noisy scores is too good. What a model of all answers (`surrogate/answers.py`) expects of the winner is
not: it is shrunk to the population's mean by as much as scores differ by luck. That holds for every method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ease_lib.evaluation.statistics import Z_95
from ease_lib.machine import one_thread
from ease_lib.search.optimizers.adaptive import components_of
from ease_lib.search.optimizers.history import Candidate, History
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, RowAllocating
from ease_lib.search.surrogate.answer_model import AnswerModel
from ease_lib.search.surrogate.answers import Answered, Answers, fitted_model


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The winner of a search.

    Args:
        score: on the validation rows it was asked, as the method sees it: the mean, or a posterior mean.
        estimate: of its score on new rows, corrected for having been chosen; error: its standard deviation.
        rows: validation rows it was asked.
        answers, model: of the whole search.
    """

    candidate: Candidate
    score: float
    estimate: float
    error: float
    rows: int
    answers: Answers
    model: AnswerModel

    @property
    def interval(self) -> tuple[float, float]:
        """95 % of the estimate."""
        return max(0.0, self.estimate - Z_95 * self.error), min(1.0, self.estimate + Z_95 * self.error)


@one_thread()
def outcome_of(
    history: History, optimizer: ExemplarOptimizer, problem: Problem, recalled: Iterable[Answered] = ()
) -> Outcome | None:
    """None where nothing was evaluated in full, or asked at all.

    Args:
        recalled: what the optimizer knew before.
    """
    answers = Answers()
    for answered in recalled:
        answers.add(*answered)
    for observation in history:
        answers.add(observation.candidate.prompt, observation.rows, observation.scores)
    recommended = optimizer.recommend() if isinstance(optimizer, RowAllocating) else None
    if recommended is None and history.incumbent is None:
        return None
    candidate = recommended.candidate if recommended else history.incumbent.candidate  # type: ignore[union-attr]
    model = fitted_model(components_of(problem), answers, always=[candidate.prompt])
    if recommended:
        score = estimate = recommended.score
        error, rows = recommended.error, recommended.rows
    else:
        place = model.place(candidate.prompt)
        score, rows = history.incumbent.score, history.incumbent.validation_rows  # type: ignore[union-attr]
        estimate, error = float(model.mean[place]), float(np.sqrt(model.covariance[place, place]))
    return Outcome(
        candidate=candidate,
        score=score,
        estimate=float(np.clip(estimate, 0.0, 1.0)),
        error=error,
        rows=rows,
        answers=answers,
        model=model,
    )
