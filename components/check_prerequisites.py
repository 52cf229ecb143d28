"""Component `check_prerequisites`."""

from typing import NamedTuple

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def check_prerequisites(
    task: str,
    task_uri: str,
    task_name: str,
    input_columns: str,
    output_column: str,
    metric: str,
    pool_size: int,
    validation_size: int,
    test_size: int,
    noise_ratio: float,
    label_remapping: str,
    prefilter: str,
    retained: int,
    embedder: str,
    method: str,
    k: int,
    budget: int,
    llm_base_url: str,
    llm_model: str,
    llm_concurrency: int,
    max_llm_requests: int,
    seed: int,
    store_uri: str,
    publish_uri: str,
    advanced: str,
    scheduled: str,
    lineage: dsl.Output[dsl.Artifact],
    chain: dsl.Output[dsl.Markdown],
) -> NamedTuple(
    "StageParameters",
    [
        ("build_dataset", str),
        ("Output", list),  # of rank_pool, for each shard: kfp.local loops over an output of this name only
        ("prefilter", str),
        ("propose_instructions", str),
        ("embed", str),
        ("optimize", str),
        ("evaluate", str),
        ("report", str),
        ("publish", str),
    ],
):
    """Check every parameter, the data, the embedder, the store and the endpoint; pass each stage its parameters.

    Args:
        task: customer_feedback (shipped), lr, lp_variant, instruction_induction, gsm8k, aqua, math or table.
        task_uri: The task's file or folder: a path or s3://bucket/key (not for customer_feedback, lr, lp_variant).
        task_name: Task inside an instruction_induction folder, or a hub data set when task=table has no task_uri.
        input_columns: Columns that form the input (table): a,b or a template like {a} versus {b}.
        output_column: Column with the output (table), or a template like {a} The answer is {b}.
        metric: Score of one answer; auto takes the task's own.
        pool_size: Exemplars to choose from (n); 0 takes all there are, -1 all of up to 500, of more the paper's 100.
        validation_size: Rows that guide the search (|D_V|).
        test_size: Rows that are only reported.
        noise_ratio: Share of pool rows whose output is corrupted on purpose.
        label_remapping: Rename labels: shift, reverse (optionally :a,b,c for the order), or a mapping 1=World;2=Sports.
        prefilter: Keep only the exemplars most similar to the validation set: none, cosine or bm25.
        retained: Exemplars kept by the prefilter.
        embedder: bundled-minilm, a sentence-transformers name or path (paper: all-mpnet-base-v2), or openai:MODEL.
        method: ease, best_of_n, evolution, influence, active, cosine, bm25, dpp, mmd, ot, llm_select or zero_shot.
        k: Exemplars in the prompt.
        budget: Evaluations of a sequence on the validation set (T).
        llm_base_url: OpenAI-compatible URL, or local (small LLM shipped), or simulated (in-context learner).
        llm_model: Model name; empty takes the endpoint's only one.
        llm_concurrency: Requests in flight at most.
        max_llm_requests: LLM requests of the run at most, retries too, trial questions aside; 0 is no cap.
        seed: Seed of every draw: splits, noise, initial design, candidates, network.
        store_uri: Folder or s3:// that outlives a killed run, with its journal and answers; the same one continues it.
        publish_uri: Folder or s3:// for versions of the prompt, with latest.json; empty publishes nothing.
        advanced: All other parameters (`python -m pipelines params` lists them), as YAML or JSON, e.g. {nu: 1.0}.
        scheduled: The time that a recurring run was planned for, from Kubeflow.
        lineage: Record of what went in and came out, and how.
        chain: The same for people.
    """
    form = dict(locals())  # the arguments, before anything else gets a name
    advanced, scheduled = form.pop("advanced"), form.pop("scheduled")
    del form["lineage"], form["chain"]
    from typing import NamedTuple

    from ease_lib.stages import check_prerequisites as stage

    stages = stage.execute(form, advanced, scheduled=scheduled, lineage=lineage, chain=chain)
    return NamedTuple("StageParameters", [(name, str) for name in stages])(**stages)
