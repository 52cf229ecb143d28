"""Component `rank_pool`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def rank_pool(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    tops: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Find what each validation row ranks first in one shard of the pool.

    Args:
        config: Parameters of this stage and shard, as check_prerequisites passes them.
        pool: Exemplar pool.
        validation: Validation set.
        tops: Positions in the pool with their similarities.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import rank_pool as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        validation=validation,
        tops=tops,
    )
