"""The order in which validation rows are asked in parts."""

from collections import Counter

import pytest

from ease_lib.evaluation.rows import row_order


def test_every_row_is_asked_once():
    assert sorted(row_order(["a", "b"] * 20, 0)) == list(range(40))


def test_a_seed_has_one_order_and_another_seed_another():
    outputs = [str(number) for number in range(40)]
    assert row_order(outputs, 1) == row_order(outputs, 1) != row_order(outputs, 2)


@pytest.mark.parametrize("seed", range(5))
def test_every_stretch_has_the_classes_in_their_proportion(seed):
    outputs = ["rare"] * 10 + ["frequent"] * 30
    order = row_order(outputs, seed)
    for start in range(0, 40, 8):
        assert Counter(outputs[row] for row in order[start : start + 8])["rare"] in (1, 2, 3)


def test_one_row():
    assert row_order(["yes"], 0) == (0,)
