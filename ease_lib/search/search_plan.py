"""Plan of a search before it starts: its rows, its answers, and an estimate of their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ease_lib.black_box.budget_ledger import SEARCH, TEST, Budget
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import EndpointConfig, OptimizerConfig
from ease_lib.evaluation.judge import Rubric
from ease_lib.evaluation.objective import estimated_usage
from ease_lib.evaluation.rows import row_order
from ease_lib.prompts.template import PromptTemplate
from ease_lib.search.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.search.optimizers.registry import answers_to_plan, planned_answers
from ease_lib.search.plan_and_caps import Plan, expected_usage
from ease_lib.search.task import SearchTask
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar

ESTIMATED_SEQUENCES, ESTIMATED_ROWS = 40, 40
"""Numbers of random sequences and validation rows whose texts represent all in the estimate of tokens."""


def plan_search(
    task: SearchTask,
    space: SequenceSpace,
    budget: Budget,
    *,
    optimizer: OptimizerConfig,
    endpoint: EndpointConfig,
    max_seconds: float,
    seed: int,
) -> Plan:
    """The plan of a search, from the texts of its data.

    Args:
        budget: in which other parts of the run have booked what they spent.
    """
    validation_size, each = len(task.validation), task.asked.answer_requests
    rows = row_order([row.output for row in task.validation], seed)[: optimizer.evaluation_rows or None]
    orders = optimizer.order_report
    order_requests = (orders + 1) * len(rows) * each if orders else 0  # its own order too, where it has other rows
    reserved = task.asked.test_requests + order_requests

    def planned(spent: Usage) -> int:
        affordable = (budget.requests_left(spent) - reserved) // each if budget.requests else math.inf
        return answers_to_plan(optimizer, validation_size, affordable)

    answers, spent_by_none = planned(budget.spent(without=[SEARCH, TEST])), planned(Usage())
    chooses_rows = optimizer.chooses_rows
    searched = spent_by_none if chooses_rows else planned_answers(optimizer, validation_size, spent_by_none or math.inf)
    typical = TypicalAnswers(
        template=task.asked.template,
        pool=task.pool,
        validation=task.validation,
        rubric=task.asked.rubric,
        thinking_tokens=endpoint.llm_thinking_tokens,
        seed=seed,
    )
    evaluation = typical.usage(1 if chooses_rows else len(rows), space)
    return Plan(
        rows=rows,
        evaluations=max(1, answers) if chooses_rows else optimizer.budget,
        chooses_rows=chooses_rows,
        answers=answers,
        budget=budget,
        max_seconds=max_seconds,
        evaluation=evaluation,
        answer_requests=each,
        test_requests=task.asked.test_requests,
        order_requests=order_requests,
        usage=task.instructions.usage + expected_usage(evaluation, searched * each + reserved),
        concurrency=endpoint.llm_concurrency,
    )


@dataclass(frozen=True, kw_only=True)
class TypicalAnswers:
    """Estimated cost of answers to validation rows, from the texts of random sequences.

    Args:
        template: how prompts are written.
        rubric: of a judge that scores answers.
        thinking_tokens: of each answer, besides what is expected of it.
    """

    template: PromptTemplate
    pool: Sequence[Exemplar]
    validation: Sequence[Exemplar]
    rubric: Rubric | None
    thinking_tokens: int
    seed: int

    def usage(self, answers: float, space: SequenceSpace | None) -> Usage:
        """Usage of so many answers to prompts with sequences of a space; without one, to prompts without exemplars."""
        sampled = as_tuples(space.sample(rng(self.seed, "estimate"), ESTIMATED_SEQUENCES)) if space else []
        sequences = [[self.pool[position] for position in sequence] for sequence in sampled] or [[]]
        rows = self.validation[:ESTIMATED_ROWS]
        usage = estimated_usage(
            self.template, sequences, rows, rubric=self.rubric, thinking_tokens=self.thinking_tokens
        )
        return usage.share(answers / len(rows))
