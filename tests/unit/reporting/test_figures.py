"""Scores that others published, beside ours."""

import pytest

from ease_lib.errors import ConfigError
from ease_lib.reporting.comparison_results import render_comparison_page, render_markdown
from ease_lib.reporting.figures import Figures
from tests.unit.reporting.test_comparison_page import cell, cells

HEAD = "task,method,score,noise_ratio\n"


@pytest.fixture
def figures(tmp_path):
    def read(text, name="table-1.csv", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return Figures.read(str(tmp_path / name))

    return read


def test_published_scores_stand_beside_ours_and_what_fits_no_cell_is_named(figures):
    published = figures(HEAD + "lr,a,0.733,\nlr,b,0.5,0.1\nlr,b,0.4,0.3\nsum,<a>,1,\n")
    found = cells(a=[0.6, 0.8], b=[0.5, 0.5])
    for text, lower in ((render_markdown(found, published), "<"), (render_comparison_page(found, published), "&lt;")):
        test, validation = text.split("Validation score of the winner" if lower != "<" else "**Methods over")[:2]
        assert "0.700 ± 0.100 [0.733]" in test
        assert "[0.500]" in test
        assert "[" not in validation.split("Score against answers")[0].replace("[Copy", "")
        assert "In brackets: what was published, as table-1.csv says." in test
        assert "2 of its scores belong to no cell here, such as that of b on lr" in test
    assert "In brackets" not in render_markdown(found)


def test_a_cell_that_failed_has_the_published_score_alone(figures):
    failed = {"task": "lr", "noise_ratio": 0.1, "endpoint": "simulated", "method": "b", "repeat": 0, "failure": "x"}
    found = [cell("a", 0, 0.5), cell("b", 0, 0.5, task="sum"), failed]
    assert "– [0.400]" in render_markdown(found, figures("task,method,score\nlr,b,0.4\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column task; give task, method, score"),
        ("task,method\nlr,a\n", "has no column score"),
        (HEAD + "lr,a,73.3,\n", "line 2: score=73.3 is no number from 0 to 1; write 73.3 % as 0.733"),
        (HEAD + "lr,a,,\n", r"line 2: score=\(empty\) is no number"),
        (HEAD + "lr,a,nan,\n", "score=nan is no number"),
        (HEAD + "lr,a\n", r"score=\(empty\)"),
        (HEAD + "lr,a,0.5,ten\n", "noise_ratio=ten is no number"),
        (HEAD + "lr,a,0.5,\nlr,a,0.6,\n", "line 3: lr, a stands there twice; give noise_ratio too, or remove one"),
    ],
)
def test_a_file_that_holds_no_scores_is_refused_with_its_line(figures, text, message):
    with pytest.raises(ConfigError, match=message):
        figures(text)


def test_a_file_of_a_spreadsheet_and_none_at_all(figures, tmp_path):
    assert figures(HEAD + "lr , a,0.5,\n", encoding="utf-8-sig").of("lr", 0.3, "a") == 0.5
    with pytest.raises(ConfigError, match="cannot be read"):
        Figures.read(str(tmp_path / "absent.csv"))
    with pytest.raises(ConfigError, match="cannot be read"):
        figures(HEAD + "ü,a,0.5,\n", encoding="latin-1")
