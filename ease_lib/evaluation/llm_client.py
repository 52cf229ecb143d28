"""The one way to ask the black-box.

`OpenAIClient` asks once and names every failure, `AdaptiveClient` (`concurrency.py`) bounds the requests in flight,
`RetryingClient` tries again, `CachingClient` (`response_cache.py`) asks nothing twice; each wraps the one before.

A failure is an `EndpointError` of a kind (`ease_lib.errors`); it never becomes an answer. An empty answer counts as
missing with the chat API, whose models always say something; a raw completion may well stop at once, and then says
nothing on purpose.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import openai

from ease_lib import errors

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
CHARACTERS_PER_TOKEN = 4
"""Of English text, roughly; for estimates only."""
NO_KEY = "no-key"
"""Sent where no key is configured; servers without authentication ignore it."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """An answer and what it cost.

    Args:
        prompt_tokens, completion_tokens: as the endpoint counted, or estimated where it does not say.
        retries: failed requests before it.
        cached: paid for by somebody else, or earlier for another purpose.
        account: the purpose it was paid for (a search and its iteration). An answer that an earlier, killed attempt at
            the same purpose stored counts as asked, so a resumed run reports what an uninterrupted one would.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    retries: int = 0
    cached: bool = False
    account: str = ""


class LLMClient(Protocol):
    """Answers one prompt."""

    async def complete(self, prompt: str, account: str = "") -> Completion: ...


