"""The stages in this process: a whole run with the artifacts and records that the pipeline makes, or some of them.

What starting a process for each component costs, and Kubeflow's own packages, are spared; nothing else differs.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import TextIO

from ease_lib.config.parsing import Value, read_by, stage_config
from ease_lib.config.sections import Parameters
from ease_lib.endpoints.child import shared_endpoints
from ease_lib.lineage.chain import RECORD_FILE
from ease_lib.processes import limit_threads
from ease_lib.running.execution import Artifact, LocalArtifact, StageReport, logger, name_of, perform
from ease_lib.running.graph import CHECK, RUN, STAGES, address, folder_of
from ease_lib.running.run_context import new_run
from ease_lib.signals import sigterm_as_interrupt

LOG_FILE = "log.txt"


@functools.cache
def outputs_of_run() -> dict[str, str]:
    """The outputs of a run, `STAGE.OUTPUT`, by their names, which are all different."""
    return {output: f"{stage.name}.{output}" for stage in RUN for output in stage.outputs}


class Workspace:
    """The artifacts of a run below a folder, where a local run of the pipeline has them, and stages that work on them.

    An artifact's path is an attribute: `workspace.pool`.

    Args:
        elsewhere: paths of artifacts that lie somewhere else, by name.
    """

    def __init__(self, folder: Path, **elsewhere: str) -> None:
        self.folder = folder
        self._artifacts = {outputs_of_run()[name]: LocalArtifact(path) for name, path in elsewhere.items()}
        self._done: list[tuple[ModuleType, dict[str, Value]]] = []

    def __getattr__(self, name: str) -> str:
        if name not in outputs_of_run():
            raise AttributeError(f"no stage makes {name}; there are {', '.join(outputs_of_run())}")
        return self.artifact(outputs_of_run()[name]).path

    def artifact(self, source: str) -> LocalArtifact:
        """An output, `STAGE.OUTPUT`: the same object for maker and readers, as metadata travels with it."""
        return self._artifacts.setdefault(source, LocalArtifact(str(self.folder / address(source))))

    def record(self, stage: str) -> LocalArtifact:
        """The record of a stage."""
        known = STAGES[stage]
        return LocalArtifact(str(self.folder / folder_of(known.component) / known.record))

    def run(self, parameters: Parameters, *stages: ModuleType) -> StageReport:
        """Run stages in order without a record of them; the report of the last."""
        report = StageReport()
        for stage in stages:
            inputs, outputs = self._inputs(stage), self._outputs(stage)
            paths = {
                name: [one.path for one in given] if isinstance(given, Sequence) else given.path
                for name, given in inputs.items()
            }
            report = stage.run(
                stage.Inputs(**paths),
                stage.Outputs(**{name: made.path for name, made in outputs.items()}),
                stage_config(stage.Config, read_by([stage.Config], parameters)),
            )
        return report

    def run_if_changed(self, parameters: Parameters, *stages: ModuleType) -> None:
        """As `run`, without the stages at the beginning that ran last time with the same parameters."""
        wanted = [(stage, read_by([stage.Config], parameters)) for stage in stages]
        kept = 0
        while kept < len(wanted) and wanted[kept : kept + 1] == self._done[kept : kept + 1]:
            kept += 1
        if kept < len(wanted):
            self._done = self._done[:kept]
        for stage, values in wanted[kept:]:
            self.run(parameters, stage)
            self._done.append((stage, values))

    def perform(self, parameters: Parameters, stage: ModuleType, *, chain: Artifact | None = None) -> StageReport:
        """Run a stage and record it."""
        artifacts = {**self._inputs(stage), **self._outputs(stage)}
        values = read_by([stage.Config], parameters)
        return perform(stage, values, artifacts, record=self.record(name_of(stage)), chain=chain)

    def _inputs(self, stage: ModuleType) -> dict[str, Artifact | Sequence[Artifact]]:
        found: dict[str, Artifact | Sequence[Artifact]] = {}
        for field in dataclasses.fields(stage.Inputs):
            made = self.artifact(field.metadata["of"])
            found[field.name] = [made] if field.metadata["many"] else made
        return found

    def _outputs(self, stage: ModuleType) -> dict[str, Artifact]:
        return {
            field.name: self.artifact(f"{name_of(stage)}.{field.name}") for field in dataclasses.fields(stage.Outputs)
        }


def run_inline(
    parameters: Parameters,
    output_dir: Path,
    *,
    lines: TextIO | None = sys.stdout,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Path:
    """Run all stages and put their results into `output_dir`; their artifacts stand below `pipeline/`.

    Args:
        lines: takes our lines, beside the log; None for the log alone.
        on_stage: called with the name of every stage before it begins.

    Raises:
        EaseError: as the stage that failed says it.
        KeyboardInterrupt: when this process was told to stop.
    """
    root = output_dir / "pipeline" / f"ease-{datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    root.mkdir(parents=True)
    workspace = Workspace(root)
    limit_threads()
    with (
        sigterm_as_interrupt(),
        new_run(root.parent),
        _logged(root.parent / LOG_FILE, lines),
        shared_endpoints(),
    ):
        on_stage(CHECK.name)
        parameters = CHECK.module.perform(parameters, record=workspace.record(CHECK.name))
        for stage in RUN:
            on_stage(stage.name)
            last = stage is RUN[-1]
            chain = LocalArtifact(str(root / folder_of(stage.component) / "chain")) if last else None
            workspace.perform(parameters, stage.module, chain=chain)
    keep_results(output_dir, root / folder_of(RUN[-1].component))
    return output_dir


def keep_results(output_dir: Path, made: Path) -> None:
    """Copy what the stage `report` collected, and the record of the last stage, to where people look.

    Args:
        made: the folder of the last component.
    """
    shutil.copytree(made / STAGES["report"].outputs["results"], output_dir, dirs_exist_ok=True)
    shutil.copyfile(made / RUN[-1].record, output_dir / RECORD_FILE)


@contextmanager
def _logged(file: Path, lines: TextIO | None) -> Iterator[None]:
    """Our lines go there and to a file."""
    kept = logging.FileHandler(file, mode="w", encoding="utf-8")
    shown = [logging.StreamHandler(lines)] if lines else []
    before, level, propagate = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:], logger.propagate = [*shown, kept], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = before, propagate
        logger.setLevel(level)
        kept.close()
