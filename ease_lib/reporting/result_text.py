"""Result of a run as text, for terminals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ease_lib.artifacts.result_files import PAGE, PROMPT_TEXT, REPORT
from ease_lib.reporting.summary import (
    cut_too_often,
    decision,
    not_as_expected,
    said_of_labels,
    without_listed,
    words_of,
)


def result_text(output_dir: Path, seconds: float) -> str:
    """Result of a run as text: the prompt, its scores next to random exemplars, the cost, and the places of files."""
    report = json.loads((output_dir / REPORT).read_text(encoding="utf-8"))
    best, random, llm = report["best"], report["random"], report["llm"]
    baseline, judge, oldest = report["baseline"], report["judge"], report["oldest_answer"]
    cut, words = llm["cut_answers"], words_of(report["metric"])
    more = "; raise llm_max_tokens or llm_thinking_tokens" if cut_too_often(report) else ""
    agreed = "agrees with the expected output about {agreed} of {rows} answers".format(**judge) if judge else ""
    lines = {
        "": _beside("winner (95 %)", "random exemplars"),
        "test score": _beside(
            _with_interval(best, "test"), f"{_score(random['test_score'])} (three drawn for each row)"
        ),
        "on": _tested(report),
        "expected on new rows": f"{_with_interval(best, 'estimate')}, from {best['validation_rows']} validation rows",
        "validation score": _beside(
            _score(best["validation_score"]), f"{_score(random['validation_score'])} (mean of {random['sequences']})"
        ),
        "test score of your baseline": _score(baseline.get("score")) if baseline else "",
        "meeting the requirement": _kept(report["requirement"]),
        "judge": f"{judge['model']}, {agreed}" if judge else "",
        "search": f"{report['sequences']} sequences, {report['answers']} answers, stopped: {report['stopped']}",
        words.asked: _requests(llm, by_function=report["answered_by_function"]),
        "answers cut at their limit": f"{cut}{more}" if cut else "",
        "oldest answer": f"{oldest[:16].replace('T', ' ')} UTC" if oldest else "",
        "time": f"{seconds:.0f} s",
        "report": str(output_dir / PAGE),
        words.found: str(output_dir / PROMPT_TEXT),
        "artifacts": str(output_dir / "pipeline"),
    }
    shown = (output_dir / PROMPT_TEXT).read_text(encoding="utf-8").split("\n")
    prompt = "\n".join(f"    {line}" if line else "" for line in shown)
    table = "\n".join(f"  {label:<28}{value}" for label, value in lines.items() if value)
    option = without_listed(report)
    without = f"To search without them, run the same command with {option}" if option else ""
    said = "\n".join(filter(None, (report["verdict"]["text"], not_as_expected(best), *said_of_labels(report), without)))
    return f"\n{said}\n\nWinning {words.found}\n\n{prompt}\n\n{table}"


def in_short(report: Mapping[str, Any]) -> list[str]:
    """Verdict, scores and cost in a line each, as a log has them."""
    best, llm = report["best"], report["llm"]
    random = report["random"]["test_score"]
    beside = "" if random is None else f", random exemplars {_score(random)}"
    return [
        report["verdict"]["text"],
        f"test score {_with_interval(best, 'test')}{beside}; expected on new rows {_with_interval(best, 'estimate')}",
        *([f"answers meeting the requirement: {kept}"] if (kept := _kept(report["requirement"])) else []),
        f"{words_of(report['metric']).asked} {_requests(llm, by_function=report['answered_by_function'])}",
    ]


def found_by(report: Mapping[str, Any]) -> dict[str, Any]:
    """Decision, verdict and scores, as the record of a run holds them; without any text of the data."""
    best, random, llm, words = report["best"], report["random"], report["llm"], words_of(report["metric"])
    rivals = {"your baseline": report["baseline"], "no exemplars": report["zero_shot"]}
    cost = f", {llm['cost_usd']:.4f} USD" if llm["cost_usd"] else ""
    return {
        "said": [
            decision(report["verdict"], words.found),
            report["verdict"]["text"],
            f"{llm['requests']} {words.asked}{cost}.",
        ],
        "scores": {
            f"this {words.found}, test set": _with_interval(best, "test"),
            f"this {words.found}, expected on new rows": _with_interval(best, "estimate"),
            "exemplars picked at random": _score(random["test_score"]),
            **{name: _score(rival["score"]) for name, rival in rivals.items() if rival},
        },
    }


def _beside(winner: str, random: str) -> str:
    return f"{winner:<26}{random}"


def _with_interval(best: Mapping[str, Any], name: str) -> str:
    low, high = best[f"{name}_interval"]
    return f"{_score(best.get(f'{name}_score', best.get(name)))} ({low:.3f} to {high:.3f})"


def _score(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}"


def _kept(requirement: Mapping[str, Any]) -> str:
    if not requirement:
        return ""
    random = requirement["random_share"]
    beside = "" if random is None else f"; with random exemplars {100 * random:.0f} %"
    return f"{requirement['text']}: {requirement['kept']} of {requirement['rows']}{beside}"


def _requests(llm: Mapping[str, Any], *, by_function: bool) -> str:
    text = f"{llm['requests']}, of {llm['model']}{' (a Python function)' if by_function else ''}"
    kept = "" if llm["new_requests"] == llm["requests"] else f"; {llm['new_requests']} of them now"
    return text + kept + (f"; ${llm['cost_usd']:.4f}" if llm["cost_usd"] else "")


def _tested(report: dict[str, Any]) -> str:
    """Number of rows behind the test score, in words."""
    failed = report["failed_rows"]["test"]
    return f"{report['best']['test_rows']} test rows" + (f"; the endpoint refused {failed}" if failed else "")
