"""The stages of a run in order, the component that runs each of them, and the places of their outputs.

A stage is a module of `ease_lib.stages`. What it reads, and which output of which earlier stage that is, is in its
`Inputs`; what it writes in its `Outputs`; the parameters it gets in its `Config`. A component is what Kubeflow starts a
container for (`components/`): one stage, or several one after another. The run in this process
(`ease_lib/running/inline.py`) follows these declarations; the pipeline is written by hand, and
`tests/pipelines/test_graph.py` holds its edges equal to them.
"""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from types import ModuleType

COMPONENTS = {
    "build_dataset": ("check_prerequisites", "build_dataset"),
    "prefilter": ("rank_pool", "prefilter"),
    "embed": ("propose_instructions", "embed"),
    "optimize": ("optimize",),
    "evaluate": ("evaluate", "gate", "report", "publish"),
}
"""The components of a run in order, and their stages. In a pipeline with shards, `rank_shard` runs `rank_pool`."""
RECORDS = "lineage"
"""The artifact of every component that holds the records of its stages, `STAGE.json` each."""


@dataclass(frozen=True)
class Stage:
    """A stage, by the name of its module, and the component that runs it."""

    name: str
    component: str

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"ease_lib.stages.{self.name}")

    @property
    def sources(self) -> dict[str, str]:
        """The outputs that its inputs come from, `STAGE.OUTPUT`, by the names of the inputs."""
        return {field.name: field.metadata["of"] for field in dataclasses.fields(self.module.Inputs)}

    @property
    def outputs(self) -> dict[str, str]:
        """Path of each output below the folder of its component, by name: an artifact, or a file in one."""
        return {field.name: field.metadata["at"] or field.name for field in dataclasses.fields(self.module.Outputs)}

    @property
    def record(self) -> str:
        """Path of its record below that folder."""
        return f"{RECORDS}/{self.name}.json"


STAGES = {name: Stage(name, component) for component, names in COMPONENTS.items() for name in names}
CHECK, *_WORKING = STAGES.values()
RUN = tuple(_WORKING)
"""The stages of a run in order, without the check before them."""


def address(source: str) -> str:
    """Path of an output below the folder of the run, as in a local run of the pipeline.

    Args:
        source: the output, `STAGE.OUTPUT`.
    """
    name, _, output = source.partition(".")
    stage = STAGES[name]
    return f"{folder_of(stage.component)}/{stage.outputs[output]}"


def folder_of(component: str) -> str:
    """The name that Kubeflow gives to the task of a component."""
    return component.replace("_", "-")


def stages_of(component: str) -> tuple[Stage, ...]:
    """The stages of a component of a run."""
    return tuple(STAGES[name] for name in COMPONENTS[component])


def modules_between(after: str, before: str) -> tuple[ModuleType, ...]:
    """Modules of the stages between these two, which are not included; an empty name means the beginning or the end."""
    names = [stage.name for stage in RUN]
    first = names.index(after) + 1 if after else 0
    return tuple(stage.module for stage in RUN[first : names.index(before) if before else len(RUN)])
