"""Requirements on answers: in the search, in the test, and in publishing."""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ease_lib.artifacts import contracts
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.requirement_terms import requirement_of, with_measures
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.own_metric import load_metric
from ease_lib.evaluation.requirement import load_requirement
from ease_lib.lineage.publishing.improvement import broken
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from pipelines.containers import with_absolute_paths
from tests.support.faulty_endpoint import MODEL, faulty_endpoint
from tests.support.runs import run_stages


def loaded(text, sha256=None):
    def load(name, digest, parameter):
        return load_metric(name, Sources(), sha256=digest, parameter=parameter)

    return load_requirement(text, load, sha256)


@pytest.mark.parametrize(
    ("requirement", "answer", "is_kept"),
    [
        ("characters<=5", " hello\n", True),
        ("characters<=5", "<think>at length</think>hello", True),
        ("characters<=5", "日本語日本", True),
        ("characters<=5", "hello!", False),
        ("characters>=1", "", False),
        ("words<=2", "two words", True),
        ("words <= 2", "now three words", False),
        ("lines<=1", "one\n\n", True),
        ("lines<=1", "one\ntwo", False),
        ("json>=1", '{"a": 1}', True),
        ("json>=1", 'Sure: {"a": 1}', False),
        ("json>=1", "[" * 100_000, False),
        ("json>=1", "9" * 5000, True),
        ("json>=1", "NaN", False),
        ("json>=1; characters<=3", "{}", True),
        ("json>=1; characters<=3", "[1, 2]", False),
        ("token_f1>=0.5", "yes it is", True),
        ("token_f1>=0.5", "no", False),
        ("exact_match<=0", "yes", False),
        ("edit_similarity>=0.666666666666667", "yez", True),
    ],
)
def test_an_answer_keeps_all_conditions_or_breaks_them(requirement, answer, is_kept):
    assert loaded(requirement).is_kept(answer, ["yes"]) == is_kept


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_is_required_by_default(text):
    assert loaded(text) is None


