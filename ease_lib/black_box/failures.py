"""Failures of an OpenAI-compatible endpoint: their kinds (`ease_lib.errors`), their remedies, when to try again."""

from __future__ import annotations

import email.utils
import json
import math
import re
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ease_lib import errors
from ease_lib.urls import VERSION_IN_PATH, without_credentials

NO_CREDIT = "insufficient_quota", "billing_error", "credit balance is too low"
"""Signs of exhausted credit other than HTTP 402: those of OpenAI, and Anthropic's type and, with a 400, its words."""
NO_KEY = "no-key"
"""Sent where no key is configured; servers without authentication ignore it."""
_TOO_LONG = re.compile(
    r"context.{0,40}(?:length|exceed|size|window|long)|(?:length|exceed|size|window|long).{0,60}context|"
    r"request(?: entity)?[ _]too[ _]large|payload too large|input(?: is)?[ _]too[ _]long|prompt(?: is)?[ _]too[ _]long|"
    r"too many (?:input )?tokens|(?:input|prompt)(?: token)?s?(?: count| length)?\b.{0,60}(?:exceed|must have less|"
    r"too long|too large|longer than|less than or equal|maximum)|maximum (?:prompt|input) length|range of input length|"
    r"string too long|reduce the length|inputs.{0,30}max_new_tokens",
    re.DOTALL,
)
"""Words for a prompt that is too long, with any status: vLLM, SGLang, llama.cpp, TGI, OpenAI, Anthropic, Gemini, Groq
(a request above its limit a minute can never be sent), xAI, Mistral, Cohere, Bedrock, Qwen."""
_ABOUT_CONTENT = re.compile(
    r"content[ _-]?(?:filter|policy|management)|moderation|flagged|safety|prohibited|inappropriate|sensitive|"
    r"data[ _]?inspection|violat\w+ .{0,30}(?:polic|guideline)"
)
_STATUS_OF_WORDS = {
    r"insufficient[ _](?:quota|credit|balance)|billing": 402,
    r"rate[ _]?limit|resource[ _]exhausted|too many requests|throttl|quota": 429,
    r"unauthenticated|authentication|invalid[ _]api[ _]key|unauthorized": 401,
    r"permission|forbidden|access[ _]denied": 403,
    r"not[ _]found|no such model|unknown model": 404,
    r"invalid[ _](?:request|argument|parameter|value)|bad[ _]?request|failed[ _]precondition|content[ _]?filter": 400,
    r"overload|unavailable|capacity|loading": 503,
}
"""Status for errors inside an answer that name none; other errors count as temporary faults."""
_TO_HTTPS = re.compile(r"plain http request was sent to https|http request to an https server|requires tls|use https")


