import copy
import json

import numpy as np
import pytest

from ease_lib import embeddings
from ease_lib.embeddings import (
    BUNDLED,
    AverageRepresentation,
    PositionalRepresentation,
    SentenceEmbedder,
    SequenceRepresentation,
    WithInstruction,
    WithLength,
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


@pytest.mark.parametrize("representation", [AverageRepresentation(VECTORS), PositionalRepresentation(VECTORS, OUTPUTS)])
def test_a_padded_sequence_has_the_features_of_the_sequence_itself(representation):
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


TINY = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def save_bert(folder, positions=16):
    """A tiny model of texts, as sentence-transformers saves it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "input", "output", "a", "b"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder / "bert"
    )
    config = BertConfig(vocab_size=6, max_position_embeddings=positions, **TINY)
    BertModel(config).save_pretrained(folder / "bert")
    word = Transformer(str(folder / "bert"))
    SentenceTransformer(modules=[word, Pooling(8)]).save(str(folder / "model"))
    return str(folder / "model")


def save_clip(folder, *, tokenizer_limit, processor_class):
    """A tiny model of texts and images in the files of clip-ViT-B-32, written without the image libraries.

    Args:
        processor_class: whether a file names the processor, as those of newer versions of transformers do.
    """
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    module = folder / "model" / "0_CLIPModel"
    words = {word: index for index, word in enumerate(["<|startoftext|>", "<|endoftext|>", "a</w>", "b</w>", "a", "b"])}
    limit = {"model_max_length": tokenizer_limit} if tokenizer_limit else {}
    CLIPTokenizer(vocab=words, merges=[], **limit).save_pretrained(module)
    text = {**TINY, "vocab_size": 6, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    vision = {**TINY, "image_size": 8, "patch_size": 4}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=4)).save_pretrained(module)
    image = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 8, "crop_size": 8}
    if processor_class:
        image["processor_class"] = "CLIPProcessor"
    (module / "preprocessor_config.json").write_text(json.dumps(image))
    first = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "model" / "modules.json").write_text(json.dumps([first]))
    return str(folder / "model")


def test_a_local_folder_is_an_embedder(tmp_path):
    """The loading code of any sentence-transformers model, on a tiny one made here."""
    embedder = load_embedder(save_bert(tmp_path))
    assert embedder.most_tokens == 16
    assert embedder.embed(["a", "a b", "b"]).shape == (3, 8)
    assert embedder.count_truncated(["a", "a " * 16, "a " * 17]) == 1
    np.testing.assert_allclose(*embedder.embed(["b " + "a " * 15, "b " + "a " * 400]), atol=1e-6)


@pytest.mark.parametrize(("tokenizer_limit", "processor_class"), [(77, False), (77, True), (0, False)])
def test_a_clip_model_embeds_texts(tokenizer_limit, processor_class, tmp_path):
    """It reads 77 tokens, two of which mark begin and end, even where its tokenizer does not say so."""
    embedder = load_embedder(save_clip(tmp_path, tokenizer_limit=tokenizer_limit, processor_class=processor_class))
    assert embedder.most_tokens == 77
    texts = ["a", "a " * 75, "a " * 76, "a " * 500]
    assert embedder.count_truncated(texts) == 2
    vectors = embedder.embed(texts)
    assert vectors.shape == (4, 4)
    np.testing.assert_allclose(vectors[3], vectors[1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_chunks_in_order_of_length_are_the_plain_call_in_the_order_asked(tmp_path, monkeypatch, caplog):
    """Each text is embedded once, and progress is logged while there is more to come."""
    monkeypatch.setattr(embeddings, "CHUNK", 500)
    monkeypatch.setattr(embeddings, "PROGRESS_SECONDS", 0.0)
    embedder = load_embedder(save_bert(tmp_path))
    texts = [f"{'a b ' * (number % 7)}" + "b " * (number % 3) + " " * number for number in range(1200)]
    plain = embedder._model.encode(texts, normalize_embeddings=True)
    encoded = []
    encode = embedder._model.encode
    monkeypatch.setattr(
        embedder._model, "encode", lambda chunk, **options: encoded.append(chunk) or encode(chunk, **options)
    )
    with caplog.at_level("INFO", logger="ease"):
        np.testing.assert_allclose(embedder.embed([*texts, *texts]), np.concatenate([plain, plain]), atol=1e-5)
    assert [len(chunk) for chunk in encoded] == [500, 500, 200]
    lengths = [len(text) for chunk in encoded for text in chunk]
    assert lengths == sorted(lengths, reverse=True)
    assert caplog.messages == ["embedded 500 of 1 200 texts", "embedded 1 000 of 1 200 texts"]


def test_short_work_logs_no_progress(caplog):
    with caplog.at_level("INFO", logger="ease"):
        load_embedder(BUNDLED).embed(["a", "b"])
    assert caplog.messages == []


def test_half_precision_vectors_are_the_same_but_for_rounding():
    """What a GPU computes with; unit length all the same."""
    full = load_embedder(BUNDLED)
    half = SentenceEmbedder("half", copy.deepcopy(full._model).bfloat16())
    texts = ["a cat", "a kitten", "income tax return " * 40]
    vectors = half.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (vectors * full.embed(texts)).sum(axis=1).min() > 0.999


def test_no_texts_have_no_vectors():
    assert len(load_embedder(BUNDLED).embed([])) == 0


def test_an_embedder_that_is_not_there_is_named():
    for attempt in (check_embedder, load_embedder):
        with pytest.raises(ConfigError, match="embedder=no-such/model cannot be loaded"):
            attempt("no-such/model")
