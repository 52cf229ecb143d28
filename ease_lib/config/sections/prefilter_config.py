"""Retrieval over large pools, and its shards."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Only, Section, param


@dataclass(frozen=True, kw_only=True)
class PrefilterConfig(Section):
    """Retrieval over large pools before the search."""

    prefilter: str = param(
        "none",
        "Keep only the exemplars most similar to the validation set: none, cosine or bm25.",
        choices=("none", "cosine", "bm25"),
        form=True,
    )
    retained: int = param(
        100,
        "Exemplars kept by the prefilter.",
        low=1,
        high=1_000_000,
        form=True,
        only=Only("prefilter", ("cosine", "bm25")),
    )


@dataclass(frozen=True, kw_only=True)
class ShardConfig(Section):
    """The part of the pool that a container ranks; set by the pipeline, and no parameter of a run."""

    shards: int = param(1, "Parts into which the pool is divided.", low=1, high=1000)
    shard: int = param(0, "Number of this part, from 0.", low=0, high=999)
