"""What an embedder is, and what all kinds of them need."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ease_lib.ambient import Ambient

FloatArray = NDArray[np.floating]
logger = logging.getLogger("ease")

PROGRESS_SECONDS = 5.0


class Embedder(Protocol):
    """Turns texts into unit-length vectors.

    `most_tokens`: tokens after which it cuts a text; 0 when that is not known.
    """

    @property
    def name(self) -> str: ...

    @property
    def most_tokens(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """(len(texts), d) unit-length float32 embeddings."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the embedder reads."""
        ...


class EmbeddingProgress:
    """Logs every few seconds how many of the texts are embedded."""

    @classmethod
    def of(cls, total: int) -> EmbeddingProgress:
        """The one of the work that these texts are a part of (`embedding_in_all`), or one of their own."""
        return _whole.value or cls(total)

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._last = time.monotonic()

    def add(self, embedded: int) -> None:
        self._done += embedded
        if self._done < self._total and time.monotonic() >= self._last + PROGRESS_SECONDS:
            self._last = time.monotonic()
            logger.info("embedded %s of %s texts", *(f"{n:,}".replace(",", " ") for n in (self._done, self._total)))


_whole = Ambient[EmbeddingProgress | None](None)


@contextmanager
def embedding_in_all(total: int) -> Iterator[None]:
    """Inside, texts are embedded in several parts; progress is told of all of them."""
    with _whole.set(EmbeddingProgress(total)):
        yield


def in_order(texts: Sequence[str], vector_of: Mapping[str, FloatArray]) -> FloatArray:
    """(len(texts), d) the vectors of the texts; (0, 0) without texts."""
    return np.stack([vector_of[text] for text in texts]) if texts else np.empty((0, 0), dtype=np.float32)
