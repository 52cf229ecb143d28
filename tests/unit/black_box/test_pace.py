"""Limits a minute, of one process and of several."""

import asyncio
import itertools
import json
import multiprocessing
import time

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.client import Completion, Sampling
from ease_lib.black_box.pace import FOLDER, STRETCH_SECONDS, PacedClient, SharedRate
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import StoreError
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.runs import open_black_box


class Clock:
    """Time that passes by waiting alone."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


class Answering:
    def __init__(self, clock, prompt_tokens=1, completion_tokens=1):
        self.sent = []
        self._clock = clock
        self._tokens = prompt_tokens, completion_tokens

    async def complete(self, prompt, account=""):
        self.sent.append(self._clock.now)
        return Completion(text="", prompt_tokens=self._tokens[0], completion_tokens=self._tokens[1], model="")


def sent_at(count, *, requests=None, tokens=None, expected=1, **counted):
    """Seconds after the first at which so many prompts were sent, one after another."""
    clock = Clock()
    answering = Answering(clock, **counted)

    async def ask():
        schedules = (SharedRate(limit, clock=clock) if limit else None for limit in (requests, tokens))
        client = PacedClient(answering, *schedules, answer_tokens=expected - 1, sleep=clock.sleep, clock=clock)
        for _ in range(count):
            await client.complete("abcd")

    asyncio.run(ask())
    return [moment - answering.sent[0] for moment in answering.sent]


def test_requests_are_spread_over_the_minute():
    assert sent_at(61, requests=60) == pytest.approx(range(61))


@pytest.mark.parametrize("limit", [29, 31, 59, 61, 89, 91, 1000])
def test_of_a_limit_nothing_is_lost_where_stretches_hold_no_whole_number_of_requests(limit):
    assert sent_at(limit + 1, requests=limit)[-1] == pytest.approx(60)


@pytest.mark.parametrize("limit", [59, 100, 600])
def test_three_processes_use_all_of_a_limit_and_never_more(tmp_path, limit):
    """They take turns at one clock, each with some requests under way."""
    clock = Clock()

    async def reserve():
        found = []
        shared = [SharedRate(limit, open_store(str(tmp_path)), "rate.json", clock=clock) for _ in range(3)]
        for _ in range(limit):
            found += [await schedule.reserve(1) for schedule in shared]
            clock.now = max(clock.now, max(found) - 5)
        return sorted(found)

    times = asyncio.run(reserve())
    minutes = (times[-1] - times[0]) / 60
    assert len(times) >= 0.95 * limit * minutes
    assert all(later - earlier >= 60 - 1e-3 for earlier, later in zip(times, times[limit:], strict=False))


def test_tokens_of_prompts_that_differ_in_length_lose_nothing_either():
    async def reserve():
        clock = Clock()
        schedule, amounts = SharedRate(6000, clock=clock), [30 + 70 * (number % 4) for number in range(200)]
        times = []
        for amount in amounts:
            times.append(await schedule.reserve(amount))
            clock.now = max(clock.now, times[-1])
        return times[-1] - times[0], sum(amounts[:-1])

    seconds, tokens = asyncio.run(reserve())
    assert 0.95 <= tokens / (seconds * 100) <= 1.01


def test_less_than_one_request_in_a_stretch_waits_for_its_time():
    assert sent_at(3, requests=6) == pytest.approx([0, 10, 20])


def test_tokens_count_as_the_endpoint_counts_them():
    """Ten tokens come of 100 expected; the requests that follow make good what was held back too much."""
    expected_right = sent_at(100, tokens=6000, expected=100, prompt_tokens=60, completion_tokens=40)
    assert expected_right[-1] == pytest.approx(99, abs=2)
    fewer = sent_at(100, tokens=6000, expected=100, prompt_tokens=6, completion_tokens=4)
    assert fewer[-1] == pytest.approx(10, abs=3)
    more = sent_at(100, tokens=6000, expected=100, prompt_tokens=150, completion_tokens=50)
    assert more[-1] == pytest.approx(198, abs=4)


def test_a_pause_saves_up_no_more_than_a_stretch():
    clock = Clock()

    async def reserve():
        schedule = SharedRate(60, clock=clock)
        first = await schedule.reserve(1)
        clock.now += 3600
        return first, [await schedule.reserve(1) for _ in range(10)]

    first, later = asyncio.run(reserve())
    assert first == 1_000_000
    assert later == pytest.approx([clock.now + second for second in range(10)])


def _reserve(folder, count, results):
    async def reserve():
        schedule = SharedRate(6000, open_store(folder), "rate.json")
        results.put([await schedule.reserve(1) for _ in range(count)])

    asyncio.run(reserve())


def test_processes_share_a_limit(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_reserve, args=(str(tmp_path), 400, results)) for _ in range(3)]
    begin = time.time()
    for worker in workers:
        worker.start()
    times = sorted(moment for _ in workers for moment in results.get(timeout=60))
    for worker in workers:
        worker.join()
    assert len(times) == 1200
    assert times[-1] - begin >= 1200 / 100 - STRETCH_SECONDS
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) == pytest.approx(0.01, abs=1e-3)


def test_a_damaged_schedule_is_named(tmp_path):
    (tmp_path / "rate.json").write_text("soon")
    with pytest.raises(StoreError, match="remove that folder"):
        asyncio.run(SharedRate(60, open_store(str(tmp_path)), "rate.json").reserve(1))


def test_an_endpoint_is_sent_no_more_than_its_limit(tmp_path):
    moments = []
    with faulty_endpoint(lambda prompt: "yes") as server:
        server.script.on_request = lambda prompt: moments.append(time.monotonic())
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_requests_per_minute=600)
        with open_black_box(config, sampling=Sampling(max_tokens=8, stop=""), store_uri=str(tmp_path)) as black_box:

            async def ask():
                await asyncio.gather(*(black_box.client.complete(f"prompt {number}") for number in range(16)))

            black_box.loop.run(ask())
    assert len(moments) == 16
    assert max(moments) - min(moments) >= 1.4
    (schedule,) = (tmp_path / FOLDER).iterdir()
    assert schedule.name.endswith("-requests.json")
    assert json.loads(schedule.read_text()) > 0
