import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from ease_lib import errors
from ease_lib.artifacts.store import open_store
from ease_lib.black_box.budget_ledger import Budget
from ease_lib.black_box.cache import CachingClient, open_cache
from ease_lib.black_box.client import Completion, OpenAIClient, Sampling
from ease_lib.black_box.concurrency import AdaptiveClient
from ease_lib.black_box.failures import FailurePolicy
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.meter import Meter, MeteredClient
from ease_lib.black_box.retries import RetryingClient
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import EndpointConfig
from ease_lib.errors import (
    AuthenticationFailed,
    BadRequest,
    CapReached,
    ContentRefused,
    ContextTooLong,
    DataError,
    Overloaded,
    TooManyFailures,
)
from ease_lib.evaluation import evaluator
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.objective import Objective, answer_sampling, estimated_usage
from ease_lib.notes import Notes
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar, row_hash
from tests.support.faulty_endpoint import MODEL, faulty_endpoint, status

ROWS = [Exemplar(number, f"query {number}", (str(number),)) for number in range(10)]
SEQUENCE = [Exemplar(100, "a", ("b",))]

ASKED = LLMIdentity(endpoint="e", model="m", api="chat", sampling=Sampling(max_tokens=8, stop="\n"))


def query_number(prompt):
    return re.findall(r"Input: query (\d+)\nOutput:$", prompt)[0]


@contextmanager
def objective_on(server, *, rows=ROWS, concurrency=4, cache_folder=None, **settings):
    client = OpenAIClient(
        base_url=server.base_url,
        model=MODEL,
        api="chat",
        key="",
        sampling=Sampling(max_tokens=8, stop="\n"),
        timeout_seconds=5.0,
        notes=Notes(),
    )
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        stack.callback(lambda: runner.run(client.close()))
        asking = AdaptiveClient(client, maximum=concurrency)
        if cache_folder:
            asking = CachingClient(
                asking, stack.enter_context(open_cache(open_store(str(cache_folder)))), ASKED, Notes()
            )
        yield Objective(Evaluator(asking, rows, metric=exact_match, **settings), runner)


def evaluate(server, **settings):
    with objective_on(server, **settings) as objective:
        rows = settings.get("rows", ROWS)
        return objective.evaluate(Question(exemplars=SEQUENCE, rows=range(len(rows)), whole=True))


def test_score_is_the_mean_over_rows_in_their_order():
    with faulty_endpoint(lambda prompt: query_number(prompt) if int(query_number(prompt)) < 3 else "wrong") as server:
        evaluation = evaluate(server)
    assert evaluation.score == pytest.approx(0.3)
    assert evaluation.scores == (1, 1, 1, 0, 0, 0, 0, 0, 0, 0)
    assert evaluation.usage.requests == server.script.requests == 10


def test_answers_that_fit_no_row_at_all_end_the_search_and_one_is_shown(caplog):
    with (
        faulty_endpoint(lambda prompt: "Sure! It is seven.") as server,
        caplog.at_level("INFO", logger="ease"),
        pytest.raises(DataError, match=r"the first 10 answers all score 0, .* set max_zero_answers=0 to go on"),
    ):
        evaluate(server, most_zeros=10, rows=ROWS * 4)
    (said,) = [message for message in caplog.messages if "all score 0" in message]
    assert said.startswith("one of 10 answers")
    assert "Input: query" in said
    assert "Sure! It is seven." in said


def test_where_answers_hold_what_is_expected_the_metric_that_finds_it_is_named():
    with (
        faulty_endpoint(lambda prompt: f"Sure! It is {query_number(prompt)}.") as server,
        pytest.raises(DataError, match=r"then change metric \(metric=label finds 10 of them right\), prompt"),
    ):
        evaluate(server, most_zeros=10)


@pytest.mark.parametrize(
    "answer",
    [
        lambda prompt: "3" if query_number(prompt) != "3" else "4",  # wrong, and right for another row
        lambda prompt: query_number(prompt) if query_number(prompt) == "5" else "Sure!",  # one is right
    ],
)
def test_wrong_answers_of_the_right_format_are_no_reason_to_stop(answer):
    with faulty_endpoint(answer) as server:
        assert evaluate(server, most_zeros=10).score < 0.2


