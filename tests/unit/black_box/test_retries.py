import asyncio

import pytest

from ease_lib import errors
from ease_lib.black_box.client import Completion
from ease_lib.black_box.retries import RetryingClient


class ScriptedClient:
    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    async def complete(self, prompt, account=""):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Completion(text=outcome, prompt_tokens=0, completion_tokens=0, model="m")


def retry(client, deadline_seconds=100.0):
    """Run with a clock that only waiting moves; returns the answer and the waits."""
    now, waits = [0.0], []

    async def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    retrying = RetryingClient(client, deadline_seconds=deadline_seconds, sleep=sleep, clock=lambda: now[0])
    return asyncio.run(retrying.complete("prompt")), waits


def test_retryable_failures_are_tried_again_with_growing_waits():
    answer, waits = retry(
        ScriptedClient(errors.Overloaded(""), errors.RateLimited(""), errors.GarbledAnswer(""), "yes")
    )
    assert (answer.text, answer.retries) == ("yes", 3)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0 <= waits[2] <= 2.0


def test_retry_after_is_kept():
    _, waits = retry(ScriptedClient(errors.RateLimited("", retry_after=12.0), "yes"))
    assert waits == [12.0]


def test_a_wait_beyond_the_deadline_is_named():
    failure = errors.RateLimited("HTTP 429", retry_after=3600.0)
    match = "HTTP 429; it asks for a wait of 3600 s, which would exceed llm_deadline"
    with pytest.raises(errors.RateLimited, match=match):
        retry(ScriptedClient(errors.Overloaded(""), failure, "yes"))
    first, second = (errors.RateLimited("HTTP 429", retry_after=60.0) for _ in range(2))
    with pytest.raises(errors.RateLimited, match="it asks for a wait of 60 s"):
        retry(ScriptedClient(first, second, "yes"))


def test_permanent_failures_are_not_tried_again():
    client = ScriptedClient(errors.AuthenticationFailed("no"), "yes")
    with pytest.raises(errors.AuthenticationFailed):
        retry(client)
    assert client.outcomes == ["yes"]


def test_the_deadline_counts_from_the_first_failure():
    """Time in a queue before is not the endpoint's fault."""
    now = [0.0]

    class SlowClient(ScriptedClient):
        async def complete(self, prompt, account=""):
            now[0] += 1000
            return await super().complete(prompt)

    async def sleep(seconds):
        now[0] += seconds

    client = SlowClient(errors.Overloaded(""), "yes")
    retrying = RetryingClient(client, deadline_seconds=5.0, sleep=sleep, clock=lambda: now[0])
    assert asyncio.run(retrying.complete("prompt")).text == "yes"


def test_retries_end_at_the_deadline():
    client = ScriptedClient(*[errors.Overloaded("busy")] * 100)
    with pytest.raises(errors.Overloaded):
        retry(client, deadline_seconds=60.0)
    assert len(client.outcomes) > 80
