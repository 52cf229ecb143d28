"""What a search will ask, before it asks: its rows, its answers, and what each part of the run will take."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ease_lib.black_box.chain import BlackBox
from ease_lib.config.sections import CapsConfig, EndpointConfig, OptimizerConfig
from ease_lib.errors import ConfigError
from ease_lib.evaluation.judge import Rubric
from ease_lib.evaluation.objective import estimated_usage
from ease_lib.evaluation.rows import row_order
from ease_lib.evaluation.usage import Usage
from ease_lib.prompts.template import PromptTemplate
from ease_lib.search.budget import SEARCH, TEST, Caps, Ledger, Limits
from ease_lib.search.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.search.journal import Evaluated, usage_of_records
from ease_lib.search.optimizers.halving import FIRST_ROWS
from ease_lib.search.optimizers.registry import planned_answers
from ease_lib.search.task import SearchTask
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar

logger = logging.getLogger("ease")

ESTIMATED_SEQUENCES, ESTIMATED_ROWS = 40, 40
"""Random sequences and validation rows whose texts stand for all in the estimate of tokens."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What lies ahead of a search.

    Args:
        rows: positions of the validation rows that a candidate is evaluated on which names none itself.
        answers: that the search plans for, where the method chooses rows.
        evaluations: at most.
        caps: with the ledger of the run, what an evaluation costs, and what the test set and the orders will take.
        test_requests: of the test set alone.
        usage: what search and test set cost at most, by the texts of the data alone, whatever was kept or retried.
    """

    rows: tuple[int, ...]
    answers: int
    evaluations: int
    caps: Caps
    usage: Usage
    test_requests: int
    chooses_rows: bool
    concurrency: int

    @classmethod
    def of(
        cls,
        task: SearchTask,
        space: SequenceSpace,
        ledger: Ledger,
        *,
        optimizer: OptimizerConfig,
        endpoint: EndpointConfig,
        caps: CapsConfig,
        limits: Limits,
        seed: int,
    ) -> Plan:
        rows = row_order([row.output for row in task.validation], seed)[: optimizer.evaluation_rows or None]
        each, orders = task.asked.answer_requests, optimizer.order_report
        order_requests = (orders + 1) * len(rows) * each if orders else 0  # its own order too, where it has other rows
        test_requests = task.asked.test_requests + order_requests

        def affordable(spent: Usage) -> float:
            if not caps.max_llm_requests:
                return math.inf
            return (caps.max_llm_requests - test_requests - spent.requests - spent.retries) // each

        answers = optimizer.answers(len(task.validation), affordable(ledger.spent(without=[SEARCH, TEST])))
        chooses_rows = optimizer.chooses_rows
        spent_by_none = optimizer.answers(len(task.validation), affordable(Usage()))
        searched = (
            spent_by_none
            if chooses_rows
            else planned_answers(optimizer, len(task.validation), spent_by_none or math.inf)
        )
        typical = TypicalAnswers(
            template=task.asked.template,
            pool=task.pool,
            validation=task.validation,
            rubric=task.asked.rubric,
            thinking_tokens=endpoint.llm_thinking_tokens,
            seed=seed,
        )
        held = Caps(
            limits=limits,
            seconds=caps.max_seconds,
            evaluation=typical.usage(1 if chooses_rows else len(rows), space),
            answer_requests=each,
            test_requests=test_requests,
            ledger=ledger,
        )
        return cls(
            rows=rows,
            answers=answers,
            evaluations=max(1, answers) if chooses_rows else optimizer.budget,
            caps=held,
            usage=task.instructions.usage + held.expected(searched * each + test_requests, Usage()),
            test_requests=task.asked.test_requests,
            chooses_rows=chooses_rows,
            concurrency=endpoint.llm_concurrency,
        )

    def ahead(self, black_box: BlackBox) -> int:
        """Evaluations that keep the endpoint busy while the oldest of them waits for its slowest answer.

        A function of this process is kept busy by one.
        """
        if black_box.is_function:
            return 1
        return 1 + math.ceil(2 * self.concurrency / (FIRST_ROWS if self.chooses_rows else len(self.rows)))

    def begin(self, known: Sequence[Evaluated], settings: OptimizerConfig, black_box: BlackBox) -> None:
        """Say what lies ahead, and allow what the caps leave for it.

        Args:
            known: what the journal holds.
        """
        self._announce(known, settings, black_box)
        black_box.meter.allow(self.caps.allowance(own=usage_of_records(known)))

    def allow_orders(self, black_box: BlackBox, ledger: Ledger) -> None:
        """What may be sent behind the search: what the run has spent and the test set's requests are not for it."""
        others = ledger.spent(without=[TEST]) + Usage(requests=self.test_requests)
        black_box.meter.allow(self.caps.limits.allowance(others))

    def _announce(self, known: Sequence[Evaluated], settings: OptimizerConfig, black_box: BlackBox) -> None:
        done = sum(len(record.observation.rows) for record in known) if self.chooses_rows else len(known)
        budget, unit = (self.answers, "answers") if self.chooses_rows else (settings.budget, "evaluations")
        if known:
            logger.info("continuing: %d of %d %s are in the journal", min(done, budget), budget, unit)
        if settings.scaled_design != settings.initial_design and not self.chooses_rows:
            logger.info(
                "notice: initial_design=%d is scaled down to %d for a budget of %d",
                settings.initial_design,
                settings.scaled_design,
                budget,
            )
        left, rows = max(0, budget - done), self.caps.evaluation.requests
        logger.info(
            "%s asks %s (%s): at most %s%d requests, %s; then %d for the test set",
            settings.method,
            black_box.asked.model,
            black_box.asked.endpoint,
            "" if self.chooses_rows else f"{left} x {rows} = ",
            left * rows,
            self.caps.described(left * rows),
            self.caps.test_requests,
        )

    def refuse(self, stopped: str) -> ConfigError:
        """Where not a single evaluation was possible."""
        return ConfigError(
            f"{stopped} does not allow a single evaluation of {self.caps.evaluation.requests} requests beside the "
            f"{self.caps.test_requests} of the test set; raise it, or lower validation_size and test_size"
        )


@dataclass(frozen=True, kw_only=True)
class TypicalAnswers:
    """About what answers to validation rows cost, judged by the texts of random sequences.

    Args:
        template: how prompts are written.
        rubric: of a judge that scores answers.
        thinking_tokens: of each answer, beside what is expected of it.
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
