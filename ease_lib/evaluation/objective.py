"""F(E): the mean score of the black-box's answers over a set of rows, when the prompt starts with the sequence E.

For callers that know no event loop: `Evaluator` asks, several evaluations side by side. `answer_sampling` says how long
answers may be, and where they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeVar

from ease_lib.black_box.client import Sampling, cancelled, estimated_tokens
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import NotAsked
from ease_lib.evaluation.evaluator import Evaluation, Evaluator, Question
from ease_lib.evaluation.judge import Rubric, estimated_verdicts
from ease_lib.prompts.baseline import Baseline
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar

SHORT_ANSWER_TOKENS = 64


def answer_sampling(
    pool: Sequence[Exemplar],
    endpoint: EndpointConfig,
    template: PromptTemplate = PromptTemplate(),  # noqa: B008 frozen
    baseline: Baseline | None = None,
) -> Sampling:
    """Sampling of answers to prompts with exemplars of this pool.

    Unless the template says where an answer ends, a raw completion ends at the line's end, or at the blank line when
    outputs of this task span lines; where they hold blank lines themselves, at the next "Input:".

    Args:
        endpoint: its `llm_max_tokens`, of which 0 takes `SHORT_ANSWER_TOKENS`, or twice the longest output of the pool,
            for the answers to reasoning tasks differ in length; a power of two, so that one longer row tonight has not
            everything asked anew.
        baseline: asked in the same run; where it is messages, a chat endpoint is asked for all.
    """
    longest = max(estimated_tokens(exemplar.output) for exemplar in pool)
    return Sampling(
        max_tokens=endpoint.llm_max_tokens or max(SHORT_ANSWER_TOKENS, 1 << (2 * longest - 1).bit_length()),
        stop=_stop([exemplar.output.strip() for exemplar in pool], template),
        stops=template.stop,
        messages=template.is_chat or (baseline is not None and baseline.is_chat),
    )


def _stop(outputs: Sequence[str], template: PromptTemplate) -> str:
    if any("\n\n" in output for output in outputs):
        return (template.between + template.query_opening).rstrip() or "\n\n"
    return "\n\n" if any("\n" in output for output in outputs) else "\n"


Result = TypeVar("Result")


class Objective:
    """Scores sequences on fixed rows.

    Args:
        runner: the event loop that the evaluator's client lives in.
    """

    def __init__(self, evaluator: Evaluator, runner: asyncio.Runner) -> None:
        self._evaluator = evaluator
        self._runner = runner
        self._under_way: dict[asyncio.Task[Evaluation], int] = {}

    def evaluate(self, question: Question) -> Evaluation:
        """Ask every row's query.

        Raises:
            EndpointError: when an answer could not be had.
        """
        return self._runner.run(self._evaluator.evaluate(question))

    def start(self, number: int, question: Question) -> None:
        """Begin to evaluate a sequence; `wait` gives its score under this number."""
        task = self._runner.get_loop().create_task(self._evaluator.evaluate(question))
        self._under_way[task] = number

    def wait(self) -> tuple[int, Evaluation]:
        """The next evaluation that ends, of those under way, by its number; failures last, and causes before effects.

        Raises:
            EndpointError: when an answer could not be had; what was answered until then is in the client's cache.
        """
        while True:
            done = [task for task in self._under_way if task.done()]
            task = min(done, key=_urgency) if done else None
            running = [task for task in self._under_way if not task.done()]
            if task and not (running and isinstance(task.exception(), NotAsked)):
                return self._under_way.pop(task), task.result()
            self._runner.run(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))

    def beside(self, work: Future[Result]) -> Result:
        """The result of work in another thread, while evaluations go on."""

        async def result() -> Result:
            return await asyncio.wrap_future(work)

        return self._runner.run(result())

    def stop(self) -> Usage:
        """End the evaluations under way, and return the cost of all that did not finish."""
        self._runner.run(cancelled(self._under_way))
        ended = (task for task in self._under_way if not task.cancelled() and task.exception() is None)
        unseen = sum((task.result().usage for task in ended), start=Usage())
        self._under_way.clear()
        return unseen + self._evaluator.given_up


def estimated_usage(
    template: PromptTemplate | Baseline,
    sequences: Sequence[Sequence[Exemplar]],
    rows: Sequence[Exemplar],
    *,
    rubric: Rubric | None = None,
    thinking_tokens: int = 0,
) -> Usage:
    """Estimated cost of one answer to each row, from the texts of example sequences.

    Args:
        rubric: of a judge that scores it.
        thinking_tokens: of each answer, besides what is expected of it.
    """
    if template.of_program:
        return Usage(requests=len(rows))  # what a program asks is not known
    prompts = [estimated_tokens(template.render(sequence, row)) for sequence in sequences for row in rows]
    answers = [estimated_tokens(row.output) + thinking_tokens for row in rows]
    usage = Usage(
        requests=len(rows),
        prompt_tokens=round(sum(prompts) / len(sequences)),
        completion_tokens=sum(answers),
    )
    return usage + estimated_verdicts(rubric, rows, thinking_tokens) if rubric else usage


def _urgency(ended: asyncio.Task[Evaluation]) -> int:
    error = ended.exception()
    return 0 if error is None else 2 if isinstance(error, NotAsked) else 1
