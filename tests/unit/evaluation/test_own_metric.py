"""Custom metrics."""

import functools
import hashlib
import importlib.util
import linecache
from pathlib import Path

import pytest

from ease_lib.artifacts.functions import LoadedFunction, source_of
from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.metrics import exact_match
from ease_lib.evaluation.own_metric import load_metric

HALF = "def score(answer, outputs):\n    return 0.5 * (answer in outputs)\n"


@pytest.fixture
def metric_file(tmp_path):
    def written(source):
        (tmp_path / "metric.py").write_text(source, encoding="utf-8")
        return f"{tmp_path}/metric.py"

    return written


def test_a_metric_of_ours_by_its_name():
    assert load_metric("exact_match", Sources()) == (exact_match, "")


def test_a_function_of_a_file_and_of_an_installed_module(metric_file):
    path = metric_file(HALF)
    loaded = load_metric(f"{path}:score", Sources())
    assert loaded.score("a", ("a", "b")) == 0.5
    assert loaded.sha256 == hashlib.sha256(HALF.encode()).hexdigest()
    assert load_metric("ease_lib.evaluation.metrics:rouge_l", Sources()).score("a", ["a"]) == 1


def test_a_file_that_changed_since_the_data_was_made_is_refused(metric_file):
    path = metric_file(HALF)
    sha256 = load_metric(f"{path}:score", Sources()).sha256
    load_metric(f"{path}:score", Sources(), sha256=sha256)
    metric_file(HALF + "\n")
    with pytest.raises(ConfigError, match="changed since the data was made"):
        load_metric(f"{path}:score", Sources(), sha256=sha256)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def other(): pass", "has no function score"),
        ("import nothing_of_this_name", "cannot be loaded: ModuleNotFoundError"),
        ("def score(", "cannot be loaded: SyntaxError"),
    ],
)
def test_a_file_without_a_metric_says_so(metric_file, source, message):
    with pytest.raises(ConfigError, match=message):
        load_metric(f"{metric_file(source)}:score", Sources())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 2", "returned 2 for an answer; return a number from 0 to 1"),
        ("return float('nan')", "returned nan"),
        ("return 'good'", "failed on an answer: ValueError"),
        ("return outputs[7]", "failed on an answer: IndexError"),
    ],
)
def test_what_is_no_score_is_an_error_that_names_the_metric(metric_file, body, message):
    loaded = load_metric(f"{metric_file(f'def score(answer, outputs): {body}')}:score", Sources())
    with pytest.raises(DataError, match=message):
        loaded.score("a", ["a"])


def test_a_name_that_is_no_metric_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="metric=bleu is not one of auto, exact_match"):
        parse_parameters({"metric": "bleu"})


# --- a matrix of costs ------------------------------------------------------------------------------------------------

COSTS = "expected, Urgent, normal, *\nurgent, 0, 10, 5\n\nnormal, 1, 0, 5\n"


@pytest.mark.parametrize(
    ("answer", "output", "score"),
    [
        ("Urgent.", "urgent", 1),
        ("normal", "urgent", 0),
        ("normal", "Normal", 1),
        ("urgent", "normal", 0.9),
        ("whatever", "urgent", 0.5),
        ("", "normal", 0.5),
    ],
)
def test_an_answer_scores_by_what_it_costs(tmp_path, answer, output, score):
    (tmp_path / "costs.csv").write_text(COSTS)
    metric = load_metric(str(tmp_path / "costs.csv"), Sources())
    assert metric.score(answer, [output]) == pytest.approx(score)
    assert len(metric.sha256) == 64


