"""Black-boxes that are functions of this process: the simulated one, and the caller's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

import openai

from ease_lib import errors, observations
from ease_lib.ambient import Ambient
from ease_lib.black_box.chat import messages_of, run_together
from ease_lib.black_box.client import REMEDIES, Completion, estimated_tokens
from ease_lib.black_box.failures import named_failure
from ease_lib.black_box.reasoning import without_reasoning

Function = Callable[[list[dict[str, str]]], str | Awaitable[str]]
"""Messages to the answer's text."""


class OwnFunction(NamedTuple):
    """A function of the caller's that answers, and the name by which its answers are kept."""

    name: str
    answer: Function


OWN_FUNCTION: Ambient[OwnFunction | None] = Ambient(None)
"""What `llm_base_url=function` asks."""


class FunctionClient:
    """Answers by calling a function, with tokens counted as words.

    Args:
        model: what it is called.
        answer: the text for a prompt.

    It refuses no parameters.
    """

    def __init__(self, model: str, answer: Callable[[str], str]) -> None:
        self._model = model
        self._answer = answer
        self.left_out: frozenset[str] = frozenset()
        self.answered = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        text = self._answer(run_together(prompt))
        completion = Completion(
            text=text,
            prompt_tokens=len(prompt.split()),
            completion_tokens=max(1, len(text.split())),
            model=self._model,
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self.answered += 1
        observations.answered(self._model, "", completion.prompt_tokens, completion.completion_tokens)
        return completion

    @property
    def settings(self) -> dict[str, str]:
        return {"model": self._model}

    async def close(self) -> None:
        pass


class OwnFunctionClient:
    """Answers by calling the caller's function; tokens are estimated.

    A coroutine function is awaited. Another is called in threads, as many at once as requests may be in flight.

    Args:
        own: the function and its name, as the model's.
        threads: at most.
    """

    def __init__(self, own: OwnFunction, threads: int) -> None:
        self._own = own
        self._threads = ThreadPoolExecutor(threads, "llm")
        self.left_out: frozenset[str] = frozenset()
        self.answered = 0

    async def complete(self, prompt: str, account: str = "") -> Completion:
        try:
            text = await self._called(messages_of(prompt))
        except errors.EndpointError:
            raise
        except (openai.OpenAIError, OSError, TimeoutError) as error:
            raise named_failure(error, where=self._own.name, model="", remedies=REMEDIES) from error
        except Exception as error:
            raise errors.EndpointError(f"{self._own.name} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise errors.EndpointError(f"{self._own.name} returned {type(text).__name__}; return the answer's text")
        completion = Completion(
            text=without_reasoning(text),
            prompt_tokens=estimated_tokens(prompt),
            completion_tokens=estimated_tokens(text),
            model=self._own.name,
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self.answered += 1
        observations.answered(self._own.name, "", completion.prompt_tokens, completion.completion_tokens)
        return completion

    async def _called(self, messages: list[dict[str, str]]) -> Any:
        if inspect.iscoroutinefunction(self._own.answer):
            return await self._own.answer(messages)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._own.answer, messages)

    @property
    def settings(self) -> dict[str, str]:
        return {"model": self._own.name}

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
