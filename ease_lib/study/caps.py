"""Caps: what a run may cost. Each stops the search cleanly, before the evaluation that would break the cap."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.evaluation.objective import Usage

NO_ESTIMATE = Usage(requests=1)
NOTHING = Usage()


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Caps of the whole run, of which the search leaves the test set its part; 0 is no cap.

    Args:
        requests: LLM requests, failed ones that were retried included.
        cost_usd: at `prompt_usd` and `completion_usd` for a million tokens.
        seconds: duration of the search, over all attempts.
        evaluation: about what one evaluation costs, `requests` at most; once something is spent, that tells better what
            a request costs.
        test_requests: of the test set.
        spent: before the search, on the proposal of instructions.
    """

    requests: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    prompt_usd: float = 0.0
    completion_usd: float = 0.0
    evaluation: Usage = NO_ESTIMATE
    test_requests: int = 0
    spent: Usage = NOTHING

    def reached(self, spent: Usage, seconds: float, under_way: int = 0) -> str | None:
        """The cap that the next evaluation would break, as `name=value`, or None.

        Args:
            spent: by all evaluations so far.
            seconds: that the search has taken.
            under_way: evaluations that are proposed and will be paid for before.
        """
        coming = self.evaluation.requests * (under_way + 1) + self.test_requests
        if self.requests and spent.requests + spent.retries + coming > self.requests:
            return f"max_llm_requests={self.requests}"
        if self.cost_usd and self._cost(spent) + self._expected_cost(coming, spent) > self.cost_usd:
            return f"max_cost_usd={self.cost_usd:g}"
        if self.seconds and seconds >= self.seconds:
            return f"max_seconds={self.seconds:g}"
        return None

    def described(self, requests: int) -> str:
        """About what so many requests cost, in words."""
        share = requests / self.evaluation.requests
        prompt, completion = share * self.evaluation.prompt_tokens, share * self.evaluation.completion_tokens
        text = f"about {_rounded(prompt)} prompt and {_rounded(completion)} completion tokens"
        cost = self._expected_cost(requests, Usage())
        return f"{text}, about ${cost:.2f}" if cost else text

    def _expected_cost(self, requests: int, spent: Usage) -> float:
        example = spent if spent.requests else self.evaluation
        return self._cost(example) / example.requests * requests

    def _cost(self, usage: Usage) -> float:
        return usage.cost_usd(prompt_usd=self.prompt_usd, completion_usd=self.completion_usd)


def _rounded(number: float) -> str:
    """Two digits that mean something."""
    return f"{float(f'{number:.2g}'):,.0f}".replace(",", " ")
