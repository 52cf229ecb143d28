"""Estimate of requests and cost of a run, part by part, before anything is sent, from texts of its own data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ease_lib.black_box.client import estimated_tokens
from ease_lib.black_box.local_llm import worker_count
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import Parameters
from ease_lib.errors import ConfigError
from ease_lib.evaluation.judge import read_rubric
from ease_lib.evaluation.rows import passes_of_test_set
from ease_lib.prompts.instructions import PROPOSAL_TOKENS, proposal_prompts
from ease_lib.prompts.template import exemplar_text, read_template
from ease_lib.reporting.summary import few_answers
from ease_lib.running.prerequisites import PROBE_PROMPTS
from ease_lib.running.run import Run
from ease_lib.running.task_data import load_data
from ease_lib.running.trial import trial_question
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.registry import least_answers, planned_answers
from ease_lib.search.search_plan import TypicalAnswers
from ease_lib.seeding import rng
from ease_lib.tasks.base import TaskData
from ease_lib.tasks.catalog import least_sizes, most_test_rows, most_validation_rows
from ease_lib.words import duration, grouped

TRIALS, SEARCH, TEST_SET, GATE = "trial questions", "search", "test set", "gate"
PROPOSALS = 20
"""Number of prompts that ask for instructions, whose mean length represents all."""


def planned(parameters: Parameters, run: Run, data: TaskData | None = None) -> dict[str, Usage]:
    """The parts of a run in order, with an estimate of the maximum cost of each; kept answers cost nothing.

    Args:
        data: the run's, where they are known.

    Raises:
        DataError, StoreError, ConfigError: as the run would; where a cap leaves no search, with the least that does.
    """
    data = data or load_data(parameters.task, parameters.run.seed, run.sources, run.caller.metric)
    settings, judged = parameters.optimizer, parameters.task.is_judged
    space = SequenceSpace(len(data.pool), settings.k, settings.shortest)
    typical = TypicalAnswers(
        template=read_template(parameters.task.prompt, run.sources),
        pool=data.pool,
        validation=data.validation,
        rubric=read_rubric(parameters.task.judge_rubric, run.sources) if judged else None,
        thinking_tokens=parameters.endpoint.llm_thinking_tokens,
        seed=parameters.run.seed,
    )
    beside = _Beside.of(parameters, len(data.validation), len(data.test))
    passes, orders, each = beside.tested, beside.orders, beside.each
    parts = {TRIALS: _trials(parameters, data, run)}
    if parameters.instructions.instructions:
        parts["instructions"] = _proposals(parameters, data)
    cap, others = parameters.caps.max_llm_requests, beside.requests
    affordable = beside.affordable(cap)
    least = least_answers(settings, len(data.validation))
    if affordable < least:
        raise ConfigError(
            f"max_llm_requests={cap} leaves {affordable * each} requests for the search besides {passes * each} for "
            f"the test set{f' and {orders * each} for the order report' * bool(orders)}; set at least "
            f"{others + least * each}, or lower test_size"
        )
    searched = planned_answers(settings, len(data.validation), affordable)
    parts[SEARCH] = typical.usage(searched, space)
    if orders:
        parts["order report"] = typical.usage(orders, space)
    parts[TEST_SET] = typical.usage(passes - len(data.test), space) + typical.usage(len(data.test), None)
    if parameters.publishing.publish_uri and parameters.publishing.publish_if == "better":
        parts[GATE] = typical.usage(len(data.test), space)
    most, prices = parameters.caps.max_cost_usd, parameters.endpoint.prices | parameters.judge.prices
    fixed = sum(usage.cost_usd(**prices) for part, usage in parts.items() if part not in (TRIALS, SEARCH, GATE))
    wanted = fixed + typical.usage(least, space).cost_usd(**prices)
    if most and most < wanted:
        raise ConfigError(
            f"max_cost_usd={most:g} leaves nothing for the search: the test set and other requests cost about "
            f"${fixed:.2g}; set at least {wanted:.2g}, or lower test_size"
        )
    return parts


@dataclass(frozen=True, kw_only=True)
class _Beside:
    """Requests of a run other than those of its search.

    Args:
        each: requests of an answer.
        tested, orders: answers about the test set, and to orders of the winner.
        proposals: requests for instructions.
    """

    each: int
    tested: int
    orders: int
    proposals: int

    @classmethod
    def of(cls, run: Parameters, validation: int, test: int) -> _Beside:
        """Numbers by the rows of validation and test set."""
        orders, rows = run.optimizer.order_report, run.optimizer.evaluation_rows or validation
        return cls(
            each=2 if run.task.is_judged else 1,
            tested=passes_of_test_set(run.task.baseline) * test,
            orders=(orders + 1) * min(rows, validation) if orders else 0,
            proposals=run.instructions.instructions,
        )

    @property
    def requests(self) -> int:
        return (self.tested + self.orders) * self.each + self.proposals

    def affordable(self, cap: int) -> float:
        """Number of answers that a cap on requests leaves for the search; 0 means no cap."""
        return max(0, cap - self.requests) // self.each if cap else math.inf


def least_requests(run: Parameters) -> tuple[int, int]:
    """Minimum number of requests for a result: one evaluation, and the requests outside the search.

    Both are lower bounds, by the parameters alone: rows of a file are not counted.

    Raises:
        ConfigError, DataError: as `tasks.catalog.least_sizes`.
    """
    validation, test = least_sizes(run.task)
    beside = _Beside.of(run, validation, test)
    return least_answers(run.optimizer, validation) * beside.each, beside.requests


def most_requests(run: Parameters) -> int:
    """Maximum number of requests of a run, from the parameters alone."""
    validation = most_validation_rows(run.task)
    beside = _Beside.of(run, validation, most_test_rows(run.task))
    searched = planned_answers(run.optimizer, validation, beside.affordable(run.caps.max_llm_requests))
    return searched * beside.each + beside.requests


def check_cap(run: Parameters) -> None:
    """
    Raises:
        ConfigError: if `max_llm_requests` is too small for any such run; with the least that may do.
    """
    cap, (searched, beside) = run.caps.max_llm_requests, least_requests(run)
    if 0 < cap < searched + beside:
        others = run.optimizer.order_report or run.instructions.instructions
        raise ConfigError(
            f"max_llm_requests={cap} is too small: one evaluation takes {searched} requests or more, and the test set"
            f"{' with other requests' if others else ''} {beside}; set at least {searched + beside}, or lower "
            "test_size"
        )


def total(parts: Mapping[str, Usage]) -> Usage:
    return sum(parts.values(), start=Usage())


def in_words(parameters: Parameters, parts: Mapping[str, Usage], seconds: float) -> str:
    """A line: requests, tokens, cost, time.

    Args:
        seconds: that one short question took.
    """
    usage = total(parts)
    prices = parameters.endpoint.prices | parameters.judge.prices
    tokens = usage.prompt_tokens + usage.judge_prompt_tokens, usage.completion_tokens + usage.judge_completion_tokens
    cost = f", ${usage.cost_usd(**prices):.2f}" if any(prices.values()) else ""
    asked, own = parameters.endpoint.llm_concurrency, parameters.endpoint.is_local
    at_once = min(asked, worker_count()) if own else asked  # the others would wait for a core of this machine
    took = usage.requests * seconds / at_once
    shares = shares_of_cap(parameters, parts)
    what = f"requests, about {grouped(tokens[0])} prompt and {grouped(tokens[1])} answer tokens"
    if parameters.task.of_program:
        what = "calls"
    return (
        f"at most {grouped(usage.requests)} {what}{cost}; {duration(took)} at {seconds:.2g} s an answer and "
        f"{at_once} at once{f'; {shares}' * bool(shares)}"
    )


def shares_of_cap(parameters: Parameters, parts: Mapping[str, Usage]) -> str:
    """Sentence on how `max_llm_requests` is spent; empty without that cap."""
    cap, search, test = parameters.caps.max_llm_requests, parts[SEARCH].requests, parts[TEST_SET].requests
    rest = total(parts).requests - search - test - parts[TRIALS].requests
    said = f"of max_llm_requests={cap}, {test} are for the test set and {search} for the search"
    return said + f", {rest} for everything else" * bool(rest) if cap else ""


def warning_of_few(parameters: Parameters, parts: Mapping[str, Usage]) -> str:
    """Warning if the default method has too few answers to be sure of anything; else empty."""
    answers = parts[SEARCH].requests // (2 if parameters.task.is_judged else 1)
    few = few_answers(parameters.optimizer.method, answers)
    return f"notice: {few}; raise budget" if few else ""


def _trials(parameters: Parameters, data: TaskData, run: Run) -> Usage:
    if parameters.task.of_program:
        return Usage(requests=1)
    asked = [
        trial_question(parameters, data, run.sources).prompt,
        *(PROBE_PROMPTS if parameters.endpoint.llm_refresh == "probe" else ()),
    ]
    tokens = sum(map(estimated_tokens, asked))
    answers = (8 + parameters.endpoint.llm_thinking_tokens) * len(asked)
    return Usage(requests=len(asked), prompt_tokens=tokens, completion_tokens=answers)


def _proposals(parameters: Parameters, data: TaskData) -> Usage:
    wanted = parameters.instructions.instructions
    texts = [exemplar_text(row) for row in data.pool]
    prompts = proposal_prompts(texts, min(wanted, PROPOSALS), rng(parameters.run.seed, "instruction proposals"))
    usage = Usage(
        requests=len(prompts),
        prompt_tokens=sum(map(estimated_tokens, prompts)),
        completion_tokens=(PROPOSAL_TOKENS + parameters.endpoint.llm_thinking_tokens) * len(prompts),
    )
    return usage.share(wanted / len(prompts))
