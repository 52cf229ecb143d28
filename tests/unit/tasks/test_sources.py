"""The paper's own tasks and the shipped one."""

import json
import re

import pytest

from ease_lib.errors import ConfigError
from ease_lib.tasks.base import Row, TaskSource, row_hash
from ease_lib.tasks.catalog import customer_feedback, without_rows
from ease_lib.tasks.generated import linear_rule, pig_latin_variant, translate
from tests.simulation.prior_knowledge import VOCABULARY


def test_linear_rule_and_its_noise():
    source = linear_rule(rows=220, seed=0)
    assert len({row.input for row in source.rows}) == 220
    assert all(row.outputs == (str(-4 * int(row.input) + 6),) for row in source.rows)
    assert source.noise_rule("10") == "42"


def test_linear_noise_is_wrong_for_every_input():
    source = linear_rule(rows=500, seed=0)
    assert all(source.noise_rule(row.input) not in row.outputs for row in source.rows)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Tom never walks to school.", "Omtay evernay alksway otay oolschay."),
        ("I think that you know.", "Iay inkthay atthay ouyay owknay."),
        ("Tom is not a morning person.", "Omtay isay otnay ay orningmay ersonpay."),
        ("Yes, OK? A type.", "Esyay, Okay? Aay etypay."),
    ],
)
def test_pig_latin_as_in_the_published_data(sentence, expected):
    assert translate(sentence) == expected


def test_pig_latin_equals_the_published_translations(real_data):
    for split in ("induce", "valid", "execute"):
        path = real_data / "instruction_induction" / split / "pig_latin_variant2_encode_0_noisy.json"
        examples = json.loads(path.read_text())["examples"].values()
        assert [translate(example["input"]) for example in examples] == [example["output"] for example in examples]


def test_the_sentences_are_as_long_and_nearly_as_varied_as_the_published_ones():
    """The published sentences have 7.2 words and 712 different ones in 300 rows."""
    rows = pig_latin_variant(rows=300, seed=0).rows
    words = [word for row in rows for word in re.findall("[a-z]+", row.input.lower())]
    assert 7 < len(words) / len(rows) < 8.5
    assert len(set(words)) > 600
    assert set(words) <= VOCABULARY


def test_pig_latin_sentences_are_distinct_and_the_noise_repeats_the_input():
    source = pig_latin_variant(rows=500, seed=1)
    assert len({row.input for row in source.rows}) == 500
    assert source.noise_rule("Tom sang quietly.") == "Tom sang quietly."
    assert all(row.outputs[0] != row.input for row in source.rows)


def test_more_sentences_than_the_grammar_has():
    with pytest.raises(ConfigError, match="lower pool_size"):
        pig_latin_variant(rows=10_000_000, seed=1)


def test_shipped_feedback_is_balanced_and_free_of_repetitions():
    rows = customer_feedback().rows
    labels = [row.outputs[0] for row in rows]
    assert len({row.input.lower() for row in rows}) == len(rows) == 230
    assert {label: labels.count(label) for label in set(labels)} == {"praise": 115, "complaint": 115}


def test_rows_are_left_out_of_every_split_by_their_hash():
    rows = [Row(text, ("a",)) for text in ("one", "two", "  one\n", "three")]
    source = TaskSource(name="t", metric="exact_match", rows=rows, validation=rows[:2], test=None)
    left = without_rows(source, f"{row_hash('one')}, {row_hash('absent')}")
    assert [row.input for row in left.rows] == ["two", "three"]
    assert [row.input for row in left.validation] == ["two"]
    assert left.test is None
    assert left.notices == (f"exclude_rows: no row that was read has {row_hash('absent')[:12]}…",)
    assert without_rows(source, row_hash("one")).notices == ()
    assert without_rows(source, "") is source
    with pytest.raises(ConfigError, match="exclude_rows=one is not the SHA-256"):
        without_rows(source, "one")


@pytest.mark.parametrize("named", ["Été case", "E\u0301te\u0301 case", "été case", "Été\u200b case"])
def test_rows_are_left_out_however_their_text_is_written(named):
    written = ["Été case", "E\u0301te\u0301  case", "Été\u200b case", "Ｅ\u0301té CASE"]
    source = TaskSource(
        name="t",
        metric="exact_match",
        rows=[Row(text, ("a",)) for text in (*written, "other")],
        test=[Row("été case", ("a",))],
    )
    left = without_rows(source, row_hash(named))
    assert [row.input for row in left.rows] == ["other"]
    assert left.test == []
    assert left.notices == ()
