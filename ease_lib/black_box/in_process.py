"""A black-box that is a function: the caller's own, or one that `llm_base_url=python:...` names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ease_lib import errors
from ease_lib.artifacts.functions import note_what_was_given
from ease_lib.black_box.client import REMEDIES, Completion, EmptyAnswers, estimated_tokens, paid_failure
from ease_lib.black_box.failures import Refusal, is_of_openai, named_failure
from ease_lib.notes import Notes
from ease_lib.prompts.messages import as_answer, messages_of

Function = Callable[[list[dict[str, str]]], str | Awaitable[str]]
"""Messages to the answer's text."""


class OwnFunction(NamedTuple):
    """A function that answers, and the name by which its answers are kept."""

    name: str
    answer: Function


class FunctionClient:
    """Answers by calling a function; tokens are estimated, and no parameter is refused. A text of blanks is no answer.

    A coroutine function is awaited. Another is called in threads, as many at once as requests may be in flight.

    Args:
        own: the function and its name, as the model's.
        threads: at most.
        notes: of the stage that asks.
    """

    def __init__(self, own: OwnFunction, threads: int, notes: Notes) -> None:
        self._own = own
        self._threads = ThreadPoolExecutor(threads, "llm")
        self._notes = notes
        self._empty = EmptyAnswers()
        self.left_out: frozenset[str] = frozenset()
        self.answered = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        messages = messages_of(prompt)
        try:
            text = await self._called(messages)
        except errors.EndpointError:
            raise
        except Exception as error:
            note_what_was_given(error, self._own.name, messages)
            if isinstance(error, OSError) or is_of_openai(error) or Refusal.of_error(error):
                raise named_failure(error, where=self._own.name, model="", remedies=REMEDIES) from error
            raise errors.EndpointError(f"{self._own.name} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise errors.EndpointError(f"{self._own.name} returned {type(text).__name__}; return the answer's text")
        completion = Completion(
            text=as_answer(text),
            prompt_tokens=estimated_tokens(prompt),
            completion_tokens=estimated_tokens(text),
            model=self._own.name,
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._notes.paid(completion.prompt_tokens, completion.completion_tokens)
        if not completion.text.strip():
            raise paid_failure(self._empty.failure(prompt, self._own.name), completion)
        self._empty.forget(prompt)
        self.answered += 1
        self._notes.answered(self._own.name, "")
        return completion

    async def _called(self, messages: list[dict[str, str]]) -> Any:
        if inspect.iscoroutinefunction(self._own.answer):
            return await self._own.answer(messages)
        said = await asyncio.get_running_loop().run_in_executor(self._threads, self._own.answer, messages)
        return await said if inspect.isawaitable(said) else said  # of an object whose `__call__` is a coroutine

    @property
    def settings(self) -> dict[str, str]:
        return {"model": self._own.name}

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
