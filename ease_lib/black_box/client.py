"""The one way to ask the black-box.

`OpenAIClient` asks once and names every failure, `MeteredClient` (`meter.py`) obeys the caps, `PacedClient` (`pace.py`)
the limits a minute, `AdaptiveClient` (`concurrency.py`) bounds the requests in flight, `RetryingClient` (`retries.py`)
tries again, `CachingClient` (`cache.py`) asks nothing twice; each wraps the one before.

A failure is an `EndpointError` of a kind (`ease_lib.errors`); it never becomes an answer. An empty answer counts as
missing with the chat API, whose models always say something; a raw completion may well stop at once, and then says
nothing on purpose. What a model thinks aloud before its answer is no part of it.

A parameter that an endpoint refuses by its name (a reasoning model takes no `temperature`, OpenAI's newer ones no
`max_tokens`) is left out from then on: what was drawn without it is another answer, so `left_out` is part of the
answer's identity in the cache.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from ease_lib import errors
from ease_lib.black_box.failures import Refusal, Remedies, named_failure, without_credentials
from ease_lib.black_box.transport import Transport
from ease_lib.notes import Notes
from ease_lib.prompts.messages import messages_of, without_reasoning

CHARACTERS_PER_TOKEN = 4
"""Of English text, roughly; for estimates only."""
REMEDIES = Remedies(
    url="llm_base_url",
    model="llm_model",
    keys="EASE_LLM_API_KEY (OPENAI_API_KEY is sent to OpenAI's own hosts only)",
    slow="raise llm_timeout_seconds",
    long="lower k, or take a model with a longer context",
)
JUDGE_REMEDIES = Remedies(
    url="judge_base_url",
    model="judge_model",
    keys="EASE_JUDGE_API_KEY, or of the LLM's own endpoint EASE_LLM_API_KEY",
    slow="raise llm_timeout_seconds",
    long="shorten the rubric, or take a judge with a longer context",
)
LIMIT, NEWER_LIMIT = "max_tokens", "max_completion_tokens"
"""The second is what OpenAI's newer models call it."""
PATHS = {"chat": "chat/completions", "completions": "completions"}
"""Of an API, below the endpoint's URL."""
_REFUSAL = re.compile(
    r"unsupported|not (?:be )?(?:supported|permitted|allowed)|does not support|doesn't support|"
    r"unrecogni[sz]ed|unknown|unexpected|deprecated|extra_forbidden|extra (?:inputs|fields)",
    re.IGNORECASE,
)
logger = logging.getLogger("ease")


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How an answer is drawn.

    Args:
        max_tokens: of the longest answer.
        stop: text that ends a raw completion; chat models end by themselves.
        stops: in its place, with either API.
        messages: prompts are messages, which need a chat endpoint.
    """

    max_tokens: int
    stop: str
    temperature: float = 0.0
    stops: tuple[str, ...] = ()
    messages: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What names it in caches and journals; what is as it was before it could be said is not named."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("stops", "messages")}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """An answer and what it cost.

    Args:
        prompt_tokens, completion_tokens: as the endpoint counted, or estimated where it does not say.
        retries: failed requests before it.
        cached: paid for by somebody else, or earlier for another purpose.
        account: the purpose it was paid for (a search and its iteration). An answer that an earlier, killed attempt at
            the same purpose stored counts as asked, so a resumed run reports what an uninterrupted one would.
        answered_at: when the endpoint gave it (ISO 8601, UTC), wherever it was kept since.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    retries: int = 0
    cached: bool = False
    account: str = ""
    answered_at: str = ""


class LLMClient(Protocol):
    """Answers one prompt."""

    async def complete(self, prompt: str, account: str = "") -> Completion: ...


class InnermostClient(LLMClient, Protocol):
    """The one that has the answers.

    Args:
        left_out: parameters that are refused.
        answered: how many answers it has given.
    """

    left_out: frozenset[str]
    answered: int

    @property
    def settings(self) -> dict[str, Any]:
        """What a request says beside its prompt."""
        ...

    async def close(self) -> None: ...


