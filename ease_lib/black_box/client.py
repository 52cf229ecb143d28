"""The client of the black-box, the only way to ask it.

`OpenAIClient` asks once and names every failure. Around it, `MeteredClient` (`meter.py`) obeys the caps, `PacedClient`
(`pace.py`) the limits per minute, `AdaptiveClient` (`concurrency.py`) bounds the requests in flight, `RetryingClient`
(`retries.py`) retries, and `CachingClient` (`cache.py`) asks nothing twice.

A failure is an `EndpointError` of some kind (`ease_lib.errors`); it never becomes an answer. An answer without text
counts as missing with the chat API, because chat models always answer something; a raw completion may end at once on
purpose. The model's thinking, in `reasoning_content` or between `<think>` and `</think>`, is not part of an answer.
After the first answer without text the prompt is asked again; the second is a failure of that prompt. Both are paid
for.

A parameter that an endpoint refuses by its name is left out from then on: some reasoning models take no `temperature`,
or only 1, and OpenAI's newer ones no `max_tokens`. Answers without it are other answers, so `left_out` is part of their
identity in the cache.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from ease_lib import errors
from ease_lib.black_box.cut_prompts import CutPrompts
from ease_lib.black_box.endings import BROKEN, CUT, REFUSED, ending_of
from ease_lib.black_box.failures import Refusal, Remedies, named_failure, without
from ease_lib.black_box.transport import Transport
from ease_lib.notes import Notes
from ease_lib.prompts.messages import as_answer, messages_of

CHARACTERS_PER_TOKEN = 4
"""Number of ASCII characters in a token, roughly; for estimates only."""
BYTES_PER_TOKEN = 3
"""Number of UTF-8 bytes in a token of other characters, roughly: a Chinese or Hindi character is one token, and three
Cyrillic or Arabic characters are two."""
ABOUT = " about "
"""Separator in the account of an answer; the row's hash follows, so that deleting the row deletes the account."""
REMEDIES = Remedies(
    url="llm_base_url",
    model="llm_model",
    keys="EASE_LLM_API_KEY (OPENAI_API_KEY is sent to OpenAI's own hosts only)",
    slow="raise llm_timeout_seconds",
    long="lower k or max_prompt_tokens, or choose a model with a longer context",
)
JUDGE_REMEDIES = Remedies(
    url="judge_base_url",
    model="judge_model",
    keys="EASE_JUDGE_API_KEY, or EASE_LLM_API_KEY if the judge is the LLM's own endpoint",
    slow="raise llm_timeout_seconds",
    long="shorten the rubric, or choose a judge with a longer context",
    extra="judge_extra",
)
TEMPERATURE = "temperature"
LIMIT, NEWER_LIMIT = "max_tokens", "max_completion_tokens"
"""The second is what OpenAI's newer models call it."""
PATHS = {"chat": "chat/completions", "completions": "completions"}
"""Path of each API below the endpoint's URL."""
_REFUSAL = re.compile(
    r"unsupported|not (?:be )?(?:supported|permitted|allowed)|does not support|doesn't support|"
    r"unrecogni[sz]ed|unknown|unexpected|deprecated|extra_forbidden|extra (?:inputs|fields)",
    re.IGNORECASE,
)
_VALUE = (
    r"(?:\bonly\b|must be|should be|has to be|needs to be|invalid|out of range|greater than|less than|positive|"
    r"not valid|at least|at most|expected)"
)
_OF_TEMPERATURE = re.compile(rf"\btemperature\b.{{0,80}}{_VALUE}|{_VALUE}.{{0,60}}\btemperature\b", re.IGNORECASE)
"""Words that refuse a value. Without a temperature the endpoint uses its own; without a limit it would use any."""
logger = logging.getLogger("ease")


