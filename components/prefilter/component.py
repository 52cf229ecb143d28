"""The component `prefilter`: keep the exemplars that are most similar to the validation set."""

from typing import Any

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def prefilter(
    parameters: dict[str, Any],
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    kept: dsl.Output[dsl.Dataset],
    lineage: dsl.Output[dsl.Artifact],
    rankings: dsl.Input[list[dsl.Dataset]] | None = None,
) -> None:
    """Keep the exemplars that are most similar to the validation set, by embedding or BM25; by default all.

    Args:
        parameters: Such as prefilter, retained, embedder, seed; what is missing has its default.
        pool: Exemplar pool, Parquet.
        validation: Validation set, Parquet.
        kept: Exemplars that the search chooses from, Parquet.
        lineage: Records of what was done, JSON, and the ranking that was made here.
        rankings: Rankings of all shards where rank_shard has made them; else the pool is ranked here.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import component
    from ease_lib.running.stage import file_in
    from ease_lib.stages import prefilter as stage
    from ease_lib.stages import rank_pool

    with component("prefilter", {**parameters, "shards": len(rankings or [pool])}, lineage) as do:
        if not rankings:
            rankings = [file_in(lineage, "ranking")]
            do(rank_pool, pool=pool, validation=validation, tops=rankings[0])
        do(stage, pool=pool, tops=rankings, kept=kept)
