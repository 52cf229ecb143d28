"""Every failure has its kind and its remedy; none becomes an answer."""

import asyncio
import json
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import pytest

from ease_lib import errors
from ease_lib.artifacts.store import open_store
from ease_lib.black_box.cache import open_cache
from ease_lib.black_box.client import Completion, OpenAIClient, Sampling, content_of, estimated_tokens
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.config.rules import problems_of
from ease_lib.config.sections import EndpointConfig
from ease_lib.notes import Notes
from ease_lib.prompts.messages import Chat
from tests.support.faulty_endpoint import (
    MODEL,
    FaultyHandler,
    body,
    faulty_endpoint,
    finish,
    hang,
    reset_mid_body,
    status,
)
from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served
from tests.support.runs import open_black_box

NO_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."


def client_of(base_url, api="chat", model=MODEL, timeout_seconds=5.0, max_tokens=8, **more):
    return OpenAIClient(
        base_url=base_url,
        model=model,
        api=api,
        key="",
        sampling=Sampling(max_tokens=max_tokens, stop="\n"),
        timeout_seconds=timeout_seconds,
        notes=Notes(),
        **more,
    )


def ask(base_url, *how, **more):
    async def once():
        client = client_of(base_url, *how, **more)
        try:
            return await client.complete("Input: hi\nOutput:")
        finally:
            await client.close()

    return asyncio.run(once())


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_answer_with_its_tokens(api):
    with faulty_endpoint(lambda prompt: " hello") as server:
        completion = ask(server.base_url, api)
    given = datetime.fromisoformat(completion.answered_at)
    assert abs(datetime.now(UTC) - given) < timedelta(minutes=1)
    assert replace(completion, answered_at="") == Completion(
        text=" hello", prompt_tokens=3, completion_tokens=1, model=MODEL
    )


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        (status(429), errors.RateLimited, "429"),
        (status(429, error_code="insufficient_quota"), errors.QuotaExhausted, "add credit"),
        (status(500), errors.ServerFailed, "500"),
        (status(503), errors.Overloaded, "503"),
        (status(401, "bad key"), errors.AuthenticationFailed, "bad key; check EASE_LLM_API_KEY"),
        (status(403), errors.Forbidden, "check EASE_LLM_API_KEY"),
        (status(404), errors.ModelNotFound, r"check llm_model=test-model and llm_base_url$"),
        (status(400, "too many tokens", "context_length_exceeded"), errors.ContextTooLong, "lower k"),
        (status(400, "flagged", "content_filter"), errors.ContentRefused, "remove the row"),
        (status(422, "no such field"), errors.BadRequest, "no such field"),
        (status(413, "no"), errors.BadRequest, "no"),
        (status(405, "no such method"), errors.UnexpectedStatus, "no such method; check llm_base_url"),
        (status(451, "not in your country"), errors.UnexpectedStatus, "not in your country"),
        (status(402, "Insufficient Balance"), errors.QuotaExhausted, "add credit"),
        (status(400, NO_CREDIT, "invalid_request_error"), errors.QuotaExhausted, "add credit"),
        (status(400, f"litellm.BadRequestError: {'-' * 200} {NO_CREDIT}"), errors.QuotaExhausted, "add credit"),
        (finish("content_filter"), errors.ContentRefused, "content filter"),
        (finish("error", "half a w"), errors.FailedAnswer, "finish_reason=error, which is not an end"),
        (finish("SAFETY", "half a w"), errors.ContentRefused, "content filter"),
        (finish("stop", ""), errors.EmptyAnswer, "returned an empty answer"),
        (body(b'{"error": {"code": 402, "message": "no"}}'), errors.QuotaExhausted, "answered 402: no; add credit"),
        (finish("length", ""), errors.AnswerCut, "its 8 tokens before it answered; raise llm_thinking_tokens"),
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


@pytest.mark.parametrize("content", [b'{"choices": []}', b'{"choices": null}', b'{"choices": [{"index": 0}]}'])
def test_an_answer_without_a_message_is_of_its_prompt_once_others_were_answered(content):
    used = b'"usage": {"prompt_tokens": 30, "completion_tokens": 5}, '
    fault = body(content.replace(b'{"choices', b"{" + used + b'"choices'))
    with faulty_endpoint(lambda prompt: "fine") as server:
        server.script.on_request = lambda prompt: prompt == "b" and server.script.faults.append(fault)
        client = client_of(server.base_url)
        with asyncio.Runner() as runner:
            assert runner.run(client.complete("a")).text == "fine"
            for kind in (errors.EmptyAnswer, errors.EmptyAgain):
                with pytest.raises(kind) as raised:
                    runner.run(client.complete("b"))
                assert (raised.value.prompt_tokens, raised.value.completion_tokens) == (30, 5)
            runner.run(client.close())


