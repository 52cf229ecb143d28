"""Caps."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class CapsConfig(Section):
    """What the run may cost. A cap stops the search with its incumbent as result; 0 is no cap."""

    max_llm_requests: int = param(
        0,
        "LLM requests of the run at most, retries too, trial questions aside; 0 is no cap.",
        low=0,
        high=10**12,
        form=True,
        role="cap",
    )
    max_cost_usd: float = param(
        0.0,
        "Cost of the run in USD at most, trial questions aside (needs prices); 0 is no cap.",
        low=0,
        high=1e9,
        role="cap",
    )
    max_zero_answers: int = param(
        100,
        "Answers that may all score 0 and fit no row (mostly it is the format) before the search stops; 0 is no limit.",
        low=0,
        high=10**9,
        role="tolerance",
    )
    max_seconds: float = param(
        0.0, "Duration of the search at most, over all attempts; 0 is no cap.", low=0, high=1e9, role="cap"
    )
