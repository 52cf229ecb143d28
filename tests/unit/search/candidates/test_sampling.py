import math

import numpy as np
import pytest

from ease_lib.errors import ConfigError
from ease_lib.search.candidates.sampling import SequenceSpace, among, as_tuples, lengths_of
from ease_lib.seeding import rng


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (5, 2), (100, 5), (100, 50), (1_000_000, 50)])
def test_sequences_hold_distinct_exemplars_of_the_pool(n, k):
    sequences = SequenceSpace(n, k).sample(rng(0, "test"), 200)
    assert sequences.shape == (200, k)
    assert sequences.min() >= 0
    assert sequences.max() < n
    assert all(len(set(row)) == k for row in sequences.tolist())


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 4), (6, 2)])
def test_every_ordered_sequence_is_equally_likely(n, k):
    space = SequenceSpace(n, k)
    draws = 200 * space.size
    _, counts = np.unique(space.sample(rng(1, "test"), draws), axis=0, return_counts=True)
    assert len(counts) == space.size == math.perm(n, k)
    assert ((counts - 200) ** 2 / 200).sum() < space.size + 5 * math.sqrt(2 * space.size)  # chi-squared


def test_unseen_sampling_finds_the_last_sequence_and_then_none():
    space = SequenceSpace(4, 2)
    seen = set()
    while (sequence := space.sample_unseen(rng(0, "test", len(seen)), seen)) is not None:
        assert sequence not in seen
        seen.add(sequence)
    assert len(seen) == 12


def test_k_above_n_is_refused():
    with pytest.raises(ConfigError, match="k=3 exceeds the pool's 2 exemplars; lower k"):
        SequenceSpace(2, 3)


def test_every_length_of_a_range_is_equally_likely():
    rows = SequenceSpace(20, 5, 2).sample(rng(0, "test"), 4000)
    lengths = lengths_of(rows)
    assert set(lengths) == {2, 3, 4, 5}
    assert np.bincount(lengths)[2:].min() > 900
    assert all(len(set(sequence)) == length for sequence, length in zip(as_tuples(rows), lengths, strict=True))


def test_a_range_of_lengths_is_used_up_to_its_last_sequence():
    space = SequenceSpace(3, 2, 1)
    seen = set()
    while (sequence := space.sample_unseen(rng(0, "test", len(seen)), seen)) is not None:
        seen.add(sequence)
    assert len(seen) == space.size == 3 + 6


def test_rows_among_sequences_are_found_exactly():
    rows = SequenceSpace(6, 3, 1).sample(rng(0, "test"), 500)
    sought = set(as_tuples(rows[:20])) | {(5, 4, 3, 2)}
    assert among(rows, sought).tolist() == [sequence in sought for sequence in as_tuples(rows)]
    assert not among(rows, set()).any()
