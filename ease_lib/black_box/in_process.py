"""A black-box that is a function: the caller's, or one that `llm_base_url=python:...` or `evaluate` names.

def answer(messages: list[dict[str, str]]) -> str: ...                     in the place of an LLM
def evaluate(exemplars: list[dict], row: dict) -> float | Evaluated: ...   in that of endpoint, prompt and metric
"""

from __future__ import annotations

import asyncio
import inspect
import math
import numbers
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ease_lib import errors
from ease_lib.artifacts.functions import note_what_was_given
from ease_lib.black_box.client import REMEDIES, Completion, EmptyAnswers, estimated_tokens, paid_failure
from ease_lib.black_box.failures import Refusal, Remedies, is_of_openai, named_failure
from ease_lib.notes import Notes
from ease_lib.prompts.messages import Handed, as_answer, messages_of

OF_PROGRAM = Remedies(
    url="what evaluate asks",
    model="the model that evaluate asks",
    keys="the key that evaluate sends",
    slow="give what evaluate calls more time, or lower llm_concurrency",
    long="lower k",
)
"""Remedies for failures of requests that a program sends itself."""
REMEMBERED = 100
"""Prompts of a program, any of which may be its control."""
Function = Callable[[list[dict[str, str]]], str | Awaitable[str]]
"""Function from messages to the text of an answer."""


class OwnFunction(NamedTuple):
    """A function that answers, and the name by which its answers are kept."""

    name: str
    answer: Function


@dataclass(frozen=True)
class Evaluated:
    """Details that a custom evaluation reports about a row in addition to its score.

    Args:
        score: 0 (wrong) to 1 (right).
        answer: what was answered, for the page and for those who look for mistakes.
        prompt_tokens, completion_tokens: of all that was asked for it.
        cost_usd: its cost, on top of what these tokens cost at `llm_prompt_usd` and `llm_completion_usd`.
    """

    score: float
    _: KW_ONLY
    answer: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


Program = Callable[[list[dict[str, Any]], dict[str, Any]], float | Evaluated | Awaitable[float | Evaluated]]
"""Function from ordered exemplars and a row, all mappings of columns, to the score of the answer."""


class OwnProgram(NamedTuple):
    """A program, the name under which its answers are kept, and its identity."""

    name: str
    evaluate: Program
    sha256: str


class _Called:
    """A function, awaited if it is a coroutine function, else called in threads."""

    def __init__(self, function: Callable[..., Any], threads: int) -> None:
        self._function = function
        self._threads = ThreadPoolExecutor(threads, "llm")

    async def __call__(self, *given: Any) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*given)
        said = await asyncio.get_running_loop().run_in_executor(self._threads, self._in_thread, *given)
        return await said if inspect.isawaitable(said) else said  # of an object whose `__call__` is a coroutine

    def _in_thread(self, *given: Any) -> Any:
        """
        Raises:
            RuntimeError: in the place of what a future cannot hold, or takes for its own end.
        """
        try:
            return self._function(*given)
        except (StopIteration, CancelledError, asyncio.CancelledError) as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class FunctionClient:
    """Answers by calling a function; tokens are estimated, and no parameter is refused. Blank text is not an answer.

    A coroutine function is awaited. Another is called in threads, as many at once as requests may be in flight.

    Args:
        own: the function and its name, as the model's.
        threads: at most.
        notes: of the stage that asks.
    """

    def __init__(self, own: OwnFunction, threads: int, notes: Notes) -> None:
        self._own = own
        self._called = _Called(own.answer, threads)
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
            if failure := _of_endpoint(error, self._own.name, REMEDIES):
                raise failure from error
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

    @property
    def settings(self) -> dict[str, str]:
        return {"model": self._own.name}

    async def close(self) -> None:
        self._called.close()


class ProgramClient:
    """Scores rows by calling a program, which scores its own answer.

    What it raises is named as a failure of that row, or of all: `blame.py` tells which. The control that it asks, where
    nothing was answered yet, is another row that was asked for and did not fail.

    Args:
        own: the program.
        threads: at most; a coroutine function is awaited.
        notes: of the stage that asks.
    """

    def __init__(self, own: OwnProgram, threads: int, notes: Notes) -> None:
        self._own = own
        self._called = _Called(own.evaluate, threads)
        self._notes = notes
        self.left_out: frozenset[str] = frozenset()
        self.answered = 0
        self._sound: dict[Handed, None] = {}
        """Recent prompts that did not fail so far."""

    async def complete(self, prompt: str, account: str = "") -> Completion:
        if not isinstance(prompt, Handed):
            if not self._sound:
                raise errors.ProgramFailed(f"{self._own.name} failed at every row")
            prompt = next(reversed(self._sound))
        self._sound[prompt] = None
        try:
            return await self._evaluated(prompt, account)
        except errors.EndpointError:
            self._sound.pop(prompt, None)
            raise
        finally:
            if len(self._sound) > REMEMBERED:
                del self._sound[next(iter(self._sound))]

    async def _evaluated(self, prompt: Handed, account: str) -> Completion:
        exemplars, row = prompt.given
        try:
            said = await self._called(exemplars, row)
        except errors.EndpointError:
            raise
        except Exception as error:
            note_what_was_given(error, self._own.name, prompt)
            failed = errors.ProgramFailed(f"{self._own.name} failed: {type(error).__name__}: {error}")
            raise _of_endpoint(error, self._own.name, OF_PROGRAM) or failed from error
        found = said if isinstance(said, Evaluated) else Evaluated(said)
        completion = Completion(
            text=as_answer(_checked_answer(found.answer, self._own.name)),
            prompt_tokens=int(_number("prompt_tokens", found.prompt_tokens, self._own.name, whole=True)),
            completion_tokens=int(_number("completion_tokens", found.completion_tokens, self._own.name, whole=True)),
            model=self._own.name,
            account=account,
            answered_at=datetime.now(UTC).isoformat(timespec="seconds"),
            score=_number("score", found.score, self._own.name, most=1),
            cost_usd=_number("cost_usd", found.cost_usd, self._own.name),
        )
        self._notes.paid(completion.prompt_tokens, completion.completion_tokens)
        self.answered += 1
        self._notes.answered(self._own.name, "")
        return completion

    @property
    def settings(self) -> dict[str, Any]:
        return {"program": self._own.name}

    async def close(self) -> None:
        self._called.close()


def _number(field: str, value: object, name: str, *, most: float = math.inf, whole: bool = False) -> float:
    """A number that a program returned, from 0 on.

    Raises:
        EndpointError: when it is not one; no other row helps.
    """
    what = "a score from 0 (wrong) to 1 (right), or ease_lib.Evaluated" if field == "score" else f"{field} from 0 on"
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, str | bytes) or not 0 <= found <= most or (whole and found != int(found)) or found == math.inf:
        given = f"{field} {value!r}" if isinstance(value, numbers.Number) else type(value).__name__
        raise errors.EndpointError(f"{name} returned {given}; return {what}")
    return found


def _checked_answer(answer: object, name: str) -> str:
    """
    Raises:
        EndpointError: if it is not text.
    """
    if not isinstance(answer, str):
        raise errors.EndpointError(f"{name} returned an answer that is {type(answer).__name__}; return its text")
    return answer


def _of_endpoint(error: Exception, name: str, remedies: Remedies) -> errors.EndpointError | None:
    """Temporary failure of a request that a function sent; None for other failures."""
    is_of_disk = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError)
    if (isinstance(error, OSError) and not is_of_disk) or is_of_openai(error) or Refusal.of_error(error):
        return named_failure(error, where=name, model="", remedies=remedies)
    return None
