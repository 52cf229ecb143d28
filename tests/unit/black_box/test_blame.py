"""Whose fault a failure is follows from what becomes of other prompts, whatever its status."""

import asyncio
import itertools
import json
import random
import time
from dataclasses import replace

import pytest

from ease_lib import errors
from ease_lib.black_box import blame
from ease_lib.black_box.blame import CONTROL
from ease_lib.black_box.client import Sampling
from ease_lib.config.sections import CapsConfig, EndpointConfig
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective
from ease_lib.tasks.base import Exemplar
from tests.support.faulty_endpoint import MODEL, body, faulty_endpoint, finish, reset_mid_body, status
from tests.support.runs import open_black_box

SAMPLING = Sampling(max_tokens=8, stop="\n")
ROWS = [Exemplar(100 + number, f"row {number}", (str(number),), origin=f"t.csv, line {number}") for number in range(40)]
WITHIN = {"error": {"code": 502, "message": "upstream failed"}}
HALF = {"choices": [{"finish_reason": "error", "message": {"content": "1"}}], "usage": {"prompt_tokens": 7}}
OF_LOAD = {
    "429": status(429, "Rate limit reached"),
    "502 in a 200": body(json.dumps(WITHIN).encode()),
    "broken off": reset_mid_body,
}
FAULTS = {
    "403": status(403, "Content violates usage guidelines"),
    "451": status(451, "not in your country"),
    "404": status(404, "No endpoints found for this prompt"),
    "500": status(500, "EngineCore encountered an issue"),
    "half an answer": body(json.dumps(HALF).encode()),
    "aborted": finish("abort", "3"),
    "no JSON": body(b"{", "application/json"),
}


def row_number(prompt):
    return prompt.rpartition("Input: row ")[2].partition("\n")[0]


def failing(server, fault, *rows):
    """The endpoint with this fault for these rows, whenever they are asked."""
    server.script.on_request = lambda prompt: row_number(prompt) in rows and server.script.faults.insert(0, fault)
    server.script.latency_seconds = 0.005
    return server


def evaluated(server, kind, rows=ROWS, **endpoint):
    values = {"llm_concurrency": 1, "llm_deadline_seconds": 20.0, **endpoint}
    config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_failures=kind, **values)
    with open_black_box(config, sampling=SAMPLING) as black_box:
        evaluator = Evaluator(
            black_box.client, rows, metric=exact_match, failures=replace(black_box.failures, coverage=0.5)
        )
        return Objective(evaluator, black_box.loop).evaluate(Question(exemplars=[], rows=range(len(rows)), whole=True))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_fails_for_one_row_alone_is_a_failure_of_that_row(fault):
    with faulty_endpoint(row_number) as server:
        evaluation = evaluated(failing(server, fault, "3"), "skip")
        assert server.script.requests < 40 + 8
    assert (evaluation.failed_rows, evaluation.scores[3], evaluation.score) == (1, None, 1.0)
    assert "times for this prompt, while others are answered" in evaluation.failures[3]
    assert "EASE_LLM_API_KEY" not in evaluation.failures[3]


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(blame, "LEAST_SECONDS", 1.5)


@pytest.mark.parametrize("fault", OF_LOAD.values(), ids=OF_LOAD)
def test_what_is_said_of_load_is_about_a_row_where_it_lasts(soon, fault):
    began = time.monotonic()
    with faulty_endpoint(row_number) as server:
        evaluation = evaluated(failing(server, fault, "3"), "skip")
        assert server.script.requests < 40 + 8
    assert (evaluation.failed_rows, evaluation.scores[3], evaluation.score) == (1, None, 1.0)
    assert time.monotonic() - began > 1.5


def test_a_row_whose_worker_is_down_for_some_seconds_is_answered_then(soon):
    began = time.monotonic()
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            row_number(prompt) in "369"
            and time.monotonic() - began < 1.2
            and server.script.faults.insert(0, status(503, "no room"))
        )
        server.script.latency_seconds = 0.005
        evaluation = evaluated(server, "skip", llm_concurrency=8)
    assert (evaluation.failed_rows, evaluation.score) == (0, 1.0)


def test_what_has_lasted_for_one_row_is_not_waited_for_with_the_next(soon):
    asked = []
    config = {"llm_model": MODEL, "llm_failures": "skip", "llm_deadline_seconds": 20.0}
    with faulty_endpoint(row_number) as server:
        failing(server, OF_LOAD["429"], "20", "30")
        fail = server.script.on_request
        server.script.on_request = lambda prompt: (
            row_number(prompt) == "30" and asked.append(time.monotonic()),
            fail(prompt),
        )
        with open_black_box(EndpointConfig(llm_base_url=server.base_url, **config), sampling=SAMPLING) as black_box:
            for number in range(31):
                question = black_box.client.complete(f"Input: row {number}\nOutput:")
                if number in (20, 30):
                    with pytest.raises(errors.PromptFailed):
                        black_box.loop.run(question)
                else:
                    black_box.loop.run(question)
    assert len(asked) > 3
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) < 1.0, "they would grow"