LINE_END = "\n"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling of an answer.

    Args:
        max_tokens: of the longest answer; `connect` adds what the model may think before.
        stop: text that ends a raw completion; chat models end by themselves.
        stops: in its place, with either API.
        messages: prompts are messages, which need a chat endpoint.
    """

    max_tokens: int
    stop: str
    temperature: float = 0.0
    stops: tuple[str, ...] = ()
    messages: bool = False

    def as_sent(self, api: str) -> Sampling:
        """The part of it that is sent with this API; a `stop` that is not sent is replaced by a newline."""
        return replace(self, messages=False, stop=LINE_END if self.stops or api == "chat" else self.stop)

    @property
    def identity(self) -> dict[str, Any]:
        """Identity in caches and journals; newer fields are left out at their defaults, so that old keys stay valid."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("stops", "messages")}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """An answer and what it cost.

    Args:
        prompt_tokens, completion_tokens: as the endpoint counted, or estimated where it does not say; with those of
            answers without text before it.
        retries: failed requests before it.
        cut: the limit of tokens ended it (`finish_reason` is `length`).
        cached: paid for by another caller, or earlier for another purpose.
        account: the purpose it was paid for (a search and its iteration). An answer that an earlier, killed attempt at
            the same purpose stored counts as asked, so a resumed run reports what an uninterrupted one would.
        answered_at: when the endpoint gave it (ISO 8601, UTC), wherever it was kept since.
        score, cost_usd: of a program, which says both itself; None of an LLM, and 0 if it does not say it.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    retries: int = 0
    cached: bool = False
    account: str = ""
    answered_at: str = ""
    cut: bool = False
    score: float | None = None
    cost_usd: float = 0.0


Paid = Completion | errors.EndpointError
"""Object with `prompt_tokens`, `completion_tokens`, `retries`, `cut` and `cost_usd`: an answer, or a paid failure."""


def paid_tokens(requests: Iterable[Paid]) -> tuple[int, int]:
    """Total prompt tokens and completion tokens."""
    counts = [(each.prompt_tokens, each.completion_tokens) for each in requests]
    return sum(prompt for prompt, _ in counts), sum(answer for _, answer in counts)


