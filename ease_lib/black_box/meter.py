"""What may still be sent to the black-box, and the client that sends no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ease_lib import errors
from ease_lib.black_box.client import Completion, LLMClient


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What may still be sent.

    Args:
        requests, cost_usd: infinite where there is no cap.
        request_cap, cost_cap: the caps as `name=value`, for messages.
        cost: of an answer, in USD.
    """

    requests: float = math.inf
    cost_usd: float = math.inf
    request_cap: str = ""
    cost_cap: str = ""
    cost: Callable[[Completion], float] = lambda completion: 0.0


class MeteredClient:
    """Counts what is really sent, retries included, and sends nothing that the allowance does not cover.

    The cost of an answer is known afterwards, so what is in flight when that cap is reached may go beyond it.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client
        self.allow(Allowance())

    def allow(self, allowance: Allowance) -> None:
        """From now on no more than this."""
        self._allowance = allowance
        self._requests, self._cost_usd = allowance.requests, allowance.cost_usd

    async def complete(self, prompt: str, account: str = "") -> Completion:
        if self._requests < 1:
            raise errors.CapReached(self._allowance.request_cap)
        if self._cost_usd <= 0:
            raise errors.CapReached(self._allowance.cost_cap)
        self._requests -= 1
        completion = await self._client.complete(prompt, account)
        self._cost_usd -= self._allowance.cost(completion)
        return completion
