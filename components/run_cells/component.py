"""The component `run_cells`: a worker of a comparison."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def run_cells(worker: int, place: str) -> None:
    """Run the cells of a comparison one after the other, each in its own process, until all have a result.

    Workers share what is left, so one that is lost leaves its cells to the others; finished cells are read from the
    store.

    Args:
        worker: Number of this worker, from 0; one that is tried again goes on with the cell that it had.
        place: Where the plan lies, and workers leave results, as plan_comparison says.
    """
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.stages import run_cell as stage

    stage.execute(worker, place)
