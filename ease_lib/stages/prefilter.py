"""Stage `prefilter`: keep the exemplars most similar to the validation set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_exemplars
from ease_lib.config import EmbeddingConfig, HardwareConfig, PrefilterConfig
from ease_lib.evaluation.prompt import exemplar_text
from ease_lib.prefilter import retain_by_bm25, retain_by_cosine
from ease_lib.stages.embedder import open_embedder
from ease_lib.stages.execution import StageReport, artifact, logger, output_path
from ease_lib.tasks.base import Exemplar


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    validation: str = artifact(contracts.VALIDATION_SET)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    kept: str = artifact(contracts.EXEMPLAR_POOL)


@dataclass(frozen=True, kw_only=True)
class Config:
    prefilter: PrefilterConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Filter the pool by `prefilter`; `none` passes it on."""
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    kept = [pool[position] for position in _retained(pool, validation, config)]
    write_exemplars(output_path(outputs.kept), contracts.EXEMPLAR_POOL, kept)
    logger.info("prefilter %s kept %d of %d exemplars", config.prefilter.prefilter, len(kept), len(pool))
    return StageReport(metrics={"pool": len(pool), "retained": len(kept)})


def _retained(pool: list[Exemplar], validation: list[Exemplar], config: Config) -> list[int]:
    retained = config.prefilter.retained
    if config.prefilter.prefilter == "none" or retained >= len(pool):
        return list(range(len(pool)))
    if config.prefilter.prefilter == "bm25":
        return retain_by_bm25([row.input for row in pool], [row.input for row in validation], retained)
    embedder = open_embedder(config.embedding, config.hardware)
    logger.info("embedding %d texts for the cosine prefilter", len(pool) + len(validation))
    vectors = embedder.embed([exemplar_text(row) for row in (*pool, *validation)])
    return retain_by_cosine(vectors[: len(pool)], vectors[len(pool) :], retained)
