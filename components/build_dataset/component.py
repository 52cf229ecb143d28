"""The component `build_dataset`: check a run, and make its exemplar pool, validation set and test set."""

from typing import NamedTuple

from kfp import dsl

from components import images


@dsl.component(base_image=images.CPU, install_kfp_package=False)
def build_dataset(
    pool: dsl.Output[dsl.Dataset],
    validation: dsl.Output[dsl.Dataset],
    test: dsl.Output[dsl.Dataset],
    summary: dsl.Output[dsl.Artifact],
    lineage: dsl.Output[dsl.Artifact],
    task: str = "customer_feedback",
    task_uri: str = "",
    task_name: str = "",
    input_columns: str = "input",
    output_column: str = "output",
    metric: str = "auto",
    pool_size: int = -1,
    validation_size: int = -1,
    test_size: int = -1,
    noise_ratio: float = 0.0,
    label_remapping: str = "",
    prefilter: str = "none",
    retained: int = 100,
    embedder: str = "bundled-minilm",
    method: str = "adaptive",
    k: int = 5,
    budget: int = 165,
    llm_base_url: str = "local",
    llm_model: str = "",
    llm_concurrency: int = 20,
    max_llm_requests: int = 0,
    seed: int = 0,
    store_uri: str = "",
    publish_uri: str = "",
    advanced: str = "",
    scheduled: str = "",
    run_name: str = "",
) -> NamedTuple(
    "Passed", [("for_prefilter", dict), ("for_embed", dict), ("for_optimize", dict), ("for_evaluate", dict)]
):
    """Check all parameters of a run, its data, store and endpoint; deal the data into pool, validation and test set.

    Labels are renamed and the pool's are corrupted where the parameters say so. The endpoint is asked one short
    question, with llm_refresh=probe four more.

    Args:
        pool: Exemplar pool D, Parquet.
        validation: Validation set D_V, which guides the search, Parquet.
        test: Test set, which no search sees, Parquet.
        summary: Task, metric, sizes, classes, notices and prompt template, JSON.
        lineage: Records of what was done, JSON.
        task: Task: customer_feedback (included), lr, lp_variant, instruction_induction, gsm8k, aqua, math or table.
        task_uri: The task's file or folder: a path or s3://bucket/key (task=instruction_induction or gsm8k or aqua or
            math or table).
        task_name: Task inside an instruction_induction folder, or a hub data set when task=table has no task_uri
            (task=instruction_induction or table).
        input_columns: Input columns: a,b or a template such as {a} versus {b} (task=table).
        output_column: Output column; a,b for a JSON object; or a template such as {a} The answer is {b}
            (task=table).
        metric: Score of an answer: exact_match, case_sensitive_match, label, exact_set, contains, token_f1, rouge_l,
            edit_similarity, regex, json_equal, json_fields, json_set, number, option_letter, boxed,
            instruction_induction, judge; a function (metric.py:score); a cost matrix (costs.csv); auto: the task's.
        pool_size: Number of exemplars to choose from (n); 0: all; -1: all if there are up to 500, else 100 as in the
            paper.
        validation_size: Number of rows that guide the search (|D_V|); -1: a third of what the test set leaves, at most
            200.
        test_size: Number of rows used only for the final score; -1: a third, at most 100.
        noise_ratio: Share of pool rows whose output is deliberately corrupted.
        label_remapping: How to rename labels: shift, reverse, reverse:a,b,c (in this order), or a mapping
            1=World;2=Sports.
        prefilter: Keep only the exemplars most similar to the validation set: none, cosine or bm25.
        retained: Exemplars kept by the prefilter (prefilter=cosine or bm25).
        embedder: bundled-minilm, a sentence-transformers name or path (paper: all-mpnet-base-v2), or openai:MODEL.
        method: Search method: adaptive, halving, capo; from the paper ease, best_of_n, evolution, influence, active,
            cosine, bm25, dpp, mmd, ot, llm_select or zero_shot.
        k: Number of exemplars in the prompt; the maximum if k_min is smaller.
        budget: Number of evaluations (T), each on evaluation_rows rows; 0: as many as max_llm_requests allows.
        llm_base_url: OpenAI-compatible URL, local (the included small LLM), or a function: python:MODULE:NAME or
            python:FILE.py:NAME.
        llm_model: Model name; empty: the endpoint's only model.
        llm_concurrency: Maximum number of requests in flight.
        max_llm_requests: Maximum number of LLM requests, with retries, without trial questions; 0: no cap.
        seed: Seed of all randomness: splits, noise, initial design, candidates, network.
        store_uri: Folder or s3:// for journal and answers; a run with the same store_uri continues a killed run.
        publish_uri: Folder or s3:// for versions of the prompt, with latest.json; empty publishes nothing.
        advanced: All other parameters (`python -m pipelines params` lists them), as YAML or JSON, e.g. {k_min: 2}.
        scheduled: When Kubeflow made the run.
        run_name: Name of the run in the dashboard.

    Returns:
        For each later component the parameters that it reads, checked; what is missing is at its default.
    """
    form = {name: value for name, value in locals().items() if isinstance(value, str | int | float)}
    from ease_lib.running.supervision import supervised

    supervised()
    from ease_lib.running.component import first_component
    from ease_lib.stages import build_dataset as stage

    told = {name: form.pop(name) for name in ("scheduled", "run_name")}
    with first_component(form, lineage, **told) as (do, passed):
        do(stage, pool=pool, validation=validation, test=test, summary=summary)
    return passed
