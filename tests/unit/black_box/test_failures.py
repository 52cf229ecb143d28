"""An endpoint's message is read before its status; errors count anywhere in an answer."""

import json

import pytest

from ease_lib import errors
from ease_lib.black_box.client import REMEDIES
from ease_lib.black_box.failures import Refusal, named_failure


def named(status, said, **fields):
    content = said if isinstance(said, bytes) else json.dumps({"error": {"message": said, **fields}}).encode()
    refusal = Refusal.of_response(status, {}, content)
    return named_failure(refusal, where="https://h/v1", model="m", remedies=REMEDIES)


TOO_LONG = [
    (500, "the request exceeds the available context size, try increasing it"),
    (429, "Request too large for m in organization o on tokens per min (TPM): Limit 150, Requested 260."),
    (413, "Request Entity Too Large"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (400, "Input is too long for requested model."),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Range of input length should be [1, 30720]"),
    (503, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
]
MOMENTARY = [
    "Rate limit reached for m on tokens per min (TPM): Limit 200000, Used 199000, Requested 2000. Try again in 300ms.",
    "You exceeded your current quota, please check your plan and billing details.",
    "Too Many Requests",
]


@pytest.mark.parametrize(("status", "said"), TOO_LONG)
def test_words_about_length_come_before_the_status(status, said):
    error = named(status, said)
    assert type(error) is errors.ContextTooLong
    assert "lower k or max_prompt_tokens" in str(error)


@pytest.mark.parametrize("said", MOMENTARY)
def test_a_limit_a_minute_is_of_the_moment(said):
    assert type(named(429, said)) is errors.RateLimited


def test_http_to_a_port_of_https_says_so():
    error = named(400, b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>")
    assert type(error) is errors.WrongAddress
    assert "write https:// in llm_base_url" in str(error)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b'{"error": "model is loading"}', "answered 503: model is loading"),
        (b'{"code": "denied", "error": "Content violates guidelines"}', "answered 503: Content violates guidelines"),
        (b'{"detail": "no such user"}', "answered 503: no such user"),
        (b'[{"error": {"message": "in a list"}}]', "answered 503: in a list"),
        (b'{"errors": [{"message": "of several"}]}', "answered 503: of several"),
        (b"<html>down</html>", "answered 503: <html>down</html>"),
        (b"", "answered 503: status 503"),
    ],
)
def test_the_words_of_an_error_are_found_where_endpoints_write_them(said, words):
    assert str(named(503, said)).endswith(words)


USUAL = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "a"}}]}
WITHIN = [
    ({"error": {"code": 402, "message": "no credit"}}, 402),
    ({"error": {"code": "429", "message": "slow"}}, 429),
    ({"error": {"code": 429, "message": "slow"}, "user_id": "u"}, 429),
    ({**USUAL, "error": {"code": 403, "message": "no"}}, 403),
    ({"choices": [{"error": {"code": 404, "message": "gone"}, "message": {"content": "a"}}]}, 404),
    ({"choices": [{"message": {"content": "a", "error": {"code": 502}}}]}, 502),
    ({"error": {"message": "slow", "type": "rate_limit_exceeded"}}, 429),
    ({"error": {"message": "slow", "code": "RESOURCE_EXHAUSTED"}}, 429),
    ({"error": {"message": "who?", "code": "invalid_api_key"}}, 401),
    ({"error": {"message": "down", "code": 1234}}, 502),
    ({"error": "Insufficient credits"}, 402),
    ([{"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}], 400),
    ({"object": "error", "message": "not there", "code": 40401, "type": "NotFoundError"}, 502),
    ({"message": "Internal error"}, 502),
    ({"detail": "Unauthorized"}, 401),
]


@pytest.mark.parametrize(("answer", "status"), WITHIN)
def test_an_error_in_an_answer_is_what_its_code_would_be_as_a_status(answer, status):
    refusal = Refusal.within(answer, {})
    assert refusal is not None
    assert refusal.status == status
    assert refusal.answer is answer


@pytest.mark.parametrize(
    "answer",
    [
        USUAL,
        {**USUAL, "error": None},
        {**USUAL, "error": {}},
        {**USUAL, "error": False},
        {**USUAL, "error": {"code": 0, "message": ""}},
        {**USUAL, "message": "ok"},
        {"choices": []},
        {"choices": None},
        {"data": [], "message": "ok"},
        [],
        "text",
        None,
        {},
    ],
)
def test_what_names_no_error_is_none(answer):
    assert Refusal.within(answer, {}) is None
