"""Whether an endpoint cuts prompts without saying so, as the tokens that it counts show.

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
"""Tokens by which the lengths of prompts differ that would not be counted as equal by chance."""


class CutPrompts:
    """Token counts of one endpoint."""

    def __init__(self) -> None:
        self._counted: dict[int, int] = {}
        """Counted tokens of a prompt by its estimated tokens."""
        self._was_said = False

    def met(self, estimated: int, counted: int) -> str:
        """How it shows that prompts are cut, once; empty as long as it does not.

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
        """Lengths of prompts for which as many are counted as for any, though they are longer."""
        lengths = [each for each, tokens in self._counted.items() if tokens == most]
        if len(lengths) < LEAST_PROMPTS or max(lengths) - min(lengths) >= UNEQUAL:
            return lengths
        others = [tokens / each for each, tokens in self._counted.items() if tokens < most and each >= most / 2]
        share = FEWER_THAN_OTHERS * min(others) if len(others) >= LEAST_PROMPTS else FEWER
        return [each for each in lengths if most < share * each]
