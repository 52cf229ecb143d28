"""The stages in this process, wired as the pipeline is: for comparisons, tests and benchmarks."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ease_lib.config.parsing import parse_stage_config, stage_parameters
from ease_lib.config.sections import Parameters
from ease_lib.running.execution import StageReport

CALLED = {"build_dataset.summary": "dataset", "optimize.summary": "search", "evaluate.summary": "test_scores"}
"""Artifacts whose output has the name of another's; the others are called as their output is."""


def artifact_name(source: str) -> str:
    """What an artifact is called among those of a run.

    Args:
        source: the output that it is, `STAGE.OUTPUT`.
    """
    return CALLED.get(source, source.partition(".")[2])


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
            report = stage.run(self._inputs(stage), self._outputs(stage), config)
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

    def _inputs(self, stage: ModuleType) -> object:
        paths: dict[str, str | list[str]] = {}
        for field in dataclasses.fields(stage.Inputs):
            path = getattr(self, artifact_name(field.metadata["of"]))
            paths[field.name] = [path] if field.metadata["many"] else path
        return stage.Inputs(**paths)

    def _outputs(self, stage: ModuleType) -> object:
        name = stage.__name__.rpartition(".")[2]
        return stage.Outputs(
            **{
                field.name: getattr(self, artifact_name(f"{name}.{field.name}"))
                for field in dataclasses.fields(stage.Outputs)
            }
        )