def with_failures(completion: Completion, failures: Sequence[Paid]) -> Completion:
    """The answer with what was paid on the way to it."""
    if not failures:
        return completion
    prompt_tokens, completion_tokens = paid_tokens([completion, *failures])
    return replace(
        completion,
        retries=completion.retries + len(failures),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


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
        """Fields of a request other than its prompt."""
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
        on_answer: told of each answer what the model calls itself.
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
        on_answer: Callable[[str], None] = lambda model: None,
        remedies: Remedies = REMEDIES,
    ) -> None:
        self._transport = Transport(base_url, key, timeout_seconds, headers)
        self._shown_url = self._transport.shown_url
        self._secrets = (key, *headers.values(), *(value.split()[-1] for value in headers.values() if value.split()))
        self._notes = notes
        self._extra = extra
        self._model = model
        self._api = api
        self._optional: dict[str, Any] = {LIMIT: sampling.max_tokens, TEMPERATURE: sampling.temperature}
        if sampling.stops or api == "completions":
            self._optional["stop"] = list(sampling.stops or [sampling.stop])
        self.left_out = frozenset(left_out)
        self._taken = self._taken_parameters()
        self._on_refusal = on_refusal
        self._on_answer = on_answer
        self._remedies = remedies
        self._empty = EmptyAnswers()
        self._cut_prompts = CutPrompts()
        self._was_cut = False
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
            sent = self._taken
            try:
                return await self._send(prompt, sent)
            except Refusal as refusal:
                refused = refused_parameter(refusal, sent) if refusal.status in (400, 422) else None
                if refused is None:
                    raise
                self._leave_out(refused)

    @property
    def settings(self) -> dict[str, Any]:
        return {"model": self._model, **self._taken, **self._extra}

    async def _send(self, prompt: str, sent: dict[str, Any]) -> Any:
        content = {**content_of(prompt, self._api), "model": self._model, **sent, **self._extra}
        return await self._transport.post(PATHS[self._api], content)

    def _taken_parameters(self) -> dict[str, Any]:
        wanted = {name: value for name, value in self._optional.items() if name not in self._extra}
        if LIMIT in self.left_out and self._api == "chat" and NEWER_LIMIT not in self._extra:
            wanted[NEWER_LIMIT] = self._optional[LIMIT]
        return {name: value for name, value in wanted.items() if name not in self.left_out}

    def _leave_out(self, name: str) -> None:
        """Requests in flight at the same time may all learn of one refusal."""
        if name in self.left_out:
            return
        self.left_out |= {name}
        self._taken = self._taken_parameters()
        instead = f"; {NEWER_LIMIT} is sent instead" if name == LIMIT and self._api == "chat" else ""
        logger.info("notice: %s refuses %s, which is no longer sent%s", self._model, name, instead)
        self._on_refusal(self.left_out)
        self._notes.parameters_left_out(self.left_out)

    def _read(self, response: Any, prompt: str, account: str) -> Completion:
        try:
            choices, usage = response["choices"], response.get("usage") or {}
            choice = choices[0] if choices else {}
            message = self._message(choice)
            content = message.get("content") if message else None
            thoughts = (message.get("reasoning_content") or message.get("reasoning")) if message else None
            model, fingerprint = response.get("model"), response.get("system_fingerprint")
            prompt_tokens, completion_tokens = counted_tokens(usage)
            said, finish = text_of(content), choice.get("finish_reason")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._garbled(response) from error
        ending = ending_of(finish)
        completion = Completion(
            text=as_answer(said),
            prompt_tokens=prompt_tokens or (estimated_tokens(prompt) if message else 0),
            completion_tokens=completion_tokens or (estimated_tokens(said + text_of(thoughts)) if message else 0),
            model=str(model or self._model),
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
            cut=ending == CUT,
        )
        self._notes.paid(completion.prompt_tokens, completion.completion_tokens)
        if cut := self._cut_prompts.met(estimated_tokens(prompt), prompt_tokens):
            logger.info(
                "notice: %s %s: it may cut them, so the model would see only a part; raise its window (with Ollama "
                "num_ctx), or lower k or max_prompt_tokens",
                *(self._shown_url, cut),
            )
        says_nothing = self._api == "completions" and isinstance(content, str) and not content.strip()
        if ending in (REFUSED, BROKEN) or not (completion.text.strip() or says_nothing):
            failure = self._without_text(prompt, message, ending, finish) if message else self._silent(prompt, ending)
            raise paid_failure(failure or self._garbled(response), completion)
        self._empty.forget(prompt)
        if completion.cut and not self._was_cut:
            self._was_cut = True
            logger.info(
                "notice: an answer of %s was cut at its token limit; the report counts such answers", self._model
            )
        self._notes.answered(completion.model, str(fingerprint or ""))
        self._on_answer(completion.model)
        return completion

    def _message(self, choice: Mapping[str, Any]) -> dict[str, Any] | None:
        """The message of a choice, as the chat API writes it; None if there is none."""
        if self._api == "completions":
            return {"content": choice["text"]} if "text" in choice else None
        message = choice.get("message")
        return None if message is None else dict(message)

    def _garbled(self, response: Any) -> errors.GarbledAnswer:
        shown = without(self._secrets, str(response))[:80]
        return errors.GarbledAnswer(
            f"{self._shown_url} answered something that is not the OpenAI API ({shown!r})",
            remedy=f"check {self._remedies.url} (most end in /v1) and llm_api",
        )

    def _silent(self, prompt: str, ending: str) -> errors.EndpointError | None:
        """An answer without a message: blamed on the prompt once the endpoint has answered others; before that, the
        endpoint may be at fault."""
        if ending == REFUSED:
            return self._filtered()
        return self._empty.failure(prompt, self._shown_url) if self.answered else None

    def _filtered(self) -> errors.ContentRefused:
        return errors.ContentRefused(
            f"{self._shown_url} refused a prompt by its content filter",
            remedy="remove the row, or ask the provider to change the filter",
        )

    def _without_text(self, prompt: str, message: Mapping[str, Any], ending: str, finish: Any) -> errors.EndpointError:
        """Reason why a message does not count as an answer."""
        where = self._shown_url
        if ending == REFUSED:
            return self._filtered()
        if message.get("refusal") or parts_of(message.get("content"), "refusal"):
            return errors.ContentRefused(f"{where}: the model refused to answer", remedy="remove the row")
        if ending == BROKEN:
            named = f"finish_reason={str(finish)[:40]}"
            return errors.FailedAnswer(f"{where} ended an answer with {named}, which is not an end")
        if ending == CUT:
            own = next((name for name in (LIMIT, NEWER_LIMIT) if name in self._extra), "")
            limit = self.settings.get(own or NEWER_LIMIT) or self.settings.get(LIMIT)
            used_up = f"its {limit} tokens" if limit else "all tokens that it allows"
            return errors.AnswerCut(
                f"{where} used up {used_up} before it answered",
                remedy=f"raise {own} in {self._remedies.extra}" if own else "raise llm_thinking_tokens",
            )
        return self._empty.failure(prompt, where)

    def _named(self, error: Exception) -> errors.EndpointError:
        failure = named_failure(
            error,
            where=self._shown_url,
            model=self._model,
            remedies=self._remedies,
            secrets=self._secrets,
            proxy=self._transport.proxy,
        )
        if isinstance(error, Refusal):
            if isinstance(failure, errors.BadRequest) and (remedy := self._remedy_of_parameter(error)):
                failure = errors.BadRequest(failure.what, remedy=remedy)
            self._pay_within(error.answer, failure)
        return failure

    def _remedy_of_parameter(self, refusal: Refusal) -> str:
        """Remedy for a parameter whose value is refused; empty if the refusal names none."""
        extra = self._remedies.extra
        if named := named_parameter(refusal, self._extra):
            return f"change {named} in {extra}"
        named = named_parameter(refusal, self._taken)
        if named in (LIMIT, NEWER_LIMIT):
            return f"change llm_max_tokens or llm_thinking_tokens (now {self._taken[named]} together)"
        return f"""set another value by --{extra.replace("_", "-")} '{{"{named}": VALUE}}'""" if named else ""

    def _pay_within(self, answer: Any, failure: errors.EndpointError) -> None:
        """Add to a failure the cost that the answer with the error reports."""
        try:
            failure.prompt_tokens, failure.completion_tokens = counted_tokens(answer["usage"])
        except (LookupError, TypeError):
            return
        self._notes.paid(failure.prompt_tokens, failure.completion_tokens)


