"""Stage `optimize`: search the exemplar sequence that scores best on the validation set through the black-box."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import open_store
from ease_lib.artifacts.tables import write_document
from ease_lib.black_box.budget_ledger import PROPOSALS, SEARCH
from ease_lib.black_box.layers import BlackBox
from ease_lib.black_box.usage import Usage
from ease_lib.config.methods import METHODS
from ease_lib.config.sections import (
    LATEST,
    Asks,
    EmbeddingConfig,
    HardwareConfig,
    OptimizerConfig,
)
from ease_lib.embedding.embedder import Embedder
from ease_lib.embedding.opening import open_embedder
from ease_lib.machine import resolve_device
from ease_lib.notes import Notes
from ease_lib.running.run import Run, prices_of
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.findings import OrderReport, ask_orders
from ease_lib.search.identity import search_key
from ease_lib.search.journal import Journal, journal_name, open_journal
from ease_lib.search.loop import EvaluationsOn, Study, search
from ease_lib.search.mislabelled import LabelCheck, checked_labels
from ease_lib.search.optimizers.baselines import Selection
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.optimizers.registry import create_optimizer
from ease_lib.search.outcome import Outcome, outcome_of
from ease_lib.search.plan_and_caps import Plan
from ease_lib.search.search_artifacts import search_summary, write_best_sequence, write_history
from ease_lib.search.search_plan import plan_search
from ease_lib.search.search_progress import SearchProgress
from ease_lib.search.task import SearchTask, read_search_task
from ease_lib.search.warm_start import open_memory


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")
    validation: str = reads("build_dataset.validation")
    embeddings: str = reads("embed.embeddings")
    summary: str = reads("build_dataset.summary")
    instructions: str = reads("propose_instructions.instructions")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    best_sequence: str = makes(contracts.BEST_SEQUENCE)
    history: str = makes(contracts.HISTORY)
    search: str = makes(contracts.SEARCH_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config(Asks):
    optimizer: OptimizerConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Search, journalled: the same stage run again after a kill continues where it was. Alg. 1 is `search/loop.py`.

    Raises:
        EndpointError: when the black-box fails for good; the journal keeps all observations until then.
        ConfigError: when k exceeds the pool, or the caps do not allow a single evaluation.
    """
    task = read_search_task(**asdict(inputs), metric_of=run.metric)
    settings, budget = config.optimizer, run.budget(config)
    space = task.space(settings)
    budget.book(PROPOSALS, task.instructions.usage)
    plan = plan_search(
        task,
        space,
        budget,
        optimizer=settings,
        endpoint=config.endpoint,
        max_seconds=config.caps.max_seconds,
        seed=config.run.seed,
    )
    with run.llm(config, task.asked.sampling(config.endpoint), SEARCH, judged=task.asked.rubric) as black_box:
        found = _searched(config, task, space, plan, black_box, run)
    write_best_sequence(output_path(outputs.best_sequence), found.outcome, settings, task, black_box)
    write_history(output_path(outputs.history), found.study, task, prices_of(config))
    summary = search_summary(
        found.study,
        found.outcome,
        settings=settings,
        seed=config.run.seed,
        task=task,
        black_box=black_box,
        problem=found.problem,
        labels=found.labels,
        selection=found.selection,
        orders=found.order.usage,
        prices=prices_of(config),
        planned=plan.usage,
    )
    findings = {"parameters": asdict(config), "order": found.order.findings, "recalled_answers": found.recalled}
    write_document(output_path(outputs.search), contracts.SEARCH_SUMMARY, {**summary, **findings})
    logger.info("search ended: %s, after %d evaluations", found.study.stopped, len(found.study.history))
    metrics = {"validation_score": found.outcome.score, "evaluations": len(found.study.history)}
    return StageReport(metrics=metrics)


