"""Blame for a failure: the prompt's, or the endpoint's.

The status tells little. A 403 is a wrong key, or a filter that a text triggers; a 500 is a server that is down, or a
worker that one prompt kills. What happens to other prompts, before and after, decides:

- Others fail too: the endpoint is to blame. Temporary failures are retried (`retries.py`).
- Others are answered before and after: the prompt is to blame. It gets `PromptFailed`, like a refused row, is not
  retried, and does not hold up others.

A prompt is to blame once it has failed so often that, given how often others fail, this would happen by chance once in
a million times. A failure that speaks of load (429, 503, a connection that breaks) must also last for a while, because
prompts that share a beginning go to one worker, which may be the only one that is down. Once it has lasted for one
prompt, the same failure of another prompt need not last.
If no other prompt was answered since the failing one was last sent, a control is sent: a prompt that was answered
before, or a harmless one. So a failing prompt costs a few more requests; a healthy endpoint gets no control.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ease_lib import errors
from ease_lib.black_box.client import Completion, LLMClient, Paid, paid_tokens, with_failures

CONTROL = "Input: 1\nOutput: 1\n\nInput: 2\nOutput:"
"""A harmless prompt."""
LEAST_FAILURES = 3
"""Number of failures of one prompt that may pass with time, before the prompt is to blame."""
MOST_REFUSALS = 3
"""Number of other failures of one prompt before the prompt is to blame."""
LEAST_SECONDS = 30.0
"""Time between the first and the last failure of one prompt, from which on load is blamed: by then Kubernetes sends
nothing more to a pod that is not ready (three probes, ten seconds apart)."""
BY_CHANCE = 1e-6
BY_CHANCE_REFUSED = 1e-3
"""The same probability for refusals."""
FEW_FAIL = 0.2
"""Share of others up to which a prompt that fails once more is suspected."""
REMEMBERED = 100
"""Number of recent prompts whose first requests show how often others fail."""


class BlamingClient:
    """Distinguishes failures of a single prompt from failures of the endpoint."""

    def __init__(self, client: LLMClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._failures: dict[str, list[float]] = {}
        """Times of each prompt's failures in a row."""
        self._lasting: set[str] = set()
        """Messages that speak of load although the prompt was the cause."""
        self._failed_first: dict[str, bool] = {}
        """Whether the first request of each recent prompt failed."""
        self._answered_prompt = CONTROL
        self._answered_at = self._control_failed_at = float("-inf")
        self._control = asyncio.Lock()

    async def complete(self, prompt: str, account: str = "") -> Completion:
        spent: list[Paid] = []
        """Everything paid for besides the last request: attempts without an answer, and controls."""
        while True:
            sent_at = self._clock()
            try:
                completion = await self._client.complete(prompt, account)
            except errors.EndpointError as error:
                if not error.may_be_of_prompt:
                    raise
                try:
                    await self._judge(error, prompt, sent_at, spent)
                except errors.PromptFailed as blamed:
                    blamed.retries = len(spent)
                    blamed.prompt_tokens, blamed.completion_tokens = paid_tokens([error, *spent])
                    blamed.model = error.model
                    raise
                spent.append(error)
                continue
            self._answered(prompt)
            return with_failures(completion, spent)

    def _answered(self, prompt: str) -> None:
        self._failures.pop(prompt, None)
        self._met(prompt, failed=False)
        self._answered_prompt, self._answered_at = prompt, self._clock()

    async def _judge(self, error: errors.EndpointError, prompt: str, sent_at: float, spent: list[Paid]) -> None:
        """Raise the failure under its kind; return if the prompt should be sent again at once."""
        self._met(prompt, failed=True)
        times = self._failures.setdefault(prompt, [])
        times.append(self._clock())
        failures, share = len(times), self._share_of_others_that_fail(prompt)
        may_pass = error.of_load and error.what not in self._lasting and times[-1] - times[0] < LEAST_SECONDS
        error.suspected = failures > 1 and share < FEW_FAIL and not may_pass
        if error.retryable and (may_pass or failures < LEAST_FAILURES or share**failures > BY_CHANCE):
            raise error
        if not await self._others_are_answered(prompt, sent_at, spent):
            raise error
        if not error.retryable and failures < MOST_REFUSALS and (failures < 2 or share**failures > BY_CHANCE_REFUSED):
            return
        self._failures.pop(prompt, None)  # the same prompt may be asked twice at once
        if error.of_load:
            self._lasting.add(error.what)
        raise errors.PromptFailed(
            f"{error.what} ({failures} times for this prompt, while others are answered)"
        ) from error

    def _share_of_others_that_fail(self, prompt: str) -> float:
        others = [failed for asked, failed in self._failed_first.items() if asked != prompt]
        return (1 + sum(others)) / (2 + len(others))

    def _met(self, prompt: str, *, failed: bool) -> None:
        if prompt not in self._failed_first:
            self._failed_first[prompt] = failed
            if len(self._failed_first) > REMEMBERED:
                del self._failed_first[next(iter(self._failed_first))]

    async def _others_are_answered(self, prompt: str, since: float, spent: list[Paid]) -> bool:
        """Whether another prompt was answered since then; a control is asked where none was, once for all that ask."""
        async with self._control:
            if self._answered_at > since:
                return True
            if self._control_failed_at > since:
                return False
            control = self._answered_prompt if self._answered_prompt != prompt else CONTROL
            try:
                answer: Paid = await self._client.complete(control)
            except errors.CapReached:
                raise  # it was not sent, and says nothing of the endpoint
            except errors.EndpointError as error:
                if not error.of_prompt:
                    self._control_failed_at = self._clock()
                    return False
                answer = error  # it is about the control, so the endpoint is well
            spent.append(answer)
            self._answered(control)
            return True
