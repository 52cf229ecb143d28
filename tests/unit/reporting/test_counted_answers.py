"""What the page counts of answers."""

import pytest

from ease_lib.reporting.counted_answers import fields_of, labels_of


def answers(*pairs):
    return [{"outputs": [expected], "prediction": answer} for expected, answer in pairs]


def test_labels_are_counted_with_other_answers():
    labels = labels_of(answers(("a", "a"), ("a", "B."), ("b", "b"), ("b", "whatever"), ("b", "b")))
    assert labels.columns == ["a", "b", "(other)"]
    assert [(row.name, row.counts) for row in labels.rows] == [("a", [1, 1, 0]), ("b", [0, 2, 1])]
    assert [(row.precision, row.recall, row.f1) for row in labels.rows] == [
        (1, 0.5, pytest.approx(2 / 3)),
        (pytest.approx(2 / 3), pytest.approx(2 / 3), pytest.approx(2 / 3)),
    ]
    assert labels.macro_f1 == pytest.approx(2 / 3)


def test_a_label_that_is_never_answered_has_no_precision_and_no_f1():
    labels = labels_of(answers(*[("a", "a")] * 9, ("b", "a")))
    assert [(row.precision, row.f1) for row in labels.rows] == [(0.9, pytest.approx(18 / 19)), (None, 0)]


def test_texts_are_no_labels_and_one_label_is_no_choice():
    assert labels_of(answers(*[("a", "a")] * 9)) is None
    assert labels_of(answers(*[(str(n), "x") for n in range(5)])) is None


def test_fields_are_counted_over_all_answers():
    rows = answers(
        ('{"team": "a", "urgent": true}', '{"team": "a", "urgent": false}'),
        ('{"team": "b", "urgent": true}', 'Sure: {"urgent": true, "team": "b", "why": "x"}'),
        ('{"team": "b", "urgent": true}', "I do not know"),
    )
    assert sorted(fields_of(rows)) == [("team", 2, 3), ("urgent", 1, 3), ("why", 0, 1)]


def test_what_is_no_object_has_no_fields():
    assert fields_of(answers(("[1]", "[1]"))) == []
    assert fields_of(answers(("plain", "plain"))) == []


def test_json_is_read_field_by_field_and_not_as_labels():
    rows = answers(*[('{"team": "a"}', '{"team": "a"}')] * 5, *[('{"team": "b"}', '{"team": "a"}')] * 5)
    assert labels_of(rows) is None
    assert fields_of(rows) == [("team", 5, 10)]
