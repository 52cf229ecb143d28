"""Mean scores of prompts as a history grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ease_lib.search.candidates.prompts import Prompt


class MeanScores:
    """Mean score of each prompt over all validation rows that it was asked.

    `sums` has the sum of scores and the number of rows, by prompt.
    """

    def __init__(self) -> None:
        self.sums: dict[Prompt, tuple[float, int]] = {}

    def add(self, prompt: Prompt, score: float, rows: int) -> tuple[float, int]:
        """Count an evaluation with a mean score over so many rows.

        Returns:
            the prompt's mean score over all of its rows so far, 0 without one, and how many they are.
        """
        total, count = self.sums.get(prompt, (0.0, 0))
        total, count = self.sums[prompt] = total + score * rows, count + rows
        return total / count if count else 0.0, count


def prompt_of(row: Mapping[str, Any]) -> Prompt:
    """The prompt of a row of the artifact `history`, or of the artifact `best_sequence`."""
    return row["instruction_id"], tuple(row["exemplar_ids"])