class Proxy(NamedTuple):
    """A proxy, and the variable of the environment that names it."""

    url: str
    variable: str

    @property
    def shown(self) -> str:
        return f"the proxy {without_credentials(self.url)} of {self.variable}"


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """Parameters and places that messages tell the user to check.

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
        code, type, param: as OpenAI's form calls them, empty if it is silent.
        said: its whole answer, as text.
        retry_after: seconds that it asks to wait.
        answer: the JSON in which it stands, where the status was one of success: it may say what was paid.
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
        answer: Any = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code, self.type, self.param, self.said = code, type, param, said
        self.retry_after = retry_after
        self.answer = answer

    @property
    def in_full(self) -> str:
        """Full text of the answer."""
        return f"{self.code} {self.type} {self.said} {self.message}"

    @classmethod
    def of_response(cls, status: int, headers: Mapping[str, str], body: bytes) -> Refusal:
        text = body.decode(errors="replace")
        try:
            fields = _fields_of_error(json.loads(text))
        except ValueError:
            fields = {}
        return cls(
            status,
            str(fields.get("message") or text.strip() or f"status {status}"),
            **_named_fields(fields),
            said=text,
            retry_after=_retry_after(headers.get("retry-after")),
        )

    @classmethod
    def within(cls, answer: Any, headers: Mapping[str, str]) -> Refusal | None:
        """The error in an answer with a status of success, next to its choices or in one; its code becomes the status;
        None if there is none."""
        fields = next((fields for place in _places_of_errors(answer) if (fields := _fields_of_error(place))), None)
        if fields is None:
            return None
        said = json.dumps(fields)
        return cls(
            _status_within(fields),
            str(fields.get("message") or said),
            **_named_fields(fields),
            said=said,
            retry_after=_retry_after(headers.get("retry-after")),
            answer=answer,
        )

    @classmethod
    def of_error(cls, error: Exception) -> Refusal | None:
        """Return the refusal in an error of `openai`, `httpx` or `requests` that carries a response; None for other
        errors."""
        response: Any = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if not isinstance(status, int) or status < 400:
            return None
        try:
            body = response.content
        except Exception:  # of a stream that was not read
            body = b""
        return cls.of_response(status, response.headers, body)


def _places_of_errors(answer: Any) -> Iterator[Any]:
    """Fields in which an answer with a status of success may carry an error."""
    if isinstance(answer, list):  # Gemini's
        answer = answer[0] if answer else None
    if not isinstance(answer, dict):
        return
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    for place in (answer, first, message):
        error = place.get("error") if isinstance(place, dict) else None
        if any(error.values()) if isinstance(error, dict) else error:
            yield {"error": error}
    says_why = any(isinstance(answer.get(name), str) for name in ("message", "detail"))
    if answer.get("object") == "error" or (says_why and not answer.keys() & {"choices", "data"}):
        yield answer


def _fields_of_error(content: Any) -> dict[str, Any]:
    """Message, code, type and parameter, wherever known endpoints write them; empty if it is not an error."""
    if isinstance(content, list):
        content = content[0] if content else None
    if not isinstance(content, dict):
        return {}
    error = content.get("error") or content.get("errors") or content
    if isinstance(error, list):
        error = error[0] if error else content
    if not isinstance(error, dict):
        return {**content, "message": str(error)}
    return {**error, "message": error.get("message") or error.get("detail")}


def _named_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    named = {
        "code": fields.get("code") or fields.get("status"),
        "type": fields.get("type"),
        "param": fields.get("param"),
    }
    return {name: str(value) for name, value in named.items() if value}


def _status_within(fields: Mapping[str, Any]) -> int:
    """The status that an error within an answer stands for."""
    for name in ("code", "status", "status_code"):
        code = str(fields.get(name) or "")
        if code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
    words = " ".join(str(fields.get(name) or "") for name in ("code", "type", "status", "message")).lower()
    return next((status for pattern, status in _STATUS_OF_WORDS.items() if re.search(pattern, words)), 502)


def named_failure(
    error: Exception,
    *,
    where: str,
    model: str,
    remedies: Remedies,
    secrets: Sequence[str] = (),
    proxy: Proxy | None = None,
) -> errors.EndpointError:
    """The kind of a failure, with what to do about it.

    Args:
        where: the endpoint's URL.
        model: the value of the parameter `remedies.model`.
        secrets: keys that the endpoint may repeat; they are taken out.
        proxy: that requests go through.
    """
    import aiohttp  # 0.2 s, which stages that ask nothing need not spend

    if tls := _of_encryption(error, where, remedies):
        return tls
    if isinstance(error, TimeoutError) or is_of_openai(error, "APITimeoutError"):
        return errors.EndpointTimeout(f"{where} did not answer in time", remedy=remedies.slow)
    if proxy and (of_proxy := _of_proxy(error, where, proxy, secrets)):
        return of_proxy
    if isinstance(error, Moved):
        return errors.WrongAddress(
            f"{where} answered {error.status}: it has moved to {error.shown}",
            remedy=f"set {remedies.url} to the new address if you trust it with your key",
        )
    if isinstance(error, aiohttp.ClientError) or is_of_openai(error, "APIConnectionError"):
        through = f" through {proxy.shown}" if proxy else ""
        return errors.ConnectionFailed(
            f"{where} cannot be reached{through} or broke off the connection",
            remedy=f"check {remedies.url} and that it runs",
        )
    if refusal := error if isinstance(error, Refusal) else Refusal.of_error(error):
        return _named_refusal(refusal, where, model, remedies, secrets)
    if isinstance(error, ValueError) or is_of_openai(error, "APIResponseValidationError"):
        return errors.GarbledAnswer(f"{where} answered something that is not JSON", remedy=f"check {remedies.url}")
    return errors.ConnectionFailed(f"{where}: the connection broke: {type(error).__name__}")


class Moved(Exception):
    """Failure for an endpoint that redirects requests to a place to which they may not be sent automatically.

    Args:
        place: the URL as it says it.
    """

    def __init__(self, status: int, place: str) -> None:
        super().__init__(place)
        self.status = status
        self.shown = without_credentials(place)


def is_of_openai(error: Exception, kind: str = "OpenAIError") -> bool:
    """Whether the `openai` library raised the error. Importing it takes most of a second, so only callers that send
    something import it."""
    openai = sys.modules.get("openai")
    return openai is not None and isinstance(error, getattr(openai, kind))


def _of_encryption(error: Exception, where: str, remedies: Remedies) -> errors.EndpointError | None:
    """Message for a failure of certificate or protocol, however libraries wrap it; None for other failures."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError) and hasattr(cause, "verify_message"):
            why, remedy = str(cause.verify_message), f"check that {remedies.url} names the right host"
            if cause.verify_code in _UNTRUSTED:
                remedy = "set SSL_CERT_FILE to its authority's"
            elif cause.verify_code in _OUT_OF_DATE:
                remedy = "ask who runs it to renew it, or correct the clock of this machine"
            elif cause.verify_code in _OF_ANOTHER_HOST:
                remedy = f"write the host that the certificate is for into {remedies.url}"
            return errors.AuthenticationFailed(
                f"{where} shows a certificate that is not trusted here ({why})", remedy=remedy
            )
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", "") in _NO_TLS:
            return errors.WrongAddress(
                f"{where} does not speak TLS there ({cause.reason})", remedy=f"write http:// in {remedies.url}"
            )
    return None


