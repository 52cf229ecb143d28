"""The shortlist must be the one of solving every sequence exactly, ties by sampling order."""

import numpy as np
import pytest

from ease_lib.search.candidates.optimal_transport import cosine_cost, shortlist, transport_cost
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.seeding import rng
from tests.straightforward import plain_shortlist


def unit_rows(draw, rows, dimension=6):
    vectors = draw.normal(size=(rows, dimension))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


SIZES = [(30, 5, 20), (30, 3, 20), (12, 5, 7), (10, 1, 4), (6, 6, 5), (40, 8, 4), (30, 6, 40), (5000, 8, 3)]


@pytest.mark.parametrize(("n", "k", "m"), SIZES)
@pytest.mark.parametrize("size", [1, 50, 399, 400, 5000])
def test_equals_solving_every_sequence(n, k, m, size):
    draw = rng(0, "test", n, k, m)
    cost = cosine_cost(unit_rows(draw, n), unit_rows(draw, m))
    sequences = SequenceSpace(n, k).sample(draw, 400)
    expected, costs = plain_shortlist(sequences, cost, size)
    found = shortlist(sequences, cost, size)
    assert found.positions.tolist() == expected.tolist()
    np.testing.assert_allclose(found.costs, costs[expected], atol=1e-12)


def test_equal_exemplars_tie_and_keep_sampling_order():
    draw = rng(0, "ties")
    cost = np.repeat(cosine_cost(unit_rows(draw, 4), unit_rows(draw, 6)), 5, axis=0)  # every exemplar five times
    sequences = SequenceSpace(20, 2).sample(draw, 300)
    expected, _ = plain_shortlist(sequences, cost, 100)
    assert shortlist(sequences, cost, 100).positions.tolist() == expected.tolist()


def test_most_sequences_are_never_solved():
    draw = rng(0, "share")
    cost = cosine_cost(unit_rows(draw, 100, 384), unit_rows(draw, 20, 384))
    sequences = SequenceSpace(100, 5).sample(draw, 5000)
    assert shortlist(sequences, cost, 100).solved < 2500


def test_transport_cost_by_hand():
    """Two exemplars, two rows: the better of the two assignments, half the weight each."""
    assert transport_cost(np.array([[0.1, 0.9], [0.2, 0.4]])) == pytest.approx((0.1 + 0.4) / 2)
