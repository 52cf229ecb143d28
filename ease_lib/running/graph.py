"""The stages of a run and of a comparison, and the tasks that do them: which there are, and what each needs.

A stage is a module of `ease_lib.stages`. What it reads, and which stage made that, stands in its `Inputs`; what it
writes in its `Outputs`; the parameters it gets in its `Config`. A task is what Kubeflow starts a container for: one
stage, or several one after another. The pipelines, their components, runs in one process, and the parameters that
`check_prerequisites` passes on are made from these declarations.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HOUR = 3600
RETRIES = 3


@dataclass(frozen=True)
class Stage:
    """A stage, by the name of its module."""

    name: str

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"ease_lib.stages.{self.name}")

    @property
    def config(self) -> type:
        """The sections of parameters that it gets."""
        config: type = self.module.Config
        return config

    @property
    def sources(self) -> dict[str, str]:
        """By the names of its inputs, the outputs they come from: `STAGE.OUTPUT`."""
        return {field.name: field.metadata["of"] for field in dataclasses.fields(self.module.Inputs)}

    @property
    def outputs(self) -> list[str]:
        """The names of its outputs."""
        return [field.name for field in dataclasses.fields(self.module.Outputs)]

    @property
    def summary(self) -> str:
        """What it does, in a sentence; the module is not loaded for it."""
        loaded = sys.modules.get(f"ease_lib.stages.{self.name}")
        documentation = (loaded.__doc__ if loaded else _docstring(self.name)) or ""
        paragraph = " ".join(documentation.partition("\n\n")[0].split())
        words = paragraph.partition(": ")[2]
        return words[:1].upper() + words[1:]


def _docstring(stage: str) -> str | None:
    source = Path(__file__).parents[1] / "stages" / f"{stage}.py"
    return ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))


@dataclass(frozen=True, kw_only=True)
class Task:
    """Stages that are done one after another in one container, and what it needs.

    Args:
        folder: what it makes is one artifact of Kubeflow's, a folder of this name (`ease_lib/running/task.py`); empty
            where its stage makes nothing, or has a component of its own.
        shards: one for each shard of the pool, side by side.
        cpu, memory: requested and at most; what is requested leaves room on a cluster of 2 cores and 8 GiB.
        reaches_endpoint: gets the keys, and the way out to the endpoint of the LLM or of the embedder.
        signing: the entry of the Secret `ease-signing` that it gets: `private-key` where something is signed,
            `public-key` where it is looked whether that will be possible.
        on_gpu: runs on a GPU when the pipeline is compiled with `--gpu`.
        ranks: computes on a GPU for one of the prefilters only, which a run chooses: needs `--gpu-prefilter` too.
        retries: further tries where the first one failed.
        scratch: size of /tmp.
    """

    name: str
    stages: tuple[Stage, ...]
    folder: str = ""
    shards: bool = False
    cpu: tuple[str, str] = ("250m", "1")
    memory: tuple[str, str] = ("1Gi", "2Gi")
    reaches_endpoint: bool = False
    signing: str = ""
    on_gpu: bool = False
    ranks: bool = False
    retries: int = RETRIES
    timeout_seconds: int = HOUR
    scratch: str = "1Gi"

    @property
    def command(self) -> str:
        """As Kubeflow writes its name."""
        return self.name.replace("_", "-")

    @property
    def summary(self) -> str:
        """What is done in its container, a sentence for each stage."""
        checks = [CHECK] if self is TASKS[0] else []
        return " ".join(stage.summary for stage in (*checks, *self.stages))

    @property
    def sources(self) -> list[str]:
        """The outputs of other tasks that its stages read, `STAGE.OUTPUT`, each once."""
        own = {stage.name for stage in self.stages}
        read = [source for stage in self.stages for source in stage.sources.values()]
        return [source for source in dict.fromkeys(read) if source.partition(".")[0] not in own]

    @property
    def reads(self) -> list[Task]:
        """The tasks whose folders it reads, each once."""
        return list(dict.fromkeys(maker_of(source) for source in self.sources))

    @property
    def pages(self) -> list[str]:
        """Its outputs that are HTML to look at, which are artifacts of their own."""
        fields = [field for stage in self.stages for field in dataclasses.fields(stage.module.Outputs)]
        return [field.name for field in fields if field.metadata["kind"] == PAGE]


PAGE = "HTML"
CHECK = Stage("check_prerequisites")
"""Done first in the container of the first task; makes nothing but the parameters of all tasks."""
TASKS = (
    Task(
        # reads task data of which KFP knows the address only, not the content
        name="begin",
        stages=(Stage("build_dataset"),),
        folder="data",
        cpu=("250m", "2"),
        memory=("1Gi", "4Gi"),
        reaches_endpoint=True,
        signing="public-key",
        scratch="4Gi",
    ),
    Task(
        name="rank_pool",
        stages=(Stage("rank_pool"),),
        folder="ranking",
        shards=True,
        cpu=("500m", "4"),
        memory=("1Gi", "8Gi"),
        reaches_endpoint=True,
        on_gpu=True,
        ranks=True,
        scratch="4Gi",
    ),
    Task(
        name="prepare",
        stages=(Stage("prefilter"), Stage("propose_instructions"), Stage("embed")),
        folder="prepared",
        cpu=("500m", "4"),
        memory=("1Gi", "8Gi"),
        reaches_endpoint=True,
        on_gpu=True,
        timeout_seconds=3 * HOUR,
        scratch="4Gi",
    ),
    Task(
        name="optimize",
        stages=(Stage("optimize"),),
        folder="search",
        cpu=("500m", "4"),
        memory=("1Gi", "8Gi"),
        reaches_endpoint=True,
        on_gpu=True,
        timeout_seconds=48 * HOUR,
        scratch="4Gi",
    ),
    Task(
        # publishing asks the LLM where the latest prompt has to be beaten
        name="conclude",
        stages=(Stage("evaluate"), Stage("report"), Stage("publish")),
        folder="result",
        reaches_endpoint=True,
        signing="private-key",
        timeout_seconds=25 * HOUR,
    ),
)
"""Of a run. Each costs Kubeflow two pods and some twenty seconds, whatever it does."""
_PLAN, _CELL, _REPORT = Stage("plan_comparison"), Stage("run_cell"), Stage("report_comparison")
COMPARISON = (
    Task(name="plan_comparison", stages=(_PLAN,), reaches_endpoint=True, retries=0, timeout_seconds=900),
    Task(
        name="run_cell",
        stages=(_CELL,),
        cpu=("500m", "2"),
        memory=("1Gi", "4Gi"),
        reaches_endpoint=True,
        timeout_seconds=48 * HOUR,
        scratch="4Gi",
    ),
    Task(name="report_comparison", stages=(_REPORT,)),
)
ALL_TASKS = {task.name: task for task in (*TASKS, *COMPARISON)}
STAGES = {stage.name: stage for stage in (CHECK, *(stage for task in ALL_TASKS.values() for stage in task.stages))}
RUN = tuple(stage for task in TASKS for stage in task.stages)
"""The stages of a run, without the check."""

LOOPED = "Output"
"""The only name of an output that `kfp.local` can loop over."""
PASSED = {LOOPED if task.shards else task.name: task for task in TASKS}
"""The run's tasks by the names under which `CHECK` makes their parameters, and the first task passes them to others."""


def maker_of(source: str) -> Task:
    """The run's task that makes an output, `STAGE.OUTPUT`."""
    return next(task for task in TASKS if STAGES[source.partition(".")[0]] in task.stages)


def modules_between(after: str, before: str) -> tuple[ModuleType, ...]:
    """Modules of the run's stages, without these two; an empty name is the beginning or the end."""
    names = [stage.name for stage in RUN]
    first = names.index(after) + 1 if after else 0
    return tuple(stage.module for stage in RUN[first : names.index(before) if before else len(RUN)])
