"""Component `evaluate`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def evaluate(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    test: dsl.Input[dsl.Dataset],
    dataset: dsl.Input[dsl.Artifact],
    best_sequence: dsl.Input[dsl.Artifact],
    predictions: dsl.Output[dsl.Dataset],
    summary: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Score the winner and random sequences on the test set.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        test: Test set.
        dataset: What build_dataset says of the data.
        best_sequence: The winning sequence.
        predictions: Every answer on the test set.
        summary: Test scores with their intervals.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import evaluate as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        test=test,
        dataset=dataset,
        best_sequence=best_sequence,
        predictions=predictions,
        summary=summary,
    )
