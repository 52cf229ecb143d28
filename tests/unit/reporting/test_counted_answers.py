"""Counts of answers on the page."""

import pytest

from ease_lib.evaluation.metrics import LABEL, METRICS, label_metric
from ease_lib.reporting import counted_answers
from ease_lib.reporting.counted_answers import fields_of


def answers(*pairs, metric="exact_match"):
    score = label_metric({expected for expected, _ in pairs}) if metric == LABEL else METRICS[metric]
    return [
        {"outputs": [expected], "prediction": answer, "score": score(answer, [expected])} for expected, answer in pairs
    ]


def labels_of(rows, metric="exact_match"):
    return counted_answers.labels_of(rows, metric)


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


@pytest.mark.parametrize(
    ("metric", "one", "other"),
    [
        ("label", ("billing", "It is **billing**."), ("sales", "Sure! Sales")),
        ("contains", ("billing", "I would say billing, I think"), ("sales", "it is about sales")),
        ("number", ("1.0", "the class is 1"), ("2.0", "2")),
        ("option_letter", ("A", "The answer is (A)."), ("B", "b)")),
        ("token_f1", ("lost parcel", "parcel, lost"), ("refund", "Refund!")),
        ("exact_match", ("Été\u200b", "e\u0301te\u0301"), ("other", "Ｏther")),
        ("case_sensitive_match", ("US", "US"), ("us", "us")),
        ("regex", ("^a+$", "aaa"), ("^b+$", "bb")),
        ("contains", ("spam", "spam"), ("not spam", "it is not spam")),
        ("instruction_induction", ("it's", "its"), ("3", "3.5")),
    ],
)
def test_answers_that_the_metric_holds_right_give_a_macro_f1_of_one(metric, one, other):
    labels = labels_of(answers(*[one] * 5, *[other] * 5, metric=metric), metric)
    assert labels.macro_f1 == 1
    assert [sorted(row.counts) for row in labels.rows] == [[0, 5], [0, 5]]


def test_a_wrong_answer_counts_as_the_label_that_the_metric_finds_in_it():
    rows = answers(*[("billing", "**Sales**")] * 2, *[("sales", "Sales.")] * 4, *[("billing", "?")], metric="label")
    labels = labels_of(rows, "label")
    assert labels.columns == ["billing", "sales", "(other)"]
    assert [row.counts for row in labels.rows] == [[0, 2, 1], [0, 4, 0]]


def test_a_label_that_is_written_in_two_ways_is_one():
    rows = answers(*[("shipping", "shipping")] * 4, *[("Shipping\u200b", "shipping")] * 3, *[("bug", "bug")] * 4)
    assert [(row.name, row.counts) for row in labels_of(rows).rows] == [("bug", [4, 0]), ("shipping", [0, 7])]


def test_labels_that_differ_in_case_alone_are_two_where_case_counts():
    rows = answers(*[("US", "us")] * 4, *[("us", "us")] * 4, metric="case_sensitive_match")
    labels = labels_of(rows, "case_sensitive_match")
    assert [(row.name, row.counts) for row in labels.rows] == [("US", [0, 4]), ("us", [0, 4])]


def test_what_a_judge_or_an_own_function_holds_right_gave_the_label():
    rows = [{"outputs": [label], "prediction": "in other words", "score": 1.0} for label in "aabb"]
    assert labels_of(rows, "judge").macro_f1 == labels_of(rows, "metric.py:score").macro_f1 == 1
