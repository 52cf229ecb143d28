"""Failures of an OpenAI-compatible endpoint: their kinds (`ease_lib.errors`), their remedies, when to try again."""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import openai

from ease_lib import errors

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
NO_KEY = "no-key"
"""Sent where no key is configured; servers without authentication ignore it."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What the messages tell the user to look at.

    Args:
        url, model: the parameters that name the endpoint and its model.
        keys: the environment variables with its key.
        slow: what to do when it does not answer in time.
        long: what to do when a text does not fit.
    """

    url: str
    model: str
    keys: str
    slow: str
    long: str


def named_failure(
    error: Exception, *, where: str, model: str, remedies: Remedies, key: str = ""
) -> errors.EndpointError:
    """The kind of a failure, with what to do about it.

    Args:
        where: the endpoint's URL.
        model: the value of the parameter `remedies.model`.
        key: a secret that the endpoint may repeat; it is taken out.
    """
    match error:
        case openai.APITimeoutError():
            return errors.EndpointTimeout(f"{where} did not answer in time; {remedies.slow}")
        case openai.APIConnectionError():
            return errors.ConnectionFailed(
                f"{where} cannot be reached or broke off; check {remedies.url} and that it runs"
            )
        case openai.APIStatusError():
            return _named_status(error, where, model, remedies, key)
        case openai.APIResponseValidationError() | ValueError():
            return errors.GarbledAnswer(f"{where} answered something that is not JSON; check {remedies.url}")
    return errors.ConnectionFailed(f"{where}: the connection broke: {type(error).__name__}")


def _named_status(
    error: openai.APIStatusError, where: str, model: str, remedies: Remedies, key: str
) -> errors.EndpointError:
    said = f"{where} answered {error.status_code}: {what_it_said(error, key)}"
    reason = f"{error.code} {error.type} {what_it_said(error, key)}".lower()
    match error.status_code:
        case 401 | 403:
            return errors.AuthenticationFailed(f"{said}; check {remedies.keys}")
        case 404:
            return errors.ModelNotFound(f"{said}; check {remedies.model}={model} and {remedies.url}")
        case 429 if "insufficient_quota" in reason:
            return errors.QuotaExhausted(f"{said}; add credit to the account")
        case 429:
            return errors.RateLimited(said, retry_after=_retry_after(error.response.headers.get("retry-after")))
        case 408 | 409:
            return errors.Overloaded(said)
        case status if status >= 500:
            return errors.Overloaded(said, retry_after=_retry_after(error.response.headers.get("retry-after")))
    if "context" in reason and any(word in reason for word in ("length", "exceed", "size", "window", "long")):
        return errors.ContextTooLong(f"{said}; {remedies.long}")
    if "content_filter" in reason or "content policy" in reason:
        return errors.ContentRefused(f"{said}; remove the row or ask the provider to lift it")
    return errors.BadRequest(said)


async def with_retries(
    ask: Callable[[], Awaitable[Answer]],
    *,
    deadline_seconds: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Answer, int]:
    """The answer, and the failed requests before it.

    Retryable failures are tried again, with jittered exponential backoff, until a deadline after the first failure. A
    `Retry-After` of the endpoint is kept when it is longer than the backoff.

    Raises:
        EndpointError: the last failure, when it cannot be retried or the next try would be past the deadline.
    """
    end = math.inf
    retries = 0
    while True:
        try:
            return await ask(), retries
        except errors.EndpointError as error:
            end = min(end, clock() + deadline_seconds)
            backoff = min(FIRST_BACKOFF_SECONDS * 2**retries, LONGEST_BACKOFF_SECONDS) * random.uniform(0.5, 1.0)
            wait = max(backoff, error.retry_after or 0.0)
            if not error.retryable or clock() + wait > end:
                raise
        retries += 1
        await sleep(wait)


def what_it_said(error: openai.APIStatusError, key: str = "") -> str:
    """The endpoint's own words on a failure, on one line, without the key."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    words = " ".join(str(message or error.message).split())
    return (words.replace(key, "(key)") if key else words)[:200]


def without_credentials(url: str) -> str:
    """The URL without user, password and query: fit to be shown and recorded."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a `Retry-After` of seconds or of a date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
