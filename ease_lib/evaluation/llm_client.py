"""The one way to ask the black-box.

`OpenAIClient` asks once and names every failure, `AdaptiveClient` (`concurrency.py`) bounds the requests in flight,
`RetryingClient` tries again, `CachingClient` (`response_cache.py`) asks nothing twice; each wraps the one before.

A failure is an `EndpointError` of a kind (`ease_lib.errors`); it never becomes an answer. An empty answer counts as
missing with the chat API, whose models always say something; a raw completion may well stop at once, and then says
nothing on purpose.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import openai

from ease_lib import errors, observations
from ease_lib.endpoint_failures import NO_KEY, Remedies, named_failure, what_it_said, with_retries

CHARACTERS_PER_TOKEN = 4
"""Of English text, roughly; for estimates only."""
REMEDIES = Remedies(
    url="llm_base_url",
    model="llm_model",
    keys="EASE_LLM_API_KEY or OPENAI_API_KEY",
    slow="raise llm_timeout_seconds",
    long="lower k, or take a model with a longer context",
)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How an answer is drawn.

    Args:
        max_tokens: of the longest answer.
        stop: text that ends a raw completion; chat models end by themselves.
    """

    max_tokens: int
    stop: str
    temperature: float = 0.0


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
    """Any OpenAI-compatible endpoint, chat or completions.

    Args:
        model: as the endpoint calls it.
        api: `chat` or `completions`.
        key: secret of the endpoint, or empty.

    `answered` counts the answers that came from the endpoint.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api: str,
        key: str,
        sampling: Sampling,
        timeout_seconds: float,
    ) -> None:
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key or NO_KEY, timeout=timeout_seconds, max_retries=0
        )
        self._base_url = base_url
        self._key = key
        self._model = model
        self._api = api
        self._stop = sampling.stop
        self._temperature = sampling.temperature
        self._limit: Any = {"max_tokens": sampling.max_tokens}
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
                model=self._model, prompt=prompt, temperature=self._temperature, stop=[self._stop], **self._limit
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
            model=self._model, messages=messages, temperature=self._temperature, **self._limit
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
        completion = Completion(
            text=text,
            prompt_tokens=getattr(usage, "prompt_tokens", None) or estimated_tokens(prompt),
            completion_tokens=getattr(usage, "completion_tokens", None) or estimated_tokens(text),
            model=str(getattr(response, "model", "") or self._model),
        )
        observations.answered(
            completion.model,
            str(getattr(response, "system_fingerprint", None) or ""),
            completion.prompt_tokens,
            completion.completion_tokens,
        )
        return completion

    def _named(self, error: Exception) -> errors.EndpointError:
        return named_failure(error, where=self._base_url, model=self._model, remedies=REMEDIES, key=self._key)


class RetryingClient:
    """Tries retryable failures again until a deadline after the first failure (`endpoint_failures.with_retries`)."""

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
        completion, retries = await with_retries(
            lambda: self._client.complete(prompt, account),
            deadline_seconds=self._deadline_seconds,
            sleep=self._sleep,
            clock=self._clock,
        )
        return replace(completion, retries=retries)


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
            f"{base_url} answered {error.status_code}: {what_it_said(error, key)}; check {REMEDIES.keys}"
        ) from error
    except openai.APIConnectionError as error:
        raise errors.ConnectionFailed(f"{base_url} cannot be reached; check llm_base_url and that it runs") from error
    except (openai.OpenAIError, AttributeError, TypeError, ValueError):
        return []
    finally:
        client.close()
