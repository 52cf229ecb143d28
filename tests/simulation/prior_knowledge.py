"""Models that know some answers beforehand: for the study of how much selection matters to a model that knows the task.

The simulated endpoint's other model knows nothing but what its prompt shows. Only the models made here know answers,
and only those of two tasks: the line y = -4x + 6 (`lr`) and the pig Latin variant
(`lp_variant`). Which queries a model knows is a hash of the query: exemplars neither help nor mislead it there, and a
model with more knowledge knows all that one with less does. Everywhere else it answers as the in-context learner does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from decimal import Decimal

from ease_lib.tasks.generated import INTERCEPT, SLOPE, translate
from ease_lib.tasks.sentences import grammar
from tests.simulation import in_context_learner

_NUMBER = re.compile(r"[-+]?\d{1,12}(?:\.\d{1,6})?")
VOCABULARY = frozenset(
    word
    for text in (*grammar().patterns, *(words for kind in grammar().words.values() for words in kind), "a an")
    for word in re.findall("[a-z]+", re.sub(r"\{.*?\}", " ", text).lower())
)
"""All words of the sentences of `lp_variant`, in lower case."""
_SENTENCE = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?(?: [A-Za-z]+(?:'[A-Za-z]+)?)*[.!?]?")


def knowing_model(knowledge: float) -> Callable[[str], str]:
    """The completions of a model that knows this share of the answers, in [0, 1]; equal prompts get equal ones."""

    def answer(prompt: str) -> str:
        query = in_context_learner.read_prompt(prompt).query
        known = prior_answer(query) if _chance(query) < knowledge else None
        return in_context_learner.answer(prompt) if known is None else known

    return answer


def prior_answer(query: str) -> str | None:
    """The right answer to a number (`lr`), or to a sentence or word of `lp_variant`; None to any other query.

    Words of `lp_variant` are those of its own sentences, and any others as long as all are lower case: the sentences
    of most other tasks begin with a capital.
    """
    number = query.replace("\u2212", "-")
    if _NUMBER.fullmatch(number):
        value = SLOPE * Decimal(number) + INTERCEPT
        return f"{value.normalize() + 0:f}"
    words = set(re.findall(r"[a-z']+", query.lower()))
    if _SENTENCE.fullmatch(query) and (query.islower() or words <= VOCABULARY):
        return translate(query)
    return None


def _chance(query: str) -> float:
    return int.from_bytes(hashlib.sha256(f"known/{query}".encode()).digest()[:8], "big") / 2**64
