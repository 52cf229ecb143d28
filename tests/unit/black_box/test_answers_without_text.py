"""A 200 without text is paid for, is never an answer, and is a failure of its prompt when it comes twice."""

import pytest

from ease_lib import errors
from ease_lib.black_box.cache import kept_entries
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.in_process import OwnFunction
from ease_lib.config.sections import CapsConfig, EndpointConfig
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective
from ease_lib.running.run import Caller
from ease_lib.tasks.base import Exemplar
from tests.support.faulty_endpoint import MODEL, body, faulty_endpoint, message, status
from tests.support.runs import open_black_box

USED = {"prompt_tokens": 30, "completion_tokens": 500, "total_tokens": 530}
THOUGHT = {"reasoning_content": "Hm. Or is it 8?"}
EMPTY = {
    "null": message(usage=USED, content=None),
    "no content at all": message(usage=USED),
    "empty": message(usage=USED, content=""),
    "blank": message(usage=USED, content="\n"),
    "no parts": message(usage=USED, content=[]),
    "thinking alone, in a field": message(usage=USED, content=None, **THOUGHT),
    "thinking alone, in the content": message(usage=USED, content="<think>Hm. Or is it 8?</think>\n"),
    "thinking alone, in a part": message(usage=USED, content=[{"type": "thinking", "thinking": "Hm."}]),
}
SAMPLING = Sampling(max_tokens=8, stop="\n")
ROWS = [Exemplar(100 + number, f"row {number}", (str(number),)) for number in range(10)]
NO_CREDIT = "Your credit balance is too low to access the Anthropic API."


def asked_of(server, prompts=("hi",), *, store_uri="", **endpoint):
    """The answers of an endpoint behind all layers, one after the other."""
    config = EndpointConfig(llm_base_url=server.base_url, llm_model=MODEL, **endpoint)
    with open_black_box(config, sampling=SAMPLING, store_uri=store_uri) as black_box:
        return [black_box.loop.run(black_box.client.complete(prompt)) for prompt in prompts]


def evaluated(server, kind, *, coverage=0.8, **endpoint):
    config = EndpointConfig(
        llm_base_url=server.base_url, llm_model=MODEL, llm_failures=kind, llm_coverage=coverage, **endpoint
    )
    with open_black_box(config, sampling=SAMPLING) as black_box:
        evaluator = Evaluator(black_box.client, ROWS, metric=exact_match, failures=black_box.failures)
        objective = Objective(evaluator, black_box.loop)
        try:
            return objective.evaluate(Question(exemplars=[], rows=range(len(ROWS)), whole=True))
        except errors.EndpointError as error:
            error.usage = objective.stop()
            raise


def row_number(prompt):
    return prompt.rpartition("Input: row ")[2].partition("\n")[0]


@pytest.mark.parametrize("fault", EMPTY.values(), ids=EMPTY)
def test_the_second_empty_answer_to_a_prompt_is_a_failure_of_that_prompt(fault, tmp_path):
    """It was asked for 300 s, some 19 times, and ended the run as an endpoint that cannot be used."""
    with faulty_endpoint(lambda prompt: "fine", *[fault] * 30) as server:
        with pytest.raises(errors.EmptyAgain, match="returned an empty answer twice for the same prompt") as caught:
            asked_of(server, store_uri=str(tmp_path))
        assert server.script.requests == 2
    assert (caught.value.of_prompt, caught.value.time_may_cure) == (True, False)
    assert list(kept_entries(tmp_path / "responses.sqlite")) == [], "no answer, so nothing is kept"


def test_an_empty_answer_is_asked_for_once_more_and_both_are_paid():
    with faulty_endpoint(lambda prompt: "fine", EMPTY["null"]) as server:
        (answer,) = asked_of(server)
    assert (answer.text, answer.retries) == ("fine", 1)
    assert (answer.prompt_tokens, answer.completion_tokens) == (30 + 1, 500 + 1)


