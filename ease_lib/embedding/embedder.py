"""The interface of an embedder, and code that all kinds share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ease_lib.arrays import FloatArray
from ease_lib.progress import Counted

EMBEDDED = "texts embedded"
"""Unit that progress counts."""


class Embedder(Protocol):
    """Turns texts into unit-length vectors.

    `most_tokens`: tokens after which it cuts a text; 0 when that is not known.
    """

    @property
    def name(self) -> str: ...

    @property
    def most_tokens(self) -> int: ...

    def embed(self, texts: Sequence[str], progress: Counted | None = None) -> FloatArray:
        """(len(texts), d) unit-length float32 embeddings.

        Args:
            progress: of the work that these texts are a part of; by default they are all of it.
        """
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Number of texts that are longer than the embedder reads."""
        ...


def in_order(texts: Sequence[str], vector_of: Mapping[str, FloatArray]) -> FloatArray:
    """(len(texts), d) the vectors of the texts; (0, 0) without texts."""
    return np.stack([vector_of[text] for text in texts]) if texts else np.empty((0, 0), dtype=np.float32)
