"""Component `prefilter`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def prefilter(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    tops: dsl.Input[list[dsl.Dataset]],
    kept: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Keep the exemplars most similar to the validation set.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        tops: What rank_pool found in each shard.
        kept: Exemplars kept.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import prefilter as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        tops=tops,
        kept=kept,
    )
