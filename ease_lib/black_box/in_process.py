"""A black-box that is a function of this process: the simulated one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ease_lib import observations
from ease_lib.black_box.chat import run_together
from ease_lib.black_box.client import Completion


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
