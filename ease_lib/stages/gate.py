"""Stage `gate`: evaluate the latest published prompt too, where the new one has to be better than that to replace it.

With `publish_if=better` both are compared on rows that neither prompt was chosen by: the test set without exemplars of
either and without the validation rows of the latest. Report and `publish` say what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table, write_document
from ease_lib.black_box.budget_ledger import GATE
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import Asks, PublishingConfig
from ease_lib.errors import EaseError, EndpointError
from ease_lib.evaluation.evaluator import Question
from ease_lib.evaluation.statistics import FEWEST_ROWS
from ease_lib.lineage.publishing import improvement
from ease_lib.lineage.publishing.versions import Latest
from ease_lib.prompts.template import PromptTemplate
from ease_lib.prompts.winner import exemplar_of
from ease_lib.running.run import Run, prices_of
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.task import read_task
from ease_lib.stages.evaluate import BEST
from ease_lib.tasks.base import Exemplar

MOST_SAID = 200
"""Number of characters of an error that a report quotes."""


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


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Comparison with the latest version, for the report.

    Args:
        latest: its name; empty if there is none, or it cannot be read.
        refusal: why the new prompt is not better than that; empty if it is.
        measured: what `improvement.compared` gives; empty if nothing was measured.
        usage: what the published prompt's answers cost, with how many of them are new.
    """

    latest: str = ""
    refusal: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    answered: int = 0


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Compare with the latest version, if there is one and `publish_if` asks for it.

    Raises:
        StoreUnavailable, EndpointError: that time may cure, as in `evaluate`; any other failure is a refusal, so that
            what is wrong with the published prompt costs no report.
    """
    found = _Compared()
    kept_all = not improvement.broken(read_document(Path(inputs.test_scores), contracts.TEST_SUMMARY)["requirement"])
    if config.publishing.publish_uri and config.publishing.publish_if == "better" and kept_all:
        found = _compared(inputs, config, run)
        better = f"better than {found.latest}" if found.latest else "nothing is published yet"
        logger.info("%s", found.refusal or better)
    document = {
        "latest": found.latest,
        "refusal": found.refusal,
        "measured": found.measured,
        "oldest_answer": found.usage.oldest_answer,
        "llm": {"new_requests": found.answered, **found.usage.counts(**prices_of(config))},
    }
    write_document(output_path(outputs.gate), contracts.GATE, document)
    return StageReport()


def _compared(inputs: Inputs, config: Config, run: Run) -> _Compared:
    store = run.sources.store(config.publishing.publish_uri)
    try:
        latest = improvement.latest_of_others(store, run.host.context.run_id)
    except EaseError as error:
        if error.time_may_cure:
            raise
        return _Compared(refusal=f"what is published could not be read: {error}")
    if latest is None:
        return _Compared()
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    test = read_exemplars(Path(inputs.test), contracts.TEST_SET)
    try:
        current, refusal = improvement.rival(store, latest, best)
        if refusal:
            return _Compared(latest=latest.version, refusal=refusal)
        rows = improvement.fresh_rows(test, latest, current, best)
        asked = _Published.of(current)
        for row in rows:
            asked.template.render(asked.exemplars, test[row], asked.instruction)  # what cannot be asked costs nothing
    except (ValueError, KeyError, TypeError, AttributeError, EaseError) as error:
        if isinstance(error, EaseError) and error.time_may_cure:
            raise
        why = f"{type(error).__name__}: {error}"[:MOST_SAID]
        return _Compared(latest=latest.version, refusal=f"{latest.version} cannot be evaluated on these rows ({why})")
    if len(rows) < FEWEST_ROWS:
        few = f"only {len(rows)} test rows are fresh to {latest.version} too; raise test_size"
        return _Compared(latest=latest.version, refusal=few)
    return _measured(inputs, config, run, latest, asked, [(row, test[row]) for row in rows])


@dataclass(frozen=True, kw_only=True)
class _Published:
    """The prompt of a version."""

    exemplars: Sequence[Exemplar]
    instruction: str
    template: PromptTemplate

    @classmethod
    def of(cls, best: Mapping[str, Any]) -> _Published:
        exemplars = [exemplar_of(entry) for entry in best["exemplars"]]
        return cls(exemplars=exemplars, instruction=best["instruction"], template=PromptTemplate.of(best["prompt"]))


def _measured(
    inputs: Inputs, config: Config, run: Run, latest: Latest, asked: _Published, rows: Sequence[tuple[int, Exemplar]]
) -> _Compared:
    """Both prompts on these rows, as far as a cap allows; the latest through this run's black-box."""
    task = read_task(inputs.pool, inputs.summary, run.metric)
    question = Question(
        exemplars=asked.exemplars,
        instruction=asked.instruction,
        account="gate",
        rows=range(len(rows)),
        whole=True,
        up_to_cap=True,
    )
    budget = run.budget(config)
    with run.llm(config, task.sampling(config.endpoint, asked.template), GATE, judged=task.rubric) as black_box:
        objective = task.objective(black_box, [row for _, row in rows], asked.template)
        try:
            evaluation = objective.evaluate(question)
        except EndpointError as error:
            usage = objective.stop()
            budget.book(GATE, usage)
            if error.time_may_cure:
                raise
            logger.warning("%s: %s", latest.version, error)  # it may quote a row, which no result should hold
            refusal = f"{latest.version} could not be evaluated ({type(error).__name__}, see the log)"
            return _Compared(latest=latest.version, refusal=refusal, usage=usage, answered=black_box.answered)
        budget.book(GATE, evaluation.usage)
        answered, cap = black_box.answered, black_box.meter.reached
    found = _Compared(latest=latest.version, usage=evaluation.usage, answered=answered)
    if evaluation.unasked_rows and evaluation.scored_rows < FEWEST_ROWS:
        return replace(found, refusal=f"{cap} leaves too few requests to compare it with {latest.version}")
    predictions = read_table(Path(inputs.predictions), contracts.PREDICTIONS).to_pylist()
    new = [row["score"] for row in predictions if row["sequence"] == BEST]
    refusal, measured = improvement.compared([new[position] for position, _ in rows], evaluation.scores, latest)
    return replace(found, refusal=refusal, measured=measured)
