import pytest

from ease_lib.lineage.publishing.improvement import compared, first_refusal, fresh_rows
from ease_lib.lineage.publishing.versions import Latest
from ease_lib.tasks.base import Exemplar, row_hash


def report(**gains):
    return {"baseline": {}, "gain": {}, "zero_shot": {}, **gains}


@pytest.mark.parametrize("beaten", [True, False])
@pytest.mark.parametrize(("rival", "named"), [("gain", "random exemplars are"), ("baseline", "the baseline is")])
def test_a_first_prompt_has_to_beat_random_exemplars_and_the_baseline_beyond_luck(rival, named, beaten):
    refusal = "" if beaten else f"{named} not beaten: +0.050 on the test set (p = 0.2)"
    assert first_refusal(report(**{rival: {"mean": 0.05, "p": 0.2, "evidence": beaten}})) == refusal


@pytest.mark.parametrize(
    ("mean", "refused"), [(-0.1, "it scores 0.100 less than no exemplars on the test set"), (0.0, "")]
)
def test_a_first_prompt_that_is_worse_than_no_exemplars_is_not_for_use(mean, refused):
    assert first_refusal(report(zero_shot={"mean": mean, "p": 0.5, "evidence": False})) == refused


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
