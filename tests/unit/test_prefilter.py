import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from ease_lib.prefilter import bm25_similarities, retain_by_bm25, retain_by_cosine
from ease_lib.seeding import rng


def plain_union(similarities, retained):
    """Rank by rank, validation row by validation row, until enough are in."""
    kept = []
    for rank in range(similarities.shape[1]):
        for row in similarities:
            position = sorted(range(len(row)), key=lambda index: (-row[index], index))[rank]
            if position not in kept and len(kept) < retained:
                kept.append(position)
    return sorted(kept)


@pytest.mark.parametrize("retained", [1, 3, 10, 29, 30, 100])
def test_cosine_equals_the_plain_loop(retained):
    draw = rng(0, "prefilter")
    pool, validation = draw.normal(size=(30, 4)), draw.normal(size=(5, 4))
    assert retain_by_cosine(pool, validation, retained) == plain_union(validation @ pool.T, min(retained, 30))


@pytest.mark.parametrize("retained", [1, 4, 8])
def test_bm25_equals_the_plain_loop(retained):
    pool = ["The red car", "a blue CAR", "red, red wine", "green tea", "tea for two", "cars", "wine bar", "Über cool"]
    validation = ["red car", "Tea?", "über wine"]
    index = BM25Okapi([text.lower().replace(",", "").split() for text in pool])
    similarities = np.array([index.get_scores(text.lower().strip("?").split()) for text in validation])
    assert retain_by_bm25(pool, validation, retained) == plain_union(similarities, retained)


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
    assert retain_by_bm25(pool, validation[:3], 50) == plain_union(expected[:3], 50)


def test_every_validation_row_gets_its_best_exemplar():
    pool = np.eye(6)
    assert retain_by_cosine(pool, pool[[4, 1]], 2) == [1, 4]


def test_pools_without_words_are_kept_in_order():
    assert retain_by_bm25(["?!", "...", "--"], ["??"], 2) == [0, 1]
