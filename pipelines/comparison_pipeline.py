"""The comparison: methods x tasks x noise ratios x endpoints x repeats, a task each, then one report.

    plan_comparison -> run_cell for every cell, in parallel -> report_comparison

A cell runs the stages of the production pipeline in one container; finished cells lie in `store_uri` and are not run
again. On the laptop `ease compare` does the same without a container or a process for each cell.
"""

from typing import Any, NamedTuple

from kfp import dsl

from components.catalog import COMPONENTS
from ease_lib.config.forms import comparison_form
from pipelines.forms import has_form
from pipelines.placement import LIFETIME, place

CELLS_AT_ONCE = 20


class Results(NamedTuple):
    results: dsl.Artifact
    page: dsl.HTML


@dsl.pipeline(name="ease-comparison", display_name="EASE: which method is best?", pipeline_config=LIFETIME)
@has_form(comparison_form(), Results)
def comparison_pipeline(form: dict[str, Any]) -> Results:
    """Compare search methods over tasks, noise ratios, endpoints and repeats."""
    planned = place(COMPONENTS["plan_comparison"](**form))

    with dsl.ParallelFor(planned.outputs["Output"], parallelism=CELLS_AT_ONCE) as cell:
        finished = place(COMPONENTS["run_cell"](cell=cell))

    written = place(COMPONENTS["report_comparison"](cells=dsl.Collected(finished.outputs["result"])))
    return Results(results=written.outputs["results"], page=written.outputs["page"])
