"""Retrieval over a large pool: keep the exemplars most similar to the validation set (paper, "larger exemplar sets").

Every validation row ranks the pool; the union of the ranks' tops is kept. The tops grow together, one exemplar per
validation row and round, until `retained` exemplars are in: each validation row gets its say, and the size is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

FloatArray = NDArray[np.floating]
_WORD = re.compile(r"\w+")


def retain_by_cosine(pool: FloatArray, validation: FloatArray, retained: int) -> list[int]:
    """Positions in the pool kept by cosine similarity, ascending.

    Args:
        pool: (n, d) unit-length embeddings.
        validation: (m, d) unit-length embeddings.
    """
    return _union_of_tops((pool @ row for row in validation), len(pool), retained)


def retain_by_bm25(pool: Sequence[str], validation: Sequence[str], retained: int) -> list[int]:
    """Positions in the pool kept by BM25 over the inputs, ascending."""
    return _union_of_tops(bm25_similarities(pool, validation), len(pool), retained)


def bm25_similarities(pool: Sequence[str], validation: Sequence[str]) -> Iterator[FloatArray]:
    """(n,) BM25 scores (Okapi, k1=1.5, b=0.75; lower-cased words) of the pool, for one validation row after another."""
    tokens = [_words(text) for text in pool]
    if not any(tokens):  # nothing to match on, e.g. only punctuation: every ranking is a tie
        yield from (np.zeros(len(pool)) for _ in validation)
        return
    index = BM25Okapi(tokens)
    yield from (index.get_scores(_words(text)) for text in validation)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _union_of_tops(similarities: Iterable[FloatArray], size: int, retained: int) -> list[int]:
    """Take rank 1 of every row, then rank 2 of every row, ... until enough; ties go to the earlier pool position."""
    depth = min(retained, size)  # no row can contribute more
    rankings = [np.argsort(-np.asarray(row, dtype=np.float64), kind="stable")[:depth] for row in similarities]
    kept: dict[int, None] = {}
    for rank in range(depth):
        for ranking in rankings:
            if len(kept) < depth:
                kept.setdefault(int(ranking[rank]))
    return sorted(kept)