def test_rows_with_exemplars_of_their_own_are_asked_with_them():
    own = {position: [Exemplar(200 + position, f"own {position}", ("b",))] for position in range(len(ROWS))}
    with faulty_endpoint(query_number) as server, objective_on(server) as objective:
        evaluation = objective.evaluate(Question(exemplars=[], own=own, rows=range(len(ROWS)), whole=True))
    assert evaluation.score == 1
    assert all(f"own {position}\n" in prompt for position, prompt in enumerate(evaluation.prompts))
    assert not any(f"own {position + 1}\n" in prompt for position, prompt in enumerate(evaluation.prompts))


def test_queries_run_concurrently_under_the_limit():
    with faulty_endpoint(query_number, latency_seconds=0.05) as server:
        evaluate(server, concurrency=4)
    assert server.script.most_running == 4


def test_a_failed_answer_is_no_score():
    with faulty_endpoint(query_number, status(401)) as server, pytest.raises(errors.AuthenticationFailed):
        evaluate(server)


def test_several_sequences_are_evaluated_at_once_and_come_as_they_are_done():
    def answer(prompt):
        if "slow" in prompt:
            time.sleep(0.1)
        return query_number(prompt)

    slow, quick = ([Exemplar(100, text, ("b",))] for text in ("slow", "quick"))
    with faulty_endpoint(answer) as server, objective_on(server, concurrency=20) as objective:
        objective.start(7, Question(exemplars=slow, rows=range(len(ROWS)), whole=True))
        objective.start(8, Question(exemplars=quick, rows=range(len(ROWS)), whole=True))
        done = [objective.wait(), objective.wait()]
    assert [(number, evaluation.score) for number, evaluation in done] == [(8, 1.0), (7, 1.0)]


def test_what_evaluations_have_cost_that_were_ended_is_known():
    """And answers come while something else is worked on."""
    held = threading.Event()

    def answer(prompt):
        if "query 9" in prompt and "slow" in prompt:
            held.wait(10)
        return query_number(prompt)

    quick, slow = ([Exemplar(100, text, ("b",))] for text in ("quick", "slow"))
    with faulty_endpoint(answer) as server, objective_on(server, concurrency=20) as objective:
        objective.start(0, Question(exemplars=quick, rows=range(len(ROWS)), whole=True))
        objective.start(1, Question(exemplars=slow, rows=range(len(ROWS)), whole=True))
        assert objective.wait()[0] == 0
        with ThreadPoolExecutor(1) as other:
            objective.beside(other.submit(wait_for, lambda: server.script.finished.total() == 19))
        given_up = objective.stop()
        held.set()
    assert given_up.requests == 9


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)  # from the server's socket to the client's


def test_the_requests_of_a_sequence_go_before_those_of_the_next():
    """So that an endpoint that keeps the prefix of its last prompt computes each prefix once."""
    seen = []

    def answer(prompt):
        seen.append("first" if "one" in prompt else "second")
        return query_number(prompt)

    with faulty_endpoint(answer) as server, objective_on(server, concurrency=1) as objective:
        for number, text in enumerate(("one", "two")):
            objective.start(
                number, Question(exemplars=[Exemplar(100, text, ("b",))], rows=range(len(ROWS)), whole=True)
            )
        objective.wait()
        objective.wait()
    assert seen == ["first"] * 10 + ["second"] * 10


def test_what_was_answered_beside_a_failure_is_paid_for_once(tmp_path):
    """The failure comes while nine others are in flight: they end, and the next attempt asks for that one only."""
    with faulty_endpoint(query_number, status(401), latency_seconds=0.1) as server:
        with pytest.raises(errors.AuthenticationFailed):
            evaluate(server, concurrency=10, cache_folder=tmp_path)
        assert evaluate(server, concurrency=10, cache_folder=tmp_path).usage.requests == 1
    assert set(server.script.finished.values()) == {1}


def test_a_permanent_failure_stops_the_queue():
    with faulty_endpoint(query_number, status(401)) as server, pytest.raises(errors.AuthenticationFailed):
        evaluate(server, concurrency=1)
    assert server.script.requests == 1


