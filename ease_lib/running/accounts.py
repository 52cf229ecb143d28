"""The black-box as a stage may use it: within what the run's caps leave to it, and with its spending booked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ease_lib.black_box.client import Sampling
from ease_lib.black_box.opening import BlackBox, open_black_box
from ease_lib.config.sections import CapsConfig, ContinuationConfig, EndpointConfig, JudgeConfig, RunConfig
from ease_lib.study.caps import Limits
from ease_lib.study.ledger import Ledger, open_ledger


class Spending(Protocol):
    """The sections that a stage which asks the black-box has in its `Config`."""

    @property
    def endpoint(self) -> EndpointConfig: ...
    @property
    def judge(self) -> JudgeConfig: ...
    @property
    def caps(self) -> CapsConfig: ...
    @property
    def run(self) -> RunConfig: ...
    @property
    def continuation(self) -> ContinuationConfig: ...


@contextmanager
def open_account(
    config: Spending, sampling: Sampling, part: str, *, judged: object = False
) -> Iterator[tuple[BlackBox, Ledger]]:
    """The black-box, which sends no more than the caps leave beside the other parts of the run, and the run's ledger.

    Args:
        part: of the run, as the ledger names it; what it spends is booked by the stage.
        judged: true where answers are scored by a judge.

    Raises:
        EndpointError, ConfigError: when the endpoint cannot be reached or does not say which model to use.
    """
    limits, ledger = limits_of(config), ledger_of(config.run, config.continuation)
    with open_black_box(
        config.endpoint,
        sampling=sampling,
        store_uri=config.run.store_uri,
        answers=config.continuation.answers,
        judge=config.judge if judged else None,
    ) as black_box:
        black_box.meter.allow(limits.allowance(ledger.spent(without=[part])))
        yield black_box, ledger


def limits_of(config: Spending) -> Limits:
    """The caps of a configuration, with its prices."""
    caps = config.caps
    return Limits(requests=caps.max_llm_requests, cost_usd=caps.max_cost_usd, prices=prices_of(config))


def prices_of(config: Spending) -> dict[str, float]:
    """USD for a million tokens of the LLM and of the judge, as `Usage.cost_usd` takes them."""
    return config.endpoint.prices | config.judge.prices


def ledger_of(run: RunConfig, continuation: ContinuationConfig) -> Ledger:
    """`ledger` is its name; behind a slash the owner of its entries, where the runs of a comparison share one."""
    name, _, owner = continuation.ledger.partition("/")
    return open_ledger(run.store_uri, name, owner)
