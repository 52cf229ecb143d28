"""Prompts one step away from another."""

import numpy as np
import pytest

from ease_lib.search.candidates.neighbours import climb, neighbours
from ease_lib.search.candidates.sampling import SequenceSpace


def around(sequence, space, n=6, **settings):
    return set(neighbours((0, sequence), space, np.arange(n), **settings).tuples())


def test_of_a_fixed_length_they_replace_swap_move_and_reverse():
    found = {sequence for _, sequence in around((0, 1, 2), SequenceSpace(6, 3))}
    assert {(3, 1, 2), (0, 1, 5), (1, 0, 2), (2, 1, 0), (1, 2, 0)} <= found
    assert all(len(sequence) == 3 == len(set(sequence)) for sequence in found)
    assert (0, 1, 2) not in found


def test_of_a_range_of_lengths_they_insert_and_remove_too():
    found = {sequence for _, sequence in around((0, 1), SequenceSpace(6, 3, 1))}
    assert {(0,), (1,), (4, 0, 1), (0, 4, 1), (0, 1, 4)} <= found


def test_of_no_exemplars_there_is_one_more():
    assert {sequence for _, sequence in around((), SequenceSpace(4, 2, 0), n=4)} == {(0,), (1,), (2,), (3,)}


def test_the_shortest_is_not_shortened():
    assert all(sequence for _, sequence in around((0,), SequenceSpace(6, 3, 1)))


def test_the_instruction_changes_too():
    found = around((0, 1), SequenceSpace(6, 2), instructions=3)
    assert {(1, (0, 1)), (2, (0, 1))} <= found


def test_none_has_too_many_tokens():
    space = SequenceSpace(4, 2, 1, tokens=np.array([1, 1, 1, 50]), most_tokens=10)
    assert not [sequence for _, sequence in around((0, 1), space, n=4) if 3 in sequence]


def test_a_whole_pool_as_sequence_is_only_rearranged():
    assert {sequence for _, sequence in around((0, 1), SequenceSpace(2, 2), n=2)} == {(1, 0)}


@pytest.mark.parametrize("start", [(), (5,), (2, 3, 4)])
def test_climbing_ends_at_the_best_of_a_sum(start):
    weights = np.array([0.1, -1.0, 0.3, -0.2, 0.05, 0.2])
    value = lambda prompts: np.where(prompts.present, weights[prompts.sequences], 0.0).sum(axis=1)  # noqa: E731
    (_, sequence), best = climb(value, (0, start), SequenceSpace(6, 3, 0), np.arange(6))
    assert set(sequence) == {0, 2, 5}
    assert best == pytest.approx(0.6)
