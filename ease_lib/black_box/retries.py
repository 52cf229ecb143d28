"""Retries of temporary failures, with growing waits, until a deadline."""

from __future__ import annotations

import asyncio
import copy
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ease_lib import errors
from ease_lib.black_box.client import Completion, LLMClient, paid_tokens, with_failures

Answer = TypeVar("Answer")

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0


async def with_retries(
    ask: Callable[[], Awaitable[Answer]],
    *,
    deadline_seconds: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Answer, list[errors.EndpointError]]:
    """The answer, and the failures before it.

    Retryable failures are tried again, with jittered exponential backoff, until a deadline after the first failure. A
    `Retry-After` of the endpoint is kept when it is longer than the backoff. While others are answered, waits stay
    short.

    Raises:
        EndpointError: the last failure, when it cannot be retried or the next try would be past the deadline; one of
            the prompt with what those before it have cost.
    """
    end = math.inf
    failures: list[errors.EndpointError] = []
    while True:
        try:
            return await ask(), failures
        except errors.EndpointError as error:
            end = min(end, clock() + deadline_seconds)
            longest = FIRST_BACKOFF_SECONDS if error.suspected else LONGEST_BACKOFF_SECONDS
            backoff = min(FIRST_BACKOFF_SECONDS * 2 ** len(failures), longest) * random.uniform(0.5, 1.0)
            wait = max(backoff, error.retry_after or 0.0)
            if not error.retryable or clock() + wait > end:
                if error.of_prompt:  # others may be shared by many prompts
                    error.retries += len(failures)
                    error.prompt_tokens, error.completion_tokens = paid_tokens([error, *failures])
                if error.retryable and error.retry_after and clock() + error.retry_after > end:
                    raise _beyond(error, deadline_seconds) from error
                raise
            failures.append(error)
        await sleep(wait)


def _beyond(error: errors.EndpointError, deadline_seconds: float) -> errors.EndpointError:
    """The failure, with the reason why it is not retried."""
    said = copy.copy(error)
    said.args = (
        f"{error}; it asks for a wait of {error.retry_after:g} s, which would exceed "
        f"llm_deadline_seconds={deadline_seconds:g}; raise it, or run the same command later to continue",
    )
    return said


class RetryingClient:
    """Tries retryable failures again until a deadline after the first failure, see `with_retries`."""

    def __init__(
        self,
        client: LLMClient,
        *,
        deadline_seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._deadline_seconds = deadline_seconds
        self._sleep = sleep
        self._clock = clock

    async def complete(self, prompt: str, account: str = "") -> Completion:
        completion, failures = await with_retries(
            lambda: self._client.complete(prompt, account),
            deadline_seconds=self._deadline_seconds,
            sleep=self._sleep,
            clock=self._clock,
        )
        return with_failures(completion, failures)
