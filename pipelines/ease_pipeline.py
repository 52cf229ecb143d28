"""The production pipeline: from a task's data to a prompt that works for every query of it.

    build_dataset -> prefilter -> embed -> optimize -> evaluate

`optimize` is Alg. 1 of the paper (`search/loop.py` and `search/optimizers/ease.py` in `ease_lib`); the components
before it make its exemplar pool D, validation set D_V and embeddings h, the one behind it says what its result is
worth. In a pipeline that is compiled with shards, `rank_shard` ranks a large pool side by side before `prefilter`.
"""

from typing import NamedTuple

from kfp import dsl

import components
from ease_lib.config.parsing import run_form
from pipelines.form_description import described
from pipelines.placement import Placement, lifetime, place, placement, told_by_kubeflow

SHARDS_AT_ONCE = 20
SUMMARY = "Find one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024)."


class Results(NamedTuple):
    result: dsl.Artifact
    page: dsl.HTML


@dsl.pipeline(
    name="ease",
    display_name="EASE: exemplar sequence search",
    description=described(SUMMARY, run_form()),
    pipeline_config=lifetime(Placement()),
)
def ease_pipeline(
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
) -> Results:
    """Find one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024).

    Args:
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
    """
    form = dict(locals())  # the arguments, before anything else gets a name
    shards = placement().shards  # decided when the pipeline is compiled, not in the run

    data = components.build_dataset(**form, **told_by_kubeflow())
    pool, validation, test, summary = (data.outputs[name] for name in ("pool", "validation", "test", "summary"))

    rankings = {}
    if shards > 1:
        with dsl.ParallelFor(list(range(shards)), parallelism=SHARDS_AT_ONCE) as shard:
            ranked = components.rank_shard(
                shard=shard,
                shards=shards,
                prefilter=prefilter,
                retained=retained,
                embedder=embedder,
                seed=seed,
                store_uri=store_uri,
                advanced=advanced,
                pool=pool,
                validation=validation,
            )
            place(ranked)
        rankings["rankings"] = dsl.Collected(ranked.outputs["ranking"])
    filtered = components.prefilter(
        parameters=data.outputs["for_prefilter"], pool=pool, validation=validation, **rankings
    )
    kept = filtered.outputs["kept"]

    embedded = components.embed(parameters=data.outputs["for_embed"], pool=kept, validation=validation)

    search = components.optimize(
        parameters=data.outputs["for_optimize"],
        pool=kept,
        validation=validation,
        embeddings=embedded.outputs["embeddings"],
        instructions=embedded.outputs["instructions"],
        summary=summary,
    )

    tested = components.evaluate(
        parameters=data.outputs["for_evaluate"],
        pool=kept,
        validation=validation,
        test=test,
        summary=summary,
        best_sequence=search.outputs["best_sequence"],
        history=search.outputs["history"],
        search=search.outputs["search"],
    )

    place(data, filtered, embedded, search, tested)
    return Results(result=tested.outputs["result"], page=tested.outputs["page"])
