"""Component `publish`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def publish(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    test: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    dataset: dsl.Input[dsl.Artifact],
    best_sequence: dsl.Input[dsl.Artifact],
    predictions: dsl.Input[dsl.Dataset],
    results: dsl.Input[dsl.Artifact],
    publication: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Publish the prompt as a version of its own, and let the latest one be it if it should.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        test: Rows on which the latest prompt has to be beaten, where that is asked for.
        validation: Validation set.
        dataset: What build_dataset says of the data.
        best_sequence: The winning sequence.
        predictions: Answers on the test set.
        results: Folder of the report.
        publication: What was published, and why or why not.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import publish as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        test=test,
        validation=validation,
        dataset=dataset,
        best_sequence=best_sequence,
        predictions=predictions,
        results=results,
        publication=publication,
    )
