"""Cost of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ease_lib.black_box.client import Completion, Paid


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Cost of answers; can be added. `requests` were answered or refused by the endpoint, `cached` are of the cache.

    Those that a judge was sent are among `requests`, and `judge_requests` counts them; its tokens are counted
    separately. `cut_answers` were ended by the limit of tokens, kept ones and the judge's too. `oldest_answer` is the
    time of the oldest one among them (ISO 8601), empty if none has a time. `usd` is what a program says that its
    answers cost.
    """

    requests: int = 0
    cached: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    judge_requests: int = 0
    judge_prompt_tokens: int = 0
    judge_completion_tokens: int = 0
    cut_answers: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    oldest_answer: str = ""

    def __add__(self, other: Usage) -> Usage:
        times = [time for time in (self.oldest_answer, other.oldest_answer) if time]
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTED},
            oldest_answer=min(times, default=""),
        )

    @classmethod
    def of(cls, paid: Paid, *, judged: bool = False) -> Usage:
        """One answer that was asked for, or a prompt that was refused; `judged` where it is the judge's."""
        usage = cls(
            requests=1,
            retries=paid.retries,
            prompt_tokens=paid.prompt_tokens,
            completion_tokens=paid.completion_tokens,
            cut_answers=int(paid.cut),
            usd=paid.cost_usd,
        )
        return usage.of_judge if judged else usage

    @property
    def of_judge(self) -> Usage:
        """The same usage, counted as the judge's."""
        return replace(
            self,
            prompt_tokens=0,
            completion_tokens=0,
            judge_requests=self.requests,
            judge_prompt_tokens=self.prompt_tokens,
            judge_completion_tokens=self.completion_tokens,
        )

    def share(self, share: float) -> Usage:
        """A share of the requests and tokens, rounded."""
        counted = ("requests", "prompt_tokens", "completion_tokens")
        names = (*counted, *(f"judge_{name}" for name in counted))
        return Usage(**{name: round(share * getattr(self, name)) for name in names}, usd=share * self.usd)

    def cost_usd(self, **prices: float) -> float:
        """Cost in USD: the cost that a program reports, plus tokens at prices in USD per million: `prompt_usd`,
        `completion_usd`, and with `judge_` before the judge's.
        """
        tokens = {
            "prompt_usd": self.prompt_tokens,
            "completion_usd": self.completion_tokens,
            "judge_prompt_usd": self.judge_prompt_tokens,
            "judge_completion_usd": self.judge_completion_tokens,
        }
        return self.usd + sum(price * tokens[name] for name, price in prices.items()) / 1e6

    def counts(self, **prices: float) -> dict[str, int | float]:
        """Requests, tokens and cost by the names that summaries and reports use; prices as `cost_usd` takes them."""
        return {
            "requests": self.requests,
            "cached": self.cached,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "judge_requests": self.judge_requests,
            "judge_prompt_tokens": self.judge_prompt_tokens,
            "judge_completion_tokens": self.judge_completion_tokens,
            "cut_answers": self.cut_answers,
            "cost_usd": self.cost_usd(**prices),
        }


_COUNTED = [field.name for field in fields(Usage) if field.name != "oldest_answer"]


def usage_of(prompts: Sequence[str], completions: Sequence[Completion], seconds: float) -> Usage:
    """Usage of prompts and their answers; a prompt that occurs twice was sent once."""
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
        cut_answers=sum(completion.cut for completion in completions),
        usd=sum(completion.cost_usd for completion in asked),
        seconds=seconds,
        oldest_answer=min((each.answered_at for each in completions if each.answered_at), default=""),
    )
