import asyncio
import re

import pytest

from ease_lib import errors
from ease_lib.evaluation.llm_client import OpenAIClient
from ease_lib.evaluation.objective import Objective, Usage
from ease_lib.tasks.base import Exemplar
from ease_lib.testing.faulty_endpoint import MODEL, faulty_endpoint, status

ROWS = [Exemplar(number, f"query {number}", (str(number),)) for number in range(10)]
SEQUENCE = [Exemplar(100, "a", ("b",))]


def query_number(prompt):
    return re.findall(r"Input: query (\d+)\nOutput:$", prompt)[0]


def evaluate(server, ask_first_alone=False, concurrency=4):
    client = OpenAIClient(
        base_url=server.base_url,
        model=MODEL,
        api="chat",
        key="",
        max_tokens=8,
        timeout_seconds=5.0,
        stop="\n",
        concurrency=concurrency,
    )
    with asyncio.Runner() as runner:
        objective = Objective(client, runner, ROWS, metric="exact_match", ask_first_alone=ask_first_alone)
        try:
            return objective.evaluate(SEQUENCE)
        finally:
            runner.run(client.close())


def test_score_is_the_mean_over_rows_in_their_order():
    with faulty_endpoint(lambda prompt: query_number(prompt) if int(query_number(prompt)) < 3 else "wrong") as server:
        evaluation = evaluate(server)
    assert evaluation.score == pytest.approx(0.3)
    assert evaluation.scores == (1, 1, 1, 0, 0, 0, 0, 0, 0, 0)
    assert evaluation.usage.requests == server.script.requests == 10


def test_queries_run_concurrently_under_the_limit():
    with faulty_endpoint(query_number, latency_seconds=0.05) as server:
        evaluate(server, concurrency=4)
    assert server.script.most_running == 4


def test_first_query_is_asked_alone_for_prompt_caches():
    running = []

    def answer(prompt):
        running.append((query_number(prompt), server.script.running))
        return query_number(prompt)

    with faulty_endpoint(answer, latency_seconds=0.05) as server:
        evaluate(server, ask_first_alone=True)
    assert running[0] == ("0", 1)
    assert max(count for _, count in running) > 1


def test_a_failed_answer_is_no_score():
    with faulty_endpoint(query_number, status(401)) as server, pytest.raises(errors.AuthenticationFailed):
        evaluate(server)


def test_costs_add_up_and_have_a_price():
    usage = Usage(prompt_tokens=2_000_000, requests=1) + Usage(completion_tokens=500_000, requests=2)
    assert usage.requests == 3
    assert usage.cost_usd(prompt_usd=0.5, completion_usd=2.0) == pytest.approx(2.0)
