"""Stage `embed`: embed every exemplar, its output alone, every validation row and every instruction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, read_table, write_table
from ease_lib.config.sections import EmbeddingConfig, HardwareConfig, RunConfig
from ease_lib.embedding.opening import open_embedder
from ease_lib.errors import ContractError
from ease_lib.evaluation.prompt import exemplar_text
from ease_lib.running.execution import StageReport, artifact, logger, output_path
from ease_lib.running.run import Run
from ease_lib.stages.propose_instructions import read_instructions

FloatArray = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL, "Exemplar pool.", of="prefilter.kept")
    validation: str = artifact(contracts.VALIDATION_SET, "Validation set.", of="build_dataset.validation")
    instructions: str = artifact(
        contracts.INSTRUCTIONS, "Instructions to choose from.", of="propose_instructions.instructions"
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    embeddings: str = artifact(contracts.EXEMPLAR_EMBEDDINGS, "The vectors.")


@dataclass(frozen=True, kw_only=True)
class Config:
    embedding: EmbeddingConfig
    hardware: HardwareConfig
    run: RunConfig


@dataclass(frozen=True, kw_only=True)
class ExemplarEmbeddings:
    """The vectors of a run, rows in the order of pool, validation set and instructions, unit length.

    `instructions` has no rows when there is only the empty one.
    """

    embedder: str
    pool: FloatArray
    pool_outputs: FloatArray
    validation: FloatArray
    instructions: FloatArray


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Embed every text once; the share of exemplars that the embedder cuts is counted."""
    pool = read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    instructions = read_instructions(Path(inputs.instructions)).texts
    ids = [row.exemplar_id for row in pool]
    groups = [
        ("pool", "exemplar", ids, [exemplar_text(row) for row in pool]),
        ("pool", "output", ids, [row.output for row in pool]),
        ("validation", "exemplar", [row.exemplar_id for row in validation], [exemplar_text(row) for row in validation]),
    ]
    if len(instructions) > 1:
        groups.append(("instructions", "instruction", list(range(len(instructions))), instructions))
    texts = [text for *_, group in groups for text in group]
    logger.info("embedding %d texts with %s", len(texts), config.embedding.embedder)
    embedder = open_embedder(config.embedding, config.hardware, notes=run.notes, store=run.store)
    truncated = embedder.count_truncated(groups[0][3])
    distinct = list(dict.fromkeys(texts))
    vector_of = dict(zip(distinct, embedder.embed(distinct), strict=True))
    columns = {
        "exemplar_id": [row_id for _, _, row_ids, _ in groups for row_id in row_ids],
        "split": [split for split, _, row_ids, _ in groups for _ in row_ids],
        "part": [part for _, part, row_ids, _ in groups for _ in row_ids],
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


def read_embeddings(
    path: Path, pool_ids: list[int], validation_ids: list[int], instructions: int
) -> ExemplarEmbeddings:
    """Read the vectors in the order of these ids, and of so many instructions.

    Raises:
        ContractError: when the file was made from another pool, validation set or file of instructions.
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
        instructions=select("instructions", "instruction", list(range(instructions if instructions > 1 else 0))),
    )