class OpenAIClient:
    """Any OpenAI-compatible endpoint, chat or completions.

    Args:
        base_url: its URL; a query (Azure's `?api-version=...`) is sent with every request.
        model: as the endpoint calls it.
        api: `chat` or `completions`.
        key: secret of the endpoint, or empty.
        notes: of the stage that asks.
        extra: what else every request says; unlike our own parameters none of it is left out where it is refused.
        headers: sent with every request.
        left_out: parameters that the endpoint is known to refuse.
        on_refusal: told of each parameter that it refuses from now on.
        remedies: what messages advise.

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
        notes: Notes,
        extra: Mapping[str, Any] = MappingProxyType({}),
        headers: Mapping[str, str] = MappingProxyType({}),
        left_out: Collection[str] = (),
        on_refusal: Callable[[frozenset[str]], None] = lambda left_out: None,
        remedies: Remedies = REMEDIES,
    ) -> None:
        self._transport = Transport(base_url, key, timeout_seconds, headers)
        self._shown_url = without_credentials(base_url)
        self._secrets = (key, *headers.values())
        self._notes = notes
        self._extra = extra
        self._model = model
        self._api = api
        self._optional: dict[str, Any] = {LIMIT: sampling.max_tokens, "temperature": sampling.temperature}
        if sampling.stops or api == "completions":
            self._optional["stop"] = list(sampling.stops or [sampling.stop])
        self.left_out = frozenset(left_out)
        self._on_refusal = on_refusal
        self._remedies = remedies
        self.answered = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        try:
            completion = self._read(await self._request(prompt), prompt, account)
        except errors.EndpointError:
            raise
        except Exception as error:
            raise self._named(error) from error
        self.answered += 1
        return completion

    async def close(self) -> None:
        await self._transport.close()

    async def _request(self, prompt: str) -> Any:
        """Ask; once more without each parameter that the endpoint refuses by its name."""
        while True:
            sent = self._taken_parameters()
            try:
                return await self._send(prompt, sent)
            except Refusal as refusal:
                refused = refused_parameter(refusal, sent) if refusal.status in (400, 422) else None
                if refused is None:
                    raise
                self._leave_out(refused)

    @property
    def settings(self) -> dict[str, Any]:
        return {"model": self._model, **self._taken_parameters(), **self._extra}

    async def _send(self, prompt: str, sent: dict[str, Any]) -> Any:
        content = {**content_of(prompt, self._api), "model": self._model, **sent, **self._extra}
        return await self._transport.post(PATHS[self._api], content)

    def _taken_parameters(self) -> dict[str, Any]:
        wanted = {name: value for name, value in self._optional.items() if name not in self._extra}
        if LIMIT in self.left_out and self._api == "chat" and NEWER_LIMIT not in self._extra:
            wanted[NEWER_LIMIT] = self._optional[LIMIT]
        return {name: value for name, value in wanted.items() if name not in self.left_out}

    def _leave_out(self, name: str) -> None:
        """Requests that were in flight together may learn the same."""
        if name in self.left_out:
            return
        self.left_out |= {name}
        instead = f"; {NEWER_LIMIT} is sent instead" if name == LIMIT and self._api == "chat" else ""
        logger.info("notice: %s refuses %s, which is left out from now on%s", self._model, name, instead)
        self._on_refusal(self.left_out)
        self._notes.parameters_left_out(self.left_out)

    def _read(self, response: Any, prompt: str, account: str) -> Completion:
        try:
            choice = response["choices"][0]
            text = choice["text"] if self._api == "completions" else choice["message"].get("content")
            finish, usage = choice.get("finish_reason"), response.get("usage") or {}
            model, fingerprint = response.get("model"), response.get("system_fingerprint")
            prompt_tokens, completion_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
        except (AttributeError, LookupError, TypeError) as error:
            raise errors.GarbledAnswer(
                f"{self._shown_url} answered something that is not the OpenAI API ({str(response)[:80]!r}); "
                f"check {self._remedies.url} (most end in /v1) and llm_api"
            ) from error
        if finish == "content_filter":
            raise errors.ContentRefused(
                f"{self._shown_url} refused a prompt by its content filter; remove the row, or have it lifted"
            )
        text = without_reasoning(text) if isinstance(text, str) else None
        if text is None or (self._api == "chat" and not text.strip()):
            if finish == "length":
                raise errors.BadRequest(
                    f"{self._shown_url} used up its tokens before it said anything; raise llm_max_tokens"
                )
            raise errors.GarbledAnswer(f"{self._shown_url} answered without content")
        completion = Completion(
            text=text,
            prompt_tokens=prompt_tokens or estimated_tokens(prompt),
            completion_tokens=completion_tokens or estimated_tokens(text),
            model=str(model or self._model),
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._notes.answered(
            completion.model, str(fingerprint or ""), completion.prompt_tokens, completion.completion_tokens
        )
        return completion

    def _named(self, error: Exception) -> errors.EndpointError:
        return named_failure(
            error, where=self._shown_url, model=self._model, remedies=self._remedies, secrets=self._secrets
        )


def content_of(prompt: str, api: str) -> dict[str, Any]:
    """The prompt as a request of this API holds it."""
    return {"prompt": prompt} if api == "completions" else {"messages": messages_of(prompt)}


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return max(1, round(len(text) / CHARACTERS_PER_TOKEN))


def refused_parameter(refusal: Refusal, sent: Collection[str]) -> str | None:
    """The parameter of a request that was refused for being there or for its value, or None for another failure."""
    said = f"{refusal.code} {refusal.type} {refusal.said} {refusal.message}"
    if not _REFUSAL.search(said):
        return None
    if refusal.param in sent:
        return refusal.param
    return next((name for name in sent if re.search(rf"(?<!\w){name}(?!\w)", said)), None)


Answer = TypeVar("Answer")

GRACE_SECONDS = 10.0
"""How long requests in flight may still end after another one failed: their answers are paid for, and are cached."""


async def complete_all(client: LLMClient, prompts: Sequence[str], account: str) -> list[Completion]:
    """Ask all prompts at once.

    Raises:
        EndpointError: when an answer could not be had.
    """
    return await all_answers([partial(client.complete, prompt, account) for prompt in prompts])


async def all_answers(questions: Sequence[Callable[[], Coroutine[Any, Any, Answer]]]) -> list[Answer]:
    tasks = [asyncio.ensure_future(question()) for question in questions]
    try:
        return [await task for task in await _all_or_first_failure(tasks)]
    finally:
        await cancelled(tasks)


async def _all_or_first_failure(tasks: Sequence[asyncio.Task[Any]]) -> Sequence[asyncio.Task[Any]]:
    """The tasks, all done; after a failure those in flight get `GRACE_SECONDS`, and the failure is raised."""
    if not tasks:
        return tasks
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    failures = [error for task in done if (error := task.exception())]
    if failures:
        if pending:
            await asyncio.wait(pending, timeout=GRACE_SECONDS)
        raise min(failures, key=lambda error: isinstance(error, errors.NotAsked))
    return tasks


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and take note of every exception, so that none is reported as lost."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
