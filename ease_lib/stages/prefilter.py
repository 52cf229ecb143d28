"""Stage `prefilter`: keep the exemplars most similar to the validation set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_table, write_rows
from ease_lib.config.sections import PrefilterConfig, ShardConfig
from ease_lib.errors import ContractError
from ease_lib.running.run import Run
from ease_lib.running.stage import StageReport, logger, makes, output_path, reads
from ease_lib.search.pool_retrieval import Tops
from ease_lib.stages.rank_pool import keeps_everything, read_tops


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("build_dataset.pool")
    tops: Sequence[str] = reads("rank_pool.tops", many=True)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    kept: str = makes(contracts.EXEMPLAR_POOL)


@dataclass(frozen=True, kw_only=True)
class Config:
    prefilter: PrefilterConfig
    parts: ShardConfig


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Filter the pool; keep all of it if `rank_pool` ranked nothing.

    Raises:
        ContractError: when a shard's tops are missing.
    """
    settings = config.prefilter
    if len(inputs.tops) != config.parts.shards:
        raise ContractError(f"{len(inputs.tops)} rankings for {config.parts.shards} shards; rank every shard once")
    pool = read_table(Path(inputs.pool), contracts.EXEMPLAR_POOL)
    kept = pool
    if not keeps_everything(settings, pool.num_rows):
        tops = Tops.merged([read_tops(Path(path)) for path in inputs.tops], settings.retained)
        kept = pool.take(tops.union(settings.retained))
    write_rows(output_path(outputs.kept), contracts.EXEMPLAR_POOL, kept)
    logger.info("prefilter %s kept %d of %d exemplars", settings.prefilter, kept.num_rows, pool.num_rows)
    return StageReport(metrics={"pool": pool.num_rows, "retained": kept.num_rows})