def test_an_address_without_its_version_is_asked_whether_that_is_missing():
    with faulty_endpoint(lambda prompt: "never", status(404)) as server:
        without_version = server.base_url.replace("/v1", "/api")
        with pytest.raises(errors.ModelNotFound, match=r"and llm_base_url; most end in /v1: add it\?"):
            ask(without_version)


def test_tokens_are_estimated_where_the_endpoint_does_not_count():
    without_usage = body(b'{"model": "m", "choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}]}')
    with faulty_endpoint(lambda prompt: "never", without_usage) as server:
        completion = ask(server.base_url)
    assert (completion.prompt_tokens, completion.completion_tokens) == (4, 2)


@pytest.mark.parametrize("usage", [b"[1, 2]", b'{"prompt_tokens": "12 tokens"}', b'{"prompt_tokens": 1e999}', b"3"])
def test_usage_that_is_no_number_costs_no_answer(usage):
    answer = b'{"choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}], "usage": ' + usage + b"}"
    with faulty_endpoint(lambda prompt: "never", body(answer)) as server:
        completion = ask(server.base_url)
    assert (completion.text, completion.prompt_tokens) == ("12345678", 4)


def test_no_message_shows_a_key():
    for said in (
        status(401, "Incorrect key: sk-SECRET456"),
        body(b'{"headers": {"Authorization": "Bearer sk-SECRET456"}}'),
    ):
        with faulty_endpoint(lambda prompt: "never", said) as server, pytest.raises(errors.EndpointError) as raised:
            ask(server.base_url, headers={"Authorization": "Bearer sk-SECRET456"})
        assert "SECRET" not in str(raised.value)


def test_unreachable_endpoint():
    with pytest.raises(
        errors.ConnectionFailed, match="cannot be reached or broke off the connection; check llm_base_url"
    ):
        ask("http://127.0.0.1:9/v1")


def test_a_raw_completion_may_say_nothing_on_purpose():
    with faulty_endpoint(lambda prompt: "never", finish("stop", "")) as server:
        assert ask(server.base_url, "completions").text == ""


class PickyServer(OpenAIRoutesServer):
    """Refuses parameters by their name, as OpenAI's newer and reasoning models do; notes what it was sent."""

    def __init__(self, refused, words="Unsupported parameter: '{name}' is not supported with this model.", code=400):
        super().__init__({MODEL: lambda prompt: "fine"})
        self.RequestHandlerClass = PickyHandler
        self.refused, self.words, self.code, self.sent, self.requests = refused, words, code, [], []


class PickyHandler(OpenAIRoutesHandler):
    def answer_request(self, request, prompt):
        self.server.sent.append(set(request))
        self.server.requests.append(request)
        self.server.headers = self.headers
        time.sleep(0.05)  # so that requests at once are all in flight before the first is refused
        for name in self.server.refused:
            if name in request:
                self.reply_error(self.server.code, "unsupported_parameter", self.server.words.format(name=name))
                return
        self.answer_prompt(prompt)


@contextmanager
def picky_endpoint(*refused, **how):
    server = PickyServer(refused, **how)
    with served(server):
        yield server


def ask_at_once(base_url, prompts, api="chat", **more):
    async def all_at_once():
        client = client_of(base_url, api, **more)
        try:
            answers = await asyncio.gather(*(client.complete(prompt) for prompt in prompts))
        finally:
            await client.close()
        return [answer.text for answer in answers], client.left_out

    return asyncio.run(all_at_once())


def test_requests_at_once_all_learn_what_newer_models_call_the_limit(caplog):
    with picky_endpoint("max_tokens") as server, caplog.at_level("INFO", logger="ease"):
        answers, left_out = ask_at_once(server.base_url, ["a", "b", "c", "d"])
    assert answers == ["fine"] * 4
    assert left_out == {"max_tokens"}
    assert {"max_completion_tokens"} <= server.sent[-1]
    assert len(caplog.messages) == 1
    assert "max_completion_tokens is sent instead" in caplog.messages[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "Unsupported value: '{name}' does not support 0 with this model. Only the default (1) value is supported.",
            400,
        ),
        ("Unrecognized request argument supplied: {name}", 400),
        ("[{{'type': 'extra_forbidden', 'loc': ['body', '{name}'], 'msg': 'Extra inputs are not permitted'}}]", 422),
    ],
)
def test_whatever_is_refused_by_name_is_left_out_from_then_on(words, code):
    told = []
    with picky_endpoint("temperature", "max_tokens", "max_completion_tokens", words=words, code=code) as server:
        answers, _ = ask_at_once(server.base_url, ["a", "b"], on_refusal=told.append)
        again, _ = ask_at_once(server.base_url, ["c"], left_out=told[-1])
    assert answers + again == ["fine"] * 3
    assert told[-1] == {"temperature", "max_tokens", "max_completion_tokens"}
    assert server.sent[-1] == {"model", "messages"}


