"""Component `plan_comparison`."""

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def plan_comparison(
    tasks: str,
    methods: str,
    noise_ratios: str,
    endpoints: str,
    repeats: int,
    seed: int,
    store_uri: str,
    parameters: str,
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> list[str]:
    """Check every cell of the comparison, every task and every endpoint, and list the cells to run.

    Args:
        tasks: Tasks: lr, lp_variant, {task: table, task_uri: a.csv}, instruction_induction:sum_v1, ...
        methods: Methods: ease, best_of_n, {method: ease, shortlist: none}, ...; empty is all of them.
        noise_ratios: Noise ratios of every task: 0, 0.1, 0.5, ...
        endpoints: Endpoints: simulated, {llm_base_url: https://..., llm_model: small-1}, ...
        repeats: Runs of everything, each with a seed of its own for data, noise, candidates and network.
        seed: Seed of the first repeat; the others follow.
        store_uri: Folder or s3:// for finished cells, journals and answers; the same one continues the comparison.
        parameters: All other parameters of the runs (`python -m pipelines params` lists them), as YAML or JSON.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    axes = dict(locals())  # the arguments, before anything else gets a name
    parameters = axes.pop("parameters")
    del axes["lineage"], axes["chain"]
    from ease_lib.stages import plan_comparison as stage

    return stage.execute(axes, parameters, lineage, chain)
