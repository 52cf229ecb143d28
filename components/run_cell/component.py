"""The component `run_cell`: one run of a comparison, all its stages in one container."""

from typing import Any

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def run_cell(
    cell: dict[str, Any],
    result: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> int:
    """Run one cell of a comparison, all stages in this container; a finished cell is read from the store.

    Args:
        cell: The place of the plan, and a number in it, as plan_comparison lists them.
        result: Scores, costs and search curve of the cell, JSON.
        lineage: Record of what was done, JSON.
        chain: The same for people.

    Returns:
        The cell's number.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.stages import run_cell as stage

    return stage.execute(cell, result, lineage, chain)
