import math
from itertools import pairwise

import numpy as np
import pytest

from ease_lib.evaluation.racing import Race, probability_if_better
from ease_lib.seeding import rng


def race(incumbent, confidence=0.95, iteration=0):
    return Race(incumbent=incumbent, confidence=confidence, seed=0, iteration=iteration)


@pytest.mark.parametrize("rows", [1, 3, 4, 20, 40, 101])
def test_every_row_is_asked_once_in_an_order_of_its_own(rows):
    orders = [[row for block in race(0.5, iteration=i).blocks(rows) for row in block] for i in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(rows))
    assert rows < 4 or orders[0] != orders[1]


def test_without_an_incumbent_nothing_is_stopped():
    assert not race(None).lost([0.0] * 19, 20)


def test_the_exact_bound_stops_what_cannot_win_any_more():
    certain = race(0.8, confidence=1)
    assert not certain.lost([0, 0, 0], 20)  # 17 of 20 would still beat 16
    assert certain.lost([0, 0, 0, 0], 20)  # 16 of 20 would only equal it


def test_a_finished_evaluation_is_never_lost():
    assert not race(0.8).lost([0.0] * 20, 20)


@pytest.mark.parametrize("rows", [1, 4, 20])
def test_an_evaluation_that_has_not_begun_is_not_lost(rows):
    assert not race(0.8).lost([], rows)


def test_probability_of_marks_is_that_of_drawing_without_replacement():
    """To beat 0.5 on 4 rows takes 3 right ones; both of two rows wrong has then probability 0."""
    assert probability_if_better([0, 0], 4, 0.5) == 0
    assert math.isclose(probability_if_better([0, 1], 4, 0.5), 0.5)
    assert probability_if_better([1, 1], 4, 0.5) == 1


def test_graded_scores_are_bounded_by_serfling():
    low = probability_if_better([0.1] * 8, 20, 0.9)
    assert 0 < low < 0.01
    assert probability_if_better([0.95] * 8, 20, 0.9) == 1.0


@pytest.mark.parametrize("graded", [False, True])
def test_better_sequences_are_dropped_no_more_often_than_the_confidence_says(graded):
    """All orders of a sequence that beats the incumbent by the least margin; 90 % confidence."""
    rows, incumbent = 40, 0.5
    draw = rng(0, "race")
    dropped = 0
    for trial in range(400):
        scores = draw.permutation([1.0] * 21 + [0.0] * 19)
        if graded:
            scores = np.clip(scores * 0.9 + 0.0775, 0, 1)
        dropped += _dropped(race(incumbent, confidence=0.9, iteration=trial), scores, rows)
    assert dropped / 400 <= 0.1


def test_hopeless_sequences_are_dropped_early():
    scores = np.array([1.0] * 4 + [0.0] * 36)
    asked = [_rows_asked(race(0.6, iteration=trial), scores, 40) for trial in range(50)]
    assert np.mean(asked) < 20


def _rows_asked(one, scores, rows):
    blocks = list(one.blocks(rows))
    asked: list[float] = []
    for block in blocks:
        if asked and one.lost(asked, rows):
            break
        asked += scores[block].tolist()
    return len(asked)


def _dropped(one, scores, rows):
    return _rows_asked(one, scores, rows) < rows


def test_more_confidence_never_stops_earlier():
    scores = np.array([1.0] * 10 + [0.0] * 30)
    asked = [_rows_asked(race(0.5, confidence), scores, 40) for confidence in (0.5, 0.8, 0.95, 1.0)]
    assert all(less <= more for less, more in pairwise(asked))
