"""Stage `embed`: embeddings of every exemplar, of its output alone, and of every validation row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, read_table, write_table
from ease_lib.config import EmbeddingConfig
from ease_lib.embeddings import load_embedder
from ease_lib.errors import ContractError
from ease_lib.evaluation.prompt import exemplar_text
from ease_lib.stages.execution import StageReport, artifact, logger, output_path

FloatArray = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    validation: str = artifact(contracts.VALIDATION_SET)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    embeddings: str = artifact(contracts.EXEMPLAR_EMBEDDINGS)


@dataclass(frozen=True, kw_only=True)
class Config:
    embedding: EmbeddingConfig


@dataclass(frozen=True, kw_only=True)
class ExemplarEmbeddings:
    """The vectors of a run, rows in the order of pool and validation set, unit length."""

    embedder: str
    pool: FloatArray
    pool_outputs: FloatArray
    validation: FloatArray


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Embed pool and validation set once; the share of exemplars that the embedder cuts is counted."""
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    groups = [
        ("pool", "exemplar", pool, [exemplar_text(row) for row in pool]),
        ("pool", "output", pool, [row.output for row in pool]),
        ("validation", "exemplar", validation, [exemplar_text(row) for row in validation]),
    ]
    texts = [text for *_, group in groups for text in group]
    logger.info("embedding %d texts with %s", len(texts), config.embedding.embedder)
    embedder = load_embedder(config.embedding.embedder)
    truncated = embedder.count_truncated(groups[0][3])
    distinct = list(dict.fromkeys(texts))
    vector_of = dict(zip(distinct, embedder.embed(distinct), strict=True))
    columns = {
        "exemplar_id": [row.exemplar_id for _, _, rows, _ in groups for row in rows],
        "split": [split for split, _, rows, _ in groups for _ in rows],
        "part": [part for _, part, rows, _ in groups for _ in rows],
        "vector": [vector_of[text] for text in texts],
    }
    dimension = str(vector_of[texts[0]].shape[0])
    metadata = {
        "embedder": config.embedding.embedder,
        "dimension": dimension,
        "normalised": "true",
    }
    write_table(output_path(outputs.embeddings), contracts.EXEMPLAR_EMBEDDINGS, columns, metadata)
    if truncated:
        logger.info("notice: %d of %d exemplars are longer than the embedder reads", truncated, len(pool))
    return StageReport(metrics={"embedded_texts": len(distinct), "truncated_exemplars": truncated})


def read_embeddings(path: Path, pool_ids: list[int], validation_ids: list[int]) -> ExemplarEmbeddings:
    """Read the vectors in the order of these ids.

    Raises:
        ContractError: when the file was made from another pool or validation set.
    """
    table = read_table(path, contracts.EXEMPLAR_EMBEDDINGS)
    vectors = np.stack(table["vector"].to_numpy())
    keys = zip(table["split"].to_pylist(), table["part"].to_pylist(), table["exemplar_id"].to_pylist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}

    def select(split: str, part: str, ids: list[int]) -> FloatArray:
        try:
            return vectors[[row_of[split, part, exemplar_id] for exemplar_id in ids]]
        except KeyError as error:
            raise ContractError(
                f"{path}: no {part} vector of {split} row {error.args[0][2]}; embed this {split} again"
            ) from error

    return ExemplarEmbeddings(
        embedder=(table.schema.metadata or {}).get(b"embedder", b"").decode(),
        pool=select("pool", "exemplar", pool_ids),
        pool_outputs=select("pool", "output", pool_ids),
        validation=select("validation", "exemplar", validation_ids),
    )