@pytest.mark.parametrize(
    ("text", "share"), [("words<=3", 1), ("words<=3 in 95%", 0.95), ("words<=3;json>=1 in 99.5 %", 0.995)]
)
def test_a_share_of_the_answers_may_be_named(text, share):
    assert requirement_of(text).share == pytest.approx(share)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"require": "short"}, "'short' is not a condition; write e.g. `characters<=200"),
        ({"require": "words=3"}, "'words=3' is not a condition"),
        ({"require": "words<=1.2.3"}, "'words<=1.2.3' is not a condition"),
        ({"require": "words<=-1"}, "is not a condition"),
        ({"require": "words<=3 in 0%"}, "is not understood"),
        ({"require": "words<=3 in 101%"}, "is not understood"),
        ({"require": "; in 5%"}, "is not understood"),
        ({"require": "lenght<=3"}, "lenght is not one of characters, words, lines, json, exact_match"),
        ({"require": "judge>=0.5"}, "require=judge>=0.5 needs a judge, which local cannot be; set judge_base_url"),
        (
            {"require": "judge>=0.5", "metric": "judge", "judge_base_url": "https://h/v1"},
            "both use the judge, which has only one rubric",
        ),
    ],
)
def test_what_is_no_requirement_is_refused_before_the_run(values, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_parameters(values)


def test_a_function_of_ones_own_is_a_measure_and_must_stay_as_it_was(tmp_path):
    file = tmp_path / "style.py"
    file.write_text("def polite(answer, outputs):\n    return float('please' in answer)\n")
    found = loaded(f"{file}:polite>=1")
    assert found.is_kept("yes, please", ["x"])
    assert not found.is_kept("yes", ["x"])
    digests = dict(found.sha256)
    file.write_text("def polite(answer, outputs):\n    return 1.0\n")
    with pytest.raises(ConfigError, match="changed since the data was made"):
        loaded(f"{file}:polite>=1", digests)


def test_containers_are_given_files_of_measures_by_their_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("style.py").write_text("def polite(answer, outputs):\n    return 1.0\n")
    parameters = parse_parameters({"require": "words<=9; style.py:polite>=1 in 90%", "metric": "style.py:polite"})
    (tmp_path / "work").mkdir()
    monkeypatch.chdir("work")
    above = parse_parameters({"require": "../style.py:polite>=1"})
    assert (
        with_absolute_paths(above).task.require == f"{tmp_path}/style.py:polite>=1"
    )  # no container has the folder work
    monkeypatch.chdir(tmp_path)
    moved = with_absolute_paths(parameters).task
    assert moved.require == f"words<=9; {tmp_path}/style.py:polite>=1 in 90%"
    assert moved.metric == f"{tmp_path}/style.py:polite"
    assert with_measures("words<=9 in 5%", {}) == "words<=9 in 5%"
    assert with_measures("a>=1.py:f >= 1; words<=9 in 5%", {"a>=1.py:f": "/b.py:f"}) == "/b.py:f>=1; words<=9 in 5%"


def test_a_measure_that_fails_is_named_as_what_it_is(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("def broken(answer, outputs):\n    raise KeyError('x')\n")
    with pytest.raises(DataError, match=re.escape(f"require={file}:broken failed on an answer: KeyError: 'x'")):
        loaded(f"{file}:broken>=1").is_kept("yes", ["yes"])


# --- in a run ---------------------------------------------------------------------------------------------------------

RUN = {
    "task": "table",
    "input_columns": "question",
    "output_column": "answer",
    "metric": "contains",
    "pool_size": 12,
    "validation_size": 8,
    "test_size": 10,
    "method": "best_of_n",
    "budget": 12,
    "k": 1,
    "llm_model": MODEL,
    "evaluation_rows": 0,
}


def said(prompt):
    """Right at any rate; short only behind an exemplar of an even number."""
    numbers = [int(number) for number in re.findall(r"question (\d+)", prompt)]
    return "hello" if len(numbers) > 1 and numbers[0] % 2 == 0 else "hello to you, and a long goodbye"


def graded(prompt):
    """Long answers are rude."""
    return "1" if "goodbye" in prompt else "5"


@contextmanager
def parameters_of(tmp_path, answer=said, **values):
    rows = [{"question": f"question {number} ?", "answer": "hello"} for number in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with faulty_endpoint(answer) as llm, faulty_endpoint(graded) as judging:
        places = {"llm_base_url": llm.base_url, "task_uri": str(tmp_path / "rows.jsonl")}
        if "judge" in values.get("require", ""):
            places |= {"judge_base_url": judging.base_url, "judge_model": MODEL}
        yield parse_parameters({**RUN, **places, "store_uri": str(tmp_path / "store"), **values})


def ran(at, parameters):
    run_stages(at, parameters, *modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"))
    return read_document(Path(at.numbers), contracts.REPORT)


@pytest.mark.parametrize("require", ["characters<=10", "judge>=0.75", "words<=1; judge>=0.75 in 90%"])
def test_the_search_keeps_away_from_prompts_whose_answers_break_it(tmp_path, require):
    with parameters_of(tmp_path, require=require) as parameters:
        report = ran(Workspace(tmp_path / "run"), parameters)
    best, kept = report["best"], report["requirement"]
    assert best["test_score"] == 1
    assert int(re.findall(r"\d+", best["exemplars"][0]["input"])[0]) % 2 == 0
    assert (kept["kept"], kept["rows"]) == (10, 10)
    assert 0.2 < kept["random_share"] < 0.8
    assert report["random"]["test_score"] == pytest.approx(kept["random_share"])
    assert bool(kept["judge"]) == ("judge" in require)
    assert report["judge"] == {}
    assert (report["llm"]["judge_requests"] > 0) == ("judge" in require)
    page = (tmp_path / "run" / "evaluate" / "page").read_text()
    assert "10 of the winner&#39;s 10 answers" in page or "10 of the winner's 10 answers" in page


def test_an_answer_that_breaks_a_condition_is_not_shown_to_the_judge_and_one_without_a_verdict_is_not_kept(tmp_path):
    """Neither is paid for in vain, nor can a verdict that cannot be read hide what was broken."""
    require = "characters<=10; judge>=0.75 in 10%"
    values = {"method": "zero_shot", "max_zero_answers": 0, "llm_coverage": 0.5}
    with parameters_of(tmp_path, require=require, **values) as parameters:
        report = ran(Workspace(tmp_path / "run"), parameters)
    assert report["requirement"]["kept"] == 0
    asked = report["llm"]["judge_requests"]
    tested = read_table(tmp_path / "run" / "evaluate" / "predictions", contracts.PREDICTIONS).to_pylist()
    assert asked == len({row["exemplar_id"] for row in tested if len(row["prediction"]) <= 10}) < len(tested)


def test_answers_that_break_it_score_nothing_and_are_marked(tmp_path):
    with parameters_of(tmp_path, require="characters<=10", method="zero_shot", max_zero_answers=0) as parameters:
        report = ran(Workspace(tmp_path / "run"), parameters)
    assert report["requirement"]["kept"] == 0
    assert report["best"]["test_score"] == 0
    rows = read_table(tmp_path / "run" / "evaluate" / "predictions", contracts.PREDICTIONS).to_pylist()
    assert {(row["score"], row["is_kept"]) for row in rows if row["sequence"] == "best"} == {(0.0, False)}
    assert "breaks the requirement" in (tmp_path / "run" / "evaluate" / "page").read_text()


def test_what_no_answer_keeps_ends_the_search_with_the_requirement_named(tmp_path):
    with (
        parameters_of(tmp_path, require="characters<=2", max_zero_answers=8) as parameters,
        pytest.raises(DataError, match=re.escape("the first 8 answers all violate require=characters<=2")),
    ):
        ran(Workspace(tmp_path / "run"), parameters)


def test_another_requirement_is_another_search_and_asks_nothing_anew(tmp_path):
    with parameters_of(tmp_path) as parameters:
        first = ran(Workspace(tmp_path / "first"), parameters)
        second = ran(
            Workspace(tmp_path / "second"), replace(parameters, task=replace(parameters.task, require="characters<=10"))
        )
    assert first["requirement"] == {}
    assert not second["resumed"]
    new = second["llm"]["new_requests"]
    assert new <= 10 + 30  # the test set of another winner and its random exemplars; the search's answers are kept


@pytest.mark.parametrize(
    ("kept", "rows", "share", "message"),
    [
        (100, 100, 1, ""),
        (99, 100, 1, "99 of 100 test answers keep require=words<=3; 100 or more must"),
        (95, 100, 0.95, ""),
        (94, 100, 0.95, "94 of 100 test answers keep require=words<=3; 95 or more must"),
        (0, 0, 0.5, "0 of 0 test answers keep require=words<=3; 1 or more must"),
    ],
)
def test_a_prompt_with_too_many_answers_that_break_it_is_not_published(kept, rows, share, message):
    assert broken({"text": "words<=3", "share": share, "rows": rows, "kept": kept}) == message
    assert broken({}) == ""
