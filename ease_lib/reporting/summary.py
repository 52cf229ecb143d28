"""The numbers of a run as `report.json` holds them, and the first line of every result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
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


def summarise(
    *,
    best: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    dataset: Mapping[str, Any],
    search: Mapping[str, Any],
    test: Mapping[str, Any],
    noisy: Mapping[int, bool | None],
    task_parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Join what the stages measured. Scores in [0, 1], times in seconds, costs in USD.

    Args:
        noisy: by exemplar id, whether its output was corrupted (None: unknown).
    """
    initial = [row for row in history if row["phase"] == "initial"]
    proposed = [row for row in history if row["phase"] == "search"]
    confirmed = sum(row["phase"] == "confirmation" for row in history)
    full = max(len(row["row_ids"]) for row in history)
    chosen = (best["exemplar_ids"], best["instruction_id"])
    found = next((row["iteration"] + 1 for row in history if _prompt(row) == chosen), None)
    of_dataset = ("pool", "validation", "test", "noisy", "unused", "classes", "notices")
    counted = (
        *("requests", "new_requests", "cached", "retries", "prompt_tokens", "completion_tokens", "cost_usd"),
        *("judge_requests", "judge_prompt_tokens", "judge_completion_tokens"),
    )
    return {
        "task": dataset["task"],
        "metric": dataset["metric"],
        "method": search["method"],
        "seed": search["seed"],
        "answered_by_function": search["answered_by_function"],
        "resumed": search["resumed"],
        "replayed_evaluations": search["replayed"],
        "evaluations": search["evaluations"],
        "recalled_answers": search["recalled_answers"],
        "answers": sum(len(row["row_ids"]) for row in history),
        "sequences": len({(row["instruction_id"], tuple(row["exemplar_ids"])) for row in history}),
        "failed_rows": {"validation": max(row["failed_rows"] for row in history), "test": test["best"]["failed_rows"]},
        "budget": search["budget"],
        "instructions": search["instructions"],
        "stopped": search["stopped"],
        "best": {
            "validation_score": best["validation_score"],
            "test_score": test["best"]["score"],
            "test_interval": test["best"]["interval"],
            "test_rows": test["best"]["rows"],
            "instruction": best["instruction"],
            "exemplar_ids": best["exemplar_ids"],
            "exemplars": [{**entry, "is_noisy": noisy[entry["exemplar_id"]]} for entry in best["exemplars"]],
            "found_at_evaluation": found,
            "estimate": best["estimate"],
            "estimate_interval": best["estimate_interval"],
            "validation_rows": best["validation_rows"],
        },
        "random": {
            "validation_score": _mean_over_rows(initial),
            "validation_standard_deviation": _deviation(initial, full),
            "test_score": test["random"]["score"],
            "test_scores": test["random"]["scores"],
            "sequences": len(initial),
        },
        "proposed": {"validation_score": _mean_over_rows(proposed), "sequences": len(proposed)},
        "confirmed": confirmed,
        "gain": test["gain"],
        "zero_shot": test["zero_shot"],
        "baseline": test["baseline"],
        "judge": test["judge"],
        "planned": search["planned"],
        "verdict": verdict(test),
        "order": search["order"],
        "token_front": search["token_front"],
        "harmful_exemplars": [{**each, "is_noisy": noisy[each["exemplar_id"]]} for each in search["harmful_exemplars"]],
        "dataset": {key: dataset[key] for key in of_dataset},
        "llm": {
            "endpoint": search["llm"]["endpoint"],
            "model": search["llm"]["model"],
            **{name: search["llm"][name] + test["llm"][name] for name in counted},
        },
        "oldest_answer": min(filter(None, (search["oldest_answer"], test["oldest_answer"])), default=""),
        "seconds": {
            "total": search["seconds"]["total"] + test["seconds"],
            "llm": search["seconds"]["llm"] + test["seconds"],
            "search": search["seconds"]["search"],
        },
        "truncated_sequences": search["truncated_sequences"],
        "parameters": {"task": dict(task_parameters), **search["parameters"]},
    }


def _prompt(row: Mapping[str, Any]) -> tuple[list[int], int]:
    return row["exemplar_ids"], row["instruction_id"]


def _deviation(evaluations: Sequence[Mapping[str, Any]], full: int) -> float | None:
    """Standard deviation of their scores; None where they are of a few rows each, and differ by luck most of all."""
    comparable = len(evaluations) > 1 and all(len(row["row_ids"]) == full for row in evaluations)
    return stdev(row["score"] for row in evaluations) if comparable else None


def _mean_over_rows(evaluations: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean score of all validation rows asked."""
    asked = sum(row["validation_rows"] for row in evaluations)
    return sum(row["score"] * row["validation_rows"] for row in evaluations) / asked if asked else None
