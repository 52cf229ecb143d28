"""Every failure has its kind and its remedy; none becomes an answer."""

import asyncio
import time
from email.utils import formatdate

import pytest

from ease_lib import errors
from ease_lib.evaluation.llm_client import Completion, OpenAIClient, RetryingClient, Sampling, list_models
from ease_lib.testing.faulty_endpoint import MODEL, body, faulty_endpoint, finish, hang, reset_mid_body, status


def ask(base_url, api="chat", model=MODEL, timeout_seconds=5.0, max_tokens=8):
    async def once():
        client = OpenAIClient(
            base_url=base_url,
            model=model,
            api=api,
            key="",
            sampling=Sampling(max_tokens=max_tokens, stop="\n"),
            timeout_seconds=timeout_seconds,
        )
        try:
            return await client.complete("Input: hi\nOutput:")
        finally:
            await client.close()

    return asyncio.run(once())


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_answer_with_its_tokens(api):
    with faulty_endpoint(lambda prompt: " hello") as server:
        completion = ask(server.base_url, api)
    assert completion == Completion(text=" hello", prompt_tokens=3, completion_tokens=1, model=MODEL)


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        (status(429), errors.RateLimited, "429"),
        (status(429, error_code="insufficient_quota"), errors.QuotaExhausted, "add credit"),
        (status(500), errors.Overloaded, "500"),
        (status(503), errors.Overloaded, "503"),
        (status(401, "bad key"), errors.AuthenticationFailed, "bad key; check EASE_LLM_API_KEY"),
        (status(403), errors.AuthenticationFailed, "check EASE_LLM_API_KEY"),
        (status(404), errors.ModelNotFound, "check llm_model=test-model"),
        (status(400, "too many tokens", "context_length_exceeded"), errors.ContextTooLong, "lower k"),
        (status(400, "flagged", "content_filter"), errors.ContentRefused, "remove the row"),
        (status(422, "no such field"), errors.BadRequest, "no such field"),
        (finish("content_filter"), errors.ContentRefused, "content filter"),
        (finish("stop", ""), errors.GarbledAnswer, "without content"),
        (finish("length", ""), errors.BadRequest, "raise llm_max_tokens"),
        (body(b'{"choices": [{"mess'), errors.GarbledAnswer, "not JSON"),
        (body(b"<html>hello</html>", "text/html"), errors.GarbledAnswer, "not the OpenAI API"),
        (body(b'{"choices": []}'), errors.GarbledAnswer, "not the OpenAI API"),
        (reset_mid_body, errors.ConnectionFailed, "broke off"),
        (hang(2.0), errors.EndpointTimeout, "raise llm_timeout_seconds"),
    ],
)
def test_failures_by_kind(fault, kind, remedy):
    with faulty_endpoint(lambda prompt: "never", fault) as server, pytest.raises(kind, match=remedy) as caught:
        ask(server.base_url, timeout_seconds=1.0)
    assert type(caught.value) is kind


def test_tokens_are_estimated_where_the_endpoint_does_not_count():
    without_usage = body(b'{"model": "m", "choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}]}')
    with faulty_endpoint(lambda prompt: "never", without_usage) as server:
        completion = ask(server.base_url)
    assert (completion.prompt_tokens, completion.completion_tokens) == (4, 2)


def test_unreachable_endpoint():
    with pytest.raises(errors.ConnectionFailed, match="cannot be reached or broke off; check llm_base_url"):
        ask("http://127.0.0.1:9/v1")


def test_a_raw_completion_may_say_nothing_on_purpose():
    with faulty_endpoint(lambda prompt: "never", finish("stop", "")) as server:
        assert ask(server.base_url, "completions").text == ""


def test_newer_models_get_the_limit_by_their_name():
    refusal = status(400, "Unsupported parameter: use max_completion_tokens instead")
    with faulty_endpoint(lambda prompt: "fine", refusal) as server:
        assert ask(server.base_url).text == "fine"


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_read_as_seconds_and_as_date(as_date):
    header = formatdate(time.time() + 7.9, usegmt=True) if as_date else "7"
    refusal = status(429, retry_after=header)
    with faulty_endpoint(lambda prompt: "never", refusal) as server, pytest.raises(errors.RateLimited) as caught:
        ask(server.base_url)
    assert caught.value.retry_after == pytest.approx(7, abs=2)


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


def test_models_are_listed():
    with faulty_endpoint(lambda prompt: "") as server:
        assert list_models(server.base_url, "", 5.0) == [MODEL]
    with pytest.raises(errors.ConnectionFailed):
        list_models(server.base_url, "", 5.0)
