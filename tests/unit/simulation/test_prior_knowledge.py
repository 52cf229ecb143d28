"""Models that know the task beforehand: exactly as much as their names say, whatever the exemplars."""

import asyncio
import threading

import pytest

from ease_lib.black_box.client import Sampling
from ease_lib.black_box.served_models import list_models
from ease_lib.config.sections import EndpointConfig
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar
from ease_lib.tasks.generated import linear_rule, pig_latin_variant
from tests.simulation import in_context_learner
from tests.simulation.models import run_together
from tests.simulation.prior_knowledge import knowing_model, prior_answer
from tests.support.openai_routes import OpenAIRoutesServer
from tests.support.runs import open_black_box

MISLEADING = [Exemplar(0, "3", ("wrong",)), Exemplar(1, "4", ("worse",))]


def render_prompt(exemplars, query, instruction=""):
    return PromptTemplate().render(exemplars, Exemplar(-1, query, ("",)), instruction)


def prompt(query, exemplars=MISLEADING):
    return render_prompt(exemplars, query)


@pytest.mark.parametrize("source", [linear_rule(rows=300, seed=1), pig_latin_variant(rows=300, seed=1)])
def test_all_is_known_of_the_tasks_given(source):
    assert all(knowing_model(1.0)(prompt(row.input)) == row.outputs[0] for row in source.rows)


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("-2", "14"),
        ("\u22122", "14"),
        ("2.5", "-4"),
        ("1000000", "-3999994"),
        ("walks to school.", "alksway otay oolschay."),
        ("Tom", "Omtay"),
        ("Walks to school.", None),
        ("Fits perfectly, love it.", None),
        ("List: b a", None),
        ("3 4", None),
        ("", None),
    ],
)
def test_what_there_is_a_prior_for(query, known):
    assert prior_answer(query) == known


@pytest.mark.parametrize(
    ("model", "answer"), [("in_context_learner", in_context_learner.answer), ("knowing_75", knowing_model(0.75))]
)
def test_a_model_is_asked_as_a_function_that_the_endpoint_names(model, answer):
    config = EndpointConfig(llm_base_url=f"python:tests.simulation.models:{model}")
    with open_black_box(config, sampling=Sampling(max_tokens=8, stop="\n")) as black_box:
        assert (black_box.asked.model, black_box.is_function) == (model, True)
        assert black_box.loop.run(black_box.client.complete(prompt("1"))).text == answer(prompt("1"))


def test_messages_are_read_as_one_text_by_the_learner():
    turns = [("user", "Input: Great fit!\nOutput:"), ("assistant", "praise"), ("user", "Input: Great fit\nOutput:")]
    messages = [{"role": role, "content": content} for role, content in turns]
    assert run_together(messages) == "Input: Great fit!\nOutput: praise\n\nInput: Great fit\nOutput:"


@pytest.mark.parametrize("knowledge", [0.25, 0.5, 0.75, 1.0])
def test_a_model_knows_the_share_its_name_says_and_learns_the_rest(knowledge):
    known = 0
    for x in range(1000):
        answer = knowing_model(knowledge)(prompt(str(x)))
        known += answer == str(6 - 4 * x)
        assert answer in (str(6 - 4 * x), in_context_learner.answer(prompt(str(x))))
    assert known / 1000 == pytest.approx(knowledge, abs=0.05)


def test_what_a_model_knows_does_not_depend_on_the_exemplars():
    model = knowing_model(0.5)

    def known(exemplars):
        return [model(prompt(str(x), exemplars)) == str(6 - 4 * x) for x in range(200)]

    assert known(MISLEADING) == known(MISLEADING[::-1]) == known([])


def test_other_queries_are_answered_as_by_the_learner():
    exemplars = [Exemplar(0, "Great fit!", ("praise",)), Exemplar(1, "It broke.", ("complaint",))]
    assert knowing_model(1.0)(prompt("Great fit, thanks!", exemplars)) == "praise"


def test_a_server_lists_its_models_in_order():
    server = OpenAIRoutesServer({"one": lambda prompt: "1", "two": lambda prompt: "2"})
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        assert asyncio.run(list_models(server.base_url, "", timeout_seconds=5.0, deadline_seconds=0.0)) == [
            "one",
            "two",
        ]
    finally:
        server.shutdown()
        server.server_close()
