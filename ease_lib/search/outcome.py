"""Outcome of a search: the winner, and an estimate of its score on new rows.

The best of many noisy scores is biased upwards. The posterior mean of the winner under a model of all answers
(`surrogate/answers.py`) is not: it shrinks the score towards the population mean in proportion to the noise. That holds
for every method.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from ease_lib.evaluation.statistics import Z_95
from ease_lib.machine import one_thread
from ease_lib.search.optimizers.adaptive import EQUAL, components_of
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, RowAllocating
from ease_lib.search.surrogate.answer_model import AnswerModel
from ease_lib.search.surrogate.answers import Answered, Answers, fitted_model


@dataclass(frozen=True, kw_only=True)
class Without:
    """A prompt without the exemplars to avoid, with its expected score on new rows."""

    candidate: Candidate
    estimate: float
    error: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The winner of a search.

    Args:
        score: on the validation rows it was asked, as the method sees it: the mean, or a posterior mean.
        estimate: of its score on new rows, corrected for having been chosen; error: its standard deviation.
        rows: validation rows it was asked.
        without: where it shows an exemplar that was to be avoided, the best prompt that shows none.
        answers, model: of the whole search.
    """

    candidate: Candidate
    score: float
    estimate: float
    error: float
    rows: int
    without: Without | None = None
    answers: Answers
    model: AnswerModel

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the estimate."""
        return max(0.0, self.estimate - Z_95 * self.error), min(1.0, self.estimate + Z_95 * self.error)


@one_thread()
def outcome_of(
    history: History,
    optimizer: ExemplarOptimizer,
    problem: Problem,
    recalled: Iterable[Answered] = (),
    avoided: Collection[int] = (),
) -> Outcome | None:
    """Outcome of a search; None if no sequence was evaluated in full, or none answered at all.

    Args:
        recalled: what the optimizer knew before.
        avoided: exemplars, by position, that are likely mislabelled: of prompts that are as good, within `EQUAL`, one
            without them wins.
    """
    answers = Answers()
    for answered in recalled:
        answers.add(*answered)
    for observation in history:
        answers.add(observation.candidate.prompt, observation.rows, observation.scores)
    recommended = optimizer.recommend(avoided) if isinstance(optimizer, RowAllocating) else None
    incumbent = history.incumbent
    if (recommended is None and incumbent is None) or not len(answers):
        return None
    candidate = recommended.candidate if recommended else incumbent.candidate  # type: ignore[union-attr]
    model = fitted_model(components_of(problem), answers, always=[candidate.prompt])
    if recommended:
        score = estimate = recommended.score
        error, rows = recommended.error, recommended.rows
    else:
        assert incumbent is not None
        incumbent = _as_good(incumbent, history, model, avoided)
        candidate, score, rows = incumbent.candidate, incumbent.score, incumbent.validation_rows
        estimate, error = _expected(model, candidate)
    return Outcome(
        candidate=candidate,
        score=score,
        estimate=float(np.clip(estimate, 0.0, 1.0)),
        error=error,
        rows=rows,
        without=_without(candidate, model, answers, avoided),
        answers=answers,
        model=model,
    )


def _as_good(incumbent: Observation, history: History, model: AnswerModel, avoided: Collection[int]) -> Observation:
    """The incumbent, or the best evaluation without the exemplars to avoid, by score and number of rows."""
    if set(avoided).isdisjoint(incumbent.candidate.sequence):
        return incumbent
    equal = [
        each
        for each in history
        if each.score >= incumbent.score - EQUAL
        and each.validation_rows >= incumbent.validation_rows
        and set(avoided).isdisjoint(each.candidate.sequence)
        and each.candidate.prompt in model
    ]
    return max(equal, key=lambda each: _expected(model, each.candidate)[0], default=incumbent)


def _without(winner: Candidate, model: AnswerModel, answers: Answers, avoided: Collection[int]) -> Without | None:
    """The best of the prompts with at least half as many rows as the winner; little is known of the others."""
    if set(avoided).isdisjoint(winner.sequence):
        return None
    least = len(answers.asked(winner.prompt)) / 2
    clean = [
        prompt for prompt in model.prompts if set(avoided).isdisjoint(prompt[1]) and len(answers.asked(prompt)) >= least
    ]
    if not clean:
        return None
    instruction, sequence = max(clean, key=lambda prompt: float(model.mean[model.place(prompt)]))
    candidate = Candidate(sequence=sequence, phase="search", instruction=instruction)
    estimate, error = _expected(model, candidate)
    return Without(candidate=candidate, estimate=float(np.clip(estimate, 0.0, 1.0)), error=error)


def _expected(model: AnswerModel, candidate: Candidate) -> tuple[float, float]:
    """Mean and standard deviation of a prompt's score on new rows."""
    place = model.place(candidate.prompt)
    return float(model.mean[place]), float(np.sqrt(max(model.covariance[place, place], 0.0)))
