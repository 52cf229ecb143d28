"""F(E): the mean score of the black-box's answers over a set of rows, when the prompt starts with the sequence E.

For callers that know no event loop: `Evaluator` asks, several evaluations side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any

from ease_lib.black_box.asking import cancelled
from ease_lib.black_box.client import LLMClient, estimated_tokens
from ease_lib.black_box.failures import STOP, FailurePolicy
from ease_lib.black_box.opening import BlackBox
from ease_lib.evaluation.evaluator import Evaluation, Evaluator, Question
from ease_lib.evaluation.prompt import render_prompt
from ease_lib.evaluation.usage import Usage
from ease_lib.tasks.base import Exemplar


class Objective:
    """Scores sequences on fixed rows.

    Args:
        runner: the event loop the client lives in.
        client, rows, metric, ask_first_alone, failures: see `Evaluator`.
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
        self._evaluator = Evaluator(client, rows, metric=metric, ask_first_alone=ask_first_alone, failures=failures)
        self._runner = runner
        self._rows = rows

    @classmethod
    def of(cls, black_box: BlackBox, rows: Sequence[Exemplar], metric: str) -> Objective:
        """What this black-box answers to the queries of these rows."""
        return cls(
            black_box.client,
            black_box.runner,
            rows,
            metric=metric,
            ask_first_alone=black_box.ask_first_alone,
            failures=black_box.failures,
        )

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
        evaluations = {number: self._evaluator.evaluate(question) for number, question in questions.items()}
        tasks = self._runner.run(_started(evaluations))
        try:
            while tasks:
                done, _ = self._runner.run(_first_of(tasks))
                for task in sorted(done, key=lambda task: task.exception() is not None):  # failures last
                    yield tasks.pop(task), task.result()
        finally:
            self._runner.run(cancelled(tasks))

    def estimate(self, sequences: Sequence[Sequence[Exemplar]]) -> Usage:
        """About what one evaluation costs, judged by the lengths of texts behind examples of sequences."""
        prompts = [estimated_tokens(render_prompt(sequence, row.input)) for sequence in sequences for row in self._rows]
        answers = [estimated_tokens(row.output) for row in self._rows]
        return Usage(
            requests=len(self._rows), prompt_tokens=sum(prompts) // len(sequences), completion_tokens=sum(answers)
        )


async def _started(coroutines: Mapping[int, Coroutine[Any, Any, Evaluation]]) -> dict[asyncio.Task[Evaluation], int]:
    return {asyncio.create_task(coroutine): number for number, coroutine in coroutines.items()}


async def _first_of(tasks: Mapping[asyncio.Task[Evaluation], int]) -> tuple[set[asyncio.Task[Evaluation]], Any]:
    return await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