def test_a_busy_endpoint_between_two_empty_answers_does_not_make_them_three():
    with faulty_endpoint(lambda prompt: "fine", EMPTY["null"], status(503), *[EMPTY["null"]] * 9) as server:
        with pytest.raises(errors.EmptyAgain) as caught:
            asked_of(server)
        assert server.script.requests == 3
    assert (caught.value.retries, caught.value.completion_tokens) == (2, 1000)


def test_a_prompt_that_was_answered_in_between_is_asked_once_more_again():
    with faulty_endpoint(lambda prompt: "fine") as server:
        server.script.on_request = lambda prompt: (
            server.script.requests in (0, 2) and server.script.faults.append(EMPTY["null"])
        )
        assert [answer.retries for answer in asked_of(server, ["a", "a"])] == [1, 1]


REFUSALS = {
    "in a field": message(usage=USED, content=None, refusal="I cannot help with Ann Smith."),
    "in a part": message(usage=USED, content=[{"type": "refusal", "refusal": "I cannot help with Ann Smith."}]),
    "by a filter": message("content_filter", usage=USED, content="I"),
    "by a filter, without text": message("content_filter", usage=USED, content=None),
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_in_an_answer_is_a_refusal_of_that_row(fault):
    def refusing(server):
        server.script.on_request = lambda prompt: row_number(prompt) == "3" and server.script.faults.append(fault)
        return server

    with faulty_endpoint(row_number) as server:
        evaluation = evaluated(refusing(server), "skip", llm_concurrency=1)
        assert server.script.requests == 10
    assert (evaluation.score, evaluation.failed_rows, evaluation.scores[3]) == (1.0, 1, None)
    assert "refused" in evaluation.failures[3]
    assert "Ann" not in evaluation.failures[3]
    assert evaluation.usage.requests == 10
    assert evaluation.usage.completion_tokens == 9 + 500
    with faulty_endpoint(row_number) as server, pytest.raises(errors.ContentRefused, match=r"row 103: .* refused"):
        evaluated(refusing(server), "stop", llm_concurrency=1)


@pytest.mark.parametrize(("kind", "score"), [("skip", 1.0), ("zero", 0.9)])
def test_a_row_that_stays_empty_goes_the_way_of_one_that_is_refused(kind, score):
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            row_number(prompt) == "3" and server.script.faults.append(EMPTY["thinking alone, in a field"])
        )
        evaluation = evaluated(server, kind, llm_concurrency=1)
        assert server.script.requests == 11
    assert (evaluation.score, evaluation.failed_rows) == (score, 1)
    usage = evaluation.usage
    assert (usage.requests, usage.retries, usage.completion_tokens) == (10, 1, 9 + 2 * 500)


def test_what_rows_have_cost_that_ended_a_run_is_counted():
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            row_number(prompt) == "3" and server.script.faults.append(EMPTY["null"])
        )
        with pytest.raises(errors.EmptyAgain, match=r"row 103: .* Set llm_failures to skip or zero") as caught:
            evaluated(server, "stop", llm_concurrency=1)
    assert caught.value.usage.completion_tokens >= 3 + 2 * 500


def test_an_endpoint_that_never_says_anything_is_no_score():
    with faulty_endpoint(row_number, *[EMPTY["null"]] * 100) as server:
        with pytest.raises(errors.TooManyFailures, match="10 of 10 rows were refused"):
            evaluated(server, "skip")
        assert server.script.requests == 20


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}], "fine"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "7"}], "7"),
        ([{"type": "text", "text": "<think>Or 8?</think>7"}], "7"),
    ],
)
def test_parts_of_text_are_read(content, text):
    with faulty_endpoint(lambda prompt: "never", message(content=content)) as server:
        assert [answer.text for answer in asked_of(server)] == [text]
        assert server.script.requests == 1


