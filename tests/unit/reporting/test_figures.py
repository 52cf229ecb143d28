"""Scores that others published, beside ours."""

import json

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import ConfigError
from ease_lib.reporting.comparison_results import render_comparison_page, render_markdown
from ease_lib.reporting.figures import Figure, Figures
from tests.unit.reporting.test_comparison_page import cell, cells

HEAD = "task,method,score,noise_ratio\n"


@pytest.fixture
def figures(tmp_path):
    def read(text, name="table-1.csv", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return Figures.read(str(tmp_path / name))

    return read


def test_published_scores_stand_beside_ours_of_the_same_split_and_what_fits_no_cell_is_named(figures):
    published = figures(
        "task,method,score,noise_ratio,split,standard_error\n"
        "lr,a,0.733,,test,0.02\nlr,b,0.9,0.1,,0.01\nlr,a,0.45,,validation,\nlr,b,0.4,0.3,,\nsum,<a>,1,,,\n"
    )
    found = cells(a=[0.6, 0.8], b=[0.5, 0.5])
    for render, between in ((render_markdown, " "), (render_comparison_page, "\n")):
        text = render(found, published)
        test, _, validation = text.rpartition("Validation score of the winner")
        assert f"0.700 ± 0.100{between}[0.733 ± 0.020]" in test
        assert f"0.500 ± 0.000{between}≠ [0.900 ± 0.010]" in test, "further apart than luck allows"
        assert f"{between}[0.450]" in validation
        assert "[0.733" not in validation
        assert "In brackets: what was published (table-1.csv), with the LLM and the parameters used there. ≠" in test
        assert "2 of the test scores in table-1.csv belong to nothing here, such as that of b on lr at 30% no" in test
        assert "scores in table" not in validation
    assert "In brackets" not in render_markdown(found)


@pytest.mark.parametrize(
    ("ours", "error", "is_beyond"),
    [(0.6, 0.01, True), (0.6, 0.11, False), (0.75, 0.0, False), (0.74, 0.0, True), (0.2, None, False)],
)
def test_a_difference_is_marked_where_both_errors_are_known_and_it_is_larger_than_they_and_a_row_allow(
    ours, error, is_beyond
):
    assert Figure(score=0.8, error=0.0).is_beyond(ours, error) is is_beyond
    assert not Figure(score=0.8).is_beyond(ours, error)


def test_a_row_of_20_more_or_less_is_no_difference_nor_is_what_rounding_makes_of_it():
    for row in range(20):
        assert not Figure(score=row / 20, error=0.0).is_beyond((row + 1) / 20, 0.0)
    assert not Figure(score=0.817, error=0.017).is_beyond(23 / 30, 1 / 60)


def test_tables_of_the_paper_are_shipped():
    found = Figures.read("Tab. 2, Tab. 2 test")
    assert len(found.scores) == 480
    assert found.find("linear_4_0_noisy", 0.0, "ease", "validation") == Figure(score=0.8, error=0.029)
    assert found.find("linear_4_0_noisy", 0.5, "ease", "validation") is None, "the ratio is in the task's name"
    assert Figures.of(json.loads(json.dumps(found.document))) == found
    assert found.note([], "test").startswith("240 of the test scores in Tab. 2, Tab. 2 test of arXiv 2405.16122 belong")
    shown = [("linear_4_0_noisy", 0.0, "ease")]
    assert "belong" not in found.note(shown, "test"), "of tables one takes what one likes"
    with pytest.raises(
        ConfigError, match=r"figures=Tab\. 9 is neither a file\.csv nor a table of the paper; give, with com"
    ):
        Figures.read("Tab. 9")


def test_tables_that_differ_about_a_score_are_refused_together():
    with pytest.raises(ConfigError, match=r"has two scores of \w+ on linear_4_50_noisy: .*; leave one of"):
        Figures.read("Llama-3.1-8B-Instruct, Tab. 2")
    assert Figures.read("Tab. 2, components, AvgEmb"), "which agree"


def test_what_a_table_says_beside_scores_is_none():
    assert all(each.score <= 1 for each in Figures.read("range of k").scores.values())


def test_a_file_in_a_bucket(s3_prefix):
    open_store(s3_prefix).write("theirs.csv", b"task,method,score\nlr,a,0.5\n")
    assert Figures.read(f"{s3_prefix}/theirs.csv").find("lr", 0.1, "a", "test") == Figure(score=0.5)


def test_a_cell_that_failed_has_the_published_score_alone(figures):
    failed = {"task": "lr", "noise_ratio": 0.1, "endpoint": "simulated", "method": "b", "repeat": 0, "failure": "x"}
    found = [cell("a", 0, 0.5), cell("b", 0, 0.5, task="sum"), failed]
    shown = render_markdown(found, figures("task, method, score\nlr,b,0.4\n"))
    assert "– [0.400]" in shown
    assert "belongs to nothing" not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column task; give task, method, score"),
        ("task,method\nlr,a\n", "has no column score"),
        ("task;method;score\nlr;a;0.5\n", "has no column task; give task, method, score, with commas between them"),
        (HEAD, "holds no score"),
        (HEAD + "lr,a,73.3,\n", "line 2: score=73.3 is not a number from 0 to 1; write 73.3 % as 0.733"),
        (HEAD + "lr,a,,\n", r"line 2: score=\(empty\) is not a number"),
        (HEAD + "lr,a,nan,\n", "score=nan is not a number"),
        (HEAD + "lr,a\n", r"score=\(empty\)"),
        (HEAD + "lr,a,0.5,ten\n", "noise_ratio=ten is not a number"),
        ("task,method,score,split\nlr,a,0.5,dev\n", "line 2: split=dev is neither test nor validation"),
        ("task,method,score,standard_error\nlr,a,0.5,x\n", "line 2: standard_error=x is not a number"),
        (
            "task,method,score\nlr,a,0,733\n",
            "line 2 has more cells than the first line; quote cells that hold a comma, and",
        ),
        ("task,method,score,score\nlr,a,0.5,0.6\n", "has the column score twice"),
        ("task,method,score,std_error\nlr,a,0.5,0.1\n", "has a column std_error; did you mean standard_error?"),
        (HEAD + "lr,a,0.5,\nlr,a,0.6,\n", "line 3: lr, a is there twice; give noise_ratio too, or remove one"),
    ],
)
def test_a_file_that_holds_no_scores_is_refused_with_its_line(figures, text, message):
    with pytest.raises(ConfigError, match=message):
        figures(text)


def test_a_file_of_a_spreadsheet_and_none_at_all(figures, tmp_path):
    assert figures(HEAD + "lr , a,0.5,\n", encoding="utf-8-sig").find("lr", 0.3, "a", "test").score == 0.5
    with pytest.raises(ConfigError, match="cannot be read"):
        Figures.read(str(tmp_path / "absent.csv"))
    with pytest.raises(ConfigError, match="cannot be read"):
        figures(HEAD + "ü,a,0.5,\n", encoding="latin-1")