def test_the_row_that_was_refused_is_named_and_not_one_that_waited_behind_it():
    """Two evaluations run; the other one ends first, with nothing but rows that were not asked."""
    with faulty_endpoint(query_number, status(400)) as server, objective_on(server, concurrency=1) as objective:
        for number in range(2):
            objective.start(number, Question(exemplars=SEQUENCE[number:], rows=range(len(ROWS)), whole=True))
        with pytest.raises(errors.BadRequest, match=f"row {ROWS[0].exemplar_id}: "):
            objective.wait()
    assert server.script.requests == 1


def test_an_answer_that_an_earlier_attempt_paid_for_counts_as_asked(tmp_path):
    with faulty_endpoint(query_number) as server, objective_on(server, cache_folder=tmp_path) as objective:
        asked = [
            objective.evaluate(Question(exemplars=SEQUENCE, account=account, rows=range(len(ROWS)), whole=True)).usage
            for account in ("search/3", "search/3", "search/4")
        ]
    assert [(usage.requests, usage.cached) for usage in asked] == [(10, 0), (10, 0), (0, 10)]
    assert asked[0].prompt_tokens == asked[1].prompt_tokens > asked[2].prompt_tokens == 0
    assert server.script.requests == 10


def test_equal_queries_are_asked_once(tmp_path):
    rows = [Exemplar(number, "query 1", ("1",)) for number in range(5)]
    with faulty_endpoint(query_number, latency_seconds=0.05) as server:
        usage = evaluate(server, rows=rows, cache_folder=tmp_path).usage
    assert (usage.requests, usage.cached, server.script.requests) == (1, 4, 1)


@pytest.mark.parametrize(("prefix_tokens", "alone"), [(100, 1), (10_000, 0)])
def test_one_prompt_of_a_long_beginning_is_asked_before_the_others(monkeypatch, prefix_tokens, alone):
    monkeypatch.setattr(evaluator, "PREFIX_TOKENS", prefix_tokens)
    sequence = [Exemplar(100, "a" * 1000, ("b",))]
    with faulty_endpoint(query_number, latency_seconds=0.02) as server:
        running = []
        server.script.on_request = lambda prompt: running.append(server.script.running)
        with objective_on(server) as objective:
            objective.evaluate(Question(exemplars=sequence, rows=range(6)))
            assert sum(script == 0 for script in running[:2]) == 1 + alone
            begun = len(running)
            objective.evaluate(Question(exemplars=sequence, rows=range(6, 10)))
            assert server.script.most_running == 4
    assert len(running[begun:]) == 4  # its beginning is known now, so all of them go together


def test_the_estimate_is_near_what_is_counted():
    all_rows = estimated_usage(PromptTemplate(), [SEQUENCE], ROWS)
    four_rows = all_rows.share(0.4)
    assert (all_rows.requests, four_rows.requests) == (10, 4)
    assert 5 * 10 < all_rows.prompt_tokens < 15 * 10
    assert four_rows.prompt_tokens == pytest.approx(0.4 * all_rows.prompt_tokens, abs=1)
    assert four_rows.completion_tokens == pytest.approx(0.4 * all_rows.completion_tokens, abs=1)


# --- rows that the endpoint refuses -----------------------------------------------------------------------------------


class Refusing:
    """Answers yes to all rows but those that it refuses."""

    def __init__(self, *refused, error=ContentRefused):
        self.refused, self.error, self.asked = refused, error, []

    async def complete(self, prompt, account=""):
        query = prompt.rpartition("Input: ")[2].partition("\n")[0]
        self.asked.append(query)
        if query in self.refused:
            raise self.error(f"refused {query}")
        return Completion(text="yes", prompt_tokens=1, completion_tokens=1, model="m")


TEN_ROWS = [Exemplar(100 + number, f"row {number}", ("yes" if number < 8 else "no",)) for number in range(10)]


def evaluated(client, kind, coverage=0.5):
    with asyncio.Runner() as runner:
        policy = FailurePolicy(kind=kind, coverage=coverage)
        objective = Objective(Evaluator(client, TEN_ROWS, metric=exact_match, failures=policy), runner)
        return objective.evaluate(Question(exemplars=[], rows=range(len(ROWS)), whole=True))


