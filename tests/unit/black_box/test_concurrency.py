import asyncio

import pytest

from ease_lib.black_box.client import Completion
from ease_lib.black_box.concurrency import AdaptiveClient
from ease_lib.errors import AuthenticationFailed, ContentRefused, NotAsked, Overloaded, RateLimited


class Endpoint:
    """Counts the requests in flight; fails as told by `failures` (by number of the request)."""

    def __init__(self, failures=None):
        self.failures = failures or {}
        self.requests = self.running = self.most_running = 0

    async def complete(self, prompt, account=""):
        number, self.requests = self.requests, self.requests + 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        if number in self.failures:
            raise self.failures[number]
        return Completion(text="", prompt_tokens=1, completion_tokens=1, model="m", account=account)


def ask(client, count):
    async def all_of_them():
        return await asyncio.gather(*(client.complete(str(n)) for n in range(count)), return_exceptions=True)

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("maximum", [1, 3, 50])
def test_no_more_than_the_maximum_is_in_flight(maximum):
    endpoint = Endpoint()
    answers = ask(AdaptiveClient(endpoint, maximum=maximum), 40)
    assert endpoint.most_running == min(maximum, 40)
    assert all(isinstance(answer, Completion) for answer in answers)


@pytest.mark.parametrize("error", [RateLimited("slow down"), Overloaded("busy")])
def test_congestion_halves_the_bound_once_for_all_that_was_in_flight(error):
    client = AdaptiveClient(Endpoint({n: error for n in range(16)}), maximum=16)
    ask(client, 16)
    assert client.bound == 8


def test_the_bound_falls_to_one_and_recovers():
    bounds = []

    class Watched(Endpoint):
        async def complete(self, prompt, account=""):
            bounds.append(client.bound)
            return await super().complete(prompt)

    client = AdaptiveClient(Watched({n: RateLimited("slow down") for n in range(20)}), maximum=8)
    ask(client, 80)
    assert min(bounds) == 1
    assert client.bound == 8


def test_retry_after_holds_back_every_request():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    clock = [0.0]
    endpoint = Endpoint({0: RateLimited("slow down", retry_after=7)})
    ask(AdaptiveClient(endpoint, maximum=1, sleep=sleep, clock=lambda: clock[0]), 3)
    assert waits == [7]


def test_after_a_permanent_failure_nothing_more_is_sent():
    endpoint = Endpoint({2: AuthenticationFailed("no")})
    answers = ask(AdaptiveClient(endpoint, maximum=2), 30)
    assert endpoint.requests <= 4
    assert sum(isinstance(answer, AuthenticationFailed) for answer in answers) >= 26


def test_a_prompt_that_is_refused_is_the_failure_of_no_other_prompt():
    endpoint = Endpoint({2: ContentRefused("no")})
    answers = ask(AdaptiveClient(endpoint, maximum=2), 30)
    assert sum(isinstance(answer, ContentRefused) for answer in answers) == 1
    assert sum(isinstance(answer, NotAsked) for answer in answers) >= 26


def test_cancelled_requests_free_their_slot():
    async def cancel_then_ask():
        client = AdaptiveClient(Endpoint(), maximum=1)
        first = asyncio.create_task(client.complete("a"))
        second = asyncio.create_task(client.complete("b"))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return await asyncio.wait_for(client.complete("c"), 1)

    assert asyncio.run(cancel_then_ask()).model == "m"
