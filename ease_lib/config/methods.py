"""The search methods, and what each may be asked for; `search/optimizers/registry.py` makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Method:
    """A search method.

    Args:
        chooses_rows: of every evaluation; then it takes any number of exemplars up to k unless told otherwise, and a
            budget of answers, which may be what the caps leave.
        is_flexible: it searches instructions and a range of k too.
        evaluates_once: one sequence, whatever the budget is.
        depends_on_budget: a larger budget does not continue its search but starts another.
        has_surrogate: it sees sequences by `representation`.
        embeds: it sees exemplars, or exemplars and validation rows, by their embeddings.
    """

    chooses_rows: bool = False
    is_flexible: bool = False
    evaluates_once: bool = False
    depends_on_budget: bool = False
    has_surrogate: bool = False
    embeds: bool = False


METHODS = {
    "adaptive": Method(chooses_rows=True, is_flexible=True, embeds=True),
    "halving": Method(chooses_rows=True, is_flexible=True),
    "capo": Method(chooses_rows=True, is_flexible=True),
    "ease": Method(is_flexible=True, has_surrogate=True, embeds=True),
    "best_of_n": Method(is_flexible=True),
    "evolution": Method(is_flexible=True),
    "influence": Method(depends_on_budget=True),
    "active": Method(depends_on_budget=True, embeds=True),
    "cosine": Method(embeds=True),
    "bm25": Method(),
    "dpp": Method(evaluates_once=True, embeds=True),
    "mmd": Method(evaluates_once=True, embeds=True),
    "ot": Method(evaluates_once=True, embeds=True),
    "llm_select": Method(evaluates_once=True),
    "zero_shot": Method(evaluates_once=True),
}
CHOOSE_ROWS = ", ".join(name for name, method in METHODS.items() if method.chooses_rows)
FLEXIBLE = ", ".join(name for name, method in METHODS.items() if method.is_flexible)
"""Names of the methods with a flexible length, for messages."""
