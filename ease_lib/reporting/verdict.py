"""The first line of every result: is the winner better than doing nothing, on rows that it was not chosen by?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BETTER, WORSE, NO_EVIDENCE, NOT_COMPARED = "better", "worse", "no evidence", "not compared"


def verdict(test: Mapping[str, Any]) -> dict[str, str]:
    """What the test set says of the winner.

    Args:
        test: `gain` over random exemplars, `zero_shot` and `baseline`, as the stage `evaluate` writes them.

    Returns:
        `random`, `zero_shot` and `baseline`: one of the words above; `text`: a sentence on all, the baseline first.
    """
    gain, zero_shot, baseline = test["gain"], test["zero_shot"], test["baseline"]
    against = {"your baseline": baseline, "random exemplars": gain, "no exemplars": zero_shot}
    parts = [_compared(gain_, name) for name, gain_ in against.items() if gain_]
    if not parts:
        text = "There is nothing to compare the winner with."
    else:
        text = "; ".join(parts)
        text = f"{text[0].upper()}{text[1:]}, on {test['best']['rows']} test rows."
    return {"random": _word(gain), "zero_shot": _word(zero_shot), "baseline": _word(baseline), "text": text}


def _word(gain: Mapping[str, Any]) -> str:
    if not gain:
        return NOT_COMPARED
    if gain["evidence"]:
        return BETTER
    return WORSE if gain["interval"][1] < 0 else NO_EVIDENCE


def _compared(gain: Mapping[str, Any], name: str) -> str:
    low, high = (100 * bound for bound in gain["interval"])
    points = 100 * gain["mean"]
    size = f"{abs(points):.0f} points (95 %: {low:+.0f} to {high:+.0f})"
    word = _word(gain)
    if word == BETTER:
        return f"better than {name} by {size}"
    if word == WORSE:
        return f"worse than {name} by {size}"
    return f"no evidence of being better than {name}: {points:+.0f} points (95 %: {low:+.0f} to {high:+.0f})"