@dataclass(frozen=True, kw_only=True)
class _Search:
    """A search that ended.

    Args:
        labels: what the validation rows say of the pool's.
        order: what was asked of the winner's orders.
        selection: what the method asked besides its evaluations.
        recalled: answers of an earlier search.
    """

    problem: Problem
    study: Study
    outcome: Outcome
    labels: LabelCheck | None
    order: OrderReport
    selection: Usage
    recalled: int


def _searched(
    config: Config, task: SearchTask, space: SequenceSpace, plan: Plan, black_box: BlackBox, run: Run
) -> _Search:
    settings = config.optimizer
    scored = task.asked.scored(black_box)
    key = search_key(task, scored, settings, config.embedding, seed=config.run.seed)
    memory = open_memory(run.store if settings.warm_start else None, scored.subject(task.name), run.notes)
    recalled = memory.recall(key, task.names)
    spread = plan.answers if plan.chooses_rows else None
    searched_as = recalled.key_of(key)
    journal_key = journal_name(searched_as, spread)
    selection = Selection(black_box, f"{journal_key}/selection", plan.budget)
    problem = _problem(config, task, space, plan, selection, run)
    optimizer = create_optimizer(settings, problem, recalled.answers)
    objective = task.asked.objective(black_box, task.validation, most_zeros=config.caps.max_zero_answers)
    with _journal(run, searched_as, spread) as journal:
        known = journal.replay()
        plan.begin(known, settings, black_box)
        study = search(
            optimizer,
            EvaluationsOn(objective, task, journal_key),
            journal,
            plan,
            latest_of_equals=settings.ties == LATEST,
            parallel=settings.under_way,
            ahead=plan.ahead(black_box),
            on_record=SearchProgress(
                optimizer, settings, problem, prices_of(config), run.host.progress.searched, known
            ),
        )
    vectors = task.embeddings
    labels = checked_labels(
        vectors.pool_inputs, problem.outputs, vectors.validation_inputs, problem.validation_outputs, task.ids
    )
    doubtful = {each["exemplar_id"] for each in labels.listed} if labels else set()
    avoided = [place for place, exemplar_id in enumerate(task.ids) if exemplar_id in doubtful]
    outcome = outcome_of(study.history, optimizer, problem, recalled.answers, avoided)
    if outcome is None:
        raise plan.refuse(study.stopped)
    plan.allow_orders(black_box)
    order = ask_orders(
        outcome,
        problem,
        task,
        objective,
        study.history,
        settings.order_report,
        most_rows=len(plan.rows),
        account=f"{journal_key}/order",
    )
    plan.budget.book(SEARCH, study.usage + order.usage)
    memory.keep(journal_key, key, recalled, outcome.answers, task.names)
    return _Search(
        problem=problem,
        study=study,
        outcome=outcome,
        labels=labels,
        order=order,
        selection=selection.usage,
        recalled=recalled.count,
    )


def _problem(
    config: Config, task: SearchTask, space: SequenceSpace, plan: Plan, selection: Selection, run: Run
) -> Problem:
    def embedder() -> Embedder:
        return open_embedder(config.embedding, config.hardware, notes=run.notes)

    return task.problem(
        space,
        task.representation(config.optimizer, embedder) if METHODS[config.optimizer.method].has_surrogate else None,
        evaluated=None if plan.chooses_rows else plan.rows,
        answers=plan.answers,
        seed=config.run.seed,
        device=resolve_device(config.hardware.device),
        ask_llm=selection.ask,
    )


@contextmanager
def _journal(run: Run, key: str, answers: int | None) -> Iterator[Journal]:
    """Open the journal in the run's store; without a store, in a temporary folder that is not noted."""
    if run.store:
        with open_journal(run.store, key, run.notes, answers=answers) as journal:
            yield journal
        return
    logger.info("notice: no store_uri is set, so a killed search starts again from scratch")
    with (
        tempfile.TemporaryDirectory(prefix="ease-journal-") as folder,
        open_journal(open_store(folder), key, Notes(), answers=answers) as journal,
    ):
        yield journal
