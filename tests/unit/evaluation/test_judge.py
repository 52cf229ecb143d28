"""A second LLM that scores answers."""

import asyncio
import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from ease_lib import errors
from ease_lib.artifacts import contracts
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.judge import DEFAULT, Judge, Rubric, read_rubric
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from ease_lib.tasks.base import Exemplar
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.runs import check, run_stages

ROW = Exemplar(1, "Capital of {France}?", ("Paris", "paris"), fields=(("subject", "a </answer>"),))


def rubric(scale, content="{answer}"):
    return Rubric.of({"scale": scale, "messages": [{"role": "user", "content": content}]})


@pytest.mark.parametrize(
    ("scale", "verdict", "score"),
    [
        ([1, 5], "A fair answer.\n4", 0.75),
        ([1, 5], "It deserves 1 of 5 stars at first sight, but in the end\n5", 1),
        ([1, 5], "Score: 4/5", 0.75),
        ([1, 5], "3 out of 5", 0.5),
        ([0, 1], "0.25", 0.25),
        ([1, 5], "４／５", 0.75),
        ([1, 5], "**4**/5", 0.75),
        ([1, 5], "4/5.0", 0.75),
        ([1, 5], "۴", 0.75),
        ([1, 5], "4,5", 0.875),
        ([0, 100], "80%", 0.8),
        ([1, 5], "3-4", None),  # no single score
        ([1, 5], "Score: 4\n\nReason: it has 2 faults", 0.75),
        ([1, 5], "**Rating:** 4 (scale 1-5)", 0.75),
        ([1, 5], "4 on a scale of 1 to 5", 0.75),
        ([1, 5], "Score: 4 | Confidence: 90%", 0.75),
        ([1, 5], "The score is 4, not 5.", 0.75),
        ([0, 10], "70/100", None),
        ([0, 10], "It has 3/4 of the facts.\n8", 0.8),
        ([0, 1], "1/2", 0.5),
        (["wrong", "right"], "ＲＩ\u00adＧＨＴ", 1),
        (["falsch", "groß"], "GROSS", 1),
        ([0, 10], "1.5.2", None),
        ([0, 100], "**80**", 0.8),
        ([1, 5], "7", None),
        ([1, 5], "I cannot grade this.", None),
        ([1, 5], "", None),
        (["wrong", "right"], "Right.", 1),
        (["incorrect", "correct"], "It is incorrect", 0),
        (["wrong", "partly right", "right"], "Not wrong, but only partly right!", 0.5),
        (["nein", "ja"], "Jawohl", None),
        (["wrong", "right"], "This is not right.", 0),
        (["wrong", "right"], "The answer isn't quite right", 0),
        (["wrong", "right"], "It is not wrong, it is right", 1),
        (["wrong", "right"], "It is **not** right.", 0),
        (["wrong", "right"], 'This is not "right"', 0),
        (["wrong", "right"], "It is not entirely or even mostly right", 0),
        (["wrong", "right"], "It isn't *right*", 0),
        (["wrong", "right"], "It is not only right but elegant", 1),
        ([1, 5], "I give it 4 of 5", 0.75),
        (["wrong", "right"], "Not wrong", 1),
        (["wrong", "right"], "Whether or not it is short: right", 1),
        (["wrong", "partly right", "right"], "It is not right", None),
        (["falsch", "richtig"], "Das ist nicht ganz richtig", 0),
    ],
)
def test_the_verdict_is_the_last_step_of_the_scale_that_it_names(scale, verdict, score):
    assert rubric(scale).score(verdict) == (None if score is None else pytest.approx(score))


def test_the_judge_sees_task_expected_outputs_answer_and_columns_and_no_brace_of_theirs_is_a_field():
    shown = rubric([1, 5], "{subject}|{input}|{output}|{answer}|{{x}}").render(ROW, "{input}")
    assert json.loads(shown)[0]["content"] == "a </answer>|Capital of {France}?|Paris\nparis|{input}|{x}"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"messages": [{"role": "user", "content": "Grade this."}]}, "no field {answer}"),
        ({"messages": [{"role": "judge", "content": "{answer}"}]}, r"messages\[0\].role should be 'system', 'user'"),
        ({"messages": []}, "no field {answer}"),
        ({"messages": [{"content": "{answer}"}]}, r"messages\[0\].role is missing"),
        ({"messages": "{answer}"}, "messages should be a valid list"),
        ({"scale": [5, 1], "messages": DEFAULT["messages"]}, "the worst number comes first"),
        ({"scale": [1], "messages": DEFAULT["messages"]}, r"scale should have at least 2 items.*\[worst, best\]"),
        ({"scale": ["good", "Good"], "messages": DEFAULT["messages"]}, "different words"),
        ({"scale": [None, 5], "messages": DEFAULT["messages"]}, r"scale is \[None, 5\]; write \[worst, best\]"),
        ({"rubric": "x", "messages": DEFAULT["messages"]}, "field rubric is unknown"),
    ],
)
def test_a_rubric_that_cannot_grade_is_refused(document, message):
    with pytest.raises(DataError, match=message):
        Rubric.of(document)


