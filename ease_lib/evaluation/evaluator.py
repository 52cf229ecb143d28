"""One evaluation of a sequence: its prompts asked, and its answers scored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ease_lib import errors
from ease_lib.black_box.client import ABOUT, CHARACTERS_PER_TOKEN, Completion, LLMClient, all_answers
from ease_lib.black_box.failures import STOP, FailurePolicy
from ease_lib.black_box.usage import Usage, usage_of
from ease_lib.evaluation.judge import Judge, Verdict
from ease_lib.evaluation.metrics import Metric, metric_that_fits
from ease_lib.evaluation.requirement import LoadedRequirement
from ease_lib.prompts.baseline import Baseline
from ease_lib.prompts.messages import as_text
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar, row_hash

logger = logging.getLogger("ease")

SHOWN_CHARACTERS = 60
"""Number of characters of a row's input that name the row in the log."""
PREFIX_TOKENS = 1024
"""If prompts of a sequence begin with so many equal tokens, one is asked before the others, so that an endpoint with a
prefix cache computes them once; OpenAI's caches no shorter ones."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Answers and scores in the order the rows were asked, and the mean score of those that have one.

    Args:
        score: 0 if no row has one.
        rows: positions of the rows.
        scores: None of a row that was refused and is left out, or not asked.
        failures: why a row was refused; empty if it was answered, or not asked.
        kept: whether the answer keeps what is required of it; None of a row without an answer.
    """

    score: float
    rows: tuple[int, ...]
    scores: tuple[float | None, ...]
    answers: tuple[str, ...]
    prompts: tuple[str, ...]
    failures: tuple[str, ...]
    kept: tuple[bool | None, ...]
    usage: Usage

    @property
    def scored_rows(self) -> int:
        return sum(score is not None for score in self.scores)

    @property
    def failed_rows(self) -> int:
        return sum(map(bool, self.failures))

    @property
    def unasked_rows(self) -> int:
        """Number of rows for which a cap left no request."""
        return sum(score is None and not failure for score, failure in zip(self.scores, self.failures, strict=True))


@dataclass(frozen=True, kw_only=True)
class Question:
    """A sequence to be evaluated.

    Args:
        account: what its answers are paid for (`Completion.account`).
        rows: positions of the rows to ask.
        whole: these are all rows there are; else it is the sum over evaluations that must be answered.
        own: by position, the exemplars of rows that are asked with others than `exemplars`.
        up_to_cap: rows that a cap leaves no request for are not asked, which else ends the evaluation.
    """

    exemplars: Sequence[Exemplar]
    instruction: str = ""
    account: str = ""
    whole: bool = False
    rows: Sequence[int]
    own: Mapping[int, Sequence[Exemplar]] = field(default_factory=dict)
    up_to_cap: bool = False


