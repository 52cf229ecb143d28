"""The caps and the ledger that a stage obeys, from its configuration."""

from __future__ import annotations

from ease_lib.config import CapsConfig, ContinuationConfig, EndpointConfig, RunConfig
from ease_lib.study.caps import Limits
from ease_lib.study.ledger import Ledger, open_ledger


def limits_of(caps: CapsConfig, endpoint: EndpointConfig) -> Limits:
    return Limits(requests=caps.max_llm_requests, cost_usd=caps.max_cost_usd, prices=endpoint.prices)


def ledger_of(run: RunConfig, continuation: ContinuationConfig) -> Ledger:
    """`ledger` is its name; behind a slash the owner of its entries, where the runs of a comparison share one."""
    name, _, owner = continuation.ledger.partition("/")
    return open_ledger(run.store_uri, name, owner)
