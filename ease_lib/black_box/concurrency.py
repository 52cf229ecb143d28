"""Number of requests in flight: as many as allowed, fewer while the endpoint cannot keep up."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

from ease_lib import errors
from ease_lib.black_box.client import Completion, LLMClient
from ease_lib.black_box.retries import LONGEST_BACKOFF_SECONDS

NOTICE_SECONDS = 60.0
"""Time between two notices of congestion."""
logger = logging.getLogger("ease")


class AdaptiveClient:
    """Bounds the requests in flight by additive increase and multiplicative decrease, as TCP does.

    The bound is halved when the endpoint says that it is overloaded or that the rate is too high, once for all the
    requests that were in flight together; as many good answers as the bound raise it by one. A `Retry-After` holds back
    every request, not only the one that was told. After a failure that no retry can cure nothing more is sent, unless
    it was about one prompt and others are to go on.

    Args:
        maximum: requests in flight at most.
        outlives_prompts: whether prompts that are refused stop no others.
    """

    def __init__(
        self,
        client: LLMClient,
        *,
        maximum: int,
        outlives_prompts: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._maximum = maximum
        self._outlives_prompts = outlives_prompts
        self._sleep = sleep
        self._clock = clock
        self.bound = float(maximum)
        self._in_flight = 0
        self._decreases = 0
        self._not_before = self._quiet_until = -math.inf
        self._permanent: errors.EndpointError | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def complete(self, prompt: str, account: str = "") -> Completion:
        await self._enter()
        sent_after = self._decreases
        try:
            if self._not_before > self._clock():
                await self._hold_back()
            completion = await self._client.complete(prompt, account)
        except (errors.RateLimited, errors.Overloaded) as error:
            if not error.suspected or isinstance(error, errors.RateLimited):
                self._slow_down(sent_after, error.retry_after or 0.0)
            raise
        except errors.EndpointError as error:
            lasts = not error.retryable and not isinstance(error, errors.CapReached)  # which leaves others their part
            if lasts and not (error.of_prompt and self._outlives_prompts):
                self._permanent = error
            raise
        else:
            self.bound = min(self._maximum, self.bound + 1 / self.bound)
            return completion
        finally:
            self._leave()

    async def _enter(self) -> None:
        """Take a slot, in turn; a request that ends passes its slot on, so that waiting takes no computing."""
        if self._permanent:
            raise self._not_asked(self._permanent)
        if not self._waiting and self._in_flight < int(self.bound):
            self._in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given the place, and does not take it
                self._leave()
            raise

    def _leave(self) -> None:
        self._in_flight -= 1
        while self._waiting and (self._permanent or self._in_flight < int(self.bound)):
            turn = self._waiting.popleft()
            if turn.done():
                continue  # it gave up
            if self._permanent:
                turn.set_exception(self._not_asked(self._permanent))
            else:
                self._in_flight += 1
                turn.set_result(None)

    @staticmethod
    def _not_asked(error: errors.EndpointError) -> errors.EndpointError:
        """Outcome for other prompts; the failure of a single prompt does not apply to them."""
        return (
            errors.NotAsked(f"not sent, because another prompt failed for good: {error}") if error.of_prompt else error
        )

    async def _hold_back(self) -> None:
        while (wait := self._not_before - self._clock()) > 0:
            await self._sleep(wait)

    def _slow_down(self, sent_after: int, retry_after: float) -> None:
        self._not_before = max(self._not_before, self._clock() + min(retry_after, LONGEST_BACKOFF_SECONDS))
        if sent_after < self._decreases:
            return  # it was sent before the last decrease: the same congestion
        self._decreases += 1
        self.bound = max(1.0, self.bound / 2)
        if self._clock() > self._quiet_until:
            logger.info("notice: the endpoint cannot keep up; at most %d requests in flight for now", int(self.bound))
            self._quiet_until = self._clock() + NOTICE_SECONDS
