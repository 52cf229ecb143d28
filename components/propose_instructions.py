"""Component `propose_instructions`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def propose_instructions(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    instructions: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
) -> None:
    """Have the black-box propose instructions from exemplars, or read them from a file; the empty one is always there.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        instructions: The different instructions, the empty one first.
        metrics: A few numbers for the dashboard.
    """
    from ease_lib.stages import propose_instructions as stage
    from ease_lib.stages.execution import execute

    inputs = stage.Inputs(pool=pool.path)
    outputs = stage.Outputs(instructions=instructions.path)
    execute(stage.run, inputs, outputs, stage.Config, config).publish(metrics)