_UNTRUSTED = {2, 18, 19, 20, 21}
_OUT_OF_DATE = {9, 10}
_OF_ANOTHER_HOST = {62, 64}
"""OpenSSL's codes (`X509_V_ERR_...`) for a certificate of another host or address."""
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        wrapped = getattr(error, "os_error", None)
        error = wrapped if isinstance(wrapped, ssl.SSLError) else error.__cause__ or error.__context__


def _of_proxy(error: Exception, where: str, proxy: Proxy, secrets: Sequence[str]) -> errors.EndpointError | None:
    """Failure that the proxy may have caused; None for other failures."""
    import aiohttp

    remedy = f"correct {proxy.variable}, or set NO_PROXY to the host if no proxy is needed"
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.InvalidURL):
        return errors.ConnectionFailed(f"{where}: {proxy.shown} cannot be reached", remedy=remedy)
    if not isinstance(error, Refusal | aiohttp.ClientHttpProxyError):
        return None
    status, is_proxys = error.status, isinstance(error, aiohttp.ClientHttpProxyError)
    if status == 407:
        named = f"{proxy.variable}=http://USER:PASSWORD@HOST:PORT"
        return errors.AuthenticationFailed(f"{where}: {proxy.shown} asks for a user (407)", remedy=f"set {named}")
    if status not in (502, 503, 504):
        said = f"{where}: {proxy.shown} refuses the connection ({status})"
        return errors.WrongAddress(said, remedy=remedy) if is_proxys else None
    if isinstance(error, Refusal):
        said = f"{where}, or {proxy.shown}, answered {status}: {what_it_said(error, secrets)}"
        return errors.Overloaded(said, remedy=remedy, retry_after=error.retry_after)
    return errors.Overloaded(f"{where}: {proxy.shown} answered {status}", remedy=remedy)


def _named_refusal(
    refusal: Refusal, where: str, model: str, remedies: Remedies, secrets: Sequence[str]
) -> errors.EndpointError:
    said = f"{where} answered {refusal.status}: {what_it_said(refusal, secrets)}"
    words = f"{refusal.code} {refusal.type} {refusal.message}".lower()
    says_no_credit = refusal.status in (400, 403, 429) and any(each in words for each in NO_CREDIT)
    if refusal.status == 402 or says_no_credit:
        return errors.QuotaExhausted(said, remedy="add credit to the account")
    if refusal.status not in (401, 404) and _TOO_LONG.search(words):
        return errors.ContextTooLong(said, remedy=remedies.long)
    if _TO_HTTPS.search(words):
        return errors.WrongAddress(said, remedy=f"write https:// in {remedies.url}")
    match refusal.status:
        case 401:
            return errors.AuthenticationFailed(said, remedy=f"check {remedies.keys}")
        case 403:
            return errors.Forbidden(said, remedy=f"check {remedies.keys}")
        case 404:
            add = "" if VERSION_IN_PATH.search(where) else "; most end in /v1: add it?"
            return errors.ModelNotFound(said, remedy=f"check {remedies.model}={model} and {remedies.url}{add}")
        case 429:
            return errors.RateLimited(said, retry_after=refusal.retry_after)
        case 408 | 409 | 425:
            return errors.Overloaded(said)
        case status if status >= 500:
            kind = errors.Overloaded if status in (502, 503, 504, 529) else errors.ServerFailed
            return kind(said, retry_after=refusal.retry_after)
        case status if status not in (400, 413, 422):
            return errors.UnexpectedStatus(said, remedy=f"check {remedies.url}")
    if _ABOUT_CONTENT.search(words):
        return errors.ContentRefused(said, remedy="remove the row or ask the provider to lift it")
    return errors.BadRequest(said)


def what_it_said(refusal: Refusal, secrets: Sequence[str] = ()) -> str:
    """The endpoint's own words on a failure, on one line, without secrets."""
    return without(secrets, " ".join(refusal.message.split()))[:200]


def without(secrets: Sequence[str], text: str) -> str:
    """The text with each secret taken out."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "(key)")
    return text


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
    """Treatment of a row that the endpoint refuses: its content, its length, the request with it (HTTP 400, 413 or
    422), or by an answer without text.

    Args:
        kind: `stop` ends the evaluation with the failure, `skip` leaves the row out, `zero` takes it as wrong.
        coverage: least share of an evaluation's rows that must have been answered, in [0, 1].
    """

    kind: str = "stop"
    coverage: float = 1.0


STOP = FailurePolicy()
