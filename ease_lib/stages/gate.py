"""Stage `gate`: evaluate the latest published prompt too, where the new one has to be better than that to replace it.

With `publish_if=better` both are compared on rows that neither prompt was chosen by: the test set without exemplars of
either and without the validation rows of the latest. Report and `publish` say what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table, write_document
from ease_lib.config.sections import Asks, PublishingConfig
from ease_lib.errors import CapReached, EndpointError, LineageError, StoreError
from ease_lib.evaluation.evaluator import Question
from ease_lib.evaluation.statistics import FEWEST_ROWS
from ease_lib.evaluation.usage import Usage
from ease_lib.lineage.publishing import gate
from ease_lib.lineage.publishing.versions import Latest, read_latest
from ease_lib.prompts.template import PromptTemplate
from ease_lib.prompts.winner import exemplar_of
from ease_lib.running.run import Run, prices_of
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.budget import GATE
from ease_lib.search.task import read_task
from ease_lib.stages.evaluate import BEST
from ease_lib.tasks.base import Exemplar


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")
    test: str = reads("build_dataset.test")
    summary: str = reads("build_dataset.summary")
    best_sequence: str = reads("optimize.best_sequence")
    predictions: str = reads("evaluate.predictions")
    test_scores: str = reads("evaluate.test_scores")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    gate: str = makes(contracts.GATE, at="result/gate.json")


@dataclass(frozen=True, kw_only=True)
class Config(Asks):
    publishing: PublishingConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Compare with the latest, where there is one and `publish_if` asks for it."""
    found: dict[str, Any] = {"latest": "", "refusal": "", "measured": {}}
    usage, answered = Usage(), 0
    kept_all = not gate.broken(read_document(Path(inputs.test_scores), contracts.TEST_SUMMARY)["requirement"])
    if config.publishing.publish_uri and config.publishing.publish_if == "better" and kept_all:
        try:
            found, usage, answered = _compared(inputs, config, run)
        except (StoreError, LineageError) as error:  # `publish` meets it again, when the report is there
            found["refusal"] = f"what is published cannot be read: {error}"
        better = f"better than {found['latest']}" if found["latest"] else "nothing is published yet"
        logger.info("%s", found["refusal"] or better)
    counts = {"new_requests": answered, **usage.counts(**prices_of(config))}
    write_document(output_path(outputs.gate), contracts.GATE, {**found, "llm": counts})
    return StageReport()


def _compared(inputs: Inputs, config: Config, run: Run) -> tuple[dict[str, Any], Usage, int]:
    """The latest version, why the new prompt is not better than that (empty when it is), and what was measured."""
    store = run.sources.store(config.publishing.publish_uri)
    latest = read_latest(store)
    if latest is None:
        return {"latest": "", "refusal": "", "measured": {}}, Usage(), 0
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    current, refusal = gate.rival(store, latest, best)
    found: dict[str, Any] = {"latest": latest.version, "refusal": refusal, "measured": {}}
    if refusal:
        return found, Usage(), 0
    test = read_exemplars(Path(inputs.test), contracts.TEST_SET)
    fresh = gate.fresh_rows(test, latest, current, best)
    if len(fresh) < FEWEST_ROWS:
        refusal = f"only {len(fresh)} test rows are fresh to {latest.version} too; raise test_size"
        return {**found, "refusal": refusal}, Usage(), 0
    try:
        old, usage, answered = _scores(inputs, config, current, [test[position] for position in fresh], run)
    except EndpointError as error:
        if error.time_may_cure:
            raise
        return {**found, "refusal": _why_not_asked(error, latest)}, Usage(), 0
    predictions = read_table(Path(inputs.predictions), contracts.PREDICTIONS).to_pylist()
    new = [row["score"] for row in predictions if row["sequence"] == BEST]
    refusal, measured = gate.compared([new[position] for position in fresh], old, latest)
    return {**found, "refusal": refusal, "measured": measured}, usage, answered


def _why_not_asked(error: EndpointError, latest: Latest) -> str:
    if isinstance(error, CapReached):
        return f"{error.cap} leaves too few requests to compare it with {latest.version}"
    return f"{latest.version} could not be evaluated: {error}"


def _scores(
    inputs: Inputs, config: Config, current: dict[str, Any], rows: list[Exemplar], run: Run
) -> tuple[list[float | None], Usage, int]:
    """What the latest prompt scores on these rows, through this run's black-box, and what that cost."""
    task = read_task(inputs.pool, inputs.summary, run.metric)
    exemplars = [exemplar_of(entry) for entry in current["exemplars"]]
    template = PromptTemplate.of(current["prompt"])
    with run.llm(config, task.sampling(config.endpoint, template), GATE, judged=task.rubric) as black_box:
        objective = task.objective(black_box, rows, template)
        question = Question(
            exemplars=exemplars, instruction=current["instruction"], account="gate", rows=range(len(rows)), whole=True
        )
        evaluation = objective.evaluate(question)
        run.ledger(config.continuation).book(GATE, evaluation.usage)
        return list(evaluation.scores), evaluation.usage, black_box.answered