@pytest.mark.parametrize("number", ["0", "39"])
def test_the_first_and_the_last_row_are_told_from_the_endpoint_by_a_control(number):
    """Nothing was answered before the first one, nothing is after the last."""
    with faulty_endpoint(row_number) as server:
        evaluation = evaluated(failing(server, FAULTS["403"], number), "skip")
    assert evaluation.failed_rows == 1
    assert evaluation.failures[int(number)]


def test_a_row_that_stops_the_run_is_named_with_its_origin():
    with (
        faulty_endpoint(row_number) as server,
        pytest.raises(errors.PromptFailed, match=r"row 103 \(t\.csv, line 3\): .* answered 403: .*to skip"),
    ):
        evaluated(failing(server, FAULTS["403"], "3"), "stop")


def test_zero_takes_such_a_row_as_wrong():
    with faulty_endpoint(row_number) as server:
        assert evaluated(failing(server, FAULTS["500"], "3"), "zero").score == 39 / 40


@pytest.mark.parametrize(
    ("fault", "kind", "sent"),
    [
        (FAULTS["403"], errors.Forbidden, 2),
        (FAULTS["451"], errors.UnexpectedStatus, 2),
        (status(401), errors.AuthenticationFailed, 1),
    ],
)
def test_what_all_requests_get_is_about_the_endpoint(fault, kind, sent):
    with faulty_endpoint(row_number, *[fault] * 100) as server:
        with pytest.raises(kind) as raised:
            evaluated(server, "skip")
        assert server.script.requests == sent, "at most a control beside it"
    assert not raised.value.of_prompt


def test_a_key_that_is_revoked_within_a_run_is_not_blamed_on_rows():
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            server.script.requests >= 20 and server.script.faults.append(FAULTS["403"])
        )
        with pytest.raises(errors.Forbidden, match="check EASE_LLM_API_KEY"):
            evaluated(server, "skip", llm_concurrency=8)
        assert server.script.requests < 20 + 4 * 8, "those in flight once more, and a control"


def test_an_endpoint_that_goes_down_is_not_blamed_on_rows():
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            server.script.requests >= 39 and server.script.faults.append(FAULTS["500"])
        )
        with pytest.raises(errors.Overloaded):
            evaluated(server, "skip", llm_deadline_seconds=3.0)


def test_an_endpoint_that_fails_now_and_then_loses_no_row():
    """A third of all requests, by chance."""
    drawn = random.Random(0)
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: drawn.random() < 1 / 3 and server.script.faults.append(FAULTS["500"])
        rows = [Exemplar(number, f"row {number}", (str(number),)) for number in range(150)]
        evaluation = evaluated(server, "stop", rows, llm_concurrency=40, llm_deadline_seconds=300.0)
    assert (evaluation.failed_rows, evaluation.score) == (0, 1.0)


def test_what_was_spent_on_it_is_counted():
    with faulty_endpoint(row_number) as server:
        evaluation = evaluated(failing(server, FAULTS["half an answer"], "39"), "skip")
        asked = server.script.requests
    usage = evaluation.usage
    assert usage.requests + usage.retries == asked
    assert usage.prompt_tokens >= 7 * (asked - 40)


def test_a_healthy_endpoint_is_asked_nothing_more():
    with faulty_endpoint(row_number) as server:
        seen = []
        server.script.on_request = seen.append
        evaluated(server, "skip", llm_concurrency=8)
    assert len(seen) == 40
    assert CONTROL not in seen


def test_a_cap_that_leaves_no_control_is_no_wrong_key():
    with faulty_endpoint(row_number) as server:
        caps = CapsConfig(max_llm_requests=3)
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_failures="skip", llm_concurrency=1)
        failing(server, FAULTS["403"], "3")
        with open_black_box(config, sampling=SAMPLING, caps=caps) as black_box:
            ask = [black_box.client.complete(f"Input: row {number}\nOutput:") for number in (1, 2, 3)]
            assert [black_box.loop.run(each).text for each in ask[:2]] == ["1", "2"]
            with pytest.raises(errors.CapReached):
                black_box.loop.run(ask[2])


def test_the_same_prompt_at_once_is_blamed_for_each():
    with faulty_endpoint(row_number) as server:
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_failures="skip")
        failing(server, FAULTS["403"], "3")
        with open_black_box(config, sampling=SAMPLING) as black_box:

            async def all_at_once():
                ask = (black_box.client.complete("Input: row 3\nOutput:") for _ in range(3))
                return await asyncio.gather(*ask, return_exceptions=True)

            assert [type(each) for each in black_box.loop.run(all_at_once())] == [errors.PromptFailed] * 3