def test_without_a_column_for_them_other_answers_cost_as_the_dearest(tmp_path):
    (tmp_path / "costs.csv").write_text("expected,a,b\na,0,4\nb,2,0\n")
    score = load_metric(str(tmp_path / "costs.csv"), Sources()).score
    assert (score("c", ["a"]), score("c", ["b"]), score("c", ["a", "b"])) == (0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a cost matrix"),
        ("expected,a\na,free\n", "is not a cost matrix"),
        ("expected,a,b\na,0\n", "is not a cost matrix"),
        ("expected,a\na,-1\n", "costs are numbers from 0 on"),
        ("expected,a,b\na,0,0\nb,0,0\n", "one of them is more"),
        ("expected,a,b\na,0,inf\n", "one of them is more"),
        ("expected,a,b\na,0,nan\n", "one of them is more"),
    ],
)
def test_what_is_no_matrix_of_costs_is_named(tmp_path, text, message):
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_metric(str(tmp_path / "costs.csv"), Sources())


def test_an_output_without_a_line_is_named_and_a_changed_file_too(tmp_path):
    (tmp_path / "costs.csv").write_text(COSTS)
    metric = load_metric(str(tmp_path / "costs.csv"), Sources())
    with pytest.raises(DataError, match="no line for the output 'late'"):
        metric.score("urgent", ["late"])
    (tmp_path / "costs.csv").write_text(COSTS.replace("10", "11"))
    with pytest.raises(ConfigError, match="changed since the data was made"):
        load_metric(str(tmp_path / "costs.csv"), Sources(), sha256=metric.sha256)


def test_a_file_may_hold_a_dataclass(metric_file):
    imports = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    path = metric_file(
        imports + "@dataclass\nclass Cost:\n    of: float = 0.5\ndef score(answer, outputs): return Cost().of"
    )
    assert load_metric(f"{path}:score", Sources()).score("a", ["b"]) == 0.5


def weighted(answer, outputs, weight=1.0):
    return weight * (answer in outputs)


class Scorer:
    def __call__(self, answer, outputs):
        return 0.5

    def score(self, answer, outputs):
        return 0.5


@pytest.mark.parametrize(
    "function",
    [
        weighted,
        lambda answer, outputs: 0.5,
        Scorer(),
        Scorer().score,
        functools.partial(weighted, weight=0.5),
        functools.wraps(weighted)(functools.partial(functools.partial(weighted), weight=0.5)),
    ],
)
def test_a_function_is_known_by_the_file_that_defines_it(function):
    given = LoadedFunction(function, source_of(function))
    file = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert load_metric("function:score", Sources(), own=given).sha256 == file


def test_a_function_whose_file_changed_is_another_metric(tmp_path):
    def digest(constant):
        (tmp_path / f"mine{constant}.py").write_text(f"def score(answer, outputs):\n    return {constant}\n")
        spec = importlib.util.spec_from_file_location("mine", tmp_path / f"mine{constant}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        given = LoadedFunction(module.score, source_of(module.score))
        return lambda sha256: load_metric("function:score", Sources(), own=given, sha256=sha256).sha256

    before = digest(0.5)("")
    assert digest(0.5)(before) == before
    with pytest.raises(ConfigError, match="changed since the data was made"):
        digest(0.25)(before)


def test_a_function_of_a_notebook_cell_is_known_by_the_cell():
    cell, name = "THRESHOLD = 0.5\ndef score(answer, outputs): return THRESHOLD\n", "<ipython-input-1>"
    names = {}
    linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
    exec(compile(cell, name, "exec"), names)
    assert source_of(names["score"]) == cell.encode()


def test_a_function_without_a_source_is_refused():
    names = {}
    exec("def score(answer, outputs): return 1", names)
    for function in (names["score"], max):
        with pytest.raises(ConfigError, match=r"has no source file .*define it with `def` in a file or a notebook"):
            source_of(function)


@pytest.mark.parametrize("as_module", [False, True])
def test_code_that_is_another_one_does_not_run(as_module, tmp_path, monkeypatch):
    (tmp_path / "inner_of_nobody").mkdir()
    (tmp_path / "inner_of_nobody" / "__init__.py").write_text("raise SystemExit('ran')")
    file = tmp_path / "inner_of_nobody" / "evil.py"
    file.write_text("raise SystemExit('ran')\ndef score(answer, outputs): return 1.0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="changed since the data was made"):
        load_metric("inner_of_nobody.evil:score" if as_module else f"{file}:score", Sources(), sha256="0" * 64)
