"""The stages of a run and of a comparison: which there are, in which order, and what each needs of a machine.

A stage is a module of `ease_lib.stages`. What it reads, and which stage made that, stands in its `Inputs`; what it
writes in its `Outputs`; the parameters it gets in its `Config`. The pipelines, their components, runs in one process,
the parameters that `check_prerequisites` passes on, and `ease STAGE` are made from these declarations.
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


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage, and what it needs.

    Args:
        shards: one task for each shard of the pool, side by side.
        cpu, memory: requested and at most; what is requested leaves room on a cluster of 2 cores and 8 GiB.
        signing: the entry of the Secret `ease-signing` that it gets: `private-key` where it signs, `public-key` where
            it looks whether signing will be possible.
        reaches_endpoint: gets the keys, and the way out to the endpoint of the LLM or of the embedder.
        on_gpu: runs on a GPU when the pipeline is compiled with `--gpu`.
        ranks: computes on a GPU for one of the prefilters only, which a run chooses: needs `--gpu-prefilter` too.
        retries: further tries where the first one failed.
        scratch: size of /tmp.
    """

    name: str
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
    def command(self) -> str:
        """Of `ease`."""
        return self.name.replace("_", "-")

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


CHECK = Stage(
    # tries what the run will need; a problem of the user's is not cured by another try
    name="check_prerequisites",
    reaches_endpoint=True,
    signing="public-key",
    retries=0,
    timeout_seconds=900,
)
RUN = (
    # reads task data of which KFP knows the address only, not the content
    Stage(name="build_dataset", cpu=("250m", "2"), memory=("1Gi", "4Gi"), scratch="4Gi"),
    Stage(
        name="rank_pool",
        shards=True,
        cpu=("500m", "4"),
        memory=("1Gi", "8Gi"),
        reaches_endpoint=True,
        on_gpu=True,
        ranks=True,
        scratch="4Gi",
    ),
    Stage(name="prefilter", memory=("1Gi", "8Gi"), scratch="4Gi"),
    Stage(name="propose_instructions", reaches_endpoint=True),
    Stage(name="embed", cpu=("500m", "4"), memory=("1Gi", "8Gi"), reaches_endpoint=True, on_gpu=True, scratch="4Gi"),
    Stage(
        name="optimize",
        cpu=("500m", "4"),
        memory=("1Gi", "8Gi"),
        reaches_endpoint=True,
        on_gpu=True,
        timeout_seconds=48 * HOUR,
        scratch="4Gi",
    ),
    Stage(name="evaluate", reaches_endpoint=True, timeout_seconds=12 * HOUR),
    Stage(name="report"),
    # asks the LLM where the latest prompt has to be beaten
    Stage(name="publish", reaches_endpoint=True, signing="private-key", timeout_seconds=12 * HOUR),
)
"""Behind `CHECK`, which passes each its parameters."""
COMPARISON = (
    Stage(name="plan_comparison", reaches_endpoint=True, retries=0, timeout_seconds=900),
    Stage(
        name="run_cell",
        cpu=("500m", "2"),
        memory=("1Gi", "4Gi"),
        reaches_endpoint=True,
        timeout_seconds=48 * HOUR,
        scratch="4Gi",
    ),
    Stage(name="report_comparison"),
)
STAGES = {stage.name: stage for stage in (CHECK, *RUN, *COMPARISON)}


LOOPED = "Output"
"""The only name of an output that `kfp.local` can loop over."""
PASSED = {LOOPED if stage.shards else stage.name: stage for stage in RUN}
"""The run's stages by the names of the outputs with which `CHECK` passes them their parameters."""


def modules_between(after: str, before: str) -> tuple[ModuleType, ...]:
    """Modules of the run's stages, without these two; an empty name is the beginning or the end."""
    names = [stage.name for stage in RUN]
    first = names.index(after) + 1 if after else 0
    return tuple(stage.module for stage in RUN[first : names.index(before) if before else len(RUN)])
