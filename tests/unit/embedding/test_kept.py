"""Kept embeddings: no text is embedded twice, and none is confused with another."""

import numpy as np
import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.config.sections import EmbeddingConfig, HardwareConfig
from ease_lib.embedding import opening as stage
from ease_lib.embedding.kept import KeptEmbedder
from ease_lib.embedding.opening import embedder_identity, open_embedder
from ease_lib.notes import Notes

TEXTS = ["a", "b", "ü \U0001f600"]


class Counting:
    name, most_tokens = "counting", 0

    def __init__(self):
        self.calls = 0

    def embed(self, texts, progress=None):
        self.calls += 1
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    def count_truncated(self, texts):
        self.calls += 1
        return len(texts) - 1


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    return open_store(str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3_prefix"))


@pytest.fixture
def embedder():
    return Counting()


def kept(store, embedder, **identity):
    return KeptEmbedder("counting", {"files_sha256": "1", **identity}, store, Notes(), lambda: embedder)


def test_vectors_and_counts_are_computed_once_over_runs(store, embedder):
    first, second = (kept(store, embedder).embed(TEXTS) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert [kept(store, embedder).count_truncated(TEXTS) for _ in range(2)] == [2, 2]
    assert embedder.calls == 2


@pytest.mark.parametrize("change", [{"files_sha256": "2"}, {"device": "cuda"}, {"texts": TEXTS[::-1]}])
def test_other_texts_and_other_weights_are_embedded(tmp_path, embedder, change):
    store, texts = open_store(str(tmp_path)), change.pop("texts", TEXTS)
    kept(store, embedder).embed(TEXTS)
    kept(store, embedder, **change).embed(texts)
    assert embedder.calls == 2


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: b"x" * 40])
def test_damaged_vectors_are_made_anew(tmp_path, embedder, damage):
    store = open_store(str(tmp_path))
    whole = kept(store, embedder).embed(TEXTS)
    (name,) = store.walk_names()
    store.write(name, damage(store.read(name)))
    np.testing.assert_array_equal(kept(store, embedder).embed(TEXTS), whole)
    assert embedder.calls == 2


def test_the_model_is_not_even_loaded_for_what_is_kept(tmp_path, monkeypatch):
    config, hardware = EmbeddingConfig(), HardwareConfig(device="cpu")
    vectors = open_embedder(config, hardware, notes=Notes(), store=open_store(str(tmp_path))).embed(["a", "b"])
    monkeypatch.setattr(stage, "load_embedder", lambda *given: pytest.fail("it was loaded"))
    np.testing.assert_array_equal(
        open_embedder(config, hardware, notes=Notes(), store=open_store(str(tmp_path))).embed(["a", "b"]), vectors
    )


def test_other_weights_in_the_same_folder_are_another_embedder(tmp_path):
    from ease_lib.embedding.models import files_identity

    (tmp_path / "weights").write_bytes(b"one")
    first = embedder_identity(EmbeddingConfig(embedder=str(tmp_path)))
    files_identity.cache_clear()
    (tmp_path / "weights").write_bytes(b"two")
    assert embedder_identity(EmbeddingConfig(embedder=str(tmp_path))) != first


def test_vectors_of_another_precision_are_others_and_the_record_says_so(tmp_path, monkeypatch):
    found = {}
    for precision in ("float32", "bfloat16"):
        hardware = HardwareConfig(device="cpu", embedder_precision=precision)
        observed = Notes()
        embedder = open_embedder(EmbeddingConfig(), hardware, notes=observed, store=open_store(str(tmp_path)))
        found[precision] = embedder.embed(["a", "b"])
        assert observed.embedder.get("precision", "float32") == precision
    assert not np.array_equal(found["float32"], found["bfloat16"])


@pytest.mark.parametrize(("device", "precision"), [("cuda", "bfloat16"), ("cpu", "float32")])
def test_what_auto_takes_is_what_the_record_says(monkeypatch, tmp_path, device, precision):
    opened = []
    monkeypatch.setattr(stage, "resolve_device", lambda asked: device if asked == "auto" else asked)
    monkeypatch.setattr(stage, "computes_in_bfloat16", lambda: False)
    monkeypatch.setattr(stage, "load_embedder", lambda *given: opened.append(given) or Counting())
    observed = Notes()
    store = open_store(str(tmp_path))
    open_embedder(EmbeddingConfig(), HardwareConfig(), notes=observed, store=store).embed(TEXTS)
    assert opened == [("bundled-minilm", device, precision)]
    assert observed.embedder.get("precision", "float32") == precision
    open_embedder(EmbeddingConfig(), HardwareConfig(device=device), notes=Notes(), store=store).embed(TEXTS)
    assert len(opened) == 1


@pytest.mark.parametrize("has_it", [True, False])
def test_a_cpu_computes_in_what_it_has_instructions_for(monkeypatch, has_it):
    monkeypatch.setattr(stage, "computes_in_bfloat16", lambda: has_it)
    observed = Notes()
    open_embedder(EmbeddingConfig(), HardwareConfig(device="cpu"), notes=observed)
    assert ("precision" in observed.embedder) == has_it
