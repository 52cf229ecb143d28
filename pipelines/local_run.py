"""Run the production pipeline on this machine through `kfp.local`: each stage in a process of its own."""

import contextlib
import io
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from kfp import local

from ease_lib.config import Parameters, Value, changed_parameters, declared_parameters
from ease_lib.errors import EaseError
from ease_lib.stages.execution import ERROR_PREFIX, LINE_PREFIX
from pipelines.ease_pipeline import ease_pipeline

LOG_FILE = "log.txt"


class RunFailed(EaseError):
    """A stage failed; the message is the stage's own."""


def run_pipeline(parameters: Parameters, output_dir: Path) -> Path:
    """Run all stages and put their results into `output_dir`; what kfp wrote stands below `pipeline/`.

    Returns:
        `output_dir`, with the files of `ease_lib.stages.report.RESULT_FILES`.

    Raises:
        RunFailed: with the messages of the stage that failed.
    """
    pipeline_root = output_dir / "pipeline"
    pipeline_root.mkdir(parents=True, exist_ok=True)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(pipeline_root), raise_on_error=True)
    with (pipeline_root / LOG_FILE).open("w", encoding="utf-8") as log:
        lines = _StageLines(sys.stdout, log)
        with _quiet_kfp(log), contextlib.redirect_stdout(lines):
            try:
                finished = ease_pipeline(**form_arguments(parameters))
            except RuntimeError as error:
                raise RunFailed("\n".join(lines.failures) or f"{error}; see {pipeline_root / LOG_FILE}") from error
    results = Path(finished.outputs["results"].path)
    shutil.copytree(results, output_dir, dirs_exist_ok=True)
    return output_dir


def form_arguments(parameters: Parameters) -> dict[str, Value]:
    """The arguments of the pipeline: its form's fields, and the other changed parameters as `advanced`."""
    declared = declared_parameters()
    changed = changed_parameters(parameters)
    more: Mapping[str, Value] = {name: value for name, value in changed.items() if not declared[name].form}
    fields = {name: value for name, value in changed.items() if declared[name].form}
    return {**fields, "advanced": json.dumps(more) if more else ""}


@contextlib.contextmanager
def _quiet_kfp(log: TextIO) -> Iterator[None]:
    """kfp's own messages go to the log file: the terminal shows the stages' lines only."""
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            root.handlers[:], root.level = before, level


class _StageLines(io.TextIOBase):
    """Takes all that the stages print: everything to the log, the `[ease]` lines to the terminal, errors remembered."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self._terminal = terminal
        self._log = log
        self._partial = ""
        self.failures: list[str] = []

    def write(self, text: str) -> int:
        self._log.write(text)
        self._log.flush()
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            line = line.strip()  # kfp indents what a task prints
            if line.startswith(ERROR_PREFIX):
                self.failures.append(line.removeprefix(ERROR_PREFIX))
            elif line.startswith(LINE_PREFIX):
                print(line.removeprefix(LINE_PREFIX), file=self._terminal, flush=True)
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()
