"""F(E): the mean score of the black-box's answers over a set of rows, when the prompt starts with the sequence E."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ease_lib.evaluation.llm_client import Completion, LLMClient, Sampling, estimated_tokens
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.prompt import render_prompt
from ease_lib.evaluation.racing import Race
from ease_lib.tasks.base import Exemplar

SHORT_ANSWER_TOKENS = 64
GRACE_SECONDS = 10.0
"""How long requests in flight may still end after another one failed: their answers are paid for, and are cached."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What answers cost; adds up. `requests` were answered by the endpoint, `cached` by the response cache."""

    requests: int = 0
    cached: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(Usage)})

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
class Evaluation:
    """Answers and scores in the order the rows were asked, and the mean score.

    `partial`: racing stopped it, and rows are missing.
    """

    score: float
    scores: tuple[float, ...]
    answers: tuple[str, ...]
    prompts: tuple[str, ...]
    usage: Usage
    partial: bool = False


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
        client: answers prompts; its failures travel through, and no score is made of what remains.
        runner: the event loop the client lives in.
        ask_first_alone: ask the first query alone and the rest once it has answered, so that an endpoint with a prompt
            cache computes the common prefix once.
    """

    def __init__(
        self,
        client: LLMClient,
        runner: asyncio.Runner,
        rows: Sequence[Exemplar],
        *,
        metric: str,
        ask_first_alone: bool,
    ) -> None:
        self._client = client
        self._runner = runner
        self._rows = rows
        self._metric = METRICS[metric]
        self._ask_first_alone = ask_first_alone

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
        prompts: list[str] = []
        completions: list[Completion] = []
        scores: list[float] = []
        for block in blocks:
            if race and race.lost(scores, len(rows)):
                break
            queries = [rows[position].input for position in block]
            asked = [render_prompt(question.exemplars, query, question.instruction) for query in queries]
            alone = self._ask_first_alone and not prompts
            answered = await complete_all(self._client, asked, question.account, first_alone=alone)
            prompts += asked
            completions += answered
            scores += [
                self._metric(completion.text, rows[position].outputs)
                for completion, position in zip(answered, block, strict=True)
            ]
        return Evaluation(
            score=sum(scores) / len(scores),
            scores=tuple(scores),
            answers=tuple(completion.text for completion in completions),
            prompts=tuple(prompts),
            usage=usage_of(prompts, completions, time.perf_counter() - start),
            partial=len(scores) < len(rows),
        )


def answer_sampling(pool: Sequence[Exemplar], max_tokens: int) -> Sampling:
    """How answers to prompts with exemplars of this pool are drawn.

    A raw completion ends at the line's end, or at the blank line when outputs of this task span lines.

    Args:
        max_tokens: 0 takes `SHORT_ANSWER_TOKENS`, or twice the longest output of the pool, for the answers to reasoning
            tasks differ in length.
    """
    longest = max(estimated_tokens(exemplar.output) for exemplar in pool)
    return Sampling(
        max_tokens=max_tokens or max(SHORT_ANSWER_TOKENS, 2 * longest),
        stop="\n\n" if any("\n" in exemplar.output.strip() for exemplar in pool) else "\n",
    )


async def complete_all(
    client: LLMClient, prompts: Sequence[str], account: str, *, first_alone: bool = False
) -> list[Completion]:
    """Ask all prompts at once, or the first one before the others.

    Raises:
        EndpointError: when an answer could not be had.
    """
    first = [await client.complete(prompt, account) for prompt in prompts[: int(first_alone)]]
    tasks = [asyncio.ensure_future(client.complete(prompt, account)) for prompt in prompts[int(first_alone) :]]
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
