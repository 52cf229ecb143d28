"""F(E): the mean score of the black-box's answers over a set of rows, when the prompt starts with the sequence E."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ease_lib.evaluation.llm_client import Completion, LLMClient
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.prompt import render_prompt
from ease_lib.tasks.base import Exemplar


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
        return Usage(
            requests=self.requests + other.requests,
            cached=self.cached + other.cached,
            retries=self.retries + other.retries,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            seconds=self.seconds + other.seconds,
        )

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
    """Answers and scores in the order of the rows, and their mean."""

    score: float
    scores: tuple[float, ...]
    answers: tuple[str, ...]
    prompts: tuple[str, ...]
    usage: Usage


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

    def evaluate(self, exemplars: Sequence[Exemplar], instruction: str = "") -> Evaluation:
        """Ask every row's query behind these exemplars.

        Raises:
            EndpointError: when an answer could not be had.
        """
        prompts = tuple(render_prompt(exemplars, row.input, instruction) for row in self._rows)
        start = time.perf_counter()
        completions = self._runner.run(self._ask(prompts))
        seconds = time.perf_counter() - start
        asked = [completion for completion in completions if not completion.cached]
        scores = tuple(
            self._metric(completion.text, row.outputs) for completion, row in zip(completions, self._rows, strict=True)
        )
        return Evaluation(
            score=sum(scores) / len(scores),
            scores=scores,
            answers=tuple(completion.text for completion in completions),
            prompts=prompts,
            usage=Usage(
                requests=len(asked),
                cached=len(completions) - len(asked),
                retries=sum(completion.retries for completion in asked),
                prompt_tokens=sum(completion.prompt_tokens for completion in asked),
                completion_tokens=sum(completion.completion_tokens for completion in asked),
                seconds=seconds,
            ),
        )

    async def _ask(self, prompts: Sequence[str]) -> list[Completion]:
        alone = 1 if self._ask_first_alone else 0
        answered = [await self._client.complete(prompt) for prompt in prompts[:alone]]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._client.complete(prompt)) for prompt in prompts[alone:]]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return answered + [task.result() for task in tasks]
