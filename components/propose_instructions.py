"""Component `propose_instructions`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def propose_instructions(
    config: str,
    pool: dsl.Input[dsl.Dataset],
    instructions: dsl.Output[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> None:
    """Have the black-box propose instructions from exemplars, or read them from a file; the empty one is always there.

    Args:
        config: Parameters of this stage, as check_prerequisites passes them.
        pool: Exemplar pool.
        instructions: The different instructions, the empty one first.
        metrics: A few numbers for the dashboard.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    from ease_lib.running.execution import execute
    from ease_lib.stages import propose_instructions as stage

    execute(
        stage,
        config,
        metrics=metrics,
        lineage=lineage,
        chain=chain,
        pool=pool,
        instructions=instructions,
    )
