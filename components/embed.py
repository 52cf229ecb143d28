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
) -> None:
    """Embed every exemplar, its output alone, every validation row and every instruction.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        validation: Validation set.
        instructions: Instructions to choose from.
        embeddings: The vectors.
        metrics: A few numbers for the dashboard.
    """
    from ease_lib.stages import embed as stage
    from ease_lib.stages.execution import execute

    inputs = stage.Inputs(pool=pool.path, validation=validation.path, instructions=instructions.path)
    outputs = stage.Outputs(embeddings=embeddings.path)
    execute(stage.run, inputs, outputs, stage.Config, config).publish(metrics)
