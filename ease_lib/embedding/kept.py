"""Embeddings that outlive a run: what was embedded once is read from the store, by content and embedder.

Kubeflow's step cache cannot keep them: its key holds the ids of the input artifacts, which every run makes anew. The
embedder itself, which takes seconds to import and load, is opened only for texts that are not kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ease_lib.arrays import FloatArray
from ease_lib.artifacts.store import Store
from ease_lib.digests import sha256_of
from ease_lib.embedding.embedder import Embedder
from ease_lib.notes import Notes
from ease_lib.progress import Counted

FOLDER = "embeddings"
logger = logging.getLogger("ease")


class KeptEmbedder:
    """An embedder that asks another one for what is not kept yet; each call is kept as a whole.

    Args:
        name: of the embedder.
        identity: all that decides its vectors, and tells it from others of that name.
        store: where they are kept.
        open_embedder: the embedder itself.
    """

    most_tokens = 0

    def __init__(
        self,
        name: str,
        identity: Mapping[str, str],
        store: Store,
        notes: Notes,
        open_embedder: Callable[[], Embedder],
    ) -> None:
        self.name = name
        self._identity = dict(identity)
        self._store = store
        self._notes = notes
        self._open = open_embedder
        self._opened: Embedder | None = None

    def embed(self, texts: Sequence[str], progress: Counted | None = None) -> FloatArray:
        name = self._name("vectors", texts)
        kept = _vectors(self._read(name), len(texts))
        if kept is not None:
            logger.info("%d texts were already embedded by an earlier run", len(texts))
            return kept
        vectors = self._embedder().embed(texts, progress)
        content = io.BytesIO()
        np.save(content, vectors, allow_pickle=False)
        self._write(name, content.getvalue())
        return vectors

    def count_truncated(self, texts: Sequence[str]) -> int:
        name = self._name("truncated", texts)
        kept = _unsealed(self._read(name))
        if kept is not None:
            return int(kept)
        count = self._embedder().count_truncated(texts)
        self._write(name, str(count).encode())
        return count

    def _embedder(self) -> Embedder:
        self._opened = self._opened or self._open()
        return self._opened

    def _read(self, name: str) -> bytes | None:
        content = self._store.read(name)
        if content is not None:
            self._notes.entry(self._store.uri, name, content)
        return content

    def _write(self, name: str, content: bytes) -> None:
        sealed = _sealed(content)
        self._store.write(name, sealed)
        self._notes.entry(self._store.uri, name, sealed)

    def _name(self, kind: str, texts: Sequence[str]) -> str:
        content = json.dumps([kind, self._identity, list(texts)], sort_keys=True).encode()
        return sha256_of(content)


def _sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def _unsealed(content: bytes | None) -> bytes | None:
    """Sealed content; None if there is none or it is damaged."""
    if content is None:
        return None
    if _sealed(content[32:]) != content:
        logger.info("notice: recomputing damaged embeddings in the store")
        return None
    return content[32:]


def _vectors(content: bytes | None, count: int) -> FloatArray | None:
    kept = _unsealed(content)
    if kept is None:
        return None
    vectors: FloatArray = np.load(io.BytesIO(kept), allow_pickle=False)
    return vectors if len(vectors) == count else None
