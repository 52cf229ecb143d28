"""The end of a run as text, for terminals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts.result_files import PAGE, PROMPT_TEXT, REPORT


@dataclass(frozen=True)
class _Line:
    label: str
    value: str

    def __str__(self) -> str:
        return f"  {self.label:<28}{self.value}"


def result_text(output_dir: Path, seconds: float) -> str:
    """The end of a run as text: the prompt, its scores beside random exemplars, the cost, where everything is."""
    report = json.loads((output_dir / REPORT).read_text(encoding="utf-8"))
    best, random, llm = report["best"], report["random"], report["llm"]
    low, high = best["test_interval"]
    expected = best["estimate_interval"]
    lines = [
        _Line("", "winner    random exemplars"),
        _Line(
            "expected on new rows",
            f"{best['estimate']:.3f}     ({expected[0]:.3f} to {expected[1]:.3f}, from {best['validation_rows']} rows)",
        ),
        _Line(
            "validation score",
            f"{best['validation_score']:.3f}     {_number(random['validation_score'])} (mean of {random['sequences']})",
        ),
        _Line(
            "test score",
            f"{best['test_score']:.3f}     {_number(random['test_score'])} (mean of {len(random['test_scores'])})",
        ),
        *([_Line("test score of your baseline", f"{report['baseline']['score']:.3f}")] if report["baseline"] else []),
        *([_Line("judge", _judged(report["judge"]))] if report["judge"] else []),
        _Line("95 % interval of the winner", f"{low:.3f} to {high:.3f} on {_tested(report)}"),
        _Line("search", f"{report['sequences']} sequences, {report['answers']} answers, stopped: {report['stopped']}"),
        _Line("LLM requests", _requests(llm, by_function=report["answered_by_function"])),
        *(
            [_Line("oldest answer", f"{report['oldest_answer'][:16].replace('T', ' ')} UTC")]
            if report["oldest_answer"]
            else []
        ),
        _Line("time", f"{seconds:.0f} s"),
        _Line("report", str(output_dir / PAGE)),
        _Line("prompt", str(output_dir / PROMPT_TEXT)),
        _Line("artifacts", str(output_dir / "pipeline")),
    ]
    prompt = (output_dir / PROMPT_TEXT).read_text(encoding="utf-8")
    return f"\n{report['verdict']['text']}\n\nWinning prompt\n\n{_indented(prompt)}\n\n" + "\n".join(map(str, lines))


def _judged(judge: dict[str, Any]) -> str:
    return f"{judge['model']}, agrees with the expected output about {judge['agreed']} of {judge['rows']} answers"


def _requests(llm: dict[str, Any], *, by_function: bool) -> str:
    text = f"{llm['requests']}, of {llm['model']}{' (a Python function)' if by_function else ''}"
    kept = "" if llm["new_requests"] == llm["requests"] else f"; {llm['new_requests']} of them now"
    return text + kept + (f"; ${llm['cost_usd']:.4f}" if llm["cost_usd"] else "")


def _tested(report: dict[str, Any]) -> str:
    """The rows that the test score is the mean of."""
    failed = report["failed_rows"]["test"]
    return f"{report['best']['test_rows']} test rows" + (f"; the endpoint refused {failed}" if failed else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))
