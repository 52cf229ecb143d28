"""What tokens buy: the prompts that no other one beats at fewer or as many tokens, from the answers at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.outcome import Outcome

LEAST_STEP = 0.02
"""Between two points of the front; less is luck, and no reason for more tokens."""


def token_front(outcome: Outcome, tokens_of: Callable[[Prompt], int]) -> list[dict[str, Any]]:
    """From the shortest prompt to the best one, each better than all that are shorter.

    Args:
        tokens_of: tokens of a prompt before the query.

    Returns:
        of each: `tokens`, `exemplars`, `estimate` of its score on new rows with its standard `error`, and `rows` that
        it was asked.
    """
    points = [
        {
            "tokens": tokens_of(prompt),
            "exemplars": len(prompt[1]),
            "estimate": float(np.clip(outcome.model.mean[place], 0.0, 1.0)),
            "error": float(np.sqrt(max(outcome.model.covariance[place, place], 0.0))),
            "rows": len(outcome.answers.asked(prompt)),
        }
        for place, prompt in enumerate(outcome.model.prompts)
    ]
    front: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda each: (each["tokens"], -each["estimate"])):
        if not front or point["estimate"] > front[-1]["estimate"] + LEAST_STEP:
            front.append(point)
    return front
