"""Metrics of one's own."""

import hashlib

import pytest

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
    assert load_metric("exact_match") == (exact_match, "")


def test_a_function_of_a_file_and_of_an_installed_module(metric_file):
    path = metric_file(HALF)
    loaded = load_metric(f"{path}:score")
    assert loaded.score("a", ("a", "b")) == 0.5
    assert loaded.sha256 == hashlib.sha256(HALF.encode()).hexdigest()
    assert load_metric("ease_lib.evaluation.metrics:rouge_l").score("a", ["a"]) == 1


def test_a_file_that_changed_since_the_data_was_made_is_refused(metric_file):
    path = metric_file(HALF)
    sha256 = load_metric(f"{path}:score").sha256
    load_metric(f"{path}:score", sha256)
    metric_file(HALF + "\n")
    with pytest.raises(ConfigError, match="changed since the data was made"):
        load_metric(f"{path}:score", sha256)


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
        load_metric(f"{metric_file(source)}:score")


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
    loaded = load_metric(f"{metric_file(f'def score(answer, outputs): {body}')}:score")
    with pytest.raises(DataError, match=message):
        loaded.score("a", ["a"])


def test_a_name_that_is_no_metric_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match="metric=bleu is not one of auto, exact_match"):
        parse_parameters({"metric": "bleu"})
