import copy
import json

import numpy as np
import pytest

from ease_lib import progress
from ease_lib.embedding import models
from ease_lib.embedding.models import BFLOAT16, BUNDLED, SentenceEmbedder, check_embedder, load_embedder
from ease_lib.errors import ConfigError


def test_bundled_embedder_gives_unit_vectors_that_know_meaning():
    cat, kitten, tax = load_embedder(BUNDLED).embed(["a cat", "a kitten", "income tax return"])
    assert np.linalg.norm(cat) == pytest.approx(1, abs=1e-5)
    assert cat @ kitten > cat @ tax


def test_an_embedder_is_loaded_once():
    assert load_embedder(BUNDLED) is load_embedder(BUNDLED)


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
    monkeypatch.setattr(models, "CHUNK", 500)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
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
    assert caplog.messages == ["texts embedded: 500 of 1 200", "texts embedded: 1 000 of 1 200"]


def test_short_work_logs_no_progress(caplog):
    with caplog.at_level("INFO", logger="ease"):
        load_embedder(BUNDLED).embed(["a", "b"])
    assert caplog.messages == []


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_half_precision_vectors_are_the_same_but_for_rounding(where):
    """A CPU computes products in half precision, a GPU stores the weights in it too; vectors have unit length all the
    same."""
    full = load_embedder(BUNDLED)
    of_gpu = SentenceEmbedder("half", copy.deepcopy(full._model).bfloat16())
    half = of_gpu if where == "cuda" else load_embedder(BUNDLED, "cpu", BFLOAT16)
    assert half is not full
    texts = ["a cat", "a kitten", "income tax return " * 40]
    vectors = half.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (vectors * full.embed(texts)).sum(axis=1).min() > 0.999
    assert not np.array_equal(vectors, full.embed(texts))


def test_no_texts_have_no_vectors():
    assert len(load_embedder(BUNDLED).embed([])) == 0


def test_an_embedder_that_is_not_there_is_named():
    for attempt in (check_embedder, load_embedder):
        with pytest.raises(ConfigError, match="embedder=no-such/model cannot be loaded"):
            attempt("no-such/model")
