"""Every parameter of a run, declared once: name, default, bounds, one line of help, one file a section.

The pipeline's run form, the components, the command-line options, the parameter files, the table of all parameters and
the messages of `ConfigError` are made from these fields. The `Config` of a stage is a dataclass whose fields are
sections of this folder. Only the parameters of those sections are passed to it, so that its record holds what it read
and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ease_lib.config.sections.caps_config import CapsConfig
from ease_lib.config.sections.comparison_config import ComparisonConfig
from ease_lib.config.sections.declaration import (
    AS_PUBLISHED,
    DRAWN_OUTPUTS,
    ENDPOINT_EMBEDDER,
    EVALUATED,
    FILE_ORDER,
    FIXED_DATA,
    FOLLOW_FROM_EVALUATE,
    FUNCTION,
    INSTRUCTION_SOURCES,
    JUDGE,
    KEEP_LEAKS,
    LATEST,
    METRIC_NAMES,
    PYTHON,
    ROWS,
    S3_SCHEMES,
    Only,
    Role,
    Section,
    param,
)
from ease_lib.config.sections.embedding_config import EmbeddingConfig
from ease_lib.config.sections.endpoint_config import EndpointConfig
from ease_lib.config.sections.hardware_config import HardwareConfig
from ease_lib.config.sections.instruction_config import InstructionConfig
from ease_lib.config.sections.judge_config import JudgeConfig
from ease_lib.config.sections.lineage_config import LineageConfig
from ease_lib.config.sections.optimizer_config import OptimizerConfig
from ease_lib.config.sections.prefilter_config import PrefilterConfig, ShardConfig
from ease_lib.config.sections.publishing_config import PublishingConfig
from ease_lib.config.sections.run_config import ContinuationConfig, RunConfig
from ease_lib.config.sections.task_config import TaskConfig

__all__ = [
    "AS_PUBLISHED", "DRAWN_OUTPUTS", "ENDPOINT_EMBEDDER", "EVALUATED", "FILE_ORDER", "FIXED_DATA",
    "FOLLOW_FROM_EVALUATE", "FUNCTION", "INSTRUCTION_SOURCES", "JUDGE", "KEEP_LEAKS", "LATEST", "METRIC_NAMES",
    "PYTHON", "ROWS", "S3_SCHEMES", "Asks", "CapsConfig", "ComparisonAxes", "ComparisonConfig", "ContinuationConfig",
    "EmbeddingConfig", "EndpointConfig", "HardwareConfig", "InstructionConfig", "JudgeConfig", "LineageConfig", "Only",
    "OnlyLineage", "OptimizerConfig", "Parameters", "PrefilterConfig", "PublishingConfig", "Role", "RunConfig",
    "Section", "ShardConfig", "TaskConfig", "lineage_root", "param"
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All sections together: one run."""

    task: TaskConfig = field(default_factory=TaskConfig)
    prefilter: PrefilterConfig = field(default_factory=PrefilterConfig)
    instructions: InstructionConfig = field(default_factory=InstructionConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    caps: CapsConfig = field(default_factory=CapsConfig)
    run: RunConfig = field(default_factory=RunConfig)
    continuation: ContinuationConfig = field(default_factory=ContinuationConfig)
    publishing: PublishingConfig = field(default_factory=PublishingConfig)
    lineage: LineageConfig = field(default_factory=LineageConfig)

    @property
    def lineage_root(self) -> str:
        return lineage_root(self.lineage.lineage_uri, self.run.store_uri, self.publishing.publish_uri)


def lineage_root(lineage_uri: str, store_uri: str = "", publish_uri: str = "") -> str:
    """Root of the records: `lineage_uri` or its default; empty if nothing of the run outlives it."""
    kept = store_uri or publish_uri
    return lineage_uri or (f"{kept.rstrip('/')}/lineage" if kept else "")


@dataclass(frozen=True, kw_only=True)
class Asks:
    """The sections of every stage that asks the black-box."""

    endpoint: EndpointConfig
    judge: JudgeConfig
    caps: CapsConfig
    run: RunConfig
    continuation: ContinuationConfig


@dataclass(frozen=True, kw_only=True)
class OnlyLineage:
    """The parameters of every stage's record, which the stage itself does not read."""

    lineage: LineageConfig


@dataclass(frozen=True, kw_only=True)
class ComparisonAxes:
    """The options of `ease compare` in addition to those of a run."""

    comparison: ComparisonConfig
