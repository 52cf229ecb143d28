"""What may still be sent to the black-box, and the client that sends no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ease_lib import errors
from ease_lib.black_box.client import Completion, LLMClient, Paid


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What may still be sent.

    Args:
        requests, cost_usd: infinite where there is no cap.
        request_cap, cost_cap: the caps as `name=value`, for messages.
        cost: of an answer, with or without text, in USD; true where it is the judge's.
    """

    requests: float = math.inf
    cost_usd: float = math.inf
    request_cap: str = ""
    cost_cap: str = ""
    cost: Callable[[Paid, bool], float] = lambda paid, judged: 0.0


class Meter:
    """Counts what is really sent, retries included; LLM and judge share it.

    The cost of an answer is known afterwards, so what is in flight when that cap is reached may go beyond it.
    """

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allow(allowance or Allowance())

    def allow(self, allowance: Allowance) -> None:
        """From now on no more than this."""
        self._allowance = allowance
        self._requests, self._cost_usd = allowance.requests, allowance.cost_usd

    @property
    def is_capped(self) -> bool:
        return min(self._requests, self._cost_usd) < math.inf

    @property
    def reached(self) -> str:
        """The cap that allows no further request, as `name=value`; empty where none does."""
        if self._requests < 1:
            return self._allowance.request_cap
        return self._allowance.cost_cap if self._cost_usd <= 0 else ""

    def count(self) -> None:
        """One more request is sent.

        Raises:
            CapReached: where the allowance does not cover it.
        """
        if self.reached:
            raise errors.CapReached(self.reached)
        self._requests -= 1

    def pay(self, paid: Paid, *, judged: bool) -> None:
        """For an answer, with or without text; `judged` where it is the judge's."""
        self._cost_usd -= self._allowance.cost(paid, judged)


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
