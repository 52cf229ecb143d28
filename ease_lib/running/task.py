"""Do a task of a pipeline: its stages one after another in this process, all that they make in one folder.

Kubeflow draws every artifact as a node and starts two pods for every task; a folder and a container for what belongs
together keep its graph readable and a run short. Nothing else differs from a task for each stage: below the folder
stand `STAGE/OUTPUT` and `STAGE/lineage`, the record, each with an address and a digest of its own, and what would be
the metadata of an artifact stands in the folder's, as `STAGE.OUTPUT.NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ease_lib.config.parsing import stage_parameters
from ease_lib.config.sections import Parameters
from ease_lib.lineage.chain import ARTIFACT
from ease_lib.running.execution import Artifact, MetricsArtifact, StageReport, perform, user_errors
from ease_lib.running.graph import ALL_TASKS, Stage, Task, maker_of


@dataclass
class Part:
    """An artifact of ours in a folder that is one of Kubeflow's."""

    path: str
    uri: str
    metadata: dict[str, Any]


def part_of(folder: Artifact, source: str) -> Part:
    """What a stage made, or is going to make.

    Args:
        source: the output that it is, `STAGE.OUTPUT`.
    """
    stage, _, output = source.partition(".")
    own = f"{source}."
    metadata = {name.removeprefix(own): value for name, value in folder.metadata.items() if name.startswith(own)}
    return Part(f"{folder.path}/{stage}/{output}", f"{folder.uri}/{stage}/{output}", metadata)


def task_parameters(task: Task, parameters: Parameters) -> str:
    """The JSON that a task receives: what `stage_parameters` gives each of its stages, by its name."""
    return json.dumps({stage.name: json.loads(stage_parameters(stage.config, parameters)) for stage in task.stages})


def execute_task(
    name: str,
    config: str,
    made: Artifact,
    *,
    metrics: MetricsArtifact | None = None,
    chain: Artifact | None = None,
    **artifacts: Artifact | Sequence[Artifact],
) -> None:
    """Do a task in this process as its only work; takes what `perform_task` takes.

    Args:
        metrics: takes the numbers of all its stages.
    """
    with user_errors(name):
        report = perform_task(ALL_TASKS[name], config, made, artifacts, chain=chain)
    if metrics:
        report.publish(metrics)


def perform_task(
    task: Task,
    config: str,
    made: Artifact,
    artifacts: Mapping[str, Artifact | Sequence[Artifact]],
    *,
    chain: Artifact | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> StageReport:
    """Run the stages of a task and record what each did; raises what goes wrong.

    Args:
        config: what `task_parameters` gave.
        made: the folder that it makes.
        artifacts: the folders that it reads, by their names (of a task with shards, of all shards), and its pages.
        chain: takes a page for people about the last stage's record.
        on_stage: called with the name of every stage before it begins.
    """
    configs = json.loads(config)
    parts = {source: part_of(made, source) for stage in task.stages for source in _made_by(stage)}
    known: dict[str, Artifact | Sequence[Artifact]] = {**parts, **_read(task, artifacts)}
    metrics: dict[str, float] = {}
    for stage in task.stages:
        on_stage(stage.name)
        inputs = {name: known[source] for name, source in stage.sources.items()}
        outputs = {
            name: artifacts[name] if name in task.pages else parts[f"{stage.name}.{name}"] for name in stage.outputs
        }
        metrics |= perform(
            stage.module,
            json.dumps(configs[stage.name]),
            {**inputs, **outputs},
            lineage=parts[f"{stage.name}.{ARTIFACT}"],
            chain=chain if stage is task.stages[-1] else None,
        ).metrics
    for source, part in parts.items():
        made.metadata.update({f"{source}.{name}": value for name, value in part.metadata.items()})
    return StageReport(metrics=metrics)


def _made_by(stage: Stage) -> list[str]:
    return [f"{stage.name}.{name}" for name in (*stage.outputs, ARTIFACT)]


def _read(
    task: Task, artifacts: Mapping[str, Artifact | Sequence[Artifact]]
) -> dict[str, Artifact | Sequence[Artifact]]:
    """What its stages read of other tasks, by `STAGE.OUTPUT`; of one with shards, that of each."""
    parts: dict[str, Artifact | Sequence[Artifact]] = {}
    for source in task.sources:
        folder = artifacts[maker_of(source).folder]
        parts[source] = (
            [part_of(each, source) for each in folder] if isinstance(folder, Sequence) else part_of(folder, source)
        )
    return parts
