"""Requests and tokens per minute, held over all processes that share a store.

A schedule holds the time of the next request; a sender reserves a stretch of it (GCRA, the generic cell rate algorithm:
ITU-T I.371). Requests are spread evenly over a stretch, so there are no bursts. A process reserves a few seconds at a
time, so that it need not access the store for every request: as many requests as fit, and the rest of a stretch that is
too short for the next request counts towards it. Seconds that are not used are lost.
The clocks of machines must agree to within such a stretch.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable

from ease_lib.artifacts.store import Store
from ease_lib.black_box.client import Completion, LLMClient, estimated_tokens
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import EndpointError, StoreError

FOLDER = "rates"
STRETCH_SECONDS = 2.0
MOST_TRIES = 100
ROUNDING = 1e-6
"""Rounding error of times as large as today's, in seconds."""


class SharedRate:
    """Schedule of one quantity (requests or tokens).

    Args:
        per_minute: of them.
        store, name: where processes agree about it; without a store it is this process's own.
    """

    def __init__(
        self, per_minute: float, store: Store | None = None, name: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._seconds_each = 60 / per_minute
        self._store = store
        self._name = name
        self._clock = clock
        self._next = 0.0
        self._begin = self._end = 0.0
        self._lock = asyncio.Lock()

    async def reserve(self, amount: float) -> float:
        """The time from which an amount may be sent."""
        async with self._lock:
            needed = amount * self._seconds_each
            left = 0.0 if self._end < self._clock() - STRETCH_SECONDS else self._end - self._begin
            if needed <= left + ROUNDING:
                starts = self._begin
            else:
                length = needed * max(1, STRETCH_SECONDS // needed) - left
                starts = self._begin = await asyncio.to_thread(self._stretch, length)
                self._begin, self._end = starts - left, starts + length
            self._begin += needed
            return starts

    def _stretch(self, length: float) -> float:
        """Reserve a stretch of `length` seconds and return when it begins."""
        for tries in range(MOST_TRIES):
            found = self._store.read(self._name) if self._store else None
            taken = self._next if self._store is None else _time(found)
            begin = max(taken, self._clock())
            self._next = begin + length
            if self._store is None or self._store.swap(self._name, json.dumps(self._next).encode(), found):
                return begin
            time.sleep(random.uniform(0, 0.05 * (tries + 1)))
        raise StoreError(f"{self._name} in store_uri keeps changing; start fewer runs at once")


class PacedClient:
    """Waits until the schedules of requests and tokens allow the next request.

    What a request takes is estimated before it is sent; the difference is settled with those that follow.

    Args:
        answer_tokens: about those of an answer.
    """

    def __init__(
        self,
        client: LLMClient,
        requests: SharedRate | None,
        tokens: SharedRate | None,
        *,
        answer_tokens: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._requests = requests
        self._tokens = tokens
        self._answer_tokens = answer_tokens
        self._sleep = sleep
        self._clock = clock
        self._owed = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        expected = estimated_tokens(prompt) + self._answer_tokens
        settled = max(0, expected + self._owed)
        self._owed += expected - settled
        starts = [await self._requests.reserve(1)] if self._requests else []
        starts += [await self._tokens.reserve(settled)] if self._tokens else []
        while (wait := max(starts, default=0.0) - self._clock()) > 0:
            await self._sleep(wait)
        try:
            completion = await self._client.complete(prompt, account)
        except EndpointError as error:
            if error.prompt_tokens:
                self._owed += error.prompt_tokens + error.completion_tokens - expected
            raise
        self._owed += completion.prompt_tokens + completion.completion_tokens - expected
        return completion


def schedules(
    config: EndpointConfig, asked: LLMIdentity, store: Store | None
) -> tuple[SharedRate | None, SharedRate | None]:
    """Schedules for limited requests and tokens, shared by processes with the same store, endpoint and model."""
    limits = {"requests": config.llm_requests_per_minute, "tokens": config.llm_tokens_per_minute}
    requests, tokens = (
        SharedRate(limit, store, f"{FOLDER}/{asked.schedule_key}-{what}.json") if limit else None
        for what, limit in limits.items()
    )
    return requests, tokens


def _time(content: bytes | None) -> float:
    try:
        return float(json.loads(content or b"0"))
    except (ValueError, TypeError) as error:
        raise StoreError(f"the schedule in {FOLDER} of store_uri is damaged; remove that folder") from error
