"""Caps."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class CapsConfig(Section):
    """Limits on what the run may cost. A cap stops the search with its incumbent as the result; 0 means no cap."""

    max_llm_requests: int = param(
        0,
        "Maximum number of LLM requests, with retries, without trial questions; 0: no cap.",
        low=0,
        high=10**12,
        form=True,
        role="cap",
    )
    max_cost_usd: float = param(
        0.0,
        "Maximum cost in USD, without trial questions (needs prices); 0: no cap.",
        low=0,
        high=1e9,
        role="cap",
    )
    max_zero_answers: int = param(
        100,
        "Stop after this many answers if all score 0 and match no row (usually a format problem); 0 never stops.",
        low=0,
        high=10**9,
        role="tolerance",
    )
    max_seconds: float = param(
        0.0, "Maximum time of the search in seconds, over all attempts; 0: no cap.", low=0, high=1e9, role="cap"
    )
