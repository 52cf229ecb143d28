"""Retrieval over a large pool: keep the exemplars most similar to the validation set (paper, "larger exemplar sets").

Every validation row ranks the pool, and the union of the top ranks is kept. The tops grow together, one exemplar per
validation row and round, until there are `retained` exemplars: each validation row contributes, and the size is exact.

A pool of millions is ranked in shards, each by its own process, whose tops are then merged. So that one shard and many
keep the same exemplars, similarities are computed in blocks of the pool that no shard border cuts, and in every shard
BM25 counts words over the whole pool.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rank_bm25 import BM25Okapi

from ease_lib.arrays import FloatArray, IntArray

BLOCK = 8192
"""Number of exemplars whose texts are embedded together; shards hold whole blocks."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Tops:
    """The exemplars of a part of the pool that each of m validation rows ranks first: (m, depth), best first.

    Ties go to the earlier position in the pool.
    """

    positions: IntArray
    similarities: FloatArray

    @classmethod
    def of(cls, similarities: Iterable[FloatArray], first: int, depth: int) -> Tops:
        """Tops of a part of the pool that begins at `first`, from its (size,) similarities to each validation row in
        turn."""
        positions, chosen = [], []
        for row in similarities:
            exact = np.asarray(row, dtype=np.float64)
            best = np.argsort(-exact, kind="stable")[:depth]
            positions.append(best + first)
            chosen.append(exact[best])
        return cls(np.array(positions, dtype=np.int64), np.array(chosen))

    @classmethod
    def merged(cls, parts: Sequence[Tops], depth: int) -> Tops:
        """Tops of all parts together, given in any order; some may be empty."""
        parts = [part for part in parts if part.positions.size]
        positions = np.concatenate([part.positions for part in parts], axis=1)
        similarities = np.concatenate([part.similarities for part in parts], axis=1)
        order = np.lexsort((positions, -similarities), axis=1)[:, :depth]
        return cls(np.take_along_axis(positions, order, axis=1), np.take_along_axis(similarities, order, axis=1))

    def union(self, retained: int) -> list[int]:
        """Take rank 1 of every row, then rank 2 of every row, ... until enough; positions, ascending."""
        kept: set[int] = set()
        for ranks in self.positions.T.tolist():
            for position in ranks:
                kept.add(position)
                if len(kept) == retained:
                    return sorted(kept)
        return sorted(kept)


def shard_range(size: int, shard: int, shards: int) -> range:
    """The positions that shard `shard` of `shards` ranks: whole blocks, together the whole pool."""
    blocks = -(-size // BLOCK)
    return range(min(size, blocks * shard // shards * BLOCK), min(size, blocks * (shard + 1) // shards * BLOCK))


def tops_by_cosine(
    texts: Sequence[str], part: range, validation: FloatArray, depth: int, embed: Callable[[Sequence[str]], FloatArray]
) -> Tops:
    """Tops of a part of the pool by cosine similarity, embedded block by block.

    Args:
        texts: of the part.
        part: its positions in the pool.
        validation: (m, d) unit-length embeddings.
        embed: (b, d) unit-length embeddings of texts.
    """
    tops = Tops.of((np.empty(0) for _ in validation), part.start, depth)
    for start in range(0, len(texts), BLOCK):
        vectors = embed(texts[start : start + BLOCK])
        block = Tops.of((vectors @ row for row in validation), part.start + start, depth)
        tops = Tops.merged([tops, block], depth)
    return tops


def tops_by_bm25(pool: Iterable[str], part: range, validation: Sequence[str], depth: int) -> Tops:
    """Tops of a part of the pool by BM25 over the inputs; `pool` is read once, to its end."""
    return Tops.of(bm25_similarities(pool, validation, part), part.start, depth)


def bm25_similarities(
    pool: Iterable[str], validation: Sequence[str], part: range | None = None
) -> Iterator[FloatArray]:
    """(n,) BM25 scores (Okapi, k1=1.5, b=0.75; lower-cased words) of the pool, for one validation row after another.

    The scores of `BM25Okapi.get_scores`, which looks every word of the row up in every text of the pool and keeps the
    counts of all words of all texts; here words are counted text by text, and each word of the validation set knows the
    texts of the part that it is in.

    Args:
        part: positions to score; None is the whole pool. Document frequencies are those of the whole pool all the same.
    """
    queries = [_words(text) for text in validation]
    counted = _count(pool, {word for query in queries for word in query}, part)
    lengths = np.array(counted.lengths)
    if not counted.total_words:  # nothing to match on, e.g. only punctuation: every ranking is a tie
        yield from (np.zeros(len(lengths)) for _ in validation)
        return
    index = _Index(counted)
    saturation = index.k1 * (1 - index.b + index.b * lengths / index.avgdl)
    weights = {word: _weights(index, word, found, saturation) for word, found in counted.found.items() if found[0]}
    for query in queries:
        scores = np.zeros(len(lengths))
        for word in query:
            if word in weights:
                positions, gains = weights[word]
                scores[positions] += gains
        yield scores


@dataclass
class _Counts:
    """Counts that BM25 needs: over all texts, how many hold each word; of a part, the lengths, and for each word of the
    queries the texts (counted from the part's first) with how often it is in them."""

    texts: int = 0
    total_words: int = 0
    holding: dict[str, int] = field(default_factory=dict)
    lengths: array[int] = field(default_factory=lambda: array("i"))
    found: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict)


def _count(pool: Iterable[str], query_words: set[str], part: range | None) -> _Counts:
    counted = _Counts(found={word: (array("i"), array("i")) for word in query_words})
    holding = counted.holding
    for position, text in enumerate(pool):
        words = _words(text)
        counted.texts += 1
        counted.total_words += len(words)
        distinct = dict.fromkeys(words)  # in the order in which rank-bm25 meets and sums them
        for word in distinct:
            holding[word] = holding.get(word, 0) + 1
        if part is None or position in part:
            for word in distinct.keys() & query_words:
                texts, times = counted.found[word]
                texts.append(len(counted.lengths))
                times.append(words.count(word))
            counted.lengths.append(len(words))
    return counted


class _Index(BM25Okapi):  # type: ignore[misc]
    """The library's index with its weights and defaults, over counts in the place of texts."""

    def _initialize(self, counted: _Counts) -> dict[str, int]:
        self.corpus_size = counted.texts
        self.avgdl = counted.total_words / counted.texts
        return counted.holding


def _weights(
    index: BM25Okapi, word: str, found: tuple[array[int], array[int]], saturation: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The texts that a word is in, and what it adds to the score of each."""
    positions, times = (np.array(column) for column in found)
    return positions, index.idf[word] * (times * (index.k1 + 1) / (times + saturation[positions]))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
