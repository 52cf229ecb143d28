"""The component `rank_shard`: rank one shard of a large pool, in a pipeline that is compiled with shards."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def rank_shard(
    shard: int,
    shards: int,
    prefilter: str,
    retained: int,
    embedder: str,
    seed: int,
    store_uri: str,
    advanced: str,
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    ranking: dsl.Output[dsl.Dataset],
    lineage: dsl.Output[dsl.Artifact],
) -> None:
    """Find the exemplars that each validation row ranks first in one shard of the pool.

    It takes fields of the run form: inside of a loop kfp.local 2.17 replaces the outputs of other components.

    Args:
        shard: Number of the shard, from 0.
        shards: Parts into which the pool is divided.
        prefilter: As in the run form.
        retained: As in the run form.
        embedder: As in the run form.
        seed: As in the run form.
        store_uri: As in the run form.
        advanced: As in the run form.
        pool: Exemplar pool, Parquet.
        validation: Validation set, Parquet.
        ranking: Positions in the pool with their similarities, Parquet.
        lineage: Records of what was done, JSON.
    """
    form = {name: value for name, value in locals().items() if isinstance(value, str | int)}
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import component, shard_parameters
    from ease_lib.stages import rank_pool

    with component("rank_shard", shard_parameters(form, form.pop("advanced")), lineage) as do:
        do(rank_pool, pool=pool, validation=validation, tops=ranking)
