"""Stage `embed`: embed every exemplar, its output alone, every validation row, every instruction, and where outputs are
classes the inputs alone, whose labels are checked (`search/mislabelled.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_table
from ease_lib.config.sections import EmbeddingConfig, HardwareConfig, RunConfig
from ease_lib.embedding.embedder import EMBEDDED
from ease_lib.embedding.opening import open_embedder
from ease_lib.progress import Counted
from ease_lib.prompts.template import exemplar_text
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.task import read_instructions
from ease_lib.tasks.splits import classes_of


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")
    validation: str = reads("build_dataset.validation")
    instructions: str = reads("propose_instructions.instructions")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    embeddings: str = makes(contracts.EXEMPLAR_EMBEDDINGS)


@dataclass(frozen=True, kw_only=True)
class Config:
    embedding: EmbeddingConfig
    hardware: HardwareConfig
    run: RunConfig


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
    if classes_of([row.output for row in (*pool, *validation)]):
        groups += [
            (split, "input", [row.exemplar_id for row in rows], [row.input for row in rows])
            for split, rows in (("pool", pool), ("validation", validation))
        ]
    if len(instructions) > 1:
        groups.append(("instructions", "instruction", list(range(len(instructions))), instructions))
    texts = [text for *_, group in groups for text in group]
    logger.info("embedding %d texts with %s", len(texts), config.embedding.embedder)
    embedder = open_embedder(config.embedding, config.hardware, notes=run.notes, store=run.store)
    truncated = embedder.count_truncated(groups[0][3])
    distinct = list(dict.fromkeys(texts))
    progress = Counted(EMBEDDED, len(distinct), run.host.progress.counted)
    vector_of = dict(zip(distinct, embedder.embed(distinct, progress), strict=True))
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
