"""Models that know the task beforehand: exactly as much as their names say, whatever the exemplars."""

import asyncio
import threading

import pytest

from ease_lib.black_box.client import Sampling
from ease_lib.black_box.opening import open_black_box
from ease_lib.black_box.served_models import list_models
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ModelNotFound
from ease_lib.evaluation.prompt import PromptTemplate
from ease_lib.simulation import in_context_learner
from ease_lib.simulation.models import KNOWLEDGE, MODEL, MODELS
from ease_lib.simulation.prior_knowledge import prior_answer
from ease_lib.tasks.base import Exemplar
from ease_lib.tasks.linear_rule import linear_rule
from ease_lib.tasks.pig_latin import pig_latin_variant
from ease_lib.testing.openai_routes import OpenAIRoutesServer

MISLEADING = [Exemplar(0, "3", ("wrong",)), Exemplar(1, "4", ("worse",))]


def render_prompt(exemplars, query, instruction=""):
    return PromptTemplate().render(exemplars, Exemplar(-1, query, ("",)), instruction)


def prompt(query, exemplars=MISLEADING):
    return render_prompt(exemplars, query)


@pytest.mark.parametrize("source", [linear_rule(rows=300, seed=1), pig_latin_variant(rows=300, seed=1)])
def test_all_is_known_of_the_tasks_given(source):
    assert all(MODELS["simulated-knowledge-100"](prompt(row.input)) == row.outputs[0] for row in source.rows)


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


def test_the_first_model_knows_nothing():
    assert MODELS[MODEL] is in_context_learner.answer
    assert next(iter(MODELS)) == MODEL


@pytest.mark.parametrize(("model", "knowledge"), KNOWLEDGE.items())
def test_a_model_knows_the_share_its_name_says_and_learns_the_rest(model, knowledge):
    known = 0
    for x in range(1000):
        answer = MODELS[model](prompt(str(x)))
        known += answer == str(6 - 4 * x)
        assert answer in (str(6 - 4 * x), in_context_learner.answer(prompt(str(x))))
    assert known / 1000 == pytest.approx(knowledge, abs=0.05)


def test_what_a_model_knows_does_not_depend_on_the_exemplars():
    model = MODELS["simulated-knowledge-50"]

    def known(exemplars):
        return [model(prompt(str(x), exemplars)) == str(6 - 4 * x) for x in range(200)]

    assert known(MISLEADING) == known(MISLEADING[::-1]) == known([])


def test_other_queries_are_answered_as_by_the_learner():
    exemplars = [Exemplar(0, "Great fit!", ("praise",)), Exemplar(1, "It broke.", ("complaint",))]
    assert MODELS["simulated-knowledge-100"](prompt("Great fit, thanks!", exemplars)) == "praise"


def test_a_server_lists_its_models_in_order():
    server = OpenAIRoutesServer({"one": lambda prompt: "1", "two": lambda prompt: "2"})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert asyncio.run(list_models(server.base_url, "", timeout_seconds=5.0, deadline_seconds=0.0)) == [
            "one",
            "two",
        ]
    finally:
        server.shutdown()
        server.server_close()


def endpoint(model):
    return parse_parameters({"llm_base_url": "simulated", "llm_model": model}).endpoint


def test_an_endpoint_of_ours_is_asked_for_its_first_model_or_the_one_named():
    for model, taken in (("", MODEL), ("simulated-knowledge-75", "simulated-knowledge-75")):
        with open_black_box(endpoint(model), sampling=Sampling(max_tokens=8, stop="\n"), store_uri="") as black_box:
            assert black_box.model == taken
            completion = black_box.runner.run(black_box.client.complete(prompt("1")))
            assert completion.text == MODELS[taken](prompt("1"))


def test_an_unknown_model_of_ours_is_answered_with_those_there_are():
    with (
        pytest.raises(
            ModelNotFound, match=f"llm_model=gpt is not served by simulated; set one of {MODEL}, simulated-know"
        ),
        open_black_box(endpoint("gpt"), sampling=Sampling(max_tokens=8, stop="\n"), store_uri=""),
    ):
        pass
