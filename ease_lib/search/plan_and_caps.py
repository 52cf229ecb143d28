"""Plan of a search, and the caps that end it before they are exceeded."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ease_lib.black_box.budget_ledger import SEARCH, TEST, Budget
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import OptimizerConfig
from ease_lib.errors import ConfigError
from ease_lib.search.journal import Evaluated, usage_of_records
from ease_lib.search.optimizers.adaptive import FIRST_ROWS
from ease_lib.search.optimizers.registry import scaled_design
from ease_lib.words import grouped

if TYPE_CHECKING:  # it imports the clients, which `Search` does not need
    from ease_lib.black_box.layers import BlackBox

logger = logging.getLogger("ease")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Requests that a search may send within the caps of its run.

    Each cap stops it before the evaluation that would break it, and leaves the test set its part. Requests that fail
    and are tried again may use one up within an evaluation, which ends there.

    Args:
        rows: positions of the validation rows that a candidate is evaluated on which names none itself.
        evaluations: at most.
        chooses_rows: whether the method does, of every evaluation.
        answers: that such a search plans for.
        budget: of the run.
        max_seconds: duration of the search at most, over all attempts; 0 means no cap.
        evaluation: about what one evaluation costs, `requests` at most (of a method that chooses rows: a row); once
            something is spent, that tells better what a request costs.
        answer_requests: requests of one answer: 2 where a judge scores it.
        test_requests, order_requests: what the test set and the orders will take.
        usage: what search, orders and test set cost at most, by the texts of the data alone, whatever was kept or
            retried.
        concurrency: requests in flight.
    """

    rows: tuple[int, ...]
    evaluations: int
    chooses_rows: bool = False
    answers: int = 0
    budget: Budget = field(default_factory=Budget)
    max_seconds: float = 0.0
    evaluation: Usage = field(default_factory=lambda: Usage(requests=1))
    answer_requests: int = 1
    test_requests: int = 0
    order_requests: int = 0
    usage: Usage = field(default_factory=Usage)
    concurrency: int = 1

    def reached(self, spent: Usage, seconds: float, under_way: int = 0) -> str | None:
        """The cap that the next evaluation would exceed, as `name=value`, or None; its expected cost is recorded.

        Args:
            spent: by all evaluations so far.
            seconds: that the search has taken.
            under_way: requests of evaluations that are proposed and will be paid for before.
        """
        if self.max_seconds and seconds >= self.max_seconds:
            return f"max_seconds={self.max_seconds:g}"
        if not self.budget.is_capped:
            return None
        coming = expected_usage(self.evaluation, self.evaluation.requests + under_way, spent)
        self.budget.book(SEARCH, spent + coming)
        self.budget.book(TEST, expected_usage(self.evaluation, self.reserved_requests, spent))
        cap = self.budget.broken()
        if cap:
            self.budget.book(SEARCH, spent)
        return cap

    @property
    def reserved_requests(self) -> int:
        """Number of requests reserved for after the search."""
        return self.test_requests + self.order_requests

    def ahead(self, black_box: BlackBox) -> int:
        """Number of evaluations that keep the endpoint busy while the oldest waits for its slowest answer.

        A function of this process is kept busy by one.
        """
        if black_box.is_function:
            return 1
        return 1 + math.ceil(2 * self.concurrency / (FIRST_ROWS if self.chooses_rows else len(self.rows)))

    def begin(self, known: Sequence[Evaluated], settings: OptimizerConfig, black_box: BlackBox) -> None:
        """Log the plan; set the allowance: the caps minus what others and earlier attempts spent and the test set
        needs.

        What that will cost is estimated anew before each evaluation; here a first guess would bind the whole search.

        Args:
            known: what the journal holds.
        """
        self._announce(known, settings, black_box)
        others = self.budget.spent(without=[SEARCH, TEST])
        own = usage_of_records(known)
        black_box.meter.allow_beside(others + own + Usage(requests=self.reserved_requests))

    def allow_orders(self, black_box: BlackBox) -> None:
        """Set the allowance after the search: the caps minus what the run has spent and the test set needs."""
        black_box.meter.allow_beside(self.budget.spent(without=[TEST]) + Usage(requests=self.test_requests))

    def _announce(self, known: Sequence[Evaluated], settings: OptimizerConfig, black_box: BlackBox) -> None:
        done = sum(len(record.observation.rows) for record in known) if self.chooses_rows else len(known)
        budget, unit = (self.answers, "answers") if self.chooses_rows else (settings.budget, "evaluations")
        if known:
            logger.info("continuing: %d of %d %s are in the journal", min(done, budget), budget, unit)
        design = scaled_design(settings)
        if design != settings.initial_design and not self.chooses_rows:
            logger.info(
                "notice: initial_design=%d is scaled down to %d for a budget of %d",
                settings.initial_design,
                design,
                budget,
            )
        left, rows = max(0, budget - done), self.evaluation.requests
        logger.info(
            "%s asks %s (%s): at most %s%d requests%s; then %d for the test set",
            settings.method,
            black_box.asked.model,
            black_box.asked.endpoint,
            "" if self.chooses_rows else f"{left} x {rows} = ",
            left * rows,
            self._described(left * rows),
            self.reserved_requests,
        )

    def _described(self, requests: int) -> str:
        """Estimated cost of so many requests, in words; empty for a program, whose cost is known later."""
        coming = expected_usage(self.evaluation, requests)
        prompt = _rounded(coming.prompt_tokens + coming.judge_prompt_tokens)
        completion = _rounded(coming.completion_tokens + coming.judge_completion_tokens)
        if not coming.prompt_tokens:
            return ""
        cost = self.budget.cost(coming)
        return f", about {prompt} prompt and {completion} completion tokens" + (f", about ${cost:.2f}" if cost else "")

    def refuse(self, stopped: str) -> ConfigError:
        """Error for caps that do not allow a single evaluation."""
        planned = self.chooses_rows and self.budget.requests  # such a method plans by what the cap leaves it
        return ConfigError(
            f"{f'max_llm_requests={self.budget.requests}' if planned else stopped} does not allow a single evaluation "
            f"of {self.evaluation.requests} requests besides {self.reserved_requests} for what is asked afterwards; "
            "raise it, or lower validation_size and test_size"
        )


def expected_usage(evaluation: Usage, requests: int, spent: Usage | None = None) -> Usage:
    """Estimated cost of so many requests, from the usage so far, or from one evaluation at the start."""
    example = spent if spent and spent.requests else evaluation
    return example.share(requests / example.requests)


def _rounded(number: float) -> str:
    """The number rounded to two significant digits."""
    return grouped(float(f"{number:.2g}"))
