"""Stage `optimize`: search the exemplar sequence that scores best on the validation set."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib import observations
from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, sha256_of_files, write_document
from ease_lib.black_box.asking import complete_all
from ease_lib.black_box.client import Sampling
from ease_lib.black_box.endpoint_notes import FIRST
from ease_lib.black_box.meter import Allowance
from ease_lib.black_box.opening import BlackBox, open_black_box
from ease_lib.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.config import (
    CapsConfig,
    ContinuationConfig,
    EmbeddingConfig,
    EndpointConfig,
    HardwareConfig,
    OptimizerConfig,
    RunConfig,
)
from ease_lib.device import resolve_device
from ease_lib.embedding.opening import embedder_identity, open_embedder
from ease_lib.errors import ConfigError
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.prompt import TEMPLATE, exemplar_text, prompt_prefix
from ease_lib.evaluation.sampling import answer_sampling
from ease_lib.evaluation.usage import Usage, usage_of
from ease_lib.optimizers.base import Problem
from ease_lib.optimizers.history import History, Observation
from ease_lib.optimizers.registry import BUDGET_METHODS, create_optimizer
from ease_lib.running.accounts import ledger_of, limits_of
from ease_lib.running.execution import StageReport, artifact, logger, output_path
from ease_lib.seeding import rng
from ease_lib.stages.embed import ExemplarEmbeddings, read_embeddings
from ease_lib.stages.evaluate import TEST_PASSES
from ease_lib.stages.propose_instructions import Instructions, read_instructions
from ease_lib.study.caps import Caps
from ease_lib.study.journal import Journal, Record, open_journal
from ease_lib.study.ledger import PROPOSALS, SEARCH, SELECTION, TEST, Ledger
from ease_lib.study.loop import Racing, Study, evaluate_on, search
from ease_lib.study.search_artifacts import write_best_sequence, write_history
from ease_lib.surrogate.representations import (
    AverageRepresentation,
    PositionalRepresentation,
    Representation,
    SequenceRepresentation,
    WithInstruction,
    WithLength,
)
from ease_lib.tasks.base import Exemplar

ESTIMATED_SEQUENCES = 20
"""Sequences whose lengths stand for all in the estimate of tokens."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    validation: str = artifact(contracts.VALIDATION_SET)
    embeddings: str = artifact(contracts.EXEMPLAR_EMBEDDINGS)
    dataset: str = artifact(contracts.DATASET_SUMMARY)
    instructions: str = artifact(contracts.INSTRUCTIONS)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    best_sequence: str = artifact(contracts.BEST_SEQUENCE)
    history: str = artifact(contracts.HISTORY)
    summary: str = artifact(contracts.SEARCH_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config:
    optimizer: OptimizerConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig
    endpoint: EndpointConfig
    caps: CapsConfig
    run: RunConfig
    continuation: ContinuationConfig


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Search, journalled: the same stage run again after a kill continues where it was.

    Raises:
        EndpointError: when the black-box fails for good; the journal keeps all observations until then.
        ConfigError: when k exceeds the pool, or the caps do not allow a single evaluation.
    """
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    dataset = read_document(Path(inputs.dataset), contracts.DATASET_SUMMARY)
    instructions = read_instructions(Path(inputs.instructions))
    settings = config.optimizer
    if settings.k > len(pool):
        raise ConfigError(
            f"k={settings.k} exceeds the pool's {len(pool)} exemplars; lower k or raise pool_size or retained"
        )
    ids = [row.exemplar_id for row in pool]
    embeddings = read_embeddings(
        Path(inputs.embeddings), ids, [row.exemplar_id for row in validation], len(instructions.texts)
    )
    representation = _representation(config, pool, embeddings, instructions.texts)
    sampling = answer_sampling(pool, config.endpoint.llm_max_tokens)
    with open_black_box(
        config.endpoint, sampling=sampling, store_uri=config.run.store_uri, answers=config.continuation.answers
    ) as black_box:
        objective = Objective.of(black_box, validation, dataset["metric"])
        key = _journal_key(inputs, config, black_box, sampling, instructions.texts)
        ledger = ledger_of(config.run, config.continuation)
        selection = _Selection(black_box, f"{key}/selection", ledger)
        problem = Problem(
            space=SequenceSpace(len(pool), settings.k, settings.k_min),
            representation=representation,
            pool=embeddings.pool,
            validation=embeddings.validation,
            exemplars=[exemplar_text(row) for row in pool],
            inputs=[row.input for row in pool],
            validation_inputs=[row.input for row in validation],
            seed=config.run.seed,
            device=resolve_device(config.hardware.device),
            instructions=len(instructions.texts),
            ask_llm=selection.ask,
        )
        ledger.book(PROPOSALS, instructions.usage)
        caps = _caps(config, objective, problem, pool, ledger, test_rows=dataset["test"])
        with _journal_place(config.run) as place, open_journal(place, key) as journal:
            _announce(len(journal.replay()), caps, config, black_box)
            black_box.meter.allow(_allowance(caps, journal))
            study = search(
                create_optimizer(settings, problem),
                evaluate_on(objective, pool, instructions.texts, key),
                journal,
                budget=settings.budget,
                parallel=settings.parallel,
                racing=Racing(confidence=settings.racing_confidence, seed=config.run.seed) if settings.racing else None,
                caps=caps,
                on_record=lambda record, history: _log_evaluation(record, history, settings.budget),
            )
    incumbent = _incumbent(study, caps)
    write_best_sequence(
        output_path(outputs.best_sequence), incumbent, settings.k, pool, instructions.texts, dataset, black_box
    )
    write_history(output_path(outputs.history), study, ids, config.endpoint.prices)
    summary = _summary(study, config, black_box, representation, instructions, selection.usage)
    write_document(output_path(outputs.summary), contracts.SEARCH_SUMMARY, summary)
    logger.info("search ended: %s, after %d evaluations", study.stopped, len(study.history))
    return StageReport(metrics={"validation_score": incumbent.score, "evaluations": len(study.history)})


class _Selection:
    """Asks the black-box the one question of `llm_select`; `usage` is what it cost."""

    def __init__(self, black_box: BlackBox, account: str, ledger: Ledger) -> None:
        self._black_box = black_box
        self._account = account
        self._ledger = ledger
        self.usage = Usage()

    def ask(self, prompt: str) -> str:
        start = time.perf_counter()
        answers = self._black_box.runner.run(complete_all(self._black_box.client, [prompt], self._account))
        self.usage += usage_of([prompt], answers, time.perf_counter() - start)
        self._ledger.book(SELECTION, self.usage)
        return answers[0].text


def _representation(
    config: Config, pool: Sequence[Exemplar], embeddings: ExemplarEmbeddings, instructions: Sequence[str]
) -> Representation:
    settings = config.optimizer
    if settings.representation == "sequence":
        texts = [exemplar_text(row) for row in pool]
        prefixes = [prompt_prefix([], instruction) for instruction in instructions]
        return SequenceRepresentation(open_embedder(config.embedding, config.hardware), texts, prefixes)
    representation: Representation = PositionalRepresentation(embeddings.pool, embeddings.pool_outputs)
    if settings.representation == "average":
        representation = AverageRepresentation(embeddings.pool)
    if settings.k_min and settings.k_min < settings.k:
        representation = WithLength(representation)
    return WithInstruction(representation, embeddings.instructions) if len(instructions) > 1 else representation


@contextmanager
def _journal_place(run: RunConfig) -> Iterator[str]:
    if run.store_uri:
        yield run.store_uri
        return
    logger.info("notice: no store_uri is set, so a killed search starts again from nothing")
    with tempfile.TemporaryDirectory(prefix="ease-journal-") as folder:
        yield folder
        observations.discard(folder)


def _journal_key(
    inputs: Inputs, config: Config, black_box: BlackBox, sampling: Sampling, instructions: Sequence[str]
) -> str:
    """Hash of all that decides what is asked and how it is scored.

    A larger budget continues the same search, unless the method or a scaled initial design depends on it.
    """
    optimizer = dataclasses.asdict(config.optimizer)
    optimizer["initial_design"] = config.optimizer.scaled_design
    if config.optimizer.method not in BUDGET_METHODS:
        del optimizer["budget"]
    identity: dict[str, Any] = {
        "files": sha256_of_files([Path(inputs.pool), Path(inputs.validation), Path(inputs.dataset)]),
        "optimizer": optimizer,
        "embedder": [dataclasses.astuple(config.embedding), embedder_identity(config.embedding)],
        "endpoint": [black_box.endpoint, black_box.model, black_box.api, dataclasses.asdict(sampling)],
        "instructions": list(instructions),
        "template": TEMPLATE,
        "seed": config.run.seed,
    }
    if black_box.answers != FIRST:
        identity["answers"] = black_box.answers
    if config.endpoint.llm_failures == "zero":  # the others leave the same scores where nothing was refused
        identity["failures"] = "zero"
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def _caps(
    config: Config,
    objective: Objective,
    problem: Problem,
    pool: Sequence[Exemplar],
    ledger: Ledger,
    *,
    test_rows: int,
) -> Caps:
    """The caps of the configuration, with the run's ledger and what an evaluation and the test set will take."""
    sampled = as_tuples(problem.space.sample(rng(config.run.seed, "estimate"), ESTIMATED_SEQUENCES))
    evaluation = objective.estimate([[pool[position] for position in sequence] for sequence in sampled])
    return Caps(
        limits=limits_of(config.caps, config.endpoint),
        seconds=config.caps.max_seconds,
        evaluation=evaluation,
        test_requests=TEST_PASSES * test_rows,
        ledger=ledger,
    )


def _allowance(caps: Caps, journal: Journal) -> Allowance:
    """What the search may still send: neither what others have spent, nor its own, nor the test set's requests.

    What these will cost is estimated anew before each evaluation; here a first guess would bind the whole search.
    """
    own = sum((record.usage for record in journal.replay()), start=Usage())
    others = caps.ledger.spent(without=[SEARCH, TEST])
    return caps.limits.allowance(others + own + Usage(requests=caps.test_requests))


def _announce(replayed: int, caps: Caps, config: Config, black_box: BlackBox) -> None:
    """What lies ahead, and about what it will cost, before the first request."""
    budget, rows = config.optimizer.budget, caps.evaluation.requests
    if replayed:
        logger.info("continuing: %d of %d evaluations are in the journal", min(replayed, budget), budget)
    evaluations = max(0, budget - replayed)
    requests = evaluations * rows
    if config.optimizer.scaled_design != config.optimizer.initial_design:
        logger.info(
            "notice: initial_design=%d is scaled down to %d for a budget of %d",
            config.optimizer.initial_design,
            config.optimizer.scaled_design,
            budget,
        )
    logger.info(
        "%s asks %s (%s): at most %d x %d = %d requests, %s; then %d for the test set",
        config.optimizer.method,
        black_box.model,
        black_box.endpoint,
        evaluations,
        rows,
        requests,
        caps.described(requests),
        caps.test_requests,
    )


def _log_evaluation(record: Record, history: History, budget: int) -> None:
    observation = record.observation
    scores = [history.incumbent.score] if history.incumbent else []
    scores += [] if observation.partial else [observation.score]
    logger.info(
        "evaluation %d/%d %s  score %.3f%s  incumbent %.3f  %d requests  %.1f s",
        record.iteration + 1,
        budget,
        observation.candidate.phase,
        observation.score,
        f" (stopped after {observation.validation_rows} rows)" if observation.partial else "",
        max(scores),
        record.usage.requests,
        record.seconds,
    )


def _incumbent(study: Study, caps: Caps) -> Observation:
    if study.history.incumbent is None:
        raise ConfigError(
            f"{study.stopped} does not allow a single evaluation of {caps.evaluation.requests} requests beside the "
            f"{caps.test_requests} of the test set; raise it, or lower validation_size and test_size"
        )
    return study.history.incumbent


def _summary(
    study: Study,
    config: Config,
    black_box: BlackBox,
    representation: Representation,
    instructions: Instructions,
    selection: Usage,
) -> dict[str, Any]:
    truncated = None
    if isinstance(representation, SequenceRepresentation):
        truncated = {"sequences": representation.embedded, "truncated": representation.truncated}
        logger.info("%(truncated)d of %(sequences)d embedded sequences were longer than the embedder reads", truncated)
    usage = study.usage + instructions.usage + selection
    seconds = study.seconds + instructions.usage.seconds
    return {
        "method": config.optimizer.method,
        "seed": config.run.seed,
        "evaluations": len(study.history),
        "partial_evaluations": sum(observation.partial for observation in study.history),
        "budget": config.optimizer.budget,
        "stopped": study.stopped,
        "resumed": study.replayed > 0,
        "replayed": study.replayed,
        "simulated": black_box.simulated,
        "representation": config.optimizer.representation,
        "truncated_sequences": truncated,
        "instructions": len(instructions.texts) - 1,
        "seconds": {"total": seconds, "llm": usage.seconds, "search": seconds - usage.seconds},
        "oldest_answer": usage.oldest_answer,
        "llm": {
            "endpoint": black_box.endpoint,
            "model": black_box.model,
            "new_requests": black_box.innermost.answered + instructions.new_requests,
            **usage.counts(**config.endpoint.prices),
        },
        "parameters": dataclasses.asdict(config),
    }