def test_a_rubric_is_what_its_document_says(tmp_path):
    (tmp_path / "rubric.yaml").write_text(json.dumps({"scale": ["bad", "good"], "messages": DEFAULT["messages"]}))
    (tmp_path / "rubric.txt").write_text("Rate {answer} from 1 to 5\n")
    for name in ("", "rubric.yaml", "rubric.txt"):
        found = read_rubric(str(tmp_path / name) if name else "", Sources())
        assert Rubric.of(found.document) == found
    assert found.messages == (("user", "Rate {answer} from 1 to 5"),)


class Refusing:
    def __init__(self, error):
        self._error = error

    async def complete(self, prompt, account=""):
        raise self._error


def test_what_the_judge_refuses_is_missing_and_a_judge_that_is_away_stops_the_run():
    def verdict(error):
        return asyncio.run(Judge(Refusing(error), read_rubric("", Sources())).verdict(ROW, "Paris", ""))

    refused = verdict(errors.ContentRefused("by its filter"))
    assert refused.score is None
    assert refused.failure == "the judge: by its filter"
    with pytest.raises(errors.AuthenticationFailed):
        verdict(errors.AuthenticationFailed("no"))


# --- in a run ---------------------------------------------------------------------------------------------------------

RUN = {
    "task": "table",
    "input_columns": "question",
    "output_column": "answer",
    "metric": "judge",
    "pool_size": 12,
    "validation_size": 8,
    "test_size": 10,
    "method": "best_of_n",
    "budget": 4,
    "k": 2,
    "llm_model": MODEL,
    "judge_model": MODEL,
    "evaluation_rows": 0,
}


def graded(prompt):
    """5 for a greeting, whatever its words."""
    answer = prompt.partition("<answer>\n")[2].partition("\n</answer>")[0]
    return "2 + 2 is 4.\n5" if answer == "4" else f"It says {answer!r}.\n{5 if 'hello' in answer.lower() else 1}"


def said(prompt):
    """`hello` in other words where the number is even, something else where it is odd; 7 as it stands."""
    found = re.findall(r"question (\d+)", prompt)
    number = int(found[-1]) if found else 0  # the trial question has none
    return "Hello there" if number % 2 == 0 else "hello" if number == 7 else "Goodbye"


