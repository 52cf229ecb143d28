"""The trial question: the one request before a run, with the run's own first prompt.

It has the run's template, system text, turns, stop, token limit and `llm_extra`, its first validation row, and the
longest exemplars, so that anything that the endpoint refuses of every request shows before the search. If it is
refused, a harmless question in the same template tells whether all requests are refused, or only some rows.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple, NoReturn

from ease_lib import errors
from ease_lib.artifacts.sources import Sources
from ease_lib.black_box.blame import CONTROL
from ease_lib.black_box.client import Paid, Sampling, estimated_tokens
from ease_lib.black_box.layers import BlackBox
from ease_lib.config.sections import EndpointConfig, Parameters
from ease_lib.errors import AnswerCut, ConfigError, EaseError, EndpointError
from ease_lib.evaluation.objective import answer_sampling
from ease_lib.prompts.baseline import Baseline, read_baseline
from ease_lib.prompts.template import PromptTemplate, read_template
from ease_lib.running.run import Run
from ease_lib.tasks.base import Exemplar, TaskData


class Trial(NamedTuple):
    """The name that the answering model reports, and the seconds that its answer took."""

    model: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TrialQuestion:
    """Prompt and settings of the trial question.

    Args:
        prompt: the run's own.
        harmless: in the same template, without a row of the data.
    """

    prompt: str
    harmless: str
    sampling: Sampling


def trial_question(parameters: Parameters, data: TaskData | None, sources: Sources) -> TrialQuestion:
    """
    Args:
        data: the run's, where they are known; else the prompt is the harmless one. A program is given rows of the run
            only: its harmless question is another one.
    """
    template, baseline = PromptTemplate(), None
    with suppress(EaseError):  # each is reported where it is looked at itself
        template = read_template(parameters.task.prompt, sources)
        baseline = read_baseline(parameters.task.baseline, sources)
    one, two = (_made_up(number, template, baseline) for number in ("1", "2"))
    query, pool = (data.validation[0], data.pool) if data and data.validation and data.pool else (two, (one,))
    shown = _longest(pool, query, template, parameters)
    other = template.render(shown, data.validation[-1]) if parameters.task.of_program and data else ""
    return TrialQuestion(
        prompt=template.render(shown, query),
        harmless=other or template.render([one], two),
        sampling=answer_sampling(pool, parameters.endpoint, template, baseline),
    )


def ask(parameters: Parameters, question: TrialQuestion, run: Run, patience_seconds: float) -> tuple[Trial, str]:
    """The answer, and notices about it.

    Args:
        patience_seconds: how long failures are tried again.

    Raises:
        EndpointError, ConfigError: if the run's prompts would not be answered.
    """
    endpoint = parameters.endpoint
    patient = with_patience(endpoint, patience_seconds)
    with run.trial(patient, question.sampling) as black_box:
        start = time.perf_counter()
        try:
            answer, notice = _asked(black_box, question.prompt), ""
        except EndpointError as error:
            if not (error.of_prompt or error.may_be_of_prompt):
                raise
            with run.trial(patient, question.sampling) as another:  # in which nothing has failed
                answer, notice = _harmless(another, question, error, endpoint)
        took = time.perf_counter() - start
    if not notice and isinstance(answer, AnswerCut):
        notice = f"the trial question: {answer}"
    elif not notice and answer.cut:
        limit = black_box.asked.sampling.max_tokens
        notice = (
            f"the answer to the trial question was cut at {limit} tokens; if the model thinks aloud, raise "
            "llm_thinking_tokens"
        )
    return Trial(answer.model, took), notice


def with_patience(endpoint: EndpointConfig, patience_seconds: float) -> EndpointConfig:
    """The endpoint with a short deadline for its first answer; a refused prompt does not stop the others."""
    deadline = min(endpoint.llm_deadline_seconds, patience_seconds)
    return replace(endpoint, llm_deadline_seconds=deadline, llm_failures="skip")


def _asked(black_box: BlackBox, prompt: str) -> Paid:
    try:
        return black_box.loop.run(black_box.client.complete(prompt))
    except AnswerCut as error:
        return error


def _harmless(
    black_box: BlackBox, question: TrialQuestion, error: EndpointError, endpoint: EndpointConfig
) -> tuple[Paid, str]:
    """The answer to the harmless question, with a notice that the run's own prompt is not answered."""
    if isinstance(error, errors.ConnectionFailed | errors.EndpointTimeout) or question.harmless == question.prompt:
        _refuse_every_request(error)
    try:
        answer = _asked(black_box, question.harmless)
    except EndpointError as other:
        is_of_template = (
            other.may_be_of_prompt
            and question.harmless != CONTROL
            and _is_answered(black_box, CONTROL)
            and not _is_answered(black_box, question.harmless)  # it may have been about to start
        )
        if is_of_template:
            raise ConfigError(
                f"{other.what}, although a question without the run's template is answered; change prompt"
            ) from error
        _refuse_every_request(other)
    if not error.of_prompt:
        try:
            return _asked(black_box, question.prompt), ""  # it was a fault of the moment
        except EndpointError as again:
            error = again
    if isinstance(error, errors.ContextTooLong) and endpoint.llm_failures == "stop":
        raise error
    return answer, (
        f"the trial question, with rows of this run, is refused, while a harmless question is answered: {error}; "
        f"llm_failures={endpoint.llm_failures} decides how such rows are handled"
    )


def _is_answered(black_box: BlackBox, prompt: str) -> bool:
    try:
        _asked(black_box, prompt)
    except EndpointError:
        return False
    return True


def _refuse_every_request(error: EndpointError) -> NoReturn:
    """Raise the error if a harmless question is refused too, without the remedy for a row, which would not help."""
    if not error.of_prompt or isinstance(error, errors.ContextTooLong):
        raise error
    remedy = str(error).removeprefix(error.what).removeprefix("; ")
    if not isinstance(error, errors.BadRequest) or not remedy:
        remedy = "change prompt, llm_api or llm_extra"
    raise ConfigError(f"{error.what}, and would refuse every request of this run; {remedy}") from error


def _made_up(text: str, template: PromptTemplate, baseline: Baseline | None) -> Exemplar:
    columns = dict.fromkeys((*template.columns, *(baseline.columns if baseline else ())))
    return Exemplar(-1, text, (text,), fields=tuple((column, text) for column in columns))


def _longest(
    pool: tuple[Exemplar, ...], query: Exemplar, template: PromptTemplate, parameters: Parameters
) -> list[Exemplar]:
    """Return exemplars for one sequence, the longest for which `max_prompt_tokens` leaves room."""
    settings = parameters.optimizer
    most = (
        settings.max_prompt_tokens - estimated_tokens(template.render([], query)) if settings.max_prompt_tokens else 0
    )
    chosen: list[Exemplar] = []
    counted = ((estimated_tokens(template.exemplar(row) + template.between), row) for row in pool)
    for tokens, row in sorted(counted, key=itemgetter(0), reverse=True):
        if len(chosen) == settings.k:
            break
        if not settings.max_prompt_tokens or tokens <= most:
            chosen.append(row)
            most -= tokens
    return chosen