def test_a_refused_row_stops_the_run_with_its_name_and_the_remedies(caplog):
    with caplog.at_level("INFO", "ease"), pytest.raises(ContentRefused) as caught:
        evaluated(Refusing("row 3"), "stop")
    message = str(caught.value)
    assert message.startswith("row 103: refused row 3")
    assert caplog.messages == ["row 103 begins 'row 3'"]
    assert f"--exclude-rows {row_hash('row 3')}" in message
    assert "Set llm_failures to skip or zero to continue" in message


@pytest.mark.parametrize("error", [ContentRefused, ContextTooLong, BadRequest])
def test_a_skipped_row_is_missing_and_counted(error):
    evaluation = evaluated(Refusing("row 3", error=error), "skip")
    assert evaluation.score == pytest.approx(7 / 9)
    assert (evaluation.scores[3], evaluation.answers[3], evaluation.failures[3]) == (None, "", "refused row 3")
    assert (evaluation.scored_rows, evaluation.failed_rows) == (9, 1)
    assert evaluation.usage.requests == 10


def test_a_row_may_count_as_wrong():
    evaluation = evaluated(Refusing("row 3"), "zero")
    assert evaluation.score == pytest.approx(7 / 10)
    assert (evaluation.scored_rows, evaluation.failed_rows) == (10, 1)


@pytest.mark.parametrize("kind", ["skip", "zero"])
def test_too_few_answers_are_no_score(kind):
    refusing = Refusing("row 1", "row 2", "row 3")
    assert evaluated(refusing, kind, coverage=0.7).failed_rows == 3
    with pytest.raises(TooManyFailures, match="3 of 10 rows were refused, but llm_coverage"):
        evaluated(refusing, kind, coverage=0.8)
    with pytest.raises(TooManyFailures, match="10 of 10 rows"):
        evaluated(Refusing(*(row.input for row in TEN_ROWS)), kind, coverage=0.0)


@pytest.mark.parametrize("kind", ["skip", "zero"])
def test_what_is_wrong_with_every_request_is_no_failure_of_a_row(kind):
    with pytest.raises(AuthenticationFailed):
        evaluated(Refusing("row 3", error=AuthenticationFailed), kind)


def test_no_more_is_sent_than_a_cap_allows_retries_included():
    class Flaky(Refusing):
        async def complete(self, prompt, account=""):
            self.asked.append(prompt)
            raise Overloaded("busy")

    async def ask():
        flaky = Flaky()
        meter = Meter(Budget(requests=50), spent=Usage(requests=40, retries=7))

        async def no_wait(seconds):
            pass

        with pytest.raises(CapReached, match="max_llm_requests=50 does not allow another request"):
            await RetryingClient(MeteredClient(flaky, meter), deadline_seconds=60, sleep=no_wait).complete("hi")
        return flaky.asked

    assert len(asyncio.run(ask())) == 3


def test_answers_of_several_lines_end_at_the_blank_line():
    def stop(output):
        return answer_sampling([Exemplar(0, "q", (output,))], EndpointConfig()).stop

    assert stop("first\nsecond") == "\n\n"
    assert stop("one line\n") == "\n"


def test_one_longer_row_in_the_pool_changes_no_request_of_a_chat():
    """The end of a raw completion is not sent, and limits are powers of two."""
    pool = [Exemplar(0, "q", ("word " * 40,)), Exemplar(1, "q", ("yes",))]
    longer = [*pool, Exemplar(2, "q", ("word\n" * 42,))]
    one, other = (replace(ASKED, sampling=answer_sampling(each, EndpointConfig())) for each in (pool, longer))
    assert one.sampling.stop != other.sampling.stop
    assert one.answer_key("prompt") == other.answer_key("prompt")
    assert replace(one, api="completions").answer_key("prompt") != replace(other, api="completions").answer_key(
        "prompt"
    )


def test_answers_may_be_twice_as_long_as_the_longest_output_unless_a_limit_is_set():
    pool = [Exemplar(0, "q", ("word " * 400,)), Exemplar(1, "q", ("yes",))]
    assert answer_sampling(pool, EndpointConfig()).max_tokens == 1024
    assert answer_sampling(pool[1:], EndpointConfig()).max_tokens == 64
    assert answer_sampling(pool, EndpointConfig(llm_max_tokens=8)).max_tokens == 8
