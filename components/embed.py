"""Component `embed`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def embed(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    instructions: dsl.Input[dsl.Dataset],
    embeddings: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Embed every exemplar, its output alone, every validation row and every instruction.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        validation: Validation set.
        instructions: Instructions to choose from.
        embeddings: The vectors.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import embed as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        validation=validation,
        instructions=instructions,
        embeddings=embeddings,
    )
