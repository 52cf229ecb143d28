"""Component `build_dataset`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def build_dataset(
    config: str,
    pool: dsl.Output[dsl.Dataset],
    validation: dsl.Output[dsl.Dataset],
    test: dsl.Output[dsl.Dataset],
    summary: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Load the task's data, relabel it, deal the splits and corrupt the pool as the parameters say.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        validation: Validation set.
        test: Test set.
        summary: Task, metric, sizes, classes and notices.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import build_dataset as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        validation=validation,
        test=test,
        summary=summary,
    )
