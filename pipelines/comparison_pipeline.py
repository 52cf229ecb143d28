"""The comparison: methods x tasks x noise ratios x endpoints x repeats, a task each, then one report.

    plan_comparison -> run_cell for every cell, in parallel -> report_comparison

A cell runs the stages of the production pipeline in one container; finished cells lie in `store_uri` and are not run
again. On the laptop `ease compare` does the same without a container or a process for each cell.
"""

from typing import NamedTuple

from kfp import dsl

from components.plan_comparison import plan_comparison
from components.report_comparison import report_comparison
from components.run_cell import run_cell
from ease_lib.config import ComparisonConfig, RunConfig
from pipelines.placement import LIFETIME, place

CELLS_AT_ONCE = 20


class Results(NamedTuple):
    results: dsl.Artifact
    page: dsl.HTML


@dsl.pipeline(name="ease-comparison", display_name="EASE: which method is best?", pipeline_config=LIFETIME)
def comparison_pipeline(
    tasks: str = ComparisonConfig.tasks,
    methods: str = ComparisonConfig.methods,
    noise_ratios: str = ComparisonConfig.noise_ratios,
    endpoints: str = ComparisonConfig.endpoints,
    repeats: int = ComparisonConfig.repeats,
    seed: int = RunConfig.seed,
    store_uri: str = RunConfig.store_uri,
    parameters: str = "",
) -> Results:
    """Compare search methods over tasks, noise ratios, endpoints and repeats.

    Args:
        tasks: Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...
        methods: Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty is all of them.
        noise_ratios: Noise ratios of every task: 0, 0.1, 0.5, ...
        endpoints: Endpoints: simulated, {llm_base_url: https://..., llm_model: small-1}, ...
        repeats: Runs of everything, each with a seed of its own for data, noise, candidates and network.
        seed: Seed of every draw: splits, noise, initial design, candidates, network.
        store_uri: Folder or s3:// that outlives a killed run, with its journal and answers; the same one continues it.
        parameters: All other parameters of the runs (`python -m pipelines params` lists them), as YAML or JSON.
    """
    planned = place(
        plan_comparison(
            tasks=tasks,
            methods=methods,
            noise_ratios=noise_ratios,
            endpoints=endpoints,
            repeats=repeats,
            seed=seed,
            store_uri=store_uri,
            parameters=parameters,
        )
    )

    with dsl.ParallelFor(planned.outputs["Output"], parallelism=CELLS_AT_ONCE) as cell:
        finished = place(run_cell(cell=cell))

    written = place(report_comparison(cells=dsl.Collected(finished.outputs["result"])))
    return Results(results=written.outputs["results"], page=written.outputs["page"])
