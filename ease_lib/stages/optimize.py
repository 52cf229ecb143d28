"""Stage `optimize`: search the exemplar sequence that scores best on the validation set through the black-box."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import open_store
from ease_lib.artifacts.tables import read_document, read_exemplars, write_document
from ease_lib.black_box.chain import BlackBox
from ease_lib.black_box.client import estimated_tokens
from ease_lib.candidates.prompts import Prompt
from ease_lib.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.config.sections import (
    ROW_METHODS,
    CapsConfig,
    ContinuationConfig,
    EmbeddingConfig,
    EndpointConfig,
    HardwareConfig,
    JudgeConfig,
    OptimizerConfig,
    RunConfig,
)
from ease_lib.device import resolve_device
from ease_lib.embedding.opening import open_embedder
from ease_lib.errors import ConfigError
from ease_lib.evaluation.baseline import baseline_of
from ease_lib.evaluation.evaluator import Evaluation, Question
from ease_lib.evaluation.judge import rubric_of
from ease_lib.evaluation.objective import Objective, estimated_usage
from ease_lib.evaluation.prompt import PromptTemplate, exemplar_text, instruction_text
from ease_lib.evaluation.row_order import row_order
from ease_lib.evaluation.sampling import answer_sampling
from ease_lib.evaluation.usage import Usage
from ease_lib.notes import Notes
from ease_lib.optimizers.base import ExemplarOptimizer, Problem, RowAllocating
from ease_lib.optimizers.halving import BLOCK_ROWS
from ease_lib.optimizers.registry import create_optimizer, planned_answers
from ease_lib.running.execution import StageReport, artifact, logger, output_path
from ease_lib.running.run import Run, limits_of, prices_of
from ease_lib.seeding import rng
from ease_lib.stages.embed import ExemplarEmbeddings, read_embeddings
from ease_lib.stages.propose_instructions import Instructions, read_instructions
from ease_lib.study.caps import Caps
from ease_lib.study.exemplar_effects import harmful_exemplars
from ease_lib.study.identity import journal_key, judge_identity
from ease_lib.study.journal import Journal, open_journal, usage_of_records
from ease_lib.study.ledger import PROPOSALS, SEARCH, TEST, Ledger
from ease_lib.study.loop import EvaluationsOn, Study, search
from ease_lib.study.order_report import OrderReport, ask_orders
from ease_lib.study.outcome import Outcome, outcome_of
from ease_lib.study.passes import passes_of_test_set
from ease_lib.study.progress import Progress, announce
from ease_lib.study.search_artifacts import (
    incumbent_scores,
    recommended_scores,
    search_summary,
    write_best_sequence,
    write_history,
)
from ease_lib.study.selection import Selection
from ease_lib.study.token_front import token_front
from ease_lib.study.warm_start import Memory, Names, Recalled
from ease_lib.surrogate.representations import (
    Representation,
    SequenceRepresentation,
    precomputed_representation,
)
from ease_lib.tasks.base import Exemplar

ESTIMATED_SEQUENCES = 20
"""Sequences whose lengths stand for all in the estimate of tokens."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL, "Exemplar pool.", of="prefilter.kept")
    validation: str = artifact(contracts.VALIDATION_SET, "Validation set.", of="build_dataset.validation")
    embeddings: str = artifact(
        contracts.EXEMPLAR_EMBEDDINGS, "Embeddings of pool and validation set.", of="embed.embeddings"
    )
    summary: str = artifact(
        contracts.DATASET_SUMMARY, "What build_dataset says of the data.", of="build_dataset.summary"
    )
    instructions: str = artifact(
        contracts.INSTRUCTIONS, "Instructions to choose from.", of="propose_instructions.instructions"
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    best_sequence: str = artifact(contracts.BEST_SEQUENCE, "The winning sequence, with its texts.")
    history: str = artifact(contracts.HISTORY, "All observations in order.")
    search: str = artifact(contracts.SEARCH_SUMMARY, "Cost, time and stop reason of the search.")


@dataclass(frozen=True, kw_only=True)
class Config:
    optimizer: OptimizerConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig
    endpoint: EndpointConfig
    judge: JudgeConfig
    caps: CapsConfig
    run: RunConfig
    continuation: ContinuationConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Search, journalled: the same stage run again after a kill continues where it was.

    Raises:
        EndpointError: when the black-box fails for good; the journal keeps all observations until then.
        ConfigError: when k exceeds the pool, or the caps do not allow a single evaluation.
    """
    data = _read(inputs, config.optimizer)
    representation = _representation(config, data, run)
    sampling = answer_sampling(data.pool, config.endpoint, data.template, baseline_of(data.dataset))
    rubric = rubric_of(data.dataset)
    ledger = run.ledger(config.continuation)
    with run.llm(config, sampling, SEARCH, judged=rubric) as black_box:
        ledger.book(PROPOSALS, data.instructions.usage)
        metric = run.metric(data.dataset["metric"], data.dataset["metric_sha256"]).score
        objective = Objective.of(
            black_box, data.validation, metric, data.template, rubric, most_zeros=config.caps.max_zero_answers
        )
        answers = _answers(config, data, ledger)
        search_key = _key(inputs, config, data, black_box, answers)
        memory, names = _memory(config, data, black_box, run), _names(data)
        recalled = memory.recall(search_key, names) if memory else Recalled()
        if recalled.count:
            logger.info("recalled %d answers of an earlier search", recalled.count)
        key = f"{search_key[:16]}{recalled.sha256[:16]}" if recalled.sha256 else search_key
        selection = Selection(black_box, f"{key}/selection", ledger)
        problem = _problem(config, data, representation, selection, answers)
        caps = _caps(config, data, problem, ledger)
        optimizer = _optimizer(config, problem, recalled)
        study = _searched(key, config, data, optimizer, problem, objective, caps, black_box, run)
        outcome = _outcome(study, optimizer, problem, caps, recalled)
        others = ledger.spent(without=[TEST]) + Usage(requests=data.test_requests)
        black_box.meter.allow(caps.limits.allowance(others))
        order = _order(config, data, problem, objective, outcome, f"{key}/order")
        ledger.book(SEARCH, study.usage + order.usage)
    if memory:
        memory.keep(key, search_key, recalled, outcome.answers, names)
    write_best_sequence(
        output_path(outputs.best_sequence),
        outcome,
        config.optimizer.k,
        data.pool,
        data.instructions.texts,
        data.dataset,
        black_box,
    )
    before = _optimizer(config, problem, recalled) if config.optimizer.method in ROW_METHODS else None
    incumbents = (
        recommended_scores(study.history, before)
        if isinstance(before, RowAllocating)
        else incumbent_scores(study.history)
    )
    row_ids = [row.exemplar_id for row in data.validation]
    write_history(output_path(outputs.history), study, incumbents, data.ids, row_ids, prices_of(config))
    extra = selection.usage + order.usage
    summary = _summary(config, data, study, black_box, representation, extra, _planned(config, data, caps))
    findings = {
        "order": order.findings,
        "token_front": token_front(outcome, lambda prompt: _prompt_tokens(data, prompt)),
        "recalled_answers": recalled.count,
        "harmful_exemplars": harmful_exemplars(outcome, data.ids, row_ids, config.run.seed),
    }
    write_document(output_path(outputs.search), contracts.SEARCH_SUMMARY, {**summary, **findings})
    logger.info("search ended: %s, after %d evaluations", study.stopped, len(study.history))
    return StageReport(metrics={"validation_score": outcome.score, "evaluations": len(study.history)})


@dataclass(frozen=True, kw_only=True)
class _Data:
    """What the stages before have made."""

    pool: list[Exemplar]
    validation: list[Exemplar]
    dataset: dict[str, Any]
    instructions: Instructions
    embeddings: ExemplarEmbeddings

    @cached_property
    def template(self) -> PromptTemplate:
        return PromptTemplate.of(self.dataset["template"])

    @property
    def test_requests(self) -> int:
        """What the stage `evaluate` will ask."""
        return passes_of_test_set(self.dataset["baseline"]) * int(self.dataset["test"]) * self.answer_requests

    @property
    def answer_requests(self) -> int:
        """Of one answer: the LLM's, and the judge's where one scores it."""
        return 2 if self.dataset["rubric"] else 1

    @property
    def ids(self) -> list[int]:
        return [row.exemplar_id for row in self.pool]


def _read(inputs: Inputs, settings: OptimizerConfig) -> _Data:
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    instructions = read_instructions(Path(inputs.instructions))
    if settings.k > len(pool):
        raise ConfigError(
            f"k={settings.k} exceeds the pool's {len(pool)} exemplars; lower k or raise pool_size or retained"
        )
    pool_ids, validation_ids = ([row.exemplar_id for row in rows] for rows in (pool, validation))
    return _Data(
        pool=pool,
        validation=validation,
        dataset=read_document(Path(inputs.summary), contracts.DATASET_SUMMARY),
        instructions=instructions,
        embeddings=read_embeddings(Path(inputs.embeddings), pool_ids, validation_ids, len(instructions.texts)),
    )


def _representation(config: Config, data: _Data, run: Run) -> Representation:
    settings = config.optimizer
    if settings.representation == "sequence":
        texts = [exemplar_text(row) for row in data.pool]
        prefixes = [instruction_text(instruction) for instruction in data.instructions.texts]
        return SequenceRepresentation(
            open_embedder(config.embedding, config.hardware, notes=run.notes), texts, prefixes
        )
    return precomputed_representation(
        settings.representation,
        data.embeddings.pool,
        data.embeddings.pool_outputs,
        data.embeddings.instructions,
        varies_length=settings.shortest < settings.k,
    )


def _key(inputs: Inputs, config: Config, data: _Data, black_box: BlackBox, answers: int) -> str:
    return journal_key(
        files=[Path(inputs.pool), Path(inputs.validation), Path(inputs.summary)],
        optimizer=config.optimizer,
        embedding=config.embedding,
        black_box=black_box,
        instructions=data.instructions.texts,
        template=data.template,
        seed=config.run.seed,
        answers=answers,
    )


def _names(data: _Data) -> Names:
    return Names.of(data.pool, data.validation, data.instructions.texts)


def _memory(config: Config, data: _Data, black_box: BlackBox, run: Run) -> Memory | None:
    """Of what earlier searches were answered, where that is wanted."""
    if not config.optimizer.warm_start or run.store is None:
        return None
    asked = black_box.asked
    endpoint = [asked.endpoint, asked.model, asked.api, asked.sampling.identity, asked.generation]
    scored_by = data.dataset["metric"] + data.dataset["metric_sha256"]
    subject = [data.dataset["task"], scored_by, data.template.identity, black_box.failures.kind, *endpoint]
    subject += [dict(asked.extra)] if asked.extra else []
    subject += judge_identity(black_box) or []
    return Memory(run.store, hashlib.sha256(json.dumps(subject).encode()).hexdigest()[:32], run.notes)


def _optimizer(config: Config, problem: Problem, recalled: Recalled) -> ExemplarOptimizer:
    optimizer = create_optimizer(config.optimizer, problem)
    if isinstance(optimizer, RowAllocating):
        for prompt, rows, scores in recalled.answers:
            optimizer.recall(prompt, rows, scores)
    return optimizer


def _answers(config: Config, data: _Data, ledger: Ledger) -> int:
    """That the search plans for; a cap that is shared by a whole comparison is not this search's to plan for."""
    cap, affordable = config.caps.max_llm_requests, math.inf
    if cap and "/" not in config.continuation.ledger:
        others = data.test_requests + _order_requests(config, data)
        spent = ledger.spent(without=[SEARCH, TEST])
        affordable = (cap - others - spent.requests - spent.retries) // data.answer_requests
    return config.optimizer.answers(len(data.validation), affordable)


def _space(config: Config, data: _Data) -> SequenceSpace:
    settings, tokens, most = config.optimizer, None, 0
    if settings.max_prompt_tokens:
        tokens = np.array([estimated_tokens(data.template.exemplar(row) + data.template.between) for row in data.pool])
        longest = max(_query_tokens(data, row) for row in data.validation)
        most = settings.max_prompt_tokens - longest
        if most < (np.sort(tokens)[: settings.shortest].sum() if settings.shortest else 0):
            raise ConfigError(
                f"max_prompt_tokens={settings.max_prompt_tokens} leaves {most} tokens for {settings.shortest} "
                f"exemplars beside a query of {longest}; raise it, or lower k or k_min"
            )
    return SequenceSpace(len(data.pool), settings.k, settings.shortest, tokens, most)


def _query_tokens(data: _Data, query: Exemplar) -> int:
    """Of the prompt without exemplars, with the longest instruction."""
    return max(
        estimated_tokens(data.template.render([], query, instruction)) for instruction in data.instructions.texts
    )


def _prompt_tokens(data: _Data, prompt: Prompt) -> int:
    """Of a prompt without the query's own texts."""
    instruction, sequence = prompt
    exemplars = [data.pool[position] for position in sequence]
    blank = Exemplar(-1, "", (), fields=tuple((column, "") for column in data.template.columns))
    return estimated_tokens(data.template.render(exemplars, blank, data.instructions.texts[instruction]))


def _problem(
    config: Config, data: _Data, representation: Representation, selection: Selection, answers: int
) -> Problem:
    return Problem(
        space=_space(config, data),
        representation=representation,
        pool=data.embeddings.pool,
        validation=data.embeddings.validation,
        exemplars=[exemplar_text(row) for row in data.pool],
        inputs=[row.input for row in data.pool],
        validation_inputs=[row.input for row in data.validation],
        outputs=[row.output for row in data.pool],
        validation_outputs=[row.output for row in data.validation],
        answers=answers,
        seed=config.run.seed,
        device=resolve_device(config.hardware.device),
        instructions=len(data.instructions.texts),
        ask_llm=selection.ask,
    )


def _caps(config: Config, data: _Data, problem: Problem, ledger: Ledger) -> Caps:
    """The caps of the configuration, with the run's ledger and what an evaluation and the test set will take."""
    sampled = as_tuples(problem.space.sample(rng(config.run.seed, "estimate"), ESTIMATED_SEQUENCES))
    shown = [[data.pool[position] for position in sequence] for sequence in sampled] or [[]]
    rows = 1 if config.optimizer.method in ROW_METHODS else len(_rows(config, data))
    all_rows = estimated_usage(
        data.template,
        shown,
        data.validation,
        rubric=rubric_of(data.dataset),
        thinking_tokens=config.endpoint.llm_thinking_tokens,
    )
    return Caps(
        limits=limits_of(config),
        seconds=config.caps.max_seconds,
        evaluation=all_rows.share(rows / len(data.validation)),
        answer_requests=data.answer_requests,
        test_requests=data.test_requests + _order_requests(config, data),
        ledger=ledger,
    )


def _planned(config: Config, data: _Data, caps: Caps) -> Usage:
    """What search and test set cost at most, by the texts of the data alone, whatever was kept or retried."""
    searched = _answers(config, data, Ledger())
    if config.optimizer.method not in ROW_METHODS:
        searched = planned_answers(config.optimizer, len(data.validation), searched or math.inf)
    requests = searched * data.answer_requests + caps.test_requests
    return data.instructions.usage + caps.expected(requests, Usage())


def _rows(config: Config, data: _Data) -> tuple[int, ...]:
    """Of the validation set, that an evaluation asks."""
    order = row_order([row.output for row in data.validation], config.run.seed)
    return order[: config.optimizer.evaluation_rows or None]


def _order_requests(config: Config, data: _Data) -> int:
    """At most: where the winner was asked other rows, its own order is asked too."""
    orders = config.optimizer.order_report
    return (orders + 1) * len(_rows(config, data)) * data.answer_requests if orders else 0


def _searched(
    key: str,
    config: Config,
    data: _Data,
    optimizer: ExemplarOptimizer,
    problem: Problem,
    objective: Objective,
    caps: Caps,
    black_box: BlackBox,
    run: Run,
) -> Study:
    """Alg. 1, from where the journal ends."""
    settings, rows = config.optimizer, _rows(config, data)
    spreads = isinstance(optimizer, RowAllocating)
    evaluation_rows = BLOCK_ROWS if spreads else len(rows)
    with _journal(run, key) as journal:
        known = journal.replay()
        announce(known, caps, settings, problem, black_box)
        black_box.meter.allow(caps.allowance(own=usage_of_records(known)))
        return search(
            optimizer,
            EvaluationsOn(objective, data.pool, data.instructions.texts, key, rows),
            journal,
            budget=max(1, problem.answers) if spreads else settings.budget,
            parallel=settings.under_way,
            ahead=evaluations_ahead(evaluation_rows, config.endpoint.llm_concurrency, black_box),
            caps=caps,
            on_record=Progress(optimizer, settings, problem, run.host.progress.answered),
        )


def evaluations_ahead(rows: int, concurrency: int, black_box: BlackBox) -> int:
    """Evaluations that keep so many requests in flight while the oldest of them waits for its slowest answer.

    One that answers in this process is kept busy by one.
    """
    if black_box.is_function:
        return 1
    return 1 + math.ceil(2 * concurrency / rows)


@contextmanager
def _journal(run: Run, key: str) -> Iterator[Journal]:
    """In the run's store; without one in a folder that is gone at the end, of which nothing is noted."""
    if run.store:
        with open_journal(run.store, key, run.notes) as journal:
            yield journal
        return
    logger.info("notice: no store_uri is set, so a killed search starts again from nothing")
    with (
        tempfile.TemporaryDirectory(prefix="ease-journal-") as folder,
        open_journal(open_store(folder), key, Notes()) as journal,
    ):
        yield journal


def _outcome(study: Study, optimizer: ExemplarOptimizer, problem: Problem, caps: Caps, recalled: Recalled) -> Outcome:
    outcome = outcome_of(study.history, optimizer, problem, recalled.answers)
    if outcome is None:
        raise ConfigError(
            f"{study.stopped} does not allow a single evaluation of {caps.evaluation.requests} requests beside the "
            f"{caps.test_requests} of the test set; raise it, or lower validation_size and test_size"
        )
    return outcome


def _order(
    config: Config, data: _Data, problem: Problem, objective: Objective, outcome: Outcome, account: str
) -> OrderReport:
    """The winner in other orders, where that is asked for."""

    def ask(prompt: Prompt, rows: Sequence[int]) -> Evaluation:
        instruction, sequence = prompt
        exemplars = [data.pool[position] for position in sequence]
        texts = data.instructions.texts
        return objective.evaluate(
            Question(exemplars=exemplars, instruction=texts[instruction], account=account, rows=rows)
        )

    return ask_orders(outcome, problem, config.optimizer.order_report, _rows(config, data), ask, objective.stop)


def _summary(
    config: Config,
    data: _Data,
    study: Study,
    black_box: BlackBox,
    representation: Representation,
    extra: Usage,
    planned: Usage,
) -> dict[str, Any]:
    summary = search_summary(
        study,
        settings=config.optimizer,
        seed=config.run.seed,
        black_box=black_box,
        representation=representation,
        instructions=len(data.instructions.texts) - 1,
        proposals=data.instructions.usage,
        extra=extra,
        new_requests=black_box.answered + data.instructions.new_requests,
        prices=prices_of(config),
        planned=planned,
    )
    return {**summary, "parameters": dataclasses.asdict(config)}
