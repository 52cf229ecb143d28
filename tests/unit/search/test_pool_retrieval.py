import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from ease_lib.search import pool_retrieval
from ease_lib.search.pool_retrieval import Tops, bm25_similarities, shard_range, tops_by_bm25, tops_by_cosine
from ease_lib.seeding import rng


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(pool_retrieval, "BLOCK", 8)


def plain_union(similarities, retained):
    """Rank by rank, validation row by validation row, until enough are in."""
    orders = [sorted(range(len(row)), key=lambda index: (-row[index], index)) for row in similarities]
    kept = []
    for rank in range(similarities.shape[1]):
        for order in orders:
            position = order[rank]
            if position not in kept and len(kept) < retained:
                kept.append(position)
    return sorted(kept)


def kept_by_cosine(pool, validation, retained, shards=1):
    """Texts are positions, so that embedding one looks it up."""
    tops = []
    for shard in range(shards):
        part = shard_range(len(pool), shard, shards)
        texts = [str(position) for position in part]
        tops.append(
            tops_by_cosine(texts, part, validation, retained, lambda texts: pool[[int(text) for text in texts]])
        )
    return Tops.merged(tops, retained).union(retained)


def kept_by_bm25(pool, validation, retained, shards=1):
    parts = [shard_range(len(pool), shard, shards) for shard in range(shards)]
    return Tops.merged([tops_by_bm25(pool, part, validation, retained) for part in parts], retained).union(retained)


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("retained", [1, 3, 10, 29, 30])
def test_cosine_equals_the_plain_loop_in_any_number_of_shards(retained, shards):
    draw = rng(0, "prefilter")
    pool, validation = draw.normal(size=(30, 4)), draw.normal(size=(5, 4))
    pool[20:24] = pool[3:7]  # equal ones in different shards: ties go to the earlier
    assert kept_by_cosine(pool, validation, retained, shards) == plain_union(validation @ pool.T, retained)


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("retained", [1, 4, 8])
def test_bm25_equals_the_plain_loop_in_any_number_of_shards(retained, shards, monkeypatch):
    monkeypatch.setattr(pool_retrieval, "BLOCK", 2)
    pool = ["The red car", "a blue CAR", "red, red wine", "green tea", "tea for two", "cars", "wine bar", "Über cool"]
    validation = ["red car", "Tea?", "über wine"]
    index = BM25Okapi([text.lower().replace(",", "").split() for text in pool])
    similarities = np.array([index.get_scores(text.lower().strip("?").split()) for text in validation])
    assert kept_by_bm25(pool, validation, retained, shards) == plain_union(similarities, retained)


def test_bm25_scores_are_those_of_rank_bm25():
    """Bit for bit: words that repeat, that most texts have, or that no text has; texts of other lengths and of none."""
    draw = rng(1, "prefilter")
    words = [f"w{index}" for index in range(200)]
    shares = 1 / np.arange(1, 201) ** 1.5
    pool = [" ".join(draw.choice(words, draw.integers(0, 20), p=shares / shares.sum())) for _ in range(2000)]
    validation = [*(" ".join(draw.choice(words, 10)) for _ in range(19)), "w0 w0 w5 w5 unheard", "unheard", ""]
    index = BM25Okapi([text.split() for text in pool])
    assert index.idf["w0"] == index.epsilon * index.average_idf, "the floor for a word that most texts have"
    expected = np.array([index.get_scores(text.split()) for text in validation])
    np.testing.assert_array_equal(list(bm25_similarities(pool, validation)), expected)
    part = range(640, 1336)
    np.testing.assert_array_equal(list(bm25_similarities(pool, validation, part)), expected[:, part.start : part.stop])
    for shards in (1, 7):
        assert kept_by_bm25(pool, validation[:3], 50, shards) == plain_union(expected[:3], 50)


@pytest.mark.parametrize(("size", "shards"), [(0, 3), (1, 1), (8, 2), (30, 3), (65, 8), (30, 50)])
def test_shards_are_whole_blocks_and_together_the_pool(size, shards):
    parts = [shard_range(size, shard, shards) for shard in range(shards)]
    assert [position for part in parts for position in part] == list(range(size))
    assert all(part.start % 8 == 0 for part in parts if part)


def test_every_validation_row_gets_its_best_exemplar():
    pool = np.eye(6)
    assert kept_by_cosine(pool, pool[[4, 1]], 2) == [1, 4]


def test_pools_without_words_are_kept_in_order():
    assert kept_by_bm25(["?!", "...", "--"], ["??"], 2) == [0, 1]