@pytest.mark.parametrize(
    "words",
    [
        "invalid temperature: only 1 is allowed for this model",
        "`temperature` must be strictly positive",
        "temperature should be in (0, 1]",
        "temperature: Input should be greater than 0",
        "Invalid value for 'temperature'",
    ],
)
def test_a_temperature_that_an_endpoint_does_not_take_is_left_to_it(words):
    with picky_endpoint("temperature", words=words) as server:
        assert ask_at_once(server.base_url, ["a"]) == (["fine"], {"temperature"})


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("max_tokens is too large: 8. This model supports at most 4", "change llm_max_tokens or llm_thinking_tokens"),
        ("top_p must be below 1", "change top_p in llm_extra"),
        ("`stop`: at most 4 sequences", """by --llm-extra '{"stop": VALUE}'"""),
    ],
)
def test_a_value_that_is_refused_is_named_with_where_it_is_set(words, remedy):
    with faulty_endpoint(lambda prompt: "never", status(400, words)) as server:
        with pytest.raises(errors.BadRequest) as raised:
            ask(server.base_url, "completions", extra={"top_p": 1})
        assert server.script.requests == 1
    assert remedy in str(raised.value)


def test_a_raw_completion_goes_without_its_stop():
    with picky_endpoint("stop") as server:
        assert ask_at_once(server.base_url, ["a"], api="completions") == (["fine"], {"stop"})


def sent_for(prompt, api="chat", **sampling):
    async def once():
        drawn = Sampling(max_tokens=8, stop="\n", **sampling)
        client = OpenAIClient(
            base_url=server.base_url,
            model=MODEL,
            api=api,
            key="",
            sampling=drawn,
            timeout_seconds=5,
            notes=Notes(),
        )
        await client.complete(prompt)
        await client.close()

    with picky_endpoint() as server:
        asyncio.run(once())
        return server.requests[0]


def test_messages_are_sent_as_they_are_and_a_text_as_one_of_the_user():
    chat = Chat.of([("system", "Be short."), ("user", "a"), ("assistant", "1"), ("user", "b")])
    assert sent_for(chat)["messages"] == json.loads(chat)
    assert sent_for("b")["messages"] == [{"role": "user", "content": "b"}]


def test_where_answers_end_is_said_to_chat_models_only_if_the_template_says_it():
    assert "stop" not in sent_for("a")
    assert sent_for("a", stops=("###",))["stop"] == ["###"]
    assert sent_for("a", api="completions")["stop"] == ["\n"]
    assert sent_for("a", api="completions", stops=("###", "--"))["stop"] == ["###", "--"]


def asked_with(tmp_path, **endpoint):
    with picky_endpoint() as server:
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, **endpoint)
        sampling = Sampling(max_tokens=8, stop="\n")
        with open_black_box(config, sampling=sampling, store_uri=str(tmp_path)) as black_box:
            completion = black_box.loop.run(black_box.client.complete("hi"))
    return server, completion


def test_what_llm_extra_says_is_in_every_request_and_wins(tmp_path):
    extra = {"reasoning_effort": "low", "temperature": 1, "response_format": {"type": "json_object"}}
    server, _ = asked_with(tmp_path, llm_extra=json.dumps(extra))
    assert {name: server.requests[0][name] for name in extra} == extra


def test_what_a_request_says_beside_its_prompt_is_known(tmp_path):
    """`request.json` of the results is made from it."""
    with picky_endpoint("max_tokens") as server:
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, llm_extra='{"seed": 1}')
        with open_black_box(config, sampling=Sampling(max_tokens=8, stop="\n"), store_uri="") as black_box:
            black_box.loop.run(black_box.client.complete("hi"))
            said = {**content_of("hi", black_box.asked.api), **black_box.answering.wire.settings}
    assert said == server.requests[-1]
    assert said["max_completion_tokens"] == 8


def test_answers_with_other_extras_are_other_answers():
    sampling = Sampling(max_tokens=8, stop="\n")
    plain = LLMIdentity(endpoint="u", model="m", api="chat", sampling=sampling)
    assert replace(plain, extra={}).sent == plain.sent
    assert replace(plain, extra={"seed": 1}).answer_key("hi") != plain.answer_key("hi")


