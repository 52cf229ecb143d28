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
IntArray = NDArray[np.integer]
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
    """(n,) BM25 scores (Okapi, k1=1.5, b=0.75; lower-cased words) of the pool, for one validation row after another.

    The scores of `BM25Okapi.get_scores`, which looks every word of the row up in every text of the pool; here each word
    of the validation set knows the texts it is in.
    """
    tokens = [_words(text) for text in pool]
    if not any(tokens):  # nothing to match on, e.g. only punctuation: every ranking is a tie
        yield from (np.zeros(len(pool)) for _ in validation)
        return
    index = BM25Okapi(tokens)
    queries = [_words(text) for text in validation]
    found: dict[str, list[tuple[int, int]]] = {word: [] for query in queries for word in query}
    for position, counts in enumerate(index.doc_freqs):
        for word in counts.keys() & found.keys():
            found[word].append((position, counts[word]))
    saturation = index.k1 * (1 - index.b + index.b * np.array(index.doc_len) / index.avgdl)
    weights = {word: _weights(index, word, matches, saturation) for word, matches in found.items() if matches}
    for query in queries:
        scores = np.zeros(len(pool))
        for word in query:
            if word in weights:
                positions, gains = weights[word]
                scores[positions] += gains
        yield scores


def _weights(
    index: BM25Okapi, word: str, matches: list[tuple[int, int]], saturation: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The texts that a word is in, and what it adds to the score of each."""
    positions, counts = np.array(matches).T
    return positions, index.idf[word] * (counts * (index.k1 + 1) / (counts + saturation[positions]))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _union_of_tops(similarities: Iterable[FloatArray], size: int, retained: int) -> list[int]:
    """Take rank 1 of every row, then rank 2 of every row, ... until enough; ties go to the earlier pool position."""
    depth = min(retained, size)  # no row can contribute more
    rankings = [
        np.argsort(-np.asarray(row, dtype=np.float64), kind="stable")[:depth].astype(np.int32)  # not the whole ranking
        for row in similarities
    ]
    kept: set[int] = set()
    for rank in range(depth):
        for ranking in rankings:
            kept.add(int(ranking[rank]))
            if len(kept) == depth:
                return sorted(kept)
    return sorted(kept)
