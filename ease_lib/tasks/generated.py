"""The two tasks of the paper that are made here (Sec. 4).

`lr`          y = -4x + 6 over whole numbers, with y = 5x - 8 as the wrong rule. They are equal nowhere.
`lp_variant`  sentences in a pig Latin that adds "ay" by both rules. A word that starts with a vowel gets "ay" behind
              it; another moves its leading consonants behind it, then "ay" ("y" counts as a consonant at the start
              only). The first letter keeps its capital: "Tom" becomes "Omtay". Punctuation stays. The wrong rule
              repeats the input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ease_lib.errors import ConfigError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Row, TaskSource

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
_ONSET = re.compile(r"[^aeiou][^aeiouy]*", re.IGNORECASE)

_PEOPLE = (
    *("Tom", "Mary", "Alice", "Oscar", "Grandma", "They", "Everyone", "Our neighbour", "My uncle", "Three students"),
    *("Nobody", "We", "The old teacher", "Ivan", "Chris"),
)
_ACTIONS = {
    "opened": ("the heavy door", "an umbrella", "three letters", "the wrong box"),
    "bought": ("an orange", "fresh bread", "two train tickets", "a green scarf"),
    "forgot": ("the keys", "her glasses", "an appointment", "everything"),
    "found": ("a strange stone", "old photographs", "the missing shoe", "some honey"),
    "painted": ("the kitchen", "a quiet river", "eleven chairs", "the iron fence"),
    "carried": ("a sleeping child", "wet towels", "the ladder", "apples"),
    "wrote": ("a short story", "an angry note", "the whole speech", "questions"),
    "repaired": ("the clock", "a broken engine", "our roof", "its wheels"),
    "watched": ("the snow", "an empty street", "small birds", "the final game"),
    "cooked": ("spicy soup", "eggs", "enough rice", "a simple dinner"),
    "asked": ("about the price", "for help", "the guide", "a stranger"),
    "visited": ("Italy", "the museum", "friends in Oslo", "an island"),
    "sold": ("every ticket", "the piano", "used books", "a yellow truck"),
    "sang": ("quietly", "an ancient song", "with the choir", "in the rain"),
}
_TIMES = (
    *("today", "yesterday", "every evening", "on Friday", "this morning", "again", "at noon", "before breakfast"),
    *("after school", "once more"),
)
_ENDINGS = (".", ".", ".", ".", "!", "?")
_PHRASES = (*_PEOPLE, *_ACTIONS, *(thing for things in _ACTIONS.values() for thing in things), *_TIMES)
VOCABULARY = frozenset(" ".join(_PHRASES).lower().split())
"""All words of the task's sentences, in lower case."""


def pig_latin_variant(*, rows: int, seed: int) -> TaskSource:
    """Distinct sentences of a small grammar with their translations.

    Raises:
        ConfigError: when more sentences are asked for than the grammar has.
    """
    possible = len(_PEOPLE) * sum(map(len, _ACTIONS.values())) * len(_TIMES) * len(set(_ENDINGS))
    if rows > possible // 2:
        raise ConfigError(
            f"lp_variant has sentences for {possible // 2} rows, not {rows}; "
            "lower pool_size, validation_size or test_size"
        )
    draw = rng(seed, "lp_variant", "sentences")
    sentences: dict[str, None] = {}
    while len(sentences) < rows:
        sentences.setdefault(_sentence(draw))
    return TaskSource(
        name="lp_variant",
        metric="exact_match",
        rows=[Row(sentence, (translate(sentence),), is_noisy=False) for sentence in sentences],
        noise_rule=lambda sentence: sentence,
    )


def translate(sentence: str) -> str:
    """The sentence in the pig Latin variant."""
    return _WORD.sub(lambda match: _translate_word(match.group()), sentence)


def _translate_word(word: str) -> str:
    if word[0].lower() in "aeiou":
        return word + "ay"
    onset = _ONSET.match(word)
    moved = onset.end() if onset else 0
    turned = word[moved:] + word[:moved].lower() + "ay"
    return turned[0].upper() + turned[1:] if word[0].isupper() else turned


def _sentence(draw: np.random.Generator) -> str:
    def pick(options: Sequence[str]) -> str:
        return options[int(draw.integers(len(options)))]

    verb = pick(tuple(_ACTIONS))
    return " ".join((pick(_PEOPLE), verb, pick(_ACTIONS[verb]), pick(_TIMES))) + pick(_ENDINGS)
