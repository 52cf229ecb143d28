"""The component `optimize`: search the exemplar sequence that scores best on the validation set."""

from typing import Any

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def optimize(
    parameters: dict[str, Any],
    pool: dsl.Input[dsl.Dataset],
    validation: dsl.Input[dsl.Dataset],
    embeddings: dsl.Input[dsl.Dataset],
    instructions: dsl.Input[dsl.Dataset],
    summary: dsl.Input[dsl.Artifact],
    best_sequence: dsl.Output[dsl.Artifact],
    history: dsl.Output[dsl.Dataset],
    search: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
) -> None:
    """Search the exemplar sequence that scores best on the validation set through the black-box LLM.

    Alg. 1 of Wu et al. (NeurIPS 2024) and its rivals. A search that was killed continues from its journal in store_uri.

    Args:
        parameters: Such as method, budget, k, seed, llm_base_url, store_uri; what is missing has its default.
        pool: Exemplars to choose from, Parquet.
        validation: Rows to score on, Parquet.
        embeddings: Unit vectors of both and of the instructions, Parquet.
        instructions: Instructions to choose from, Parquet.
        summary: What build_dataset says of the data, JSON.
        best_sequence: The winning sequence with its texts, JSON.
        history: All evaluations in order, Parquet.
        search: Cost, time and stop reason of the search, JSON.
        lineage: Records of what was done, JSON.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import component
    from ease_lib.stages import optimize as stage

    with component("optimize", parameters, lineage) as do:
        do(
            stage,
            pool=pool,
            validation=validation,
            embeddings=embeddings,
            instructions=instructions,
            summary=summary,
            best_sequence=best_sequence,
            history=history,
            search=search,
        )
