"""Failures of an OpenAI-compatible endpoint: their kinds (`ease_lib.errors`), their remedies, when to try again."""

from __future__ import annotations

import email.utils
import time
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import openai

from ease_lib import errors

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


@dataclass(frozen=True, kw_only=True)
class FailurePolicy:
    """What becomes of a row that the endpoint refuses: its content, its length, or the request with it (HTTP 4xx).

    Args:
        kind: `stop` ends the evaluation with the failure, `skip` leaves the row out, `zero` takes it as wrong.
        coverage: least share of an evaluation's rows that must have been answered, in [0, 1].
    """

    kind: str = "stop"
    coverage: float = 1.0


STOP = FailurePolicy()
