"""Detection of endpoints that cut prompts silently, from the tokens that they count.

A server with a small window (Ollama's `num_ctx`, proxies) may drop the beginning of a prompt and answer the rest. It
then counts far fewer tokens than were sent, or as many for prompts of unequal length.
"""

from __future__ import annotations

LEAST_PROMPTS = 5
"""Number of prompts of different lengths that are counted before anything is reported."""
FAR_FEWER = 0.25
"""Share of the estimated tokens below which a count is suspicious: 16 characters a token, which no tokenizer reaches on
text."""
FEWER = 0.7
"""Share that is suspicious when prompts of unequal length have equal counts: 6 characters a token, which is rare."""
FEWER_THAN_OTHERS = 0.8
"""Share of another prompt's count that is suspicious, if that prompt is at least half as long."""
UNEQUAL = 50
"""Difference in tokens from which on equal counts are not chance."""


class CutPrompts:
    """Token counts of one endpoint."""

    def __init__(self) -> None:
        self._counted: dict[int, int] = {}
        """Counted tokens of a prompt by its estimated tokens."""
        self._was_said = False

    def met(self, estimated: int, counted: int) -> str:
        """Evidence that prompts are cut, returned once; empty as long as there is none.

        Args:
            estimated, counted: tokens of a prompt, as we estimate and as the endpoint counts; 0 is not counted.
        """
        if self._was_said or not counted or self._counted.get(estimated) == counted:
            return ""
        self._counted[estimated] = counted
        most = max(self._counted.values())
        cut = [each for each, tokens in self._counted.items() if tokens < FAR_FEWER * each]
        if len(cut) < LEAST_PROMPTS and counted == most:
            cut = self._counted_alike(most)
        if len(cut) < LEAST_PROMPTS:
            return ""
        self._was_said = True
        return f"counts {counted} tokens for prompts of about {min(cut)} to {max(cut)}"

    def _counted_alike(self, most: int) -> list[int]:
        """Lengths of prompts with equal counts, although the prompts differ in length."""
        lengths = [each for each, tokens in self._counted.items() if tokens == most]
        if len(lengths) < LEAST_PROMPTS or max(lengths) - min(lengths) >= UNEQUAL:
            return lengths
        others = [tokens / each for each, tokens in self._counted.items() if tokens < most and each >= most / 2]
        share = FEWER_THAN_OTHERS * min(others) if len(others) >= LEAST_PROMPTS else FEWER
        return [each for each in lengths if most < share * each]
