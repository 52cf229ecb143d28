"""The comparison: methods x tasks x noise ratios x endpoints x repeats, by workers side by side, then one report.

    plan_comparison -> run_cells, as many as the pipeline was compiled for -> report_comparison

A worker runs the cells, one after the other, that no other has taken; a cell runs all stages of the production pipeline
in one process. Plan, claims and results lie in `store_uri`, so Kubeflow knows of the workers alone: the state of a run,
of which it keeps one object of at most 1 MiB, does not grow with the cells. On the laptop the workers of `ease compare`
are threads.
"""

from typing import NamedTuple

from kfp import dsl

import components
from ease_lib.config.parsing import comparison_form
from pipelines.form_description import described
from pipelines.placement import Placement, lifetime, place, placement

SUMMARY = "Compare search methods over tasks, noise ratios, endpoints and repeats."


class Results(NamedTuple):
    results: dsl.Artifact
    page: dsl.HTML


@dsl.pipeline(
    name="ease-comparison",
    display_name="EASE: which method is best?",
    description=described(SUMMARY, comparison_form()),
    pipeline_config=lifetime(Placement()),
)
def comparison_pipeline(
    tasks: str = "",
    methods: str = "",
    noise_ratios: str = "",
    endpoints: str = "",
    repeats: int = 3,
    figures: str = "",
    seed: int = 0,
    store_uri: str = "",
    parameters: str = "",
) -> Results:
    """Compare search methods over tasks, noise ratios, endpoints and repeats.

    Args:
        tasks: Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...
        methods: Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty compares all of them.
        noise_ratios: Noise ratios of every task: 0, 0.1, 0.5, ...
        endpoints: Endpoints: local, {llm_base_url: https://..., llm_model: small-1}, ...
        repeats: Runs of each combination, each with its own seed (also for data and noise if repeat_data=drawn).
        figures: Published scores to show next to yours: scores.csv, or tables of the paper: Tab. 2, Tab. 2 test.
        seed: Seed of the first repeat; later repeats count up from it.
        store_uri: Folder or s3:// for finished cells, journals and answers; the same one continues the comparison.
        parameters: All other parameters of the runs (`python -m pipelines params` lists them), as YAML or JSON.
    """
    form = dict(locals())  # the arguments, before anything else gets a name

    planned = components.plan_comparison(**form)

    workers = [
        components.run_cells(worker=worker, place=planned.outputs["Output"]) for worker in range(placement().workers)
    ]

    reported = components.report_comparison(plan=planned.outputs["plan"]).after(*workers)

    place(planned, *workers, reported)
    return Results(results=reported.outputs["results"], page=reported.outputs["page"])
