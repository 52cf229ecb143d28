"""Component `optimize`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def optimize(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    embeddings: dsl.Input[dsl.Dataset],
    dataset: dsl.Input[dsl.Artifact],
    instructions: dsl.Input[dsl.Dataset],
    best_sequence: dsl.Output[dsl.Artifact],
    history: dsl.Output[dsl.Dataset],
    summary: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Search the exemplar sequence that scores best on the validation set through the black-box.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        validation: Validation set.
        embeddings: Embeddings of pool and validation set.
        dataset: What build_dataset says of the data.
        instructions: Instructions to choose from.
        best_sequence: The winning sequence, with its texts.
        history: All observations in order.
        summary: Cost, time and stop reason of the search.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import optimize as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        validation=validation,
        embeddings=embeddings,
        dataset=dataset,
        instructions=instructions,
        best_sequence=best_sequence,
        history=history,
        summary=summary,
    )
