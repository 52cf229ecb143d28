"""Stage `optimize`: search the exemplar sequence that scores best on the validation set."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, sha256_of_files, write_document, write_table
from ease_lib.candidates.optimal_transport import cosine_cost
from ease_lib.candidates.sampling import SequenceSpace
from ease_lib.config import EmbeddingConfig, EndpointConfig, OptimizerConfig, RunConfig
from ease_lib.embeddings import (
    AverageRepresentation,
    PositionalRepresentation,
    Representation,
    SequenceRepresentation,
    load_embedder,
)
from ease_lib.errors import ConfigError
from ease_lib.evaluation.prompt import TEMPLATE, exemplar_text, stop_text
from ease_lib.optimizers.base import Problem
from ease_lib.optimizers.registry import create_optimizer
from ease_lib.stages.black_box import BlackBox, open_black_box
from ease_lib.stages.embed import ExemplarEmbeddings, read_embeddings
from ease_lib.stages.execution import StageReport, artifact, logger, output_path
from ease_lib.study.history import History
from ease_lib.study.journal import Record, open_journal
from ease_lib.study.loop import Study, search
from ease_lib.tasks.base import Exemplar

BUDGET_FREE_SETTINGS = ("budget",)
"""Settings that do not change what is asked: a search with a larger budget continues the same journal."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    validation: str = artifact(contracts.VALIDATION_SET)
    embeddings: str = artifact(contracts.EXEMPLAR_EMBEDDINGS)
    dataset: str = artifact(contracts.DATASET_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    best_sequence: str = artifact(contracts.BEST_SEQUENCE)
    history: str = artifact(contracts.HISTORY)
    summary: str = artifact(contracts.SEARCH_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config:
    optimizer: OptimizerConfig
    embedding: EmbeddingConfig
    endpoint: EndpointConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Search, journalled: the same stage run again after a kill continues where it was.

    Raises:
        EndpointError: when the black-box fails for good; the journal keeps all observations until then.
    """
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    dataset = read_document(Path(inputs.dataset), contracts.DATASET_SUMMARY)
    if config.optimizer.k > len(pool):
        raise ConfigError(
            f"k={config.optimizer.k} exceeds the pool's {len(pool)} exemplars; lower k or raise pool_size or retained"
        )
    ids = [row.exemplar_id for row in pool]
    embeddings = read_embeddings(Path(inputs.embeddings), ids, [row.exemplar_id for row in validation])
    representation = _representation(config, pool, embeddings)
    problem = Problem(
        space=SequenceSpace(len(pool), config.optimizer.k),
        representation=representation,
        cost=cosine_cost(embeddings.pool, embeddings.validation),
        seed=config.run.seed,
    )
    with open_black_box(config.endpoint, stop=stop_text(pool), store_uri=config.run.store_uri) as black_box:
        objective = black_box.objective(validation, dataset["metric"])
        key = _journal_key(inputs, config, black_box)
        with open_journal(_journal_folder(config.run), key) as journal:
            _announce(len(journal.replay()), len(validation), config, black_box)
            study = search(
                create_optimizer(config.optimizer, problem),
                lambda sequence: objective.evaluate([pool[position] for position in sequence]),
                journal,
                budget=config.optimizer.budget,
                on_record=lambda record, history: _log_evaluation(record, history, config.optimizer.budget),
            )
    _write_best_sequence(outputs, study, pool, dataset, black_box)
    _write_history(outputs, study, ids)
    summary = _summary(study, config, black_box, representation)
    write_document(output_path(outputs.summary), contracts.SEARCH_SUMMARY, summary)
    logger.info("stopped: %s after %d evaluations", study.stopped, len(study.history))
    return StageReport(metrics={"validation_score": _incumbent_score(study), "evaluations": len(study.history)})


def _representation(config: Config, pool: Sequence[Exemplar], embeddings: ExemplarEmbeddings) -> Representation:
    match config.optimizer.representation:
        case "average":
            return AverageRepresentation(embeddings.pool)
        case "sequence":
            texts = [exemplar_text(row) for row in pool]
            return SequenceRepresentation(load_embedder(config.embedding.embedder), texts)
        case _:
            return PositionalRepresentation(embeddings.pool, embeddings.pool_outputs)


def _journal_folder(run: RunConfig) -> Path:
    if run.store_uri:
        return Path(run.store_uri) / "journals"
    logger.info("notice: no store_uri is set, so a killed search starts again from nothing")
    return Path(tempfile.mkdtemp(prefix="ease-journal-"))


def _journal_key(inputs: Inputs, config: Config, black_box: BlackBox) -> str:
    """Hash of all that decides what is asked and how it is scored."""
    optimizer = dataclasses.asdict(config.optimizer)
    for setting in BUDGET_FREE_SETTINGS:
        del optimizer[setting]
    identity: dict[str, Any] = {
        "files": sha256_of_files([Path(inputs.pool), Path(inputs.validation), Path(inputs.dataset)]),
        "optimizer": optimizer,
        "embedder": config.embedding.embedder,
        "endpoint": [black_box.endpoint, black_box.model, black_box.api, config.endpoint.llm_max_tokens],
        "template": TEMPLATE,
        "seed": config.run.seed,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def _announce(replayed: int, rows: int, config: Config, black_box: BlackBox) -> None:
    budget = config.optimizer.budget
    if replayed:
        logger.info("continuing: %d of %d evaluations are in the journal", min(replayed, budget), budget)
    remaining = max(0, budget - replayed)
    logger.info(
        "%s asks %s (%s): at most %d evaluations x %d rows = %d requests",
        config.optimizer.method,
        black_box.model,
        black_box.endpoint,
        remaining,
        rows,
        remaining * rows,
    )


def _log_evaluation(record: Record, history: History, budget: int) -> None:
    incumbent = history.incumbent.score if history.incumbent else 0.0
    logger.info(
        "evaluation %d/%d %s  score %.3f  incumbent %.3f  %d requests  %.1f s",
        len(history),
        budget,
        record.observation.candidate.phase,
        record.observation.score,
        incumbent,
        record.usage.requests,
        record.seconds,
    )


def _incumbent_score(study: Study) -> float:
    if study.history.incumbent is None:
        raise ConfigError("the search evaluated nothing; raise budget")
    return study.history.incumbent.score


def _write_best_sequence(
    outputs: Outputs, study: Study, pool: Sequence[Exemplar], dataset: dict[str, Any], black_box: BlackBox
) -> None:
    assert study.history.incumbent is not None
    chosen = [pool[position] for position in study.history.incumbent.candidate.sequence]
    document = {
        "task": dataset["task"],
        "metric": dataset["metric"],
        "validation_score": _incumbent_score(study),
        "exemplar_ids": [row.exemplar_id for row in chosen],
        "exemplars": [
            {"exemplar_id": row.exemplar_id, "input": row.input, "outputs": list(row.outputs)} for row in chosen
        ],
        "instruction": "",
        "template": TEMPLATE,
        "llm_model": black_box.model,
        "llm_endpoint": black_box.endpoint,
    }
    write_document(output_path(outputs.best_sequence), contracts.BEST_SEQUENCE, document)


def _write_history(outputs: Outputs, study: Study, ids: list[int]) -> None:
    incumbent, incumbents = 0.0, []
    for observation in study.history:
        incumbent = max(incumbent, observation.score)
        incumbents.append(incumbent)
    candidates = [observation.candidate for observation in study.history]
    columns = {
        "iteration": list(range(len(candidates))),
        "phase": [candidate.phase for candidate in candidates],
        "instruction_id": [0] * len(candidates),
        "exemplar_ids": [[ids[position] for position in candidate.sequence] for candidate in candidates],
        "score": [observation.score for observation in study.history],
        "incumbent_score": incumbents,
        "validation_rows": [observation.validation_rows for observation in study.history],
        "acquisition": [candidate.acquisition for candidate in candidates],
        "seconds": [record.seconds for record in study.records],
        "llm_seconds": [record.usage.seconds for record in study.records],
        "llm_requests": [record.usage.requests for record in study.records],
        "cached_responses": [record.usage.cached for record in study.records],
        "retries": [record.usage.retries for record in study.records],
        "prompt_tokens": [record.usage.prompt_tokens for record in study.records],
        "completion_tokens": [record.usage.completion_tokens for record in study.records],
    }
    write_table(output_path(outputs.history), contracts.HISTORY, columns)


def _summary(study: Study, config: Config, black_box: BlackBox, representation: Representation) -> dict[str, Any]:
    usage, total = study.usage, sum(record.seconds for record in study.records)
    prices = {"prompt_usd": config.endpoint.llm_prompt_usd, "completion_usd": config.endpoint.llm_completion_usd}
    truncated = None
    if isinstance(representation, SequenceRepresentation):
        truncated = {"sequences": representation.embedded, "truncated": representation.truncated}
        logger.info("%(truncated)d of %(sequences)d embedded sequences were longer than the embedder reads", truncated)
    return {
        "method": config.optimizer.method,
        "seed": config.run.seed,
        "evaluations": len(study.history),
        "budget": config.optimizer.budget,
        "stopped": study.stopped,
        "resumed": study.replayed > 0,
        "replayed": study.replayed,
        "simulated": black_box.simulated,
        "representation": config.optimizer.representation,
        "truncated_sequences": truncated,
        "seconds": {"total": total, "llm": usage.seconds, "search": total - usage.seconds},
        "llm": {
            "endpoint": black_box.endpoint,
            "model": black_box.model,
            **usage.counts(**prices),
        },
        "parameters": dataclasses.asdict(config),
    }
