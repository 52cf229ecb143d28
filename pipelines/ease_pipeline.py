"""The production pipeline: from a task's data to a prompt that works for every query of it.

    check_prerequisites -> build_dataset -> rank_pool -> prefilter -> propose_instructions -> embed -> optimize
        -> evaluate -> report -> publish

`optimize` is Alg. 1 of the paper (`ease_lib/study/loop.py`, `ease_lib/optimizers/ease.py`); the stages before it make
its exemplar pool D, validation set D_V and embeddings h, those behind it say what its result is worth. Which stages
there are is declared in `ease_lib/running/graph.py`, what each reads in its `Inputs`, the form in `ease_lib/config`.
"""

from typing import Any, NamedTuple

from kfp import dsl

from components.catalog import COMPONENTS
from ease_lib.config.forms import run_form
from ease_lib.running.graph import CHECK, LOOPED, RUN, STAGES, Stage
from pipelines.forms import has_form
from pipelines.placement import LIFETIME, place, told_by_kubeflow

SHARDS_AT_ONCE = 20


class Results(NamedTuple):
    results: dsl.Artifact
    page: dsl.HTML
    publication: dsl.Artifact
    lineage: dsl.Artifact


def _task(stage: Stage, config: Any, inputs: dict[str, Any]) -> dsl.PipelineTask:
    return place(COMPONENTS[stage.name](config=config, **inputs))


def _output(source: str, done: dict[str, dsl.PipelineTask]) -> Any:
    """An output of a stage, `STAGE.OUTPUT`; of one with a task for each shard, that of them all."""
    name, _, output = source.partition(".")
    made = done[name].outputs[output]
    return dsl.Collected(made) if STAGES[name].shards else made


@dsl.pipeline(name="ease", display_name="EASE: exemplar sequence search", pipeline_config=LIFETIME)
@has_form(run_form(), Results)
def ease_pipeline(form: dict[str, Any]) -> Results:
    """Find one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024)."""
    checked = place(COMPONENTS[CHECK.name](**form, **told_by_kubeflow()))
    done: dict[str, dsl.PipelineTask] = {}
    for stage in RUN:
        inputs = {name: _output(source, done) for name, source in stage.sources.items()}
        if stage.shards:
            with dsl.ParallelFor(checked.outputs[LOOPED], parallelism=SHARDS_AT_ONCE) as config:
                done[stage.name] = _task(stage, config, inputs)
        else:
            done[stage.name] = _task(stage, checked.outputs[stage.name], inputs)
    return Results(
        results=done["report"].outputs["results"],
        page=done["report"].outputs["page"],
        publication=done["publish"].outputs["publication"],
        lineage=done["publish"].outputs["lineage"],
    )