class OpenAIClient:
    """Any OpenAI-compatible endpoint, chat or completions, temperature 0.

    Args:
        model: as the endpoint calls it.
        api: `chat` or `completions`.
        key: secret of the endpoint, or empty.
        stop: text that ends a raw completion; chat models end by themselves.

    `answered` counts the answers that came from the endpoint.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api: str,
        key: str,
        max_tokens: int,
        timeout_seconds: float,
        stop: str,
    ) -> None:
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key or NO_KEY, timeout=timeout_seconds, max_retries=0
        )
        self._base_url = base_url
        self._model = model
        self._api = api
        self._stop = stop
        self._limit: Any = {"max_tokens": max_tokens}
        self.answered = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        try:
            completion = self._read(await self._request(prompt), prompt)
        except errors.EndpointError:
            raise
        except Exception as error:
            raise self._named(error) from error
        self.answered += 1
        return replace(completion, account=account)

    async def close(self) -> None:
        await self._client.close()

    async def _request(self, prompt: str) -> Any:
        if self._api == "completions":
            return await self._client.completions.create(
                model=self._model, prompt=prompt, temperature=0, stop=[self._stop], **self._limit
            )
        try:
            return await self._chat(prompt)
        except openai.BadRequestError as error:
            if "max_completion_tokens" not in str(error) or "max_tokens" not in self._limit:
                raise
            self._limit = {"max_completion_tokens": self._limit["max_tokens"]}  # what OpenAI's newer models call it
            return await self._chat(prompt)

    async def _chat(self, prompt: str) -> Any:
        messages: Any = [{"role": "user", "content": prompt}]
        return await self._client.chat.completions.create(
            model=self._model, messages=messages, temperature=0, **self._limit
        )

    def _read(self, response: Any, prompt: str) -> Completion:
        try:
            choice = response.choices[0]
            text = choice.text if self._api == "completions" else choice.message.content
            finish, usage = choice.finish_reason, response.usage
        except (AttributeError, IndexError, TypeError) as error:
            raise errors.GarbledAnswer(
                f"{self._base_url} answered something that is not the OpenAI API ({str(response)[:80]!r}); "
                "check llm_base_url (most end in /v1) and llm_api"
            ) from error
        if finish == "content_filter":
            raise errors.ContentRefused(
                f"{self._base_url} refused a prompt by its content filter; remove the row, or have it lifted"
            )
        if not isinstance(text, str) or (self._api == "chat" and not text.strip()):
            if finish == "length":
                raise errors.BadRequest(
                    f"{self._base_url} used up its tokens before it said anything; raise llm_max_tokens"
                )
            raise errors.GarbledAnswer(f"{self._base_url} answered without content")
        return Completion(
            text=text,
            prompt_tokens=getattr(usage, "prompt_tokens", None) or estimated_tokens(prompt),
            completion_tokens=getattr(usage, "completion_tokens", None) or estimated_tokens(text),
            model=str(getattr(response, "model", "") or self._model),
        )

    def _named(self, error: Exception) -> errors.EndpointError:
        """The kind of a failure, with what to do about it."""
        where = self._base_url
        match error:
            case openai.APITimeoutError():
                return errors.EndpointTimeout(f"{where} did not answer in time; raise llm_timeout_seconds")
            case openai.APIConnectionError():
                return errors.ConnectionFailed(
                    f"{where} cannot be reached or broke off; check llm_base_url and that it runs"
                )
            case openai.APIStatusError():
                return self._named_status(error)
            case openai.APIResponseValidationError() | ValueError():
                return errors.GarbledAnswer(f"{where} answered something that is not JSON; check llm_base_url")
        return errors.ConnectionFailed(f"{where}: the connection broke: {type(error).__name__}")

    def _named_status(self, error: openai.APIStatusError) -> errors.EndpointError:
        said = f"{self._base_url} answered {error.status_code}: {_said(error)}"
        reason = f"{error.code} {error.type} {_said(error)}".lower()
        match error.status_code:
            case 401 | 403:
                return errors.AuthenticationFailed(f"{said}; check EASE_LLM_API_KEY or OPENAI_API_KEY")
            case 404:
                return errors.ModelNotFound(f"{said}; check llm_model={self._model} and llm_base_url")
            case 429 if "insufficient_quota" in reason:
                return errors.QuotaExhausted(f"{said}; add credit to the account")
            case 429:
                return errors.RateLimited(said, retry_after=_retry_after(error.response.headers.get("retry-after")))
            case 408 | 409:
                return errors.Overloaded(said)
            case status if status >= 500:
                return errors.Overloaded(said, retry_after=_retry_after(error.response.headers.get("retry-after")))
        if "context" in reason and any(word in reason for word in ("length", "exceed", "size", "window", "long")):
            return errors.ContextTooLong(f"{said}; lower k, or take a model with a longer context")
        if "content_filter" in reason or "content policy" in reason:
            return errors.ContentRefused(f"{said}; remove the row or ask the provider to lift it")
        return errors.BadRequest(said)


class RetryingClient:
    """Tries retryable failures again, with jittered exponential backoff, until a deadline after the first failure.

    A `Retry-After` of the endpoint is kept when it is longer than the backoff.
    """

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
        end = math.inf
        retries = 0
        while True:
            try:
                return replace(await self._client.complete(prompt, account), retries=retries)
            except errors.EndpointError as error:
                end = min(end, self._clock() + self._deadline_seconds)
                wait = self._wait(retries, error)
                if not error.retryable or self._clock() + wait > end:
                    raise
            retries += 1
            await self._sleep(wait)

    def _wait(self, retries: int, error: errors.EndpointError) -> float:
        backoff: float = min(FIRST_BACKOFF_SECONDS * 2**retries, LONGEST_BACKOFF_SECONDS)
        return max(backoff * random.uniform(0.5, 1.0), error.retry_after or 0.0)


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return max(1, round(len(text) / CHARACTERS_PER_TOKEN))


def list_models(base_url: str, key: str, timeout_seconds: float) -> list[str]:
    """The models an endpoint says it serves; empty when it does not say.

    Raises:
        EndpointError: when it cannot be reached or refuses the key.
    """
    client = openai.OpenAI(base_url=base_url, api_key=key or NO_KEY, timeout=timeout_seconds, max_retries=0)
    try:
        return [model.id for model in client.models.list().data or []]
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise errors.AuthenticationFailed(
            f"{base_url} answered {error.status_code}: {_said(error)}; check EASE_LLM_API_KEY or OPENAI_API_KEY"
        ) from error
    except openai.APIConnectionError as error:
        raise errors.ConnectionFailed(f"{base_url} cannot be reached; check llm_base_url and that it runs") from error
    except (openai.OpenAIError, AttributeError, TypeError, ValueError):
        return []
    finally:
        client.close()


def _said(error: openai.APIStatusError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join(str(message or error.message).split())[:200]


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
