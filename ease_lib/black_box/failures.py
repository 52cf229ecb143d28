"""Failures of an OpenAI-compatible endpoint: their kinds (`ease_lib.errors`), their remedies, when to try again."""

from __future__ import annotations

import email.utils
import json
import math
import re
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from ease_lib import errors

NO_CREDIT = "insufficient_quota", "billing_error", "credit balance is too low"
"""How endpoints say so beside HTTP 402: OpenAI, and Anthropic by its type and, with a 400, its words."""
NO_KEY = "no-key"
"""Sent where no key is configured; servers without authentication ignore it."""
Answer = TypeVar("Answer")


VERSION_IN_PATH = re.compile(r"//.*/v\d")
"""Of an endpoint's URL."""


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What the messages tell the user to look at.

    Args:
        url, model: the parameters that name the endpoint and its model.
        keys: the environment variables with its key.
        slow: what to do when it does not answer in time.
        long: what to do when a text does not fit.
        extra: the parameter with what else every request says.
    """

    url: str
    model: str
    keys: str
    slow: str
    long: str
    extra: str = "llm_extra"


class Refusal(Exception):
    """An answer with a status of failure, however it was asked for.

    Args:
        message: the endpoint's own words; all it said where it does not follow OpenAI's form.
        code, type, param: as OpenAI's form calls them, empty where it is silent.
        said: its whole answer, as text.
        retry_after: seconds that it asks to wait.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        type: str = "",
        param: str = "",
        said: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code, self.type, self.param, self.said = code, type, param, said
        self.retry_after = retry_after

    @classmethod
    def of_response(cls, status: int, headers: Mapping[str, str], body: bytes) -> Refusal:
        text = body.decode(errors="replace")
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        error: Any = content.get("error", content) if isinstance(content, dict) else None
        fields = error if isinstance(error, dict) else {}
        return cls(
            status,
            str(fields.get("message") or text.strip() or f"status {status}"),
            **{name: str(fields.get(name) or "") for name in ("code", "type", "param")},
            said=text,
            retry_after=_retry_after(headers.get("retry-after")),
        )

    @classmethod
    def of_error(cls, error: Exception) -> Refusal | None:
        """As `openai`, `httpx` and `requests` raise it, with the response; None of any other error."""
        response: Any = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if not isinstance(status, int) or status < 400:
            return None
        try:
            body = response.content
        except Exception:  # of a stream that nobody has read
            body = b""
        return cls.of_response(status, response.headers, body)


def named_failure(
    error: Exception, *, where: str, model: str, remedies: Remedies, secrets: Sequence[str] = ()
) -> errors.EndpointError:
    """The kind of a failure, with what to do about it.

    Args:
        where: the endpoint's URL.
        model: the value of the parameter `remedies.model`.
        secrets: keys that the endpoint may repeat; they are taken out.
    """
    if why := _why_untrusted(error):
        return errors.AuthenticationFailed(
            f"{where} shows a certificate that is not trusted here ({why}); set SSL_CERT_FILE to its authority's"
        )
    if isinstance(error, TimeoutError) or is_of_openai(error, "APITimeoutError"):
        return errors.EndpointTimeout(f"{where} did not answer in time; {remedies.slow}")
    if isinstance(error, aiohttp.ClientError) or is_of_openai(error, "APIConnectionError"):
        return errors.ConnectionFailed(f"{where} cannot be reached or broke off; check {remedies.url} and that it runs")
    if refusal := error if isinstance(error, Refusal) else Refusal.of_error(error):
        return _named_refusal(refusal, where, model, remedies, secrets)
    if isinstance(error, ValueError) or is_of_openai(error, "APIResponseValidationError"):
        return errors.GarbledAnswer(f"{where} answered something that is not JSON; check {remedies.url}")
    return errors.ConnectionFailed(f"{where}: the connection broke: {type(error).__name__}")


def is_of_openai(error: Exception, kind: str = "OpenAIError") -> bool:
    """Whether the library raised it. Its import takes most of a second, and is left to who sends something."""
    openai = sys.modules.get("openai")
    return openai is not None and isinstance(error, getattr(openai, kind))


def _why_untrusted(error: BaseException | None) -> str:
    """What is wrong with a certificate, however libraries wrap that; empty for another failure."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_message"):
            return str(error.verify_message)
        error = error.__cause__ or error.__context__
    return ""


def _named_refusal(
    refusal: Refusal, where: str, model: str, remedies: Remedies, secrets: Sequence[str]
) -> errors.EndpointError:
    said = f"{where} answered {refusal.status}: {what_it_said(refusal, secrets)}"
    reason = f"{refusal.code} {refusal.type} {what_it_said(refusal, secrets)}".lower()
    in_full = f"{refusal.code} {refusal.type} {refusal.message}".lower()
    says_no_credit = refusal.status in (400, 403, 429) and any(words in in_full for words in NO_CREDIT)
    if refusal.status == 402 or says_no_credit:
        return errors.QuotaExhausted(f"{said}; add credit to the account")
    match refusal.status:
        case 401 | 403:
            return errors.AuthenticationFailed(f"{said}; check {remedies.keys}")
        case 404:
            add = "" if VERSION_IN_PATH.search(where) else "; most end in /v1: add it?"
            return errors.ModelNotFound(f"{said}; check {remedies.model}={model} and {remedies.url}{add}")
        case 429:
            return errors.RateLimited(said, retry_after=refusal.retry_after)
        case 408 | 409:
            return errors.Overloaded(said)
        case status if status >= 500:
            return errors.Overloaded(said, retry_after=refusal.retry_after)
        case status if status not in (400, 413, 422):
            return errors.UnexpectedStatus(f"{said}; check {remedies.url}")
    if "context" in reason and any(word in reason for word in ("length", "exceed", "size", "window", "long")):
        return errors.ContextTooLong(f"{said}; {remedies.long}")
    if "content_filter" in reason or "content policy" in reason:
        return errors.ContentRefused(f"{said}; remove the row or ask the provider to lift it")
    return errors.BadRequest(said)


def what_it_said(refusal: Refusal, secrets: Sequence[str] = ()) -> str:
    """The endpoint's own words on a failure, on one line, without secrets."""
    words = " ".join(refusal.message.split())
    for secret in filter(None, secrets):
        words = words.replace(secret, "(key)")
    return words[:200]


def without_credentials(url: str) -> str:
    """The URL without user, password and query: fit to be shown and recorded."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a `Retry-After` of seconds or of a date."""
    if not header:
        return None
    try:
        seconds = float(header)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, kw_only=True)
class FailurePolicy:
    """What becomes of a row that the endpoint refuses: its content, its length, the request with it (HTTP 400, 413 or
    422), or by an answer without text.

    Args:
        kind: `stop` ends the evaluation with the failure, `skip` leaves the row out, `zero` takes it as wrong.
        coverage: least share of an evaluation's rows that must have been answered, in [0, 1].
    """

    kind: str = "stop"
    coverage: float = 1.0


STOP = FailurePolicy()
