"""The numbers of a run as `report.json` holds them, and the first line of every result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any, NamedTuple

from ease_lib.config.sections import EVALUATED
from ease_lib.words import grouped

LEAST_SHARE = 0.01
MANY_CUT = 0.01
"""Share of cut answers above which they may lower the score."""
ENOUGH_ANSWERS = 800
"""Number of answers from which on the default method beat Best-of-N in every kind of world
(tests/benchmarks/README.md)."""
BETTER, WORSE, NO_EVIDENCE, NOT_COMPARED = "better", "worse", "no evidence", "not compared"


def verdict(test: Mapping[str, Any], share_as_good: float | None = None) -> dict[str, str]:
    """Verdict of the test set on the winner.

    Args:
        share_as_good: of random sequences; stated if the winner is better than they are on average.
        test: what the winner gains over `random` exemplars, `zero_shot` and `baseline`, as `evaluate` writes it.

    Returns:
        `random`, `zero_shot` and `baseline`: one of the words above; `text`: a sentence on all, the baseline first.
    """
    random, zero_shot, baseline = test["random"], test["zero_shot"], test["baseline"]
    against = {"your baseline": baseline, "random exemplars": random, "no exemplars": zero_shot}
    compared = "; ".join(
        _compared(found, name, _rarity(share_as_good) if found is random else "")
        for name, found in against.items()
        if found
    )
    text = "The winner was not compared with anything."
    if compared:
        text = f"{compared[0].upper()}{compared[1:]}, on {test['best']['rows']} test rows."
    return {"random": _word(random), "zero_shot": _word(zero_shot), "baseline": _word(baseline), "text": text}


def _word(gain: Mapping[str, Any]) -> str:
    if not gain:
        return NOT_COMPARED
    if gain["evidence"]:
        return BETTER
    return WORSE if gain["interval"][1] < 0 else NO_EVIDENCE


def _rarity(share_as_good: float | None) -> str:
    if share_as_good is None:
        return ""
    share = "about" if share_as_good >= LEAST_SHARE else "less than"
    return f"; a random sequence is as good in {share} {100 * max(share_as_good, LEAST_SHARE):.0f} % of cases"


def _compared(gain: Mapping[str, Any], name: str, more: str) -> str:
    low, high = (100 * bound for bound in gain["interval"])
    points = 100 * gain["mean"]
    interval = f"points (95 %: {low:+.0f} to {high:+.0f}{more})"
    word = _word(gain)
    if word == NO_EVIDENCE:
        return f"no evidence of being better than {name}: {points:+.0f} {interval}"
    return f"{word} than {name} by {abs(points):.0f} {interval}"


class Words(NamedTuple):
    """Words for what is found and what is asked, as shown to people.

    Args:
        found: the winner.
        asked: what is counted.
        title: of the winner itself.
    """

    found: str
    asked: str
    title: str


OF_LLM = Words("prompt", "LLM requests", "The prompt")
OF_PROGRAM = Words("sequence", "calls", "The exemplars, in order")


def words_of(metric: str) -> Words:
    """Words for a run with this metric: with `evaluate`, no LLM is asked and no prompt is written."""
    return OF_PROGRAM if metric == EVALUATED else OF_LLM


def decision(verdict: Mapping[str, str], found: str = OF_LLM.found) -> str:
    """Advice that follows from a verdict: whether to use the winner.

    Args:
        found: what that is called.
    """
    random, zero_shot, baseline = verdict["random"], verdict["zero_shot"], verdict["baseline"]
    if baseline in (WORSE, NO_EVIDENCE):
        more = "; without exemplars the model answers better than with these" if zero_shot == WORSE else ""
        return f"Keep your baseline: nothing shows that this {found} is better{more}."
    if zero_shot == WORSE:
        return "Use no exemplars: the model answers better without them."
    if random == WORSE:
        return "Use other exemplars: those picked at random do better."
    if baseline == BETTER:
        return f"Use this {found} in place of your baseline."
    if random == NO_EVIDENCE:
        return f"Exemplars picked at random may do as well as this {found}."
    if zero_shot == NO_EVIDENCE:
        return f"Use this {found}, or no exemplars: nothing shows which is better."
    if BETTER in (random, zero_shot):
        return f"Use this {found}."
    return f"Nothing was compared, so there is no evidence for or against this {found}."


def few_answers(method: str, answers: int) -> str:
    """Warning about a search by the default method with too few answers; empty if they are enough."""
    if method != "adaptive" or answers >= ENOUGH_ANSWERS:
        return ""
    shown = map(grouped, (answers, ENOUGH_ANSWERS))
    return (
        "after {} answers the result may be no better than random search with the same budget; from {} on it beat "
        "random search in every kind of simulated task that was measured".format(*shown)
    )


def estimate_held(scores: Mapping[str, Any]) -> bool:
    """Whether expected and test score differ by no more than their 95 % intervals allow together.

    Near 0 and 1 the two sides of an interval are unequal, so those count that face each other.
    """
    expected, test = scores["estimate"], scores["test_score"]
    low, high = scores["estimate_interval"]
    test_low, test_high = scores["test_interval"]
    sides = (expected - low, test_high - test) if test < expected else (high - expected, test - test_low)
    return bool(abs(expected - test) <= math.hypot(*sides) + 1e-9)


def said_of_labels(report: Mapping[str, Any]) -> list[str]:
    """Sentences about wrong labels in the pool: how many are listed and why no more, which of them the winner shows,
    and what doing without them would cost. Empty if all labels seem right."""
    labels, listed = report.get("labels"), report["mislabelled_exemplars"]
    if not labels or (not listed and labels["expected_wrong"] < 1):
        return []
    told = f"validation rows predict {100 * labels['told_apart']:.0f} % of each other's labels"
    about = f"an estimated {labels['expected_wrong']:.0f} labels of the pool are wrong"
    said = [
        f"{len(listed)} of {labels['judged']} exemplars are listed as mislabelled; {about} ({told})."
        if listed
        else f"No exemplar is mislabelled with enough certainty to be listed, though {about}: {told}."
    ]
    doubtful = {each["exemplar_id"] for each in listed}
    shown = [each for each in report["best"]["exemplars"] if each["exemplar_id"] in doubtful]
    if shown:
        names = ", ".join(
            f"{each['exemplar_id']} ({each['origin']})" if each.get("origin") else str(each["exemplar_id"])
            for each in shown
        )
        without = labels["without"]
        expected = f"{without['estimate']:.3f} (± {without['margin']:.3f})" if without else ""
        instead = (
            f"the best sequence without is expected to score {expected}, the winner {report['best']['estimate']:.3f}"
            if without
            else "no sequence without them was asked often enough to compare"
        )
        said.append(f"The winner shows {len(shown)} of them, exemplar {names}; {instead}.")
    return said


def without_listed(report: Mapping[str, Any]) -> str:
    """The option that excludes the exemplars listed as mislabelled from a search; empty without a list."""
    hashes = ",".join(each["row_hash"] for each in report["mislabelled_exemplars"] if "row_hash" in each)
    return f"--exclude-rows {hashes}" if hashes else ""


def not_as_expected(best: Mapping[str, Any]) -> str:
    """A sentence if the test score differs from the expected one; empty if the intervals allow the difference.

    Both causes that are named were measured (tests/benchmarks/README.md, "Other rows" and "At equal requests").
    """
    if estimate_held(best):
        return ""
    points = 100 * (best["test_score"] - best["estimate"])
    where, amount = ("below", "much") if points < 0 else ("above", "little")
    return (
        f"The test score is {abs(points):.1f} points {where} what the search expected, more than both intervals allow. "
        "Chance does that in one run of twenty; otherwise the test rows are of another kind than the validation rows, "
        f"or the search expected too {amount}."
    )


def cut_too_often(report: Mapping[str, Any]) -> bool:
    """Whether enough answers were cut at their limit to lower the score."""
    llm = report["llm"]
    return bool(llm["cut_answers"] > MANY_CUT * (llm["requests"] + llm["cached"]))


def summarise(
    *,
    best: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    dataset: Mapping[str, Any],
    search: Mapping[str, Any],
    test: Mapping[str, Any],
    gate: Mapping[str, Any],
    noisy: Mapping[int, bool | None],
    task_parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Join the measurements of the stages. Scores in [0, 1], times in seconds, costs in USD.

    Args:
        noisy: by exemplar id, whether its output was corrupted (None: unknown).
    """
    initial = [row for row in history if row["phase"] == "initial"]
    proposed = [row for row in history if row["phase"] == "search"]
    counted = (
        *("requests", "new_requests", "cached", "retries", "prompt_tokens", "completion_tokens", "cost_usd"),
        *("judge_requests", "judge_prompt_tokens", "judge_completion_tokens", "cut_answers"),
    )
    return {
        **_taken(dataset, "task", "metric"),
        **_taken(search, "method", "seed", "answered_by_function", "resumed"),
        "replayed_evaluations": search["replayed"],
        **_taken(search, "evaluations", "recalled_answers"),
        "answers": sum(len(row["row_ids"]) for row in history),
        "sequences": len({(row["instruction_id"], *row["exemplar_ids"]) for row in history}),
        "failed_rows": {"validation": max(row["failed_rows"] for row in history), "test": test["best"]["failed_rows"]},
        **_taken(search, "budget", "instructions", "stopped"),
        "best": _winner(best, history, test["best"], noisy),
        "random": {
            "validation_score": _mean_over_rows(initial),
            "validation_standard_deviation": _deviation(initial, max(len(row["row_ids"]) for row in history)),
            "test_score": test["random"].get("score"),
            "sequences": len(initial),
            "share_as_good": search["share_as_good"],
        },
        "proposed": {"validation_score": _mean_over_rows(proposed), "sequences": len(proposed)},
        "confirmed": sum(row["phase"] == "confirmation" for row in history),
        "gain": test["random"],
        **_taken(test, "zero_shot", "baseline", "judge", "requirement"),
        "published": {**_taken(gate, "latest", "refusal", "measured"), "requests": gate["llm"]["requests"]}
        if gate["latest"] or gate["refusal"]
        else {},
        "planned": search["planned"],
        "verdict": verdict(test, search["share_as_good"] if test["random"].get("evidence") else None),
        **_taken(search, "order", "token_front"),
        "harmful_exemplars": _with_noise(search["harmful_exemplars"], noisy),
        "mislabelled_exemplars": _with_noise(search["mislabelled_exemplars"], noisy),
        "labels": search.get("labels"),  # older searches say nothing of them
        "dataset": _taken(dataset, "pool", "validation", "test", "noisy", "unused", "classes", "notices"),
        "llm": {
            **_taken(search["llm"], "endpoint", "model"),
            **{name: search["llm"][name] + test["llm"][name] for name in counted},
        },
        "oldest_answer": min(filter(None, (part["oldest_answer"] for part in (search, test, gate))), default=""),
        "seconds": {
            "total": search["seconds"]["total"] + test["seconds"],
            "llm": search["seconds"]["llm"] + test["seconds"],
            "search": search["seconds"]["search"],
        },
        "truncated_sequences": search["truncated_sequences"],
        "parameters": {"task": dict(task_parameters), **search["parameters"]},
    }


