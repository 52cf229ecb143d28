"""What answers cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ease_lib.black_box.client import Completion


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What answers cost; adds up. `requests` were answered or refused by the endpoint, `cached` are of the cache.

    `oldest_answer` is the time of the oldest one among them (ISO 8601), empty where none has a time.
    """

    requests: int = 0
    cached: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    oldest_answer: str = ""

    def __add__(self, other: Usage) -> Usage:
        counted = [field.name for field in fields(Usage) if field.name != "oldest_answer"]
        times = [time for time in (self.oldest_answer, other.oldest_answer) if time]
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in counted},
            oldest_answer=min(times, default=""),
        )

    @classmethod
    def of(cls, completion: Completion) -> Usage:
        """One answer that was asked for."""
        return cls(requests=1, prompt_tokens=completion.prompt_tokens, completion_tokens=completion.completion_tokens)

    def cost_usd(self, *, prompt_usd: float, completion_usd: float) -> float:
        """Prices are USD for a million tokens."""
        return (self.prompt_tokens * prompt_usd + self.completion_tokens * completion_usd) / 1e6

    def counts(self, *, prompt_usd: float, completion_usd: float) -> dict[str, int | float]:
        """Requests, tokens and cost by the names that summaries and reports use."""
        return {
            "requests": self.requests,
            "cached": self.cached,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost_usd(prompt_usd=prompt_usd, completion_usd=completion_usd),
        }


def usage_of(prompts: Sequence[str], completions: Sequence[Completion], seconds: float) -> Usage:
    """A prompt that occurs twice was asked once."""
    by_prompt: dict[str, Completion] = {}
    for prompt, completion in zip(prompts, completions, strict=True):
        by_prompt.setdefault(prompt, completion)
    asked = [completion for completion in by_prompt.values() if not completion.cached]
    return Usage(
        requests=len(asked),
        cached=len(completions) - len(asked),
        retries=sum(completion.retries for completion in asked),
        prompt_tokens=sum(completion.prompt_tokens for completion in asked),
        completion_tokens=sum(completion.completion_tokens for completion in asked),
        seconds=seconds,
        oldest_answer=min((each.answered_at for each in completions if each.answered_at), default=""),
    )