@contextmanager
def llm_and_judge(tmp_path, judge=graded, **values):
    rows = [{"question": f"question {number} ?", "answer": "hello"} for number in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with faulty_endpoint(said) as llm, faulty_endpoint(judge) as judging:
        urls = {"llm_base_url": llm.base_url, "judge_base_url": judging.base_url}
        files = {"task_uri": str(tmp_path / "rows.jsonl"), "store_uri": str(tmp_path / "store")}
        yield llm, judging, parse_parameters({**RUN, **urls, **files, **values})


def ran(at, parameters):
    run_stages(at, parameters, *modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"))
    return read_document(Path(at.numbers), contracts.REPORT)


def test_a_judge_scores_search_and_test_and_is_counted_paid_and_kept(tmp_path):
    prices = {"llm_prompt_usd": 1, "llm_completion_usd": 2, "judge_prompt_usd": 10, "judge_completion_usd": 20}
    with llm_and_judge(tmp_path, **prices) as (llm, judging, parameters):
        report = ran(Workspace(tmp_path / "run"), parameters)
        asked = llm.script.requests, judging.script.requests
        again = ran(Workspace(tmp_path / "again"), parameters)
        assert (llm.script.requests, judging.script.requests) == asked
    tested = [
        row for row in read_table(tmp_path / "run" / "evaluate" / "predictions", contracts.PREDICTIONS).to_pylist()
    ]
    best = [row for row in tested if row["sequence"] == "best"]
    assert {row["score"] for row in best if row["prediction"] == "Hello there"} == {1.0}
    assert {row["score"] for row in best if row["prediction"] == "Goodbye"} == {0.0}
    counts = report["llm"]
    assert counts["requests"] == sum(asked)
    assert counts["judge_requests"] == asked[1] > 0
    cost = counts["prompt_tokens"] + 2 * counts["completion_tokens"]
    cost += 10 * counts["judge_prompt_tokens"] + 20 * counts["judge_completion_tokens"]
    assert counts["cost_usd"] == pytest.approx(cost / 1e6)
    assert again["best"] == report["best"]
    assert report["planned"]["requests"] >= counts["requests"]
    assert report["planned"]["judge_requests"] * 2 == report["planned"]["requests"]


def test_the_page_says_how_often_the_judge_agrees_with_the_expected_outputs(tmp_path):
    with llm_and_judge(tmp_path) as (_, _, parameters):
        report = ran(Workspace(tmp_path / "run"), parameters)
    judge, best = report["judge"], report["best"]
    right = round(best["test_score"] * best["test_rows"])
    equal = judge["rows"] - (judge["right_though_other"] + (judge["rows"] - right))
    assert judge["rows"] == 10
    assert judge["right_though_other"] == right - equal > 0
    assert judge["wrong_though_equal"] == 0
    assert judge["agreed"] == 10 - judge["right_though_other"]
    page = (tmp_path / "run" / "evaluate" / "page").read_text()
    assert f"it agrees with the expected output on {judge['agreed']} ({10 * judge['agreed']} %)" in page


def test_verdicts_that_cannot_be_read_are_missing_rows_up_to_the_coverage(tmp_path):
    asked = []

    def sometimes(prompt):
        asked.append(prompt)
        return "No comment." if "question 4 " in prompt else graded(prompt)

    with llm_and_judge(tmp_path, judge=sometimes, llm_coverage=0.8) as (_, _, parameters):
        ran(Workspace(tmp_path / "run"), parameters)
    tables = [(tmp_path / "run" / "evaluate" / "predictions", contracts.PREDICTIONS)]
    failed = [row for path, contract in tables for row in read_table(path, contract).to_pylist() if row["failure"]]
    assert all("gave no score on its scale" in row["failure"] and row["score"] is None for row in failed)
    with (
        llm_and_judge(tmp_path, judge=lambda prompt: "No comment.") as (_, _, parameters),
        pytest.raises(errors.TooManyFailures, match="the judge gave no score on its scale"),
    ):
        ran(Workspace(tmp_path / "other"), parameters)


def test_half_of_a_cap_on_requests_is_the_judges(tmp_path):
    with llm_and_judge(tmp_path, method="adaptive", budget=0, max_llm_requests=200) as (llm, judging, parameters):
        ran(Workspace(tmp_path / "run"), parameters)
        assert llm.script.requests + judging.script.requests <= 200
        assert llm.script.requests > 60


def test_another_rubric_is_another_search_and_equal_questions_to_the_judge_are_asked_once(tmp_path):
    (tmp_path / "rubric.txt").write_text("Be strict. 1 to 5: <answer>\n{answer}\n</answer>")
    with llm_and_judge(tmp_path) as (_, judging, parameters):
        ran(Workspace(tmp_path / "run"), parameters)
        assert judging.script.requests == 18  # a row each
    with llm_and_judge(tmp_path, judge_rubric=str(tmp_path / "rubric.txt")) as (_, judging, parameters):
        ran(Workspace(tmp_path / "again"), parameters)
        assert judging.script.requests == 3  # the rubric shows the answer alone, and there are three


def test_prerequisites_ask_the_judge_and_say_what_is_wrong_with_it(tmp_path):
    with llm_and_judge(tmp_path) as (_, judging, parameters):
        check(parameters)
        assert judging.script.requests == 1
    with (
        llm_and_judge(tmp_path, judge=lambda prompt: "Fine!") as (_, _, parameters),
        pytest.raises(ConfigError, match="gave no score on its scale; it ended with 'Fine!'; change judge_rubric"),
    ):
        check(parameters)
    with (
        llm_and_judge(tmp_path, judge_base_url="http://127.0.0.1:9/v1") as (_, _, parameters),
        pytest.raises(ConfigError, match="check judge_base_url"),
    ):
        check(parameters)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"metric": "judge"}, "metric=judge needs a judge, which local cannot be; set judge_base_url"),
        ({"metric": "judge", "judge_base_url": "https://u:p@host/v1"}, "put the key into EASE_JUDGE_API_KEY"),
        (
            {"judge_model": "small-1"},
            "judge_model has no effect because this run asks no judge",
        ),
        ({"judge_rubric": "a.txt"}, "judge_rubric has no effect because this run asks no judge"),
        (
            {"metric": "judge", "judge_base_url": "https://h/v1", "judge_extra": "[]"},
            "judge_extra is not a JSON object",
        ),
        (
            {"metric": "judge", "judge_base_url": "https://h/v1", "max_cost_usd": 1, "llm_prompt_usd": 1},
            "needs the judge's prices",
        ),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused_before_the_run(values, message):
    with pytest.raises(ConfigError, match=message):
        parse_parameters(values)


def test_the_llm_may_judge_itself_by_its_own_endpoint_and_key(tmp_path):
    def both(prompt):
        return graded(prompt) if "<answer>" in prompt else said(prompt)

    with faulty_endpoint(both) as server:
        parameters = parse_parameters(
            {"metric": "judge", "llm_base_url": server.base_url, "llm_model": MODEL, "store_uri": str(tmp_path)}
        )
        assert parameters.judge.endpoint(parameters.endpoint).llm_model == MODEL
