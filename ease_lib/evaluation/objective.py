"""F(E): the mean score of the black-box's answers over a set of rows, when the prompt starts with the sequence E."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

from ease_lib import errors
from ease_lib.evaluation.llm_client import Completion, LLMClient, Sampling, estimated_tokens
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.prompt import render_prompt
from ease_lib.evaluation.racing import Race
from ease_lib.tasks.base import Exemplar, row_hash

logger = logging.getLogger("ease")
SHORT_ANSWER_TOKENS = 64
SHOWN_CHARACTERS = 60
"""Of a row's input that name it in the log."""
GRACE_SECONDS = 10.0
"""How long requests in flight may still end after another one failed: their answers are paid for, and are cached."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What answers cost; adds up. `requests` were answered or refused by the endpoint, `cached` are of the cache.

    `oldest_answer` is the time of the oldest one among them (ISO 8601), empty where none has a time.
    """

    requests: int = 0
    cached: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    oldest_answer: str = ""

    def __add__(self, other: Usage) -> Usage:
        counted = [field.name for field in fields(Usage) if field.name != "oldest_answer"]
        times = [time for time in (self.oldest_answer, other.oldest_answer) if time]
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in counted},
            oldest_answer=min(times, default=""),
        )

    @classmethod
    def of(cls, completion: Completion) -> Usage:
        """One answer that was asked for."""
        return cls(requests=1, prompt_tokens=completion.prompt_tokens, completion_tokens=completion.completion_tokens)

    def cost_usd(self, *, prompt_usd: float, completion_usd: float) -> float:
        """Prices are USD for a million tokens."""
        return (self.prompt_tokens * prompt_usd + self.completion_tokens * completion_usd) / 1e6

    def counts(self, *, prompt_usd: float, completion_usd: float) -> dict[str, int | float]:
        """Requests, tokens and cost by the names that summaries and reports use."""
        return {
            "requests": self.requests,
            "cached": self.cached,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost_usd(prompt_usd=prompt_usd, completion_usd=completion_usd),
        }


@dataclass(frozen=True, kw_only=True)
class FailurePolicy:
    """What becomes of a row that the endpoint refuses: its content, its length, or the request with it (HTTP 4xx).

    Args:
        kind: `stop` ends the evaluation with the failure, `skip` leaves the row out, `zero` takes it as wrong.
        coverage: least share of an evaluation's rows that must have been answered, in [0, 1].
    """

    kind: str = "stop"
    coverage: float = 1.0


