"""The stages in this process, wired as `pipelines/ease_pipeline.py` does: for tests and benchmarks."""

import dataclasses
from pathlib import Path
from types import ModuleType

from ease_lib.config import Parameters, parse_stage_config, stage_parameters
from ease_lib.stages import build_dataset, embed, evaluate, optimize, prefilter, propose_instructions, report
from ease_lib.stages.execution import StageReport

BEFORE_SEARCH = (build_dataset, prefilter, propose_instructions, embed)
AFTER_SEARCH = (evaluate, report)
NAMES = {
    **{(stage, "pool"): "kept" for stage in (propose_instructions, embed, optimize, evaluate, report)},
    (build_dataset, "summary"): "dataset",
    (optimize, "summary"): "search",
    (evaluate, "summary"): "test_scores",
}
"""Artifacts whose name differs from that of a stage's field."""


class Artifacts:
    """Paths of artifacts by name, as attributes: below `folder` unless set otherwise."""

    def __init__(self, folder: Path, **elsewhere: str) -> None:
        self.folder = folder
        vars(self).update(elsewhere)

    def __getattr__(self, name: str) -> str:
        return str(self.folder / name)

    def run(self, parameters: Parameters, *stages: ModuleType) -> StageReport:
        """Run stages in order; the report of the last."""
        for stage in stages:
            inputs, outputs = (
                declared(
                    **{
                        field.name: getattr(self, NAMES.get((stage, field.name), field.name))
                        for field in dataclasses.fields(declared)
                    }
                )
                for declared in (stage.Inputs, stage.Outputs)
            )
            config = parse_stage_config(stage.Config, stage_parameters(stage.Config, parameters))
            done = stage.run(inputs, outputs, config)
        return done
