"""The end of a run as text, for terminals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ease_lib.artifacts.result_files import PAGE, PROMPT_TEXT, REPORT


def result_text(output_dir: Path, seconds: float) -> str:
    """The end of a run as text: the prompt, its scores beside random exemplars, the cost, where everything is."""
    report = json.loads((output_dir / REPORT).read_text(encoding="utf-8"))
    best, random, llm = report["best"], report["random"], report["llm"]
    baseline, judge, oldest = report["baseline"], report["judge"], report["oldest_answer"]
    low, high = best["test_interval"]
    cut = llm["cut_answers"]
    expected = "{:.3f} to {:.3f}".format(*best["estimate_interval"])
    agreed = "agrees with the expected output about {agreed} of {rows} answers".format(**judge) if judge else ""
    lines = {
        "": "winner    random exemplars",
        "expected on new rows": f"{best['estimate']:.3f}     ({expected}, from {best['validation_rows']} rows)",
        "validation score": f"{_beside(best, random, 'validation_score')} (mean of {random['sequences']})",
        "test score": f"{_beside(best, random, 'test_score')} (mean of {len(random['test_scores'])})",
        "test score of your baseline": f"{baseline['score']:.3f}" if baseline else "",
        "judge": f"{judge['model']}, {agreed}" if judge else "",
        "95 % interval of the winner": f"{low:.3f} to {high:.3f} on {_tested(report)}",
        "search": f"{report['sequences']} sequences, {report['answers']} answers, stopped: {report['stopped']}",
        "LLM requests": _requests(llm, by_function=report["answered_by_function"]),
        "answers cut at their limit": f"{cut}; raise llm_max_tokens or llm_thinking_tokens" if cut else "",
        "oldest answer": f"{oldest[:16].replace('T', ' ')} UTC" if oldest else "",
        "time": f"{seconds:.0f} s",
        "report": str(output_dir / PAGE),
        "prompt": str(output_dir / PROMPT_TEXT),
        "artifacts": str(output_dir / "pipeline"),
    }
    shown = (output_dir / PROMPT_TEXT).read_text(encoding="utf-8").split("\n")
    prompt = "\n".join(f"    {line}" if line else "" for line in shown)
    table = "\n".join(f"  {label:<28}{value}" for label, value in lines.items() if value)
    return f"\n{report['verdict']['text']}\n\nWinning prompt\n\n{prompt}\n\n{table}"


def _beside(best: dict[str, Any], random: dict[str, Any], score: str) -> str:
    return f"{best[score]:.3f}     {'–' if random[score] is None else f'{random[score]:.3f}'}"


def _requests(llm: dict[str, Any], *, by_function: bool) -> str:
    text = f"{llm['requests']}, of {llm['model']}{' (a Python function)' if by_function else ''}"
    kept = "" if llm["new_requests"] == llm["requests"] else f"; {llm['new_requests']} of them now"
    return text + kept + (f"; ${llm['cost_usd']:.4f}" if llm["cost_usd"] else "")


def _tested(report: dict[str, Any]) -> str:
    """The rows that the test score is the mean of."""
    failed = report["failed_rows"]["test"]
    return f"{report['best']['test_rows']} test rows" + (f"; the endpoint refused {failed}" if failed else "")
