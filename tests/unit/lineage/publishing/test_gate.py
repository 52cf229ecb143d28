import pytest

from ease_lib.lineage.publishing.gate import compared, first_refusal, fresh_rows
from ease_lib.lineage.publishing.versions import Latest
from ease_lib.tasks.base import Exemplar, row_hash


@pytest.mark.parametrize(("score", "is_refused"), [(0.2, True), (0.3, False), (0.4, False)])
def test_a_first_prompt_that_is_worse_than_random_exemplars_is_not_for_use(score, is_refused):
    refusal = first_refusal(
        {"best": {"test_score": score}, "random": {"test_score": 0.3}, "zero_shot": {}, "baseline": {}}
    )
    assert refusal == ("it scores 0.200 on the test set, below the 0.300 of random exemplars" if is_refused else "")


@pytest.mark.parametrize(("score", "is_refused"), [(0.2, True), (0.3, False), (0.4, False)])
def test_a_first_prompt_that_is_worse_than_no_exemplars_is_not_for_use(score, is_refused):
    refusal = first_refusal(
        {"best": {"test_score": score}, "random": {"test_score": None}, "zero_shot": {"score": 0.3}, "baseline": {}}
    )
    assert refusal == ("it scores 0.200 on the test set, below the 0.300 of no exemplars" if is_refused else "")


@pytest.mark.parametrize("beaten", [True, False])
def test_a_first_prompt_has_to_beat_the_baseline_beyond_luck(beaten):
    baseline = {"mean": 0.05, "p": 0.2, "evidence": beaten}
    report = {"best": {"test_score": 0.4}, "random": {"test_score": 0.3}, "zero_shot": {}, "baseline": baseline}
    refusal = "" if beaten else "the baseline is not beaten: +0.050 on the test set (p = 0.2)"
    assert first_refusal(report) == refusal


def latest(validation_rows=()):
    return Latest(
        content=b"", version="monday", manifest={"validation_rows": list(validation_rows)}, manifest_sha256=""
    )


def test_rows_that_either_prompt_was_chosen_by_are_not_fresh():
    test = [Exemplar(number, text, ("x",)) for number, text in enumerate("abcd")]
    shown, of_new = {"exemplars": [{"input": "a"}]}, {"exemplars": [{"input": "c"}]}
    assert fresh_rows(test, latest([row_hash("b")]), shown, of_new) == [3]


def test_a_row_that_one_of_them_was_refused_is_no_pair():
    refusal, measured = compared([1.0] * 20 + [None, 1.0], [0.0] * 20 + [1.0, None], latest())
    assert (refusal, measured["rows"], measured["score"], measured["latest_score"]) == ("", 20, 1.0, 0.0)


def test_a_prompt_that_is_no_better_beyond_luck_is_kept_back():
    refusal, _ = compared([1.0, 0.0] * 10, [0.0, 1.0] * 10, latest())
    assert refusal.startswith("monday is not beaten: +0.000 on 20 fresh rows (p = ")
