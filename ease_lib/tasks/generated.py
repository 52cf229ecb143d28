"""The two tasks of the paper that are generated here (Sec. 4).

`lr`          y = -4x + 6 over whole numbers, with y = 5x - 8 as the wrong rule. They are equal nowhere.
`lp_variant`  sentences in a pig Latin that adds "ay" by both rules, where the usual one adds "way" or "yay" to words
              that start with a vowel. Another word moves its leading consonants behind it first ("y" is one). The
              first letter keeps its capital: "Tom" becomes "Omtay". Punctuation stays. The wrong rule repeats the
              input.
              The rule is that of the published data, in which, against the paper's text, a word that starts with a
              vowel and ends in "a" gets only "y" ("a" becomes "ay"). The sentences are our own (`sentences`).
"""

from __future__ import annotations

import re

from ease_lib.errors import ConfigError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Row, TaskSource
from ease_lib.tasks.sentences import sentence

LARGEST_X = 499
SLOPE, INTERCEPT = -4, 6
WRONG_SLOPE, WRONG_INTERCEPT = 5, -8


def linear_rule(*, rows: int, seed: int) -> TaskSource:
    """Rows with distinct x in 0..499, or up to as many more as `rows` asks for."""
    values = rng(seed, "lr", "inputs").permutation(max(LARGEST_X + 1, rows))[:rows]
    return TaskSource(
        name="lr",
        metric="exact_match",
        rows=[Row(str(x), (str(SLOPE * int(x) + INTERCEPT),), is_noisy=False) for x in values],
        noise_rule=lambda text: str(WRONG_SLOPE * int(text) + WRONG_INTERCEPT),
    )


_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?")
_ONSET = re.compile(r"[^aeiou]+", re.IGNORECASE)
MOST_SENTENCES = 100_000
"""Number of sentences used of the millions that exist, some of which are drawn often."""


def pig_latin_variant(*, rows: int, seed: int) -> TaskSource:
    """Distinct sentences of a small grammar with their translations.

    Raises:
        ConfigError: when more sentences are asked for than the grammar has.
    """
    if rows > MOST_SENTENCES:
        raise ConfigError(
            f"lp_variant has sentences for {MOST_SENTENCES} rows, not {rows}; "
            "lower pool_size, validation_size or test_size"
        )
    draw = rng(seed, "lp_variant", "sentences")
    sentences: dict[str, None] = {}
    while len(sentences) < rows:
        sentences.setdefault(sentence(draw))
    return TaskSource(
        name="lp_variant",
        metric="exact_match",
        rows=[Row(text, (translate(text),), is_noisy=False) for text in sentences],
        noise_rule=lambda text: text,
    )


def translate(text: str) -> str:
    """The sentence in the pig Latin variant."""
    return _WORD.sub(lambda match: _translate_word(match.group()), text)


def _translate_word(word: str) -> str:
    onset = _ONSET.match(word)
    moved = onset.end() if onset else 0
    ending = "y" if not moved and word.endswith("a") else "ay"
    turned = f"{word[moved:]}{word[:moved]}{ending}".lower()
    return turned.capitalize() if word[0].isupper() else turned