class Evaluator:
    """Evaluates prompts on fixed rows, in the caller's event loop.

    Args:
        client: answers prompts; its failures travel through, but for refused rows as `failures` says.
        failures: what becomes of rows that the endpoint refuses.
        template: how prompts are written.
        requirement: what answers must keep; one that does not scores 0.
        judge: reads the answers.
        judge_scores: its score is the answer's in place of the metric's, which then only tells whether answers fit any
            row; else the requirement alone needs it.
        most_zeros: answers that may all score 0 and fit no other row either; 0 means no limit.
        on_row: called when a row is done with, whatever came of it.
    """

    def __init__(
        self,
        client: LLMClient,
        rows: Sequence[Exemplar],
        *,
        metric: Metric,
        failures: FailurePolicy = STOP,
        requirement: LoadedRequirement | None = None,
        judge: Judge | None = None,
        judge_scores: bool = True,
        template: PromptTemplate | Baseline = PromptTemplate(),  # noqa: B008 frozen
        most_zeros: int = 0,
        on_row: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._on_row = on_row
        self._rows = rows
        self._hashes = [row_hash(row.input) for row in rows]
        self._metric = metric
        self._requirement = requirement
        self._judge = judge
        self._judge_scores = judge_scores
        self._failures = failures
        self._template = template
        self.given_up = Usage()
        """Usage of evaluations that did not finish."""
        self._asked = self._refused = 0
        self._most_zeros = most_zeros
        self._seen: set[tuple[object, ...]] = set()
        """Sequences whose beginning the endpoint knows."""
        self._zeros: list[tuple[_AskedRow, Exemplar]] = []
        """The first answers and their questions, until one scores above 0."""

    async def evaluate(self, question: Question) -> Evaluation:
        """Ask every row.

        All requests of a sequence are sent before those of the next one, so that an endpoint that keeps the prefix of
        its last prompts computes each once.

        Raises:
            EndpointError: when an answer could not be had.
        """
        answered: list[_AskedRow] = []
        try:
            return await self._evaluated(question, answered)
        except BaseException:
            self.given_up += _usage_of_rows(answered, 0.0)
            raise

    async def _evaluated(self, question: Question, answered: list[_AskedRow]) -> Evaluation:
        """The evaluation; `answered` takes the rows as their answers come."""
        start = time.perf_counter()
        rows = question.rows
        asked = await self._answers(question, answered)
        self._check_coverage(asked, whole=question.whole)
        known = [row.score for row in asked if row.score is not None]
        return Evaluation(
            score=sum(known) / max(1, len(known)),
            rows=tuple(rows),
            scores=tuple(row.score for row in asked),
            answers=tuple(row.answer for row in asked),
            prompts=tuple(row.prompt for row in asked),
            failures=tuple(row.failure for row in asked),
            kept=tuple(row.is_kept for row in asked),
            usage=_usage_of_rows(asked, time.perf_counter() - start),
        )

    async def _answers(self, question: Question, answered: list[_AskedRow]) -> list[_AskedRow]:
        async def noted(position: int) -> _AskedRow:
            try:
                row = await ask(position)
            except errors.CapReached:
                if not question.up_to_cap:
                    raise
                row = _AskedRow(prompt_of(position))
            answered.append(row)
            self._on_row()
            return row

        async def ask(position: int) -> _AskedRow:
            row = self._rows[position]
            prompt = prompt_of(position)
            account = f"{question.account}{ABOUT}{self._hashes[position]}" if question.account else ""
            try:
                completion = await self._client.complete(prompt, account)
            except errors.EndpointError as error:
                if not error.of_prompt:
                    raise
                zero = 0.0 if self._failures.kind == "zero" else None
                refused = _AskedRow(prompt, score=zero, failure=str(error), refused=Usage.of(error))
                if self._failures.kind == "stop":
                    answered.append(refused)
                    raise _at_row(error, row) from error
                return refused
            if self._requirement and not self._requirement.is_kept(completion.text, row.outputs):
                scored = _AskedRow(prompt, completion, 0.0, is_kept=False)  # no judge need be asked
            else:
                verdict = await self._judge.verdict(row, completion.text, account) if self._judge else None
                scored = self._scored(prompt, completion, verdict, row.outputs)
            if scored.score is not None:
                self._check_zeros(scored, row)
            return scored

        rows = question.rows
        prompt_of = self._prompts(question)
        if not self._gains_from_a_first(question, prompt_of):
            return await all_answers([partial(noted, row) for row in rows])
        return [await noted(rows[0]), *await all_answers([partial(noted, row) for row in rows[1:]])]

    def _scored(
        self, prompt: str, completion: Completion, verdict: Verdict | None, outputs: Sequence[str]
    ) -> _AskedRow:
        """The row with its score, or without one if the judge's verdict is missing."""
        judged = verdict.score if verdict else None
        is_kept = self._requirement is None or self._requirement.is_approved(judged)
        if verdict and judged is None:
            return _AskedRow(prompt, completion, failure=verdict.failure, verdict=verdict, is_kept=is_kept)
        score = completion.score  # of a program, which knows no metric
        if score is None:
            score = judged if judged is not None and self._judge_scores else self._metric(completion.text, outputs)
        return _AskedRow(prompt, completion, score if is_kept else 0.0, verdict=verdict, is_kept=is_kept)

    def _prompts(self, question: Question) -> Callable[[int], str]:
        """The prompts by the positions of their rows."""
        shared = self._template.prompts(question.exemplars, question.instruction)

        def prompt(position: int) -> str:
            row, own = self._rows[position], question.own.get(position)
            return shared(row) if own is None else self._template.render(own, row, question.instruction)

        return prompt

    def _gains_from_a_first(self, question: Question, prompt_of: Callable[[int], str]) -> bool:
        """Whether prompts of the sequence share a beginning that is long, and new to the endpoint."""
        sequence = (question.instruction, *(exemplar.exemplar_id for exemplar in question.exemplars))
        if len(question.rows) < 2 or question.own or self._template.of_program or sequence in self._seen:
            return False
        self._seen.add(sequence)
        prefix = PREFIX_TOKENS * CHARACTERS_PER_TOKEN
        one, other = (prompt_of(position)[:prefix] for position in question.rows[:2])
        return one == other and len(one) == prefix

    def _check_zeros(self, scored: _AskedRow, row: Exemplar) -> None:
        """Raise `DataError` if no exemplar can help: no answer is right for any row, or none meets the requirement."""
        if not self._most_zeros:
            return
        if scored.score:
            self._most_zeros = 0
            return
        self._zeros.append((scored, row))
        if len(self._zeros) < self._most_zeros:
            return
        self._most_zeros = 0  # the answers that are under way say nothing more
        shown = f"the prompt\n\n{as_text(scored.prompt)}\n\nthe answer\n\n{scored.answer}\n\nexpected\n\n{row.output}\n"
        if self._requirement and not any(zero.is_kept for zero, _ in self._zeros):
            logger.info("one of %d answers that all violate the requirement:\n\n%s", len(self._zeros), shown)
            raise errors.DataError(
                f"the first {len(self._zeros)} answers all violate require={self._requirement.text}, and so score 0. "
                "Compare prompt and answer above; then loosen the requirement, change prompt or llm_max_tokens, or "
                "set max_zero_answers=0 to go on"
            )
        if all(zero.completion and zero.completion.score is not None for zero, _ in self._zeros):
            logger.info("one of %d rows that all score 0, behind the exemplars:\n\n%s", len(self._zeros), shown)
            raise errors.DataError(
                f"the first {len(self._zeros)} scores that evaluate returned are all 0, so the function is probably "
                "wrong. See above what it was given; then correct it, or set max_zero_answers=0 to go on"
            )
        answers = list(dict.fromkeys(zero.answer for zero, _ in self._zeros))
        if any(self._metric(each, other.outputs) for each in answers for other in self._rows):
            return
        logger.info("one of %d answers that all score 0:\n\n%s", len(self._zeros), shown)
        fitting, right = metric_that_fits([(zero.answer, asked.outputs) for zero, asked in self._zeros])
        found = f" (metric={fitting} finds {right} of them right)" if right else ""
        raise errors.DataError(
            f"the first {len(self._zeros)} answers all score 0, and would on every other row too: this is probably a "
            "format problem that no exemplars can fix. Compare prompt, answer and expected output above; then "
            f"change metric{found}, prompt, llm_api or llm_max_tokens, or set max_zero_answers=0 to go on"
        )

    def _check_coverage(self, rows: Sequence[_AskedRow], *, whole: bool) -> None:
        """Raise `TooManyFailures` if so many rows were refused that the rest represent another task.

        Args:
            whole: every row was asked. Of parts it is the sum that counts, once they add up to as many.
        """
        failed = [row for row in rows if row.failure]
        asked, refused = len(rows), len(failed)
        if not whole:
            self._asked += asked
            self._refused += refused
            asked, refused = self._asked, self._refused
        least = max(1.0, self._failures.coverage * asked - 1e-9)
        if failed and asked - refused < least and (whole or asked >= len(self._rows)):
            raise errors.TooManyFailures(
                f"{refused} of {asked} rows were refused, but llm_coverage={self._failures.coverage:g} of them must "
                f"be answered; the first: {failed[0].failure}"
            )


@dataclass(frozen=True)
class _AskedRow:
    """A row that was asked: its answer and score, or why there is none, and what the refusal cost."""

    prompt: str
    completion: Completion | None = None
    score: float | None = None
    failure: str = ""
    verdict: Verdict | None = None
    is_kept: bool | None = None
    refused: Usage | None = None

    @property
    def answer(self) -> str:
        return self.completion.text if self.completion else ""


def _usage_of_rows(rows: Sequence[_AskedRow], seconds: float) -> Usage:
    """Usage of the answered rows and of the refused requests."""
    answered = [(row.prompt, row.completion) for row in rows if row.completion]
    usage = usage_of([prompt for prompt, _ in answered], [completion for _, completion in answered], seconds)
    judged = [row.verdict for row in rows if row.verdict]
    said = [(verdict.prompt, verdict.completion) for verdict in judged if verdict.completion]
    of_judge = usage_of([prompt for prompt, _ in said], [completion for _, completion in said], 0.0).of_judge
    refused = [row.refused for row in rows if row.refused] + [verdict.refused for verdict in judged]
    return sum(refused, start=usage + of_judge)


def _at_row(error: errors.EndpointError, row: Exemplar) -> errors.EndpointError:
    """The failure with its row and a remedy; messages are recorded, so the row's text goes to the log only."""
    logger.info("%s begins %r", row.named, " ".join(row.input.split())[:SHOWN_CHARACTERS])
    return type(error)(
        f"{row.named}: {error}. Set llm_failures to skip or zero to continue without it; or exclude the row with "
        f"--exclude-rows {row_hash(row.input)}"
    )