STOP = FailurePolicy()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Answers and scores in the order the rows were asked, and the mean score of those that have one.

    Args:
        scores: None of a row that was refused and is left out.
        failures: why a row was refused; empty where it was answered.
        partial: racing stopped it, and rows were not asked.
    """

    score: float
    scores: tuple[float | None, ...]
    answers: tuple[str, ...]
    prompts: tuple[str, ...]
    failures: tuple[str, ...]
    usage: Usage
    partial: bool = False

    @property
    def scored_rows(self) -> int:
        return sum(score is not None for score in self.scores)

    @property
    def failed_rows(self) -> int:
        return sum(map(bool, self.failures))


@dataclass(frozen=True, kw_only=True)
class Question:
    """A sequence to be evaluated.

    Args:
        account: whom its answers are paid for (`llm_client.Completion`).
        race: when to stop early; None asks every row.
    """

    exemplars: Sequence[Exemplar]
    instruction: str = ""
    account: str = ""
    race: Race | None = None


class Objective:
    """Scores sequences on fixed rows.

    Args:
        client: answers prompts; its failures travel through, but for refused rows as `failures` says.
        runner: the event loop the client lives in.
        ask_first_alone: ask the first query alone and the rest once it has answered, so that an endpoint with a prompt
            cache computes the common prefix once.
        failures: what becomes of rows that the endpoint refuses.
    """

    def __init__(
        self,
        client: LLMClient,
        runner: asyncio.Runner,
        rows: Sequence[Exemplar],
        *,
        metric: str,
        ask_first_alone: bool,
        failures: FailurePolicy = STOP,
    ) -> None:
        self._client = client
        self._runner = runner
        self._rows = rows
        self._metric = METRICS[metric]
        self._ask_first_alone = ask_first_alone
        self._failures = failures

    def evaluate(self, question: Question) -> Evaluation:
        """Ask every row's query.

        Raises:
            EndpointError: when an answer could not be had.
        """
        return next(evaluation for _, evaluation in self.evaluate_each({0: question}))

    def evaluate_each(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, Evaluation]]:
        """Evaluate several sequences at once; yields each by its number as soon as it is scored.

        Raises:
            EndpointError: when an answer could not be had; what was answered until then is in the client's cache.
        """
        tasks = self._runner.run(_started({number: self._scored(question) for number, question in questions.items()}))
        try:
            while tasks:
                done, _ = self._runner.run(_first_of(tasks))
                for task in sorted(done, key=lambda task: task.exception() is not None):  # failures last
                    yield tasks.pop(task), task.result()
        finally:
            self._runner.run(_cancelled(tasks))

    def estimate(self, sequences: Sequence[Sequence[Exemplar]]) -> Usage:
        """About what one evaluation costs, judged by the lengths of texts behind examples of sequences."""
        prompts = [estimated_tokens(render_prompt(sequence, row.input)) for sequence in sequences for row in self._rows]
        answers = [estimated_tokens(row.output) for row in self._rows]
        return Usage(
            requests=len(self._rows), prompt_tokens=sum(prompts) // len(sequences), completion_tokens=sum(answers)
        )

    async def _scored(self, question: Question) -> Evaluation:
        """Ask block by block; without a race all rows are one block."""
        start = time.perf_counter()
        race, rows = question.race, self._rows
        blocks = race.blocks(len(rows)) if race else iter([list(range(len(rows)))])
        answered: list[_Row] = []
        for block in blocks:
            known = [row.score for row in answered if row.score is not None]
            if race and race.lost(known, len(rows)):
                break
            alone = self._ask_first_alone and not answered
            answered += await self._answered([rows[position] for position in block], question, first_alone=alone)
        self._check_coverage(answered)
        known = [row.score for row in answered if row.score is not None]
        return Evaluation(
            score=sum(known) / len(known),
            scores=tuple(row.score for row in answered),
            answers=tuple(row.answer for row in answered),
            prompts=tuple(row.prompt for row in answered),
            failures=tuple(row.failure for row in answered),
            usage=_usage_of_rows(answered, time.perf_counter() - start),
            partial=len(answered) < len(rows),
        )

    async def _answered(self, rows: Sequence[Exemplar], question: Question, *, first_alone: bool) -> list[_Row]:
        async def ask(row: Exemplar) -> _Row:
            prompt = render_prompt(question.exemplars, row.input, question.instruction)
            try:
                completion = await self._client.complete(prompt, question.account)
            except errors.EndpointError as error:
                if not error.of_prompt:
                    raise
                if self._failures.kind == "stop":
                    raise _at_row(error, row) from error
                return _Row(prompt, failure=str(error), score=0.0 if self._failures.kind == "zero" else None)
            return _Row(prompt, completion=completion, score=self._metric(completion.text, row.outputs))

        return await _all_answers([partial(ask, row) for row in rows], first_alone=first_alone)

    def _check_coverage(self, rows: Sequence[_Row]) -> None:
        """Raises `TooManyFailures` where so many rows were refused that the rest stand for another task."""
        failed = [row for row in rows if row.failure]
        least = max(1.0, self._failures.coverage * len(rows) - 1e-9)
        if failed and len(rows) - len(failed) < least:
            raise errors.TooManyFailures(
                f"{len(failed)} of {len(rows)} rows were refused, and llm_coverage={self._failures.coverage:g} of them "
                f"must be answered; the first: {failed[0].failure}"
            )


@dataclass(frozen=True)
class _Row:
    """A row that was asked: its answer and score, or why there is none."""

    prompt: str
    completion: Completion | None = None
    score: float | None = None
    failure: str = ""

    @property
    def answer(self) -> str:
        return self.completion.text if self.completion else ""


def _usage_of_rows(rows: Sequence[_Row], seconds: float) -> Usage:
    """What was answered, and the requests that were refused."""
    answered = [(row.prompt, row.completion) for row in rows if row.completion]
    usage = usage_of([prompt for prompt, _ in answered], [completion for _, completion in answered], seconds)
    return usage + Usage(requests=sum(bool(row.failure) for row in rows))


def _at_row(error: errors.EndpointError, row: Exemplar) -> errors.EndpointError:
    """The failure with the row that it is about, and what can be done; messages are recorded, so its text is logged."""
    logger.info("row %d begins %r", row.exemplar_id, " ".join(row.input.split())[:SHOWN_CHARACTERS])
    return type(error)(
        f"row {row.exemplar_id}: {error}. Set llm_failures to skip or zero, and the run "
        f"goes on with what was answered; or search without the row by --exclude-rows {row_hash(row.input)}"
    )


def answer_sampling(pool: Sequence[Exemplar], max_tokens: int) -> Sampling:
    """How answers to prompts with exemplars of this pool are drawn.

    A raw completion ends at the line's end, or at the blank line when outputs of this task span lines; where they hold
    blank lines themselves, at the next "Input:".

    Args:
        max_tokens: 0 takes `SHORT_ANSWER_TOKENS`, or twice the longest output of the pool, for the answers to reasoning
            tasks differ in length.
    """
    longest = max(estimated_tokens(exemplar.output) for exemplar in pool)
    return Sampling(
        max_tokens=max_tokens or max(SHORT_ANSWER_TOKENS, 2 * longest),
        stop=_stop([exemplar.output.strip() for exemplar in pool]),
    )


def _stop(outputs: Sequence[str]) -> str:
    if any("\n\n" in output for output in outputs):
        return "\n\nInput:"
    return "\n\n" if any("\n" in output for output in outputs) else "\n"


async def complete_all(
    client: LLMClient, prompts: Sequence[str], account: str, *, first_alone: bool = False
) -> list[Completion]:
    """Ask all prompts at once, or the first one before the others.

    Raises:
        EndpointError: when an answer could not be had.
    """
    return await _all_answers(
        [partial(client.complete, prompt, account) for prompt in prompts], first_alone=first_alone
    )


async def _all_answers(
    questions: Sequence[Callable[[], Coroutine[Any, Any, Answer]]], *, first_alone: bool
) -> list[Answer]:
    first = [await question() for question in questions[: int(first_alone)]]
    tasks = [asyncio.ensure_future(question()) for question in questions[int(first_alone) :]]
    try:
        return first + [await task for task in await _all_or_first_failure(tasks)]
    finally:
        await _cancelled(tasks)


def usage_of(prompts: Sequence[str], completions: Sequence[Completion], seconds: float) -> Usage:
    """A prompt that occurs twice was asked once."""
    by_prompt: dict[str, Completion] = {}
    for prompt, completion in zip(prompts, completions, strict=True):
        by_prompt.setdefault(prompt, completion)
    asked = [completion for completion in by_prompt.values() if not completion.cached]
    return Usage(
        requests=len(asked),
        cached=len(completions) - len(asked),
        retries=sum(completion.retries for completion in asked),
        prompt_tokens=sum(completion.prompt_tokens for completion in asked),
        completion_tokens=sum(completion.completion_tokens for completion in asked),
        seconds=seconds,
        oldest_answer=min((each.answered_at for each in completions if each.answered_at), default=""),
    )


async def _all_or_first_failure(tasks: Sequence[asyncio.Task[Any]]) -> Sequence[asyncio.Task[Any]]:
    """The tasks, all done; after a failure those in flight get `GRACE_SECONDS`, and the failure is raised."""
    if not tasks:
        return tasks
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    failures = [error for task in done if (error := task.exception())]
    if failures:
        if pending:
            await asyncio.wait(pending, timeout=GRACE_SECONDS)
        raise failures[0]
    return tasks


async def _started(coroutines: Mapping[int, Coroutine[Any, Any, Evaluation]]) -> dict[asyncio.Task[Evaluation], int]:
    return {asyncio.create_task(coroutine): number for number, coroutine in coroutines.items()}


async def _first_of(tasks: Mapping[asyncio.Task[Evaluation], int]) -> tuple[set[asyncio.Task[Evaluation]], Any]:
    return await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _cancelled(tasks: Any) -> None:
    """Cancel what still runs and take note of every exception, so that none is reported as lost."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