def test_tokens_are_estimated_with_what_was_thought_where_the_endpoint_does_not_count():
    said = b'{"choices": [{"message": {"content": "1234", "reasoning_content": "%s"}}]}' % (b"x" * 400)
    with faulty_endpoint(lambda prompt: "never", body(said)) as server:
        (answer,) = asked_of(server)
    assert (answer.text, answer.completion_tokens) == ("1234", 101)


def test_what_was_thought_counts_also_where_it_stands_in_the_total_alone():
    grok = {
        "prompt_tokens": 30,
        "completion_tokens": 9,
        "total_tokens": 239,
        "completion_tokens_details": {"reasoning_tokens": 200},
    }
    with faulty_endpoint(lambda prompt: "never", message(usage=grok, content="7")) as server:
        (answer,) = asked_of(server)
    assert (answer.prompt_tokens, answer.completion_tokens) == (30, 209)


def test_empty_answers_use_up_the_cap_on_cost_and_the_tokens_of_lineage():
    with faulty_endpoint(lambda prompt: "fine", EMPTY["null"], *[REFUSALS["in a field"]] * 5) as server:
        config = EndpointConfig(
            llm_base_url=server.base_url, llm_model=MODEL, llm_failures="skip", llm_completion_usd=1000
        )
        with open_black_box(config, sampling=SAMPLING, caps=CapsConfig(max_cost_usd=1.2)) as black_box:
            with pytest.raises(errors.ContentRefused):
                black_box.loop.run(black_box.client.complete("a"))  # an empty one, then a refusal: 1 USD
            with pytest.raises(errors.ContentRefused):
                black_box.loop.run(black_box.client.complete("b"))
            with pytest.raises(errors.CapReached, match=r"max_cost_usd=1\.2"):
                black_box.loop.run(black_box.client.complete("c"))
        assert server.script.requests == 3


@pytest.mark.parametrize("kind", ["stop", "skip", "zero"])
@pytest.mark.parametrize("fault", [status(402, "Insufficient Balance"), status(400, NO_CREDIT)])
def test_no_credit_ends_the_run_and_scores_nothing(kind, fault):
    """Taken for a failure of one row, it was a score of 0 by `zero`, and passed over by `skip`."""
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: row_number(prompt) == "3" and server.script.faults.append(fault)
        with pytest.raises(errors.QuotaExhausted, match="add credit to the account"):
            evaluated(server, kind, llm_concurrency=1)
        assert server.script.requests == 4


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_request_that_is_refused_as_such_is_about_its_row(code):
    """The cause of other statuses follows from other prompts: `test_blame.py`."""
    with faulty_endpoint(row_number) as server:
        server.script.on_request = lambda prompt: (
            row_number(prompt) == "3" and server.script.faults.append(status(code))
        )
        assert evaluated(server, "skip").failed_rows == 1


@pytest.mark.parametrize("said", ["", "\n", "<think>Hm.</think>"])
def test_a_function_that_says_nothing_is_asked_once_more_too(said, tmp_path):
    """Code such as `choices[0].message.content or ""` returns this for a model that refuses."""
    asked = []

    def llm(messages):
        asked.append(messages)
        return said

    caller = Caller(llm=OwnFunction("mine", llm))
    config = EndpointConfig(llm_base_url="function")
    with (
        open_black_box(config, sampling=SAMPLING, store_uri=str(tmp_path), caller=caller) as black_box,
        pytest.raises(errors.EmptyAgain, match="mine returned an empty answer twice for the same prompt"),
    ):
        black_box.loop.run(black_box.client.complete("hi"))
    assert len(asked) == 2
    assert list(kept_entries(tmp_path / "responses.sqlite")) == []


@pytest.mark.parametrize("text", ["<think>Hm.", "<think>Hm.</think>"])
def test_a_raw_completion_that_only_thinks_is_no_answer_either(text):
    with faulty_endpoint(lambda prompt: text) as server:
        with pytest.raises(errors.EmptyAgain):
            asked_of(server, llm_api="completions")
        server.script.answer = lambda prompt: ""
        assert asked_of(server, llm_api="completions")[0].text == "", "nothing, on purpose"
