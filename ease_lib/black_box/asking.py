"""Many questions at once: all their answers, or the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from ease_lib.black_box.client import Completion, LLMClient

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
        raise failures[0]
    return tasks


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and take note of every exception, so that none is reported as lost."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
