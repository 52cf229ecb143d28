"""Allowance of requests that may still be sent to the black-box, and the client that enforces it."""

from __future__ import annotations

import math

from ease_lib import errors
from ease_lib.black_box.budget_ledger import Budget
from ease_lib.black_box.client import Completion, LLMClient, Paid
from ease_lib.black_box.usage import Usage


class Meter:
    """Counts the requests actually sent, retries included; LLM and judge share it.

    The cost of an answer is known afterwards, so what is in flight when that cap is reached may go beyond it.

    Args:
        budget: with the caps; without one, all may be sent.
        spent: of it, before anything is sent.
    """

    def __init__(self, budget: Budget | None = None, spent: Usage | None = None) -> None:
        self._budget = budget or Budget()
        self.allow_beside(spent or Usage())

    def allow_beside(self, spent: Usage) -> None:
        """Limit the meter to what the budget leaves after `spent`."""
        self._requests, self._cost_usd = self._budget.requests_left(spent), self._budget.cost_left(spent)

    @property
    def is_capped(self) -> bool:
        return self._budget.is_capped

    @property
    def reached(self) -> str:
        """The cap that allows no further request, as `name=value`; empty if none does."""
        if self._requests < 1:
            return self._budget.request_cap
        return self._budget.cost_cap if self._cost_usd <= 0 else ""

    def count(self) -> None:
        """Count one more request.

        Raises:
            CapReached: where the budget does not cover it.
        """
        if self.reached:
            raise errors.CapReached(self.reached)
        self._requests -= 1

    def pay(self, paid: Paid, *, judged: bool) -> None:
        """Record an answer, with or without text; `judged` marks an answer of the judge."""
        if self._cost_usd < math.inf:
            self._cost_usd -= self._budget.cost(Usage.of(paid, judged=judged))


class MeteredClient:
    """Sends nothing that the meter does not allow."""

    def __init__(self, client: LLMClient, meter: Meter, *, judges: bool = False) -> None:
        self._client = client
        self._meter = meter
        self._judges = judges

    async def complete(self, prompt: str, account: str = "") -> Completion:
        self._meter.count()
        try:
            completion = await self._client.complete(prompt, account)
        except errors.EndpointError as error:
            self._meter.pay(error, judged=self._judges)
            raise
        self._meter.pay(completion, judged=self._judges)
        return completion
