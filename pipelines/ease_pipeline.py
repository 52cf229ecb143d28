"""The production pipeline: from a task's data to a prompt that works for every query of it.

    begin (check_prerequisites, build_dataset) -> rank_pool for every shard
        -> prepare (prefilter, propose_instructions, embed) -> optimize -> conclude (evaluate, report, publish)

`optimize` is Alg. 1 of the paper (`ease_lib/study/loop.py`, `ease_lib/optimizers/ease.py`); the stages before it make
its exemplar pool D, validation set D_V and embeddings h, those behind it say what its result is worth. Which stages
there are, and which share a container, is declared in `ease_lib/running/graph.py`, what each reads in its `Inputs`, the
form in `ease_lib/config`.
"""

from typing import Any, NamedTuple

from kfp import dsl

from components.catalog import COMPONENTS
from ease_lib.config.forms import run_form
from ease_lib.running.graph import LOOPED, TASKS, Task
from pipelines.forms import has_form
from pipelines.placement import LIFETIME, place, told_by_kubeflow

SHARDS_AT_ONCE = 20


class Results(NamedTuple):
    result: dsl.Artifact
    page: dsl.HTML


def _task(task: Task, config: Any, inputs: dict[str, Any]) -> dsl.PipelineTask:
    return place(COMPONENTS[task.name](config=config, **inputs))


def _made(task: Task, done: dict[str, dsl.PipelineTask]) -> Any:
    """The folder of a task; of one for each shard, those of them all."""
    folder = done[task.name].outputs[task.folder]
    return dsl.Collected(folder) if task.shards else folder


@dsl.pipeline(name="ease", display_name="EASE: exemplar sequence search", pipeline_config=LIFETIME)
@has_form(run_form(), Results)
def ease_pipeline(form: dict[str, Any]) -> Results:
    """Find one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024)."""
    first, *behind = TASKS
    begun = place(COMPONENTS[first.name](**form, **told_by_kubeflow()))
    done = {first.name: begun}
    for task in behind:
        inputs = {read.folder: _made(read, done) for read in task.reads}
        if task.shards:
            with dsl.ParallelFor(begun.outputs[LOOPED], parallelism=SHARDS_AT_ONCE) as config:
                done[task.name] = _task(task, config, inputs)
        else:
            done[task.name] = _task(task, begun.outputs[task.name], inputs)
    last = done[TASKS[-1].name]
    return Results(result=last.outputs[TASKS[-1].folder], page=last.outputs["page"])
