"""Simulated LLMs: in-context learners, asked in the process that searches, as `llm_base_url=python:...:NAME`.

The first knows no answer keys; see `in_context_learner.py`. The others know a share of the answers of two tasks
beforehand; see `prior_knowledge.py`. They are coroutine functions, so that no thread is needed to call them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tests.simulation.in_context_learner import answer
from tests.simulation.prior_knowledge import knowing_model

Messages = Sequence[dict[str, str]]
SIMULATED = f"python:{__name__}:in_context_learner"
"""The first of them, as `llm_base_url` names it."""


def run_together(messages: Messages) -> str:
    """One text of all messages, for a learner that reads texts: answers follow their questions after a blank."""
    text = ""
    for message in messages:
        text += (" " if message["role"] == "assistant" else "\n\n" if text else "") + message["content"]
    return text


async def in_context_learner(messages: Messages) -> str:
    """Knows what its prompt shows, and nothing else."""
    return answer(run_together(messages))


def _knowing(percent: int) -> Callable[[Messages], Awaitable[str]]:
    known = knowing_model(percent / 100)

    async def asked(messages: Messages) -> str:
        return known(run_together(messages))

    return asked


knowing_25, knowing_50, knowing_75, knowing_100 = map(_knowing, (25, 50, 75, 100))
"""Know so many percent of the answers."""
