"""The stages in this process, wired as `pipelines/ease_pipeline.py` does: for comparisons, tests and benchmarks."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ease_lib.config import Parameters, parse_stage_config, stage_parameters
from ease_lib.running.execution import StageReport
from ease_lib.stages import (
    build_dataset,
    embed,
    evaluate,
    optimize,
    prefilter,
    propose_instructions,
    publish,
    rank_pool,
    report,
)

BEFORE_SEARCH = (build_dataset, rank_pool, prefilter, propose_instructions, embed)
AFTER_SEARCH = (evaluate, report)
NAMES = {
    **{(stage, "pool"): "kept" for stage in (propose_instructions, embed, optimize, evaluate, report, publish)},
    (build_dataset, "summary"): "dataset",
    (optimize, "summary"): "search",
    (evaluate, "summary"): "test_scores",
}
"""Artifacts whose name differs from that of a stage's field."""


class Artifacts:
    """Paths of artifacts by name, as attributes: below `folder` unless set otherwise."""

    def __init__(self, folder: Path, **elsewhere: str) -> None:
        self.folder = folder
        self._done: list[tuple[ModuleType, str]] = []
        vars(self).update(elsewhere)

    def __getattr__(self, name: str) -> str:
        return str(self.folder / name)

    def run(self, parameters: Parameters, *stages: ModuleType) -> StageReport:
        """Run stages in order; the report of the last."""
        report = StageReport()
        parameters = replace(parameters, prefilter=replace(parameters.prefilter, shards=1, shard=0))
        for stage in stages:
            config = parse_stage_config(stage.Config, stage_parameters(stage.Config, parameters))
            report = stage.run(self._paths(stage, stage.Inputs), self._paths(stage, stage.Outputs), config)
        return report

    def run_if_changed(self, parameters: Parameters, *stages: ModuleType) -> None:
        """Run stages in order, without those at the beginning that ran last time with the same parameters."""
        wanted = [(stage, stage_parameters(stage.Config, parameters)) for stage in stages]
        kept = 0
        while kept < len(wanted) and wanted[kept : kept + 1] == self._done[kept : kept + 1]:
            kept += 1
        if kept < len(wanted):
            self._done = self._done[:kept]
        for stage, config in wanted[kept:]:
            self.run(parameters, stage)
            self._done.append((stage, config))

    def _paths(self, stage: ModuleType, declared: type) -> object:
        """The stage's `Inputs` or `Outputs` with the paths of these artifacts."""
        paths: dict[str, str | list[str]] = {}
        for field in dataclasses.fields(declared):
            path = getattr(self, NAMES.get((stage, field.name), field.name))
            paths[field.name] = [path] if field.metadata["many"] else path
        return declared(**paths)
