"""The component `plan_comparison`: list the runs of a comparison."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def plan_comparison(
    plan: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
    tasks: str = "",
    methods: str = "",
    noise_ratios: str = "",
    endpoints: str = "",
    repeats: int = 3,
    figures: str = "",
    seed: int = 0,
    store_uri: str = "",
    parameters: str = "",
) -> str:
    """Check every task and endpoint of a comparison, and list the cells to run.

    Args:
        plan: Labels and parameters of every cell, and where workers leave their results, JSON.
        lineage: Record of what was done, JSON.
        tasks: Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...
        methods: Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty compares all of them.
        noise_ratios: Noise ratios of every task: 0, 0.1, 0.5, ...
        endpoints: Endpoints: local, {llm_base_url: https://..., llm_model: small-1}, ...
        repeats: Runs of each combination, each with its own seed (also for data and noise if repeat_data=drawn).
        figures: Published scores to show next to yours: scores.csv, or tables of the paper: Tab. 2, Tab. 2 test.
        seed: Seed of the first repeat; later repeats count up from it.
        store_uri: Folder or s3:// for finished cells, journals and answers; the same one continues the comparison.
        parameters: All other parameters of the runs (`python -m pipelines params` lists them), as YAML or JSON.

    Returns:
        The place in store_uri where the plan lies, and workers leave results.
    """
    form = {name: value for name, value in locals().items() if isinstance(value, str | int)}
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.stages import plan_comparison as stage

    return stage.execute(form, plan, lineage)
