import numpy as np
import pytest

from ease_lib.embeddings import (
    BUNDLED,
    AverageRepresentation,
    PositionalRepresentation,
    SequenceRepresentation,
    check_embedder,
    in_fewer_dimensions,
    load_embedder,
)
from ease_lib.errors import ConfigError
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


def test_fewer_dimensions_keep_all_inner_products():
    vectors = rng(2, "vectors").normal(size=(6, 40)).astype(np.float32)
    vectors[3] = vectors[1]  # rank 5
    reduced = in_fewer_dimensions(vectors)
    assert reduced.shape == (6, 6)
    np.testing.assert_allclose(reduced @ reduced.T, vectors @ vectors.T, atol=1e-4)
    np.testing.assert_array_equal(reduced, in_fewer_dimensions(vectors))


def test_positional_of_a_single_exemplar():
    assert PositionalRepresentation(VECTORS, OUTPUTS)(np.array([[2]])).shape == (1, 24)


def test_bundled_embedder_gives_unit_vectors_that_know_meaning():
    cat, kitten, tax = load_embedder(BUNDLED).embed(["a cat", "a kitten", "income tax return"])
    assert np.linalg.norm(cat) == pytest.approx(1, abs=1e-5)
    assert cat @ kitten > cat @ tax


def test_an_embedder_is_loaded_once():
    assert load_embedder(BUNDLED) is load_embedder(BUNDLED)


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


def test_a_local_folder_is_an_embedder(tmp_path):
    """The loading code of any sentence-transformers model, on a tiny one made here."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "input", "output", "a", "b"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(tmp_path / "bert")
    config = BertConfig(
        vocab_size=6,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    BertModel(config).save_pretrained(tmp_path / "bert")
    word = Transformer(str(tmp_path / "bert"))
    SentenceTransformer(modules=[word, Pooling(8)]).save(str(tmp_path / "model"))
    embedder = load_embedder(str(tmp_path / "model"))
    assert embedder.embed(["a", "a b", "b"]).shape == (3, 8)


def test_an_embedder_that_is_not_there_is_named():
    for attempt in (check_embedder, load_embedder):
        with pytest.raises(ConfigError, match="embedder=no-such/model cannot be loaded"):
            attempt("no-such/model")
