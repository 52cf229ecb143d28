"""The study of answers, by replay."""

import pytest

from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError
from tests.simulation.models import SIMULATED
from tests.studies import offline
from tests.studies.__main__ import main

pytestmark = pytest.mark.rooms("tests/studies", "tests/worlds", "ease_lib/search")
SMALL = {"llm_base_url": SIMULATED, "task": "customer_feedback", "pool_size": 20, "validation_size": 40}


@pytest.fixture(scope="module", autouse=True)
def _few_repetitions():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offline, "SEARCHES", 3)
        patch.setattr(offline, "SPLITS", 2)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return offline.answered(parse_parameters(SMALL), sequences=60, rows=40)


@pytest.fixture(scope="module")
def text(data):
    return offline.study_text(data)


def test_rows_to_learn_from_and_rows_to_judge_by_are_apart_and_have_the_same_classes(data):
    assert sorted(data.learning + data.judging) == list(range(40))
    outputs = data.problem.validation_outputs
    learnt, judged = ([outputs[row] for row in rows] for rows in (data.learning, data.judging))
    assert all(abs(learnt.count(label) - judged.count(label)) <= 1 for label in set(outputs))


def test_every_sequence_has_exemplars_and_is_another_one(data):
    assert len(set(data.sequences)) == len(data.sequences)
    assert all(data.sequences)


def test_the_text_has_all_tables(text):
    for head in ("What makes answers differ", "Rank correlation on unseen sequences", "Searches among these sequences"):
        assert f"## {head}" in text
    assert "| own |" in text
    assert "nan" not in text


def test_the_same_answers_give_the_same_text(data, text):
    assert offline.study_text(data) == text


def test_too_few_rows_are_named():
    with pytest.raises(ConfigError, match="10 validation rows are too few for a study"):
        offline.answered(parse_parameters(SMALL), sequences=5, rows=10)


def test_a_cap_is_kept(tmp_path):
    with pytest.raises(ConfigError, match=r"max_llm_requests=50 is fewer than the 240 of 12 sequences and 20 rows"):
        offline.answered(
            parse_parameters(
                {**SMALL, "max_llm_requests": 50, "test_size": 5, "budget": 1, "store_uri": str(tmp_path)}
            ),
            sequences=12,
            rows=20,
        )


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert main([*options, "--sequences=30", "--rows=24", "--output-dir", str(tmp_path)]) == 0
    text = (tmp_path / "study.md").read_text()
    assert text in capsys.readouterr().out
    assert "30 random sequences x 24 rows" in text