class EmptyAnswers:
    """Prompts whose last answer had no text."""

    def __init__(self) -> None:
        self._prompts: set[str] = set()

    def failure(self, prompt: str, where: str) -> errors.EmptyAnswer:
        """Count one more such answer to a prompt and return its error; the second one is blamed on the prompt,
        whichever caller asks."""
        if prompt in self._prompts:
            return errors.EmptyAgain(f"{where} returned an empty answer twice for the same prompt")
        self._prompts.add(prompt)
        return errors.EmptyAnswer(f"{where} returned an empty answer")

    def forget(self, prompt: str) -> None:
        """Forget the empty answer to a prompt that has been answered since."""
        self._prompts.discard(prompt)


def paid_failure(failure: errors.EndpointError, completion: Completion) -> errors.EndpointError:
    """The failure with the cost of the empty answer added."""
    failure.prompt_tokens, failure.completion_tokens = completion.prompt_tokens, completion.completion_tokens
    failure.model = completion.model
    return failure


def text_of(content: Any) -> str:
    """The text of a message's content, which is a text, a list of parts of which some are text, or nothing."""
    return content if isinstance(content, str) else "".join(parts_of(content, "text"))


def parts_of(content: Any, kind: str) -> list[str]:
    """Text of the parts of this kind, if content is a list of parts."""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [str(part[kind]) for part in parts if part.get("type") == kind and part.get(kind)]


def counted_tokens(usage: Any) -> tuple[int, int]:
    """Tokens of prompt and answer; 0 if the endpoint does not count them, or not in numbers. Some endpoints (Gemini,
    Grok) count thinking in the total only."""
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion, total = (
        _whole(counts.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    return prompt, max(completion, total - prompt) if prompt and completion else completion


def _whole(count: Any) -> int:
    return int(count) if isinstance(count, int | float) and 0 <= count < math.inf else 0


def content_of(prompt: str, api: str) -> dict[str, Any]:
    """The prompt as a request of this API holds it."""
    return {"prompt": prompt} if api == "completions" else {"messages": messages_of(prompt)}


def estimated_tokens(text: str) -> int:
    """Estimated number of tokens in a text."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    others = 0 if text.isascii() else len(text.encode(errors="surrogatepass")) - plain
    return max(1, round(plain / CHARACTERS_PER_TOKEN + others / BYTES_PER_TOKEN))


def refused_parameter(refusal: Refusal, sent: Collection[str]) -> str | None:
    """The parameter that the endpoint refuses, or the temperature if it refuses its value; None for other failures."""
    named = named_parameter(refusal, sent)
    refuses = _REFUSAL.search(refusal.in_full) or (named == TEMPERATURE and _OF_TEMPERATURE.search(refusal.message))
    return named if refuses else None


def named_parameter(refusal: Refusal, sent: Collection[str]) -> str | None:
    """The parameter of a request that a refusal names."""
    if refusal.param in sent:
        return refusal.param
    return next((name for name in sent if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", refusal.in_full)), None)


Answer = TypeVar("Answer")

GRACE_SECONDS = 10.0
"""Time in which requests in flight may still end after another one failed: their answers are paid for, and cached."""


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
    """The tasks, all done; after a failure those in flight get `GRACE_SECONDS`, and the failure is raised.

    One of those in flight may be the cause of the first that failed.
    """
    if not tasks:
        return tasks
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if any(task.exception() for task in done):
        if pending:
            done |= (await asyncio.wait(pending, timeout=GRACE_SECONDS))[0]
        failures = [error for task in done if (error := task.exception())]
        raise min(failures, key=lambda error: isinstance(error, errors.NotAsked))
    return tasks


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and take note of every exception, so that none is reported as lost."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
