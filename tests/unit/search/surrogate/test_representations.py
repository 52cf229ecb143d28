import numpy as np
import pytest

from ease_lib.embedding.models import BUNDLED, load_embedder
from ease_lib.search.surrogate.representations import (
    AverageRepresentation,
    PositionalRepresentation,
    SequenceRepresentation,
    WithInstruction,
    WithLength,
    in_fewer_dimensions,
)
from ease_lib.seeding import rng

VECTORS = rng(0, "vectors").normal(size=(10, 4)).astype(np.float32)
OUTPUTS = rng(1, "vectors").normal(size=(10, 4)).astype(np.float32)
SEQUENCES = np.array([[3, 1, 4], [4, 1, 3], [9, 0, 2]])


def test_average_is_blind_to_order():
    features = AverageRepresentation(VECTORS)(SEQUENCES)
    np.testing.assert_allclose(features, VECTORS[SEQUENCES].mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(features[0], features[1], atol=1e-6)


def test_positional_by_its_formula():
    features = PositionalRepresentation(VECTORS, OUTPUTS)(SEQUENCES)
    expected = []
    for row in SEQUENCES:
        blocks = []
        for part in (VECTORS, OUTPUTS):
            first, middle, last = part[row]
            blocks += [(first + middle + last) / 3, (-first + last) / 3, last]
        expected.append(np.concatenate(blocks))
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(features[0], features[1])


@pytest.mark.parametrize("representation", [AverageRepresentation(VECTORS), PositionalRepresentation(VECTORS, OUTPUTS)])
def test_a_padded_sequence_has_the_components_of_the_sequence_itself(representation):
    padded = np.array([[3, 1, 4, -1], [7, -1, -1, -1]])
    features = representation(padded)
    np.testing.assert_allclose(features[0], representation(padded[:1, :3])[0], atol=1e-6)
    np.testing.assert_allclose(features[1], representation(padded[1:, :1])[0], atol=1e-6)


def test_length_and_instruction_stand_beside_the_features():
    average = AverageRepresentation(VECTORS)
    with_length = WithLength(average)(np.array([[3, 1, 4], [9, 0, -1]]))
    assert with_length[:, -1].tolist() == [3, 2]
    instructions = rng(2, "vectors").normal(size=(5, 5)).astype(np.float32)
    features = WithInstruction(average, instructions)(SEQUENCES, np.array([4, 0, 4]))
    np.testing.assert_allclose(features[:, :4], average(SEQUENCES), atol=1e-6)
    np.testing.assert_array_equal(features[0, 4:], features[2, 4:])
    np.testing.assert_array_equal(features[1, 4:], WithInstruction(average, instructions)(SEQUENCES)[1, 4:])


def test_fewer_dimensions_keep_all_inner_products():
    vectors = rng(2, "vectors").normal(size=(6, 40)).astype(np.float32)
    vectors[3] = vectors[1]  # rank 5
    reduced = in_fewer_dimensions(vectors)
    assert reduced.shape == (6, 6)
    np.testing.assert_allclose(reduced @ reduced.T, vectors @ vectors.T, atol=1e-4)
    np.testing.assert_array_equal(reduced, in_fewer_dimensions(vectors))


def test_positional_of_a_single_exemplar():
    assert PositionalRepresentation(VECTORS, OUTPUTS)(np.array([[2]])).shape == (1, 24)


def test_sequences_are_embedded_once_and_the_cut_ones_counted():
    texts = ["word " * 100, "word " * 100 + "x", "short"]
    representation = SequenceRepresentation(load_embedder(BUNDLED), texts)
    first = representation(np.array([[0, 1], [2, 2], [0, 1]]))
    representation(np.array([[0, 1, 1]]))
    representation(np.array([[0, 1, 1]]))
    assert (representation.embedded, representation.truncated) == (
        3,
        1,
    )  # 2 x 100 words fit into 256 tokens, 3 x do not
    np.testing.assert_array_equal(first[0], first[2])
