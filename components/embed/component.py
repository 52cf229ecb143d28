"""The component `embed`: propose instructions; embed them, the exemplars and the validation rows."""

from typing import Any

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def embed(
    parameters: dict[str, Any],
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    instructions: dsl.Output[dsl.Dataset],
    embeddings: dsl.Output[dsl.Dataset],
    lineage: dsl.Output[dsl.Artifact],
) -> None:
    """Propose or read instructions, if wanted; embed them, the exemplars and the validation rows.

    Args:
        parameters: Such as embedder, instructions, seed, llm_base_url; what is missing has its default.
        pool: Exemplars to choose from, Parquet.
        validation: Validation set, Parquet.
        instructions: Instructions to choose from, the empty one first, Parquet.
        embeddings: Unit vectors of exemplars, outputs, validation rows and instructions, Parquet.
        lineage: Records of what was done, JSON.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import component
    from ease_lib.stages import embed as stage
    from ease_lib.stages import propose_instructions

    with component("embed", parameters, lineage) as do:
        do(propose_instructions, pool=pool, instructions=instructions)
        do(stage, pool=pool, validation=validation, instructions=instructions, embeddings=embeddings)
