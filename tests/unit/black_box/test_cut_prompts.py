"""An endpoint that cuts prompts is told by the tokens that it counts; one that counts well is never accused."""

import random

import pytest

from ease_lib.black_box.client import estimated_tokens
from ease_lib.black_box.cut_prompts import CutPrompts


def notices(pairs):
    cut = CutPrompts()
    return [notice for estimated, counted in pairs if (notice := cut.met(estimated, counted))]


PROMPTS = [" ".join(["reading"] * length) for length in range(100, 300, 7)]


def test_as_many_tokens_for_prompts_of_unequal_length_are_said_once():
    (notice,) = notices([(estimated_tokens(prompt), min(180, 1 + len(prompt.split()))) for prompt in PROMPTS])
    assert "counts 180 tokens for prompts of about" in notice


def test_far_fewer_tokens_than_were_sent_are_said():
    assert notices([(100 + number, 20 + number % 3) for number in range(10)])


def test_prompts_of_nearly_one_length_that_are_cut_are_said():
    assert notices([(70 + number, 40) for number in range(6)])


@pytest.mark.parametrize("per_token", [1.5, 2, 3, 4, 5, 8])
def test_an_endpoint_that_counts_is_not_accused(per_token):
    drawn = random.Random(0)
    lengths = [drawn.randint(20, 4000) for _ in range(500)]
    assert notices([(estimated_tokens("a" * length), round(length / per_token)) for length in lengths]) == []


def test_words_of_one_token_each_are_no_cut():
    """Antonyms: `Input: hot`, `Input: wonderful`."""
    words = ["hot", "big", "wonderful", "beautiful", "old", "expensive", "new", "comfortable"]
    assert notices([(estimated_tokens(f"Input: {word}\nOutput:"), 7) for word in words]) == []


def test_an_endpoint_that_does_not_count_is_not_accused():
    assert notices([(estimated, 0) for estimated in range(1000)]) == []
