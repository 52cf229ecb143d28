"""Run a stage as a task of a pipeline: read its configuration, time it, log it, turn errors into one clear line.

Every line of ours starts with `[ease]`, so that they can be told from what other programs print. An error of the user's
making ends the process with `EXIT_ERROR` and its message; a bug keeps its traceback. SIGTERM (an evicted pod) and
Ctrl-C end it with `EXIT_STOPPED`: nothing more is asked, what was answered is kept, a retry of the task continues.
"""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ease_lib.artifacts.contracts import DocumentContract, TableContract
from ease_lib.config import parse_stage_config
from ease_lib.errors import EaseError

LINE_PREFIX = "[ease] "
ERROR_PREFIX = f"{LINE_PREFIX}error: "
STOPPED_PREFIX = f"{LINE_PREFIX}stopped: "
EXIT_ERROR = 2
EXIT_STOPPED = 75
"""EX_TEMPFAIL of sysexits.h: try again."""

Inputs = TypeVar("Inputs")
Outputs = TypeVar("Outputs")
Config = TypeVar("Config")
logger = logging.getLogger("ease")


class MetricsArtifact(Protocol):
    """What a `kfp.dsl.Metrics` is to us."""

    def log_metric(self, metric: str, value: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class StageReport:
    """What a stage tells the dashboard: a few numbers."""

    metrics: Mapping[str, float] = field(default_factory=dict)

    def publish(self, metrics: MetricsArtifact) -> None:
        for name, value in self.metrics.items():
            metrics.log_metric(name, value)


def artifact(contract: TableContract | DocumentContract | None = None, *, many: bool = False) -> Any:
    """A field of `Inputs` or `Outputs`: the path of a file under this contract; None for pages and folders.

    Args:
        many: the paths of several files, one from each of several tasks.
    """
    return dataclasses.field(metadata={"contract": contract.stamp if contract else None, "many": many})


def execute(
    stage: Callable[[Inputs, Outputs, Config], StageReport],
    inputs: Inputs,
    outputs: Outputs,
    config_type: type[Config],
    config: str,
) -> StageReport:
    """Run a stage in this process as its only work, with the parameters that `stage_parameters` wrote."""
    name = stage.__module__.rpartition(".")[2]
    with user_errors(name):
        return stage(inputs, outputs, parse_stage_config(config_type, config))


@contextmanager
def user_errors(name: str) -> Iterator[None]:
    """Log start and end of the work; an `EaseError` becomes its message and exit code 2, a signal exit code 75."""
    log_to_stderr()
    logger.info("%s: started", name)
    start = time.perf_counter()
    try:
        with sigterm_as_interrupt():
            yield
    except EaseError as error:
        for line in str(error).splitlines():
            print(f"{ERROR_PREFIX}{line}", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_ERROR) from None
    except KeyboardInterrupt:
        print(f"{STOPPED_PREFIX}{name} was told to stop; what was answered is kept", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_STOPPED) from None
    logger.info("%s: done in %.1f s", name, time.perf_counter() - start)


@contextmanager
def sigterm_as_interrupt(also: Callable[[], None] = lambda: None) -> Iterator[None]:
    """SIGTERM raises `KeyboardInterrupt` as Ctrl-C does, which cancels running requests in an orderly way.

    Args:
        also: called first, inside the signal handler.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        also()
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def log_to_stderr() -> None:
    """Send our log lines to standard error, once."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(f"{LINE_PREFIX}%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def output_path(path: str | Path) -> Path:
    """A path to write to, its folder made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
