"""Stage `report`: write the report: numbers, page, and the folder of results to take away."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts, result_files
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table, write_document, write_text
from ease_lib.black_box.client import PATHS, content_of
from ease_lib.config.sections import RunConfig, TaskConfig
from ease_lib.prompts.messages import Handed, as_text, messages_of
from ease_lib.prompts.template import INPUT, PromptTemplate
from ease_lib.prompts.winner import blank_prompt, exemplar_of
from ease_lib.reporting.page import render_page
from ease_lib.reporting.result_text import in_short
from ease_lib.reporting.summary import summarise
from ease_lib.running.log import RESULT
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")
    summary: str = reads("build_dataset.summary")
    best_sequence: str = reads("optimize.best_sequence")
    test: str = reads("build_dataset.test")
    history: str = reads("optimize.history")
    search: str = reads("optimize.search")
    predictions: str = reads("evaluate.predictions")
    test_scores: str = reads("evaluate.test_scores")
    gate: str = reads("gate.gate")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    numbers: str = makes(contracts.REPORT, at="result/numbers.json")
    page: str = makes()
    results: str = makes(at="result/report")


@dataclass(frozen=True, kw_only=True)
class Config:
    task: TaskConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Write report, page and the folder with the files of `artifacts/result_files.py`."""
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    dataset = read_document(Path(inputs.summary), contracts.DATASET_SUMMARY)
    history = read_table(Path(inputs.history), contracts.HISTORY).to_pylist()
    pool = {row.exemplar_id: row for row in read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)}
    summary = summarise(
        best=best,
        history=history,
        dataset=dataset,
        search=read_document(Path(inputs.search), contracts.SEARCH_SUMMARY),
        test=read_document(Path(inputs.test_scores), contracts.TEST_SUMMARY),
        gate=read_document(Path(inputs.gate), contracts.GATE),
        noisy={exemplar_id: row.is_noisy for exemplar_id, row in pool.items()},
        task_parameters=asdict(config.task),
    )
    template = PromptTemplate.of(best["prompt"])
    blank = template.placeholder(list(map(exemplar_of, best["exemplars"])))
    prompt = blank_prompt(best)
    marks = [mark for name, mark in ((INPUT, blank.input), *blank.fields) if name in template.query_fields]
    if isinstance(prompt, Handed):
        marks = []
    predictions = read_table(Path(inputs.predictions), contracts.PREDICTIONS).to_pylist()
    harmful, mislabelled = (
        [
            {**each, "input": row.input, "output": row.output, "origin": row.origin}
            for each in found
            for row in [pool[each["exemplar_id"]]]
        ]
        for found in (summary["harmful_exemplars"], summary["mislabelled_exemplars"])
    )
    page = render_page(
        summary,
        history,
        as_text(prompt),
        predictions,
        harmful,
        mislabelled,
        marks=marks,
        test={row.exemplar_id: row for row in read_exemplars(Path(inputs.test), contracts.TEST_SET)},
        forms=_forms(prompt, best, summary),
    )
    write_document(output_path(outputs.numbers), contracts.REPORT, summary)
    write_text(output_path(outputs.page), page)
    _write_results(Path(outputs.results), inputs, outputs, prompt, best, harmful, mislabelled)
    for line in in_short(summary):
        logger.info("%s%s", RESULT, line)
    scores = {"expected_score": summary["best"]["estimate"], "test_score": summary["best"]["test_score"]}
    costs = {"evaluations": summary["evaluations"], "llm_requests": summary["llm"]["requests"]}
    named = {"random": summary["gain"], "zero_shot": summary["zero_shot"], "baseline": summary["baseline"]}
    gains = {f"gain_over_{name}": gain for name, gain in named.items()}
    return StageReport(metrics=scores | costs | {name: gain["mean"] for name, gain in gains.items() if gain})


def _write_results(
    folder: Path,
    inputs: Inputs,
    outputs: Outputs,
    prompt: str,
    best: Mapping[str, Any],
    harmful: Sequence[dict[str, Any]],
    mislabelled: Sequence[dict[str, Any]],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / result_files.PROMPT_TEXT, as_text(prompt))
    if isinstance(prompt, Handed):
        _write_json(folder / result_files.EXEMPLARS, prompt.given[0])
    else:
        _write_json(folder / result_files.MESSAGES, messages_of(prompt))
        _write_json(folder / result_files.REQUEST, _request(prompt, best))
    _write_json(folder / result_files.HARMFUL, harmful)
    _write_json(folder / result_files.MISLABELLED, mislabelled)
    shutil.copyfile(inputs.best_sequence, folder / result_files.BEST_SEQUENCE)
    shutil.copyfile(inputs.history, folder / result_files.HISTORY)
    shutil.copyfile(outputs.numbers, folder / result_files.REPORT)
    shutil.copyfile(outputs.page, folder / result_files.PAGE)


def _request(prompt: str, best: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request, with placeholders for the query."""
    return {**content_of(prompt, best["llm_api"]), **best["request"]}


def _forms(prompt: str, best: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, str]:
    """The prompt in the forms for programs, by file name.

    There is no command for an endpoint that is not a URL, or that needs a query or headers, which are not for a page.
    """
    if isinstance(prompt, Handed):
        return {"JSON": as_json(prompt.given[0])}
    endpoint, asked = summary["llm"]["endpoint"], summary["parameters"]["endpoint"]
    request = _request(prompt, best)
    forms = {"Messages": as_json(messages_of(prompt)), "Request": as_json(request)}
    if endpoint.startswith(("http://", "https://")) and "?" not in asked["llm_base_url"] and not asked["llm_headers"]:
        url = f"{endpoint.rstrip('/')}/{PATHS[best['llm_api']]}"
        forms["curl"] = (
            f"curl {shlex.quote(url)} \\\n"
            '  --header "Authorization: Bearer ${EASE_LLM_API_KEY:-$OPENAI_API_KEY}" \\\n'
            '  --header "Content-Type: application/json" \\\n'
            f"  --data {shlex.quote(as_json(request))}"
        )
    return forms


def as_json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


def _write_json(path: Path, content: object) -> None:
    write_text(path, as_json(content) + "\n")
