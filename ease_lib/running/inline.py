"""The stages in this process: a whole run with the artifacts and records that the pipeline makes, or some of them.

What starting a process for each component costs, and Kubeflow's own packages, are spared; nothing else differs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.config.parsing import read_by, stage_config
from ease_lib.config.sections import Parameters
from ease_lib.lineage.chain import RECORD_FILE
from ease_lib.machine import limit_threads
from ease_lib.running.graph import CHECK, RUN, STAGES, address, folder_of
from ease_lib.running.log import lines_of_run
from ease_lib.running.run import SILENT, Caller, Host, Progress, Run, open_host, open_run, run_of
from ease_lib.running.run_context import new_run_context
from ease_lib.running.stage import Artifact, LocalArtifact, StageReport, name_of, paths_of, perform
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
        self._artifacts: dict[str, LocalArtifact] = {}
        self.place(**elsewhere)

    def place(self, **elsewhere: str) -> None:
        """Set the paths of artifacts that are elsewhere, by name."""
        self._artifacts |= {outputs_of_run()[name]: LocalArtifact(path) for name, path in elsewhere.items()}

    def __getattr__(self, name: str) -> str:
        if name not in outputs_of_run():
            raise AttributeError(f"no stage makes {name}; the outputs are {', '.join(outputs_of_run())}")
        return self.artifact(outputs_of_run()[name]).path

    def artifact(self, source: str) -> LocalArtifact:
        """An output, `STAGE.OUTPUT`: the same object for its writer and readers, because it carries metadata."""
        return self._artifacts.setdefault(source, LocalArtifact(str(self.folder / address(source))))

    def record(self, stage: str) -> LocalArtifact:
        """The record of a stage."""
        known = STAGES[stage]
        return LocalArtifact(str(self.folder / folder_of(known.component) / known.record))

    def run(self, parameters: Parameters, run: Run, *stages: ModuleType) -> StageReport:
        """Run stages in order without recording them; return the report of the last."""
        report = StageReport()
        for stage in stages:
            inputs, outputs = paths_of(self._inputs(stage)), paths_of(self._outputs(stage))
            config = stage_config(stage.Config, read_by([stage.Config], parameters))
            report = stage.run(stage.Inputs(**inputs), stage.Outputs(**outputs), config, run)
        return report

    def run_if_changed(self, parameters: Parameters, run: Run, *stages: ModuleType) -> None:
        """Run the stages like `run`, but skip the first ones if they ran last time with the same parameters, in any
        process."""
        wanted = [[name_of(stage), read_by([stage.Config], parameters)] for stage in stages]
        done: list[Any] = json.loads(self._done.read_bytes()) if self._done.exists() else []
        kept = 0
        while kept < len(wanted) and wanted[kept : kept + 1] == done[kept : kept + 1]:
            kept += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        for ran in range(kept, len(wanted)):
            self._done.write_text(json.dumps(wanted[:ran]))
            self.run(parameters, run, stages[ran])
        if kept < len(wanted):
            self._done.write_text(json.dumps(wanted))

    @property
    def _done(self) -> Path:
        """File that notes which stages ran with which parameters."""
        return self.folder / "done.json"

    def perform(
        self, parameters: Parameters, run: Run, stage: ModuleType, *, verdict: Artifact | None = None
    ) -> StageReport:
        """Run a stage and record it."""
        artifacts = {**self._inputs(stage), **self._outputs(stage)}
        values = read_by([stage.Config], parameters)
        return perform(stage, values, artifacts, run, record=self.record(name_of(stage)), verdict=verdict)

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
    progress: Progress = SILENT,
    caller: Caller = Caller(),  # noqa: B008  (it is frozen)
    on_host: Callable[[Host], None] = lambda host: None,
) -> Path:
    """Run all stages and put their results into `output_dir`; their artifacts are below `pipeline/`.

    Args:
        lines: takes the lines of EASE, in addition to the log; None for the log alone.
        progress: is told how far the run is, in place of lines that say so.
        caller: functions that answer or score.
        on_host: is given what the process has for this run, by which another thread can cancel it.

    Raises:
        EaseError: as the stage that failed says it.
        KeyboardInterrupt: when this process was told to stop.
    """
    root = output_dir / "pipeline" / f"ease-{datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    root.mkdir(parents=True)
    workspace = Workspace(root)
    limit_threads()
    context = new_run_context()
    with (
        sigterm_as_interrupt(),
        lines_of_run(context.run_id, root.parent / LOG_FILE, lines, has_bar=progress is not SILENT),
        open_host(context=context, patience_seconds=PATIENCE_SECONDS, progress=progress) as host,
        open_run(host, *run_of(parameters), caller) as run,
    ):
        on_host(host)
        parameters = CHECK.module.perform(parameters, run, record=workspace.record(CHECK.name))
        for stage in RUN:
            last = stage is RUN[-1]
            verdict = LocalArtifact(str(root / folder_of(stage.component) / "verdict")) if last else None
            workspace.perform(parameters, run, stage.module, verdict=verdict)
    keep_results(output_dir, root / folder_of(RUN[-1].component))
    return output_dir


def keep_results(output_dir: Path, made: Path) -> None:
    """Copy the files of the stage `report` and the record of the last stage to the output folder.

    Args:
        made: the folder of the last component.
    """
    shutil.copytree(made / STAGES["report"].outputs["results"], output_dir, dirs_exist_ok=True)
    shutil.copyfile(made / RUN[-1].record, output_dir / RECORD_FILE)