def test_headers_take_their_values_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "secret-7")
    server, _ = asked_with(tmp_path, llm_headers="X-Team=TEAM_TOKEN, Authorization=TEAM_TOKEN")
    assert (server.headers["X-Team"], server.headers["Authorization"]) == ("secret-7", "secret-7")
    with (
        faulty_endpoint(lambda prompt: "fine", status(400, "X-Team secret-7 is not known")) as server,
        pytest.raises(errors.BadRequest, match=r"X-Team \(key\) is not known"),
    ):
        ask(server.base_url, headers={"X-Team": "secret-7"})
    monkeypatch.delenv("TEAM_TOKEN")
    with pytest.raises(errors.ConfigError, match="environment variable TEAM_TOKEN, which is not set"):
        asked_with(tmp_path, llm_headers="X-Team=TEAM_TOKEN")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"llm_extra": "{"}, "llm_extra is not JSON"),
        ({"llm_extra": "[1]"}, "not a JSON object"),
        ({"llm_extra": '{"model": "x"}'}, "names model, which EASE sets"),
        ({"llm_extra": '{"api_key": "x"}'}, "looks like a key"),
        ({"llm_headers": "X-Team"}, "a list of HEADER=VARIABLE"),
        ({"llm_headers": "Authorization=Bearer abc"}, "not their values"),
    ],
)
def test_extras_and_headers_that_cannot_be_sent_are_refused(values, message):
    assert message in " ".join(problems_of(EndpointConfig(llm_base_url="http://x/v1", **values)))


def test_what_a_template_does_not_say_changes_no_kept_answer():
    assert Sampling(max_tokens=8, stop="\n").identity == {"max_tokens": 8, "stop": "\n", "temperature": 0.0}
    assert "stops" in Sampling(max_tokens=8, stop="\n", stops=("#",)).identity


def test_a_limit_that_is_too_large_is_an_error_and_not_left_out():
    words = "max_tokens is too large: 9000. This model's maximum context length is 4096 tokens."
    with faulty_endpoint(lambda prompt: "fine", status(400, words)) as server, pytest.raises(errors.ContextTooLong):
        ask(server.base_url)


def test_what_was_refused_is_kept_for_the_next_run_and_tells_its_answers_apart(tmp_path):
    sampling = Sampling(max_tokens=8, stop="\n")
    with picky_endpoint("temperature") as server:
        config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL)
        for _ in range(2):
            with open_black_box(config, sampling=sampling, store_uri=str(tmp_path)) as black_box:
                completion = black_box.loop.run(black_box.client.complete("hi"))
                assert black_box.answering.wire.left_out == {"temperature"}
    assert (completion.cached, len(server.sent)) == (True, 2)
    asked = LLMIdentity(endpoint=server.base_url, model=MODEL, api="chat", sampling=sampling)
    with open_cache(open_store(str(tmp_path))) as cache:
        assert asyncio.run(cache.get(asked.answer_key("hi"), Notes())) is None
        assert asyncio.run(cache.get(asked.answer_key("hi", ["temperature"]), Notes()))


def test_a_query_of_the_address_goes_with_every_request():
    """Azure's `?api-version=`."""
    seen = []

    class Seeing(FaultyHandler):
        def do_POST(self):
            seen.append(self.path)
            self.reply_error(400, "bad_request", "no such route")

    with faulty_endpoint(lambda prompt: "fine") as server:
        server.RequestHandlerClass = Seeing
        with pytest.raises(errors.BadRequest):
            ask(server.base_url.replace("/v1", "/elsewhere") + "?api-version=2024-10-21")
    assert seen == ["/elsewhere/chat/completions?api-version=2024-10-21"]


def test_thinking_aloud_is_no_part_of_an_answer():
    with faulty_endpoint(lambda prompt: "<think>or 8?</think>\n\n7") as server:
        assert ask(server.base_url).text.strip() == "7"
    cut = finish("length", "<think>or 8? or")
    with (
        faulty_endpoint(lambda prompt: "never", cut) as server,
        pytest.raises(errors.AnswerCut, match="raise llm_thinking_tokens"),
    ):
        ask(server.base_url)


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_read_as_seconds_and_as_date(as_date):
    header = formatdate(time.time() + 7.9, usegmt=True) if as_date else "7"
    refusal = status(429, retry_after=header)
    with faulty_endpoint(lambda prompt: "never", refusal) as server, pytest.raises(errors.RateLimited) as caught:
        ask(server.base_url)
    assert caught.value.retry_after == pytest.approx(7, abs=2)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a lost parcel of mine", 5),
        ("", 1),
        ("我的包裹丢了", 6),
        ("посылка потеряна", 10),
        ("मेरा पार्सल", 10),
        ("\ud83d", 1),
    ],
)
def test_tokens_are_estimated_by_script(text, tokens):
    assert estimated_tokens(text) == tokens


def test_an_answer_that_was_cut_within_a_character_is_kept():
    with faulty_endpoint(lambda prompt: "so \ud83d") as server:
        assert ask(server.base_url).text == "so \ufffd"
