"""The numbers of a run: what `report.json` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any


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
    rows = dataset["validation"]
    full = [row for row in history if not row["is_partial"]]
    first_best = next(row["iteration"] for row in full if row["score"] == best["validation_score"])
    of_dataset = ("pool", "validation", "test", "noisy", "unused", "classes", "notices")
    counted = ("requests", "new_requests", "cached", "retries", "prompt_tokens", "completion_tokens", "cost_usd")
    return {
        "task": dataset["task"],
        "metric": dataset["metric"],
        "method": search["method"],
        "seed": search["seed"],
        "simulated": search["simulated"],
        "resumed": search["resumed"],
        "replayed_evaluations": search["replayed"],
        "evaluations": search["evaluations"],
        "partial_evaluations": search["partial_evaluations"],
        "requests_saved_by_racing": sum(rows - row["validation_rows"] for row in history if row["is_partial"]),
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
            "found_at_evaluation": first_best + 1,
        },
        "random": {
            "validation_score": _mean_over_rows(initial),
            "validation_standard_deviation": stdev(row["score"] for row in initial) if len(initial) > 1 else None,
            "test_score": test["random"]["score"],
            "test_scores": test["random"]["scores"],
            "sequences": len(initial),
        },
        "proposed": {"validation_score": _mean_over_rows(proposed), "sequences": len(proposed)},
        "gain": test["gain"],
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


def _mean_over_rows(evaluations: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean score of all validation rows asked: an evaluation that racing cut short counts for the rows it had."""
    asked = sum(row["validation_rows"] for row in evaluations)
    return sum(row["score"] * row["validation_rows"] for row in evaluations) / asked if asked else None