def _winner(
    best: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    test: Mapping[str, Any],
    noisy: Mapping[int, bool | None],
) -> dict[str, Any]:
    chosen = (best["instruction_id"], *best["exemplar_ids"])
    found = (row["iteration"] + 1 for row in history if (row["instruction_id"], *row["exemplar_ids"]) == chosen)
    return {
        "validation_score": best["validation_score"],
        "test_score": test["score"],
        "test_interval": test["interval"],
        "test_rows": test["rows"],
        **_taken(best, "instruction", "exemplar_ids"),
        "exemplars": _with_noise(best["exemplars"], noisy),
        "found_at_evaluation": next(found, None),
        **_taken(best, "estimate", "estimate_interval", "validation_rows"),
    }


def _with_noise(exemplars: Sequence[Mapping[str, Any]], noisy: Mapping[int, bool | None]) -> list[dict[str, Any]]:
    return [{**each, "is_noisy": noisy[each["exemplar_id"]]} for each in exemplars]


def _taken(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: document[name] for name in names}


def _deviation(evaluations: Sequence[Mapping[str, Any]], full: int) -> float | None:
    """Standard deviation of their scores; None if each has few rows, because then they differ mostly by chance."""
    comparable = len(evaluations) > 1 and all(len(row["row_ids"]) == full for row in evaluations)
    return stdev(row["score"] for row in evaluations) if comparable else None


def _mean_over_rows(evaluations: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean score of all validation rows asked."""
    asked = sum(row["validation_rows"] for row in evaluations)
    return sum(row["score"] * row["validation_rows"] for row in evaluations) / asked if asked else None
