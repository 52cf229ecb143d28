"""The production pipeline: from a task's data to a prompt that works for every query of it.

    check_prerequisites -> build_dataset -> rank_pool -> prefilter -> propose_instructions -> embed -> optimize
        -> evaluate -> report -> publish

`optimize` is Alg. 1 of the paper (`ease_lib/study/loop.py`, `ease_lib/optimizers/ease.py`); the stages before it make
its exemplar pool D, validation set D_V and embeddings h, those behind it say what its result is worth.
"""

from typing import NamedTuple

from kfp import dsl

from components.build_dataset import build_dataset
from components.check_prerequisites import check_prerequisites
from components.embed import embed
from components.evaluate import evaluate
from components.optimize import optimize
from components.prefilter import prefilter as filter_pool
from components.propose_instructions import propose_instructions
from components.publish import publish
from components.rank_pool import rank_pool
from components.report import report
from ease_lib.config import (
    CapsConfig,
    EmbeddingConfig,
    EndpointConfig,
    OptimizerConfig,
    PrefilterConfig,
    PublishingConfig,
    RunConfig,
    TaskConfig,
)
from pipelines.placement import LIFETIME, place, scheduled_time

SHARDS_AT_ONCE = 20


class Results(NamedTuple):
    results: dsl.Artifact
    page: dsl.HTML
    publication: dsl.Artifact
    lineage: dsl.Artifact


@dsl.pipeline(name="ease", display_name="EASE: exemplar sequence search", pipeline_config=LIFETIME)
def ease_pipeline(
    task: str = TaskConfig.task,
    task_uri: str = TaskConfig.task_uri,
    task_name: str = TaskConfig.task_name,
    input_columns: str = TaskConfig.input_columns,
    output_column: str = TaskConfig.output_column,
    metric: str = TaskConfig.metric,
    pool_size: int = TaskConfig.pool_size,
    validation_size: int = TaskConfig.validation_size,
    test_size: int = TaskConfig.test_size,
    noise_ratio: float = TaskConfig.noise_ratio,
    label_remapping: str = TaskConfig.label_remapping,
    prefilter: str = PrefilterConfig.prefilter,
    retained: int = PrefilterConfig.retained,
    embedder: str = EmbeddingConfig.embedder,
    method: str = OptimizerConfig.method,
    k: int = OptimizerConfig.k,
    budget: int = OptimizerConfig.budget,
    llm_base_url: str = EndpointConfig.llm_base_url,
    llm_model: str = EndpointConfig.llm_model,
    llm_concurrency: int = EndpointConfig.llm_concurrency,
    max_llm_requests: int = CapsConfig.max_llm_requests,
    seed: int = RunConfig.seed,
    store_uri: str = RunConfig.store_uri,
    publish_uri: str = PublishingConfig.publish_uri,
    advanced: str = "",
) -> Results:
    """Find one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024).

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
    """
    checked = place(
        check_prerequisites(
            task=task,
            task_uri=task_uri,
            task_name=task_name,
            input_columns=input_columns,
            output_column=output_column,
            metric=metric,
            pool_size=pool_size,
            validation_size=validation_size,
            test_size=test_size,
            noise_ratio=noise_ratio,
            label_remapping=label_remapping,
            prefilter=prefilter,
            retained=retained,
            embedder=embedder,
            method=method,
            k=k,
            budget=budget,
            llm_base_url=llm_base_url,
            llm_model=llm_model,
            llm_concurrency=llm_concurrency,
            max_llm_requests=max_llm_requests,
            seed=seed,
            store_uri=store_uri,
            publish_uri=publish_uri,
            advanced=advanced,
            scheduled=scheduled_time(),
        )
    )

    data = place(build_dataset(config=checked.outputs["build_dataset"]))
    with dsl.ParallelFor(checked.outputs["Output"], parallelism=SHARDS_AT_ONCE) as shard_config:
        ranked = place(rank_pool(config=shard_config, pool=data.outputs["pool"], validation=data.outputs["validation"]))
    filtered = place(
        filter_pool(
            config=checked.outputs["prefilter"],
            pool=data.outputs["pool"],
            tops=dsl.Collected(ranked.outputs["tops"]),
        )
    )
    pool = filtered.outputs["kept"]
    proposed = place(propose_instructions(config=checked.outputs["propose_instructions"], pool=pool))
    embedded = place(
        embed(
            config=checked.outputs["embed"],
            pool=pool,
            validation=data.outputs["validation"],
            instructions=proposed.outputs["instructions"],
        )
    )

    search = place(
        optimize(
            config=checked.outputs["optimize"],
            pool=pool,
            validation=data.outputs["validation"],
            embeddings=embedded.outputs["embeddings"],
            dataset=data.outputs["summary"],
            instructions=proposed.outputs["instructions"],
        )
    )

    tested = place(
        evaluate(
            config=checked.outputs["evaluate"],
            pool=pool,
            test=data.outputs["test"],
            dataset=data.outputs["summary"],
            best_sequence=search.outputs["best_sequence"],
        )
    )

    written = place(
        report(
            config=checked.outputs["report"],
            pool=pool,
            dataset=data.outputs["summary"],
            best_sequence=search.outputs["best_sequence"],
            history=search.outputs["history"],
            search=search.outputs["summary"],
            predictions=tested.outputs["predictions"],
            test_scores=tested.outputs["summary"],
        )
    )

    published = place(
        publish(
            config=checked.outputs["publish"],
            pool=pool,
            test=data.outputs["test"],
            validation=data.outputs["validation"],
            dataset=data.outputs["summary"],
            best_sequence=search.outputs["best_sequence"],
            predictions=tested.outputs["predictions"],
            results=written.outputs["results"],
        )
    )
    return Results(
        results=written.outputs["results"],
        page=written.outputs["page"],
        publication=published.outputs["publication"],
        lineage=published.outputs["lineage"],
    )
