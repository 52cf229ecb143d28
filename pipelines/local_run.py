"""Run the production pipeline on this machine through `kfp.local`: each stage in a process or container of its own."""

import contextlib
import io
import logging
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from kfp import local

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import changed_parameters, parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.errors import EaseError
from ease_lib.running.graph import stages_of
from ease_lib.running.inline import LOG_FILE, keep_results
from ease_lib.running.log import ERROR_PREFIX, LINE_PREFIX, STOPPED_PREFIX
from ease_lib.running.prerequisites import api_of_local
from ease_lib.running.run_context import new_run
from ease_lib.running.stage import started_stage
from ease_lib.signals import sigterm_as_interrupt
from pipelines.arguments import form_arguments
from pipelines.ease_pipeline import ease_pipeline
from pipelines.placement import Placement, placed

ON_ONE_MACHINE = Placement(on_cluster=False)
STAGE_STOP_SECONDS = 15.0
"""How long a stage that was told to stop may take; Kubernetes gives a pod 30 s."""


_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;]*m")
_FAILED_TASK = re.compile(r"task failed: '([^']+)'")
_TRACEBACK = "Traceback (most recent call last):"


class RunFailed(EaseError):
    """A stage failed; the message is the stage's own."""


def run_pipeline(parameters: Parameters, output_dir: Path, runner: str = "process") -> Path:
    """Run all stages and put their results into `output_dir`; what kfp wrote is below `pipeline/`.

    Args:
        runner: `process`, or `docker` for a container of our image for each stage (`pipelines/containers.py`).

    Returns:
        `output_dir`, with the files of `ease_lib.artifacts.result_files`.

    Raises:
        RunFailed: with the messages of the stage that failed.
        KeyboardInterrupt: when this process or the running stage was told to stop by a signal.
    """
    pipeline_root = output_dir / "pipeline"
    pipeline_root.mkdir(parents=True, exist_ok=True)
    with (
        new_run(pipeline_root),
        _runner(runner, parameters, output_dir) as (stage_runner, parameters),
    ):
        local.init(stage_runner, pipeline_root=str(pipeline_root), raise_on_error=True)
        finished = _run_logged(parameters, pipeline_root)
    made = Path(finished.outputs["result"].path)
    if not made.is_dir():  # kfp takes a container that ends at once for a success
        raise RunFailed(f"the last task made nothing; see {pipeline_root / LOG_FILE}")
    keep_results(output_dir, made.parent)
    return output_dir


@contextlib.contextmanager
def _runner(name: str, parameters: Parameters, output_dir: Path) -> Iterator[tuple[Any, Parameters]]:
    """kfp's runner of stages, and the parameters as the stages must see them."""
    if name == "process":
        yield local.SubprocessRunner(use_venv=False), parameters
        return
    from pipelines import containers  # needs the package docker, which nothing else does

    mine = containers.containers_for(output_dir, parameters)
    parameters = containers.with_absolute_paths(parameters)
    with contextlib.ExitStack() as stack:
        stack.callback(mine.stop)
        if parameters.endpoint.is_local:
            served = {
                "llm_base_url": stack.enter_context(mine.local_llm()),
                "llm_api": api_of_local(parameters, Sources()),
            }
            parameters = parse_parameters({**changed_parameters(parameters), **served})
        yield mine.runner(parameters), parameters


def _run_logged(parameters: Parameters, pipeline_root: Path) -> Any:
    """The finished pipeline task; the stages' lines go to the terminal, everything to the log."""
    with (pipeline_root / LOG_FILE).open("w", encoding="utf-8") as log:
        lines = _StageLines(sys.stdout, log)
        with _quiet_kfp(log), contextlib.redirect_stdout(lines):
            try:
                with _stages_end_with_us():
                    return placed(ease_pipeline, ON_ONE_MACHINE)(**form_arguments(parameters))
            except RuntimeError as error:
                if lines.stopped:
                    raise KeyboardInterrupt from None
                raise RunFailed("\n".join(lines.failures) or _untold(error, lines, pipeline_root)) from error


def _untold(error: RuntimeError, lines: "_StageLines", pipeline_root: Path) -> str:
    """The message of a stage that failed with a traceback, or with nothing: it may have been killed."""
    failed = _FAILED_TASK.search(_ESCAPE_CODES.sub("", str(error)))
    task = failed.group(1).replace("-", "_") if failed else ""
    stages = [stage.name for stage in stages_of(task)] if task else []
    inside = lines.stage in stages and lines.stage != task
    who = f"{task} ({lines.stage})" if inside else task or "the run"
    why = lines.exception or f"it ended without a message (last line: {lines.last or 'none'})"
    return f"{who} failed: {why}; see {pipeline_root / LOG_FILE}"


@contextlib.contextmanager
def _stages_end_with_us() -> Iterator[None]:
    """End the running stage if a signal ends this process, and wait for it; kfp would leave it running."""
    try:
        with sigterm_as_interrupt(also=_terminate_stages):
            yield
    except KeyboardInterrupt:
        end = time.monotonic() + STAGE_STOP_SECONDS
        while _stage_processes() and time.monotonic() < end:
            time.sleep(0.05)
        _terminate_stages()
        raise


def _terminate_stages() -> None:
    """Signal each stage itself, because the shell by which KFP starts it would end alone."""
    for process in _stage_processes():
        for stage in (_children(process) if _is_shell(process) else []) or [process]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stage, signal.SIGTERM)


def _stage_processes() -> list[int]:
    """Our child processes that have not ended: stages, or shells that end with theirs."""
    return [child for child in _children(os.getpid()) if os.waitpid(child, os.WNOHANG) == (0, 0)]


def _is_shell(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip() in ("sh", "dash", "bash", "ash", "busybox")
    return False


def _children(process: int) -> list[int]:
    """Children of all threads of a process; Linux only. Elsewhere a stage notices by itself when no one reads its
    output."""
    found: list[int] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += map(int, listed.read_text().split())
    return found


@contextlib.contextmanager
def _quiet_kfp(log: TextIO) -> Iterator[None]:
    """Send kfp's own messages to the log file; the terminal shows the stages' lines only."""
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
    """Receives the stages' output: everything goes to the log, `[ease]` lines to the terminal, and errors are kept.

    `stage` began last; `exception` is the last line of the last traceback, `last` the last line of all.
    """

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self._terminal = terminal
        self._log = log
        self._partial = ""
        self._traceback: int | None = None
        self.failures: list[str] = []
        self.stage = ""
        self.exception = ""
        self.last = ""
        self.stopped = False

    def write(self, text: str) -> int:
        self._log.write(text)
        self._log.flush()
        *lines, self._partial = (self._partial + text).split("\n")
        for indented in lines:
            line = indented.strip()  # kfp indents what a task prints
            self._remember(line, len(indented) - len(indented.lstrip()))
            if line.startswith(STOPPED_PREFIX):
                self.stopped = True
            elif line.startswith(ERROR_PREFIX):
                self.failures.append(line.removeprefix(ERROR_PREFIX))
            elif line.startswith(LINE_PREFIX):
                self.stage = started_stage(line.removeprefix(LINE_PREFIX)) or self.stage
                print(line.removeprefix(LINE_PREFIX), file=self._terminal, flush=True)
        return len(text)

    def _remember(self, line: str, indentation: int) -> None:
        """The last line of a traceback: the first that is indented as its head."""
        self.last = line or self.last
        if line == _TRACEBACK:
            self._traceback = indentation
        elif line and indentation == self._traceback:
            self._traceback, self.exception = None, line

    def flush(self) -> None:
        self._terminal.flush()
