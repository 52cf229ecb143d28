"""The first line of every result."""

import pytest

from ease_lib.lineage.record_summary import _text
from ease_lib.reporting.summary import decision, estimate_held, not_as_expected, verdict


def gain(mean, low, high, evidence):
    return {"mean": mean, "interval": [low, high], "evidence": evidence}


def said(random, zero_shot, baseline=None, share=None):
    return verdict({"random": random, "zero_shot": zero_shot, "baseline": baseline or {}, "best": {"rows": 200}}, share)


BETTER = gain(0.14, 0.08, 0.2, True)
UNSURE = gain(0.02, -0.05, 0.09, False)
WORSE = gain(-0.1, -0.15, -0.05, False)


@pytest.mark.parametrize(
    ("random", "zero_shot", "baseline", "decided"),
    [
        (BETTER, BETTER, None, "Use this prompt."),
        (BETTER, {}, None, "Use this prompt."),
        (BETTER, WORSE, None, "Use no exemplars"),
        (UNSURE, BETTER, None, "Exemplars picked at random may do as well"),
        (WORSE, BETTER, None, "Use other exemplars: those picked at random do better"),
        (BETTER, UNSURE, None, "Use this prompt, or no exemplars"),
        ({}, BETTER, None, "Use this prompt."),
        (UNSURE, BETTER, BETTER, "Use this prompt in place of your baseline."),
        (UNSURE, WORSE, BETTER, "Use no exemplars"),
        (BETTER, WORSE, UNSURE, "Keep your baseline: nothing shows that this prompt is better; without exemplars"),
        (BETTER, BETTER, UNSURE, "Keep your baseline"),
        (BETTER, BETTER, WORSE, "Keep your baseline"),
        ({}, {}, None, "Nothing was compared"),
    ],
)
def test_what_to_do_is_said_in_a_sentence(random, zero_shot, baseline, decided):
    assert decision(said(random, zero_shot, baseline)).startswith(decided)


def scores(test, estimate, half):
    return {
        "test_score": test,
        "test_interval": [test - half, test + half],
        "estimate": estimate,
        "estimate_interval": [estimate - half, estimate + half],
    }


def test_expected_and_test_score_may_differ_by_what_both_intervals_allow():
    held, broken = scores(0.5, 0.614, half=0.081), scores(0.5, 0.616, half=0.081)
    assert estimate_held(held)
    assert not_as_expected(held) == ""
    assert not estimate_held(broken)
    assert not_as_expected(broken).startswith("The test score is 11.6 points below what the search expected")
    assert "10.0 points above" in not_as_expected(scores(0.6, 0.5, half=0.05))
    assert not_as_expected(scores(1.0, 1.0, half=0.0)) == ""


@pytest.mark.parametrize(
    ("expected", "interval", "test", "test_interval", "held"),
    [
        (0.98, [0.823, 1.0], 0.85, [0.816, 0.879], True),
        (0.9, [0.8, 0.92], 0.96, [0.93, 0.98], False),
        (0.27, [0.231, 0.309], 0.0, [0.0, 0.278], True),
        (0.02, [0.0, 0.177], 0.15, [0.121, 0.184], True),
    ],
)
def test_near_the_ends_the_sides_that_face_each_other_count(expected, interval, test, test_interval, held):
    best = {"estimate": expected, "estimate_interval": interval, "test_score": test, "test_interval": test_interval}
    assert estimate_held(best) == held


def test_what_a_record_holds_of_the_result_is_plain_words_to_the_dashboard():
    """The verdict is no code, whatever its signs."""
    for words in (said(BETTER, WORSE, UNSURE, 0.05), said(UNSURE, UNSURE), said(BETTER, BETTER)):
        assert _text(words["text"]) == words["text"]
        assert _text(decision(words)) == decision(words)


def test_better_is_said_with_points_and_interval():
    found = said(BETTER, BETTER)
    assert found["text"] == (
        "Better than random exemplars by 14 points (95 %: +8 to +20); "
        "better than no exemplars by 14 points (95 %: +8 to +20), on 200 test rows."
    )
    assert (found["random"], found["zero_shot"]) == ("better", "better")


@pytest.mark.parametrize(
    ("measured", "word", "text"),
    [
        (UNSURE, "no evidence", "No evidence of being better than random exemplars: +2 points"),
        (WORSE, "worse", "Worse than random exemplars by 10 points"),
    ],
)
def test_what_is_not_better_is_said_too(measured, word, text):
    found = said(measured, BETTER)
    assert found["random"] == word
    assert found["text"].startswith(text)


def test_a_winner_without_exemplars_is_not_compared_with_itself():
    found = said(BETTER, {})
    assert found["zero_shot"] == "not compared"
    assert "no exemplars" not in found["text"]


def test_whether_it_is_better_than_what_runs_now_is_said_first():
    found = said(BETTER, BETTER, WORSE)
    assert found["baseline"] == "worse"
    assert found["text"].startswith("Worse than your baseline by 10 points (95 %: -15 to -5); better than random")


@pytest.mark.parametrize(
    ("share", "text"), [(0.034, "in about 3 % of cases"), (0.0004, "in less than 1 % of cases"), (None, "+8 to +20)")]
)
def test_beside_a_gain_stands_how_rare_it_is(share, text):
    assert text in said(BETTER, BETTER, share=share)["text"]


def test_nothing_to_compare_with_is_said():
    assert said({}, {})["text"] == "The winner was not compared with anything."
