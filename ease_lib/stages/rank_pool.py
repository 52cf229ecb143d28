"""Stage `rank_pool`: find the exemplars that each validation row ranks first in one shard of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import count_rows, iterate_inputs, read_exemplars, read_table, write_table
from ease_lib.config.sections import EmbeddingConfig, HardwareConfig, PrefilterConfig, RunConfig, ShardConfig
from ease_lib.embedding.embedder import EMBEDDED
from ease_lib.embedding.opening import open_embedder
from ease_lib.progress import Counted
from ease_lib.prompts.template import exemplar_text
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.pool_retrieval import Tops, shard_range, tops_by_bm25, tops_by_cosine


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("build_dataset.pool")
    validation: str = reads("build_dataset.validation")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    tops: str = makes(contracts.POOL_TOPS, at="lineage/ranking")


@dataclass(frozen=True, kw_only=True)
class Config:
    prefilter: PrefilterConfig
    part: ShardConfig
    embedding: EmbeddingConfig
    hardware: HardwareConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Rank one shard; nothing is ranked if the whole pool is kept anyway."""
    size, settings = count_rows(Path(inputs.pool), contracts.EXEMPLAR_POOL), config.prefilter
    part = shard_range(size, config.part.shard, config.part.shards)
    if keeps_everything(settings, size):
        tops = Tops(np.empty((0, 0), dtype=np.int64), np.empty((0, 0)))
    else:
        logger.info("ranking exemplars %d to %d of %d by %s", part.start, part.stop, size, settings.prefilter)
        tops = _tops(inputs, config, part, run)
    rows, depth = tops.positions.shape
    columns = {
        "validation_row": np.repeat(np.arange(rows), depth),
        "position": tops.positions.ravel(),
        "similarity": tops.similarities.ravel(),
    }
    write_table(output_path(outputs.tops), contracts.POOL_TOPS, columns)
    return StageReport(metrics={"ranked": len(part) if rows else 0})


def keeps_everything(settings: PrefilterConfig, size: int) -> bool:
    """Whether the prefilter keeps all of a pool of this size."""
    return settings.prefilter == "none" or settings.retained >= size


def read_tops(path: Path) -> Tops:
    """Read the output of `run`; it has no rows if nothing had to be ranked."""
    table = read_table(path, contracts.POOL_TOPS)
    rows = table["validation_row"].to_numpy()
    shape = (int(rows.max()) + 1, -1) if len(rows) else (0, 0)
    return Tops(table["position"].to_numpy().reshape(shape), table["similarity"].to_numpy().reshape(shape))


def _tops(inputs: Inputs, config: Config, part: range, run: Run) -> Tops:
    validation = read_exemplars(Path(inputs.validation), contracts.VALIDATION_SET)
    depth, tell = config.prefilter.retained, run.host.progress.counted
    if config.prefilter.prefilter == "bm25":
        read = Counted("exemplars read", count_rows(Path(inputs.pool), contracts.EXEMPLAR_POOL), tell)
        pool = read.over(iterate_inputs(Path(inputs.pool), contracts.EXEMPLAR_POOL))
        return tops_by_bm25(pool, part, [row.input for row in validation], depth)
    embedder = open_embedder(config.embedding, config.hardware, notes=run.notes, store=run.store)
    texts = [exemplar_text(row) for row in read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL, part)]
    vectors = embedder.embed([exemplar_text(row) for row in validation])
    progress = Counted(EMBEDDED, len(texts), tell)
    return tops_by_cosine(texts, part, vectors, depth, lambda block: embedder.embed(block, progress))
