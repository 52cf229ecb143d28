"""Run a stage: read its configuration, time it, log it, record it, turn errors into one clear line.

Every line of EASE starts with `[ease]`, which tells it from the output of other programs. An error of the user's
making ends the process with `EXIT_ERROR` and its message; a bug keeps its traceback. SIGTERM (an evicted pod) and
Ctrl-C end it with `EXIT_STOPPED`: nothing more is asked, what was answered is kept, a retry of the task continues.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from ease_lib.artifacts.contracts import DocumentContract, TableContract
from ease_lib.artifacts.tables import write_text
from ease_lib.config.parsing import declared_parameters, flat_parameters, stage_config
from ease_lib.config.sections import OnlyLineage
from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED, EaseError
from ease_lib.lineage.record import Record
from ease_lib.lineage.record_summary import summary_page
from ease_lib.lineage.recording import RecordedArtifact, Work
from ease_lib.lineage.redaction import redacted
from ease_lib.machine import limit_threads
from ease_lib.running.log import ERROR_PREFIX, LINE_PREFIX, MAY_SUCCEED, STOPPED_PREFIX
from ease_lib.running.run import Run
from ease_lib.running.run_context import secrets
from ease_lib.signals import sigterm_as_interrupt

logger = logging.getLogger("ease")


class Artifact(Protocol):
    """The part of `kfp.dsl.Artifact` that we use: the local file of an object, and its metadata in the dashboard."""

    path: str
    metadata: dict[str, Any]

    @property
    def uri(self) -> str: ...


class MetricsArtifact(Protocol):
    """The part of `kfp.dsl.Metrics` that we use."""

    def log_metric(self, metric: str, value: float) -> None: ...


@dataclass
class LocalArtifact:
    """A file that no pipeline keeps."""

    path: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return str(Path(self.path).absolute())


@dataclass
class FileIn:
    """A file in an artifact that is a folder."""

    path: str
    uri: str
    metadata: dict[str, Any] = field(default_factory=dict)


def file_in(folder: Artifact, name: str) -> FileIn:
    """A file or folder in an artifact of a pipeline, with an address of its own; no pipeline keeps its metadata."""
    return FileIn(f"{folder.path}/{name}", f"{folder.uri}/{name}")


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Expected (rows) against answered labels (columns), with the number of answers in each cell."""

    categories: list[str]
    matrix: list[list[int]]


@dataclass(frozen=True, kw_only=True)
class StageReport:
    """Report of a stage to the dashboard: a few numbers, and the confusion matrix of a task with few labels."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    confusion: Confusion | None = None

    def publish(self, metrics: MetricsArtifact) -> None:
        for name, value in self.metrics.items():
            metrics.log_metric(name, value)


def reads(source: str, *, many: bool = False) -> Any:
    """A field of `Inputs`: the path of an earlier stage's output, `STAGE.OUTPUT`, under the contract of that output.

    Args:
        many: the paths of several files, one from each of several shards.
    """
    return dataclasses.field(metadata={"of": source, "many": many})


def makes(contract: TableContract | DocumentContract | None = None, *, at: str = "") -> Any:
    """A field of `Outputs`: the path of a file under this contract; None for pages and folders.

    Args:
        at: where it lies below the folder of its component, `ARTIFACT` or `ARTIFACT/FILE`; its name by default.
    """
    return dataclasses.field(metadata={"contract": contract.stamp if contract else "", "at": at, "many": False})


def perform(
    stage: ModuleType,
    values: Mapping[str, object],
    artifacts: Mapping[str, Artifact | Sequence[Artifact]],
    run: Run,
    *,
    record: Artifact | None = None,
    verdict: Artifact | None = None,
) -> StageReport:
    """Run a stage in this process and record what it did.

    Args:
        stage: module with `Inputs`, `Outputs`, `Config` and `run`.
        values: flat parameters, among them those that the stage reads, and `lineage_uri`.
        artifacts: by the names of the fields of `Inputs` and `Outputs`.
        run: in which it is done.
        record, verdict: take the stage's lineage record, and a page about it for people.

    Raises:
        EaseError: as the stage does.
    """
    inputs, outputs = _named(stage.Inputs, artifacts), _named(stage.Outputs, artifacts)
    config = stage_config(stage.Config, values)
    read = {**flat_parameters(stage_config(OnlyLineage, values)), **flat_parameters(config)}
    run_name = str(read.pop(RUN_NAME))  # no part of what is done: the same work has another name in the next run
    work = work_on(name_of(stage), read, inputs=parts(stage.Inputs, artifacts), outputs=parts(stage.Outputs, artifacts))
    run.host.progress.stage(name_of(stage))
    with (
        timed(name_of(stage)),
        recorded(work, run, record, verdict, made=list(outputs.values()), run_name=run_name) as given,
    ):
        report: StageReport = stage.run(
            stage.Inputs(**paths_of(inputs)), stage.Outputs(**paths_of(outputs)), config, given
        )
    return report


def name_of(stage: ModuleType) -> str:
    """The name of a stage's module."""
    return stage.__name__.rpartition(".")[2]


@contextmanager
def recorded(
    work: Work,
    run: Run,
    record: Artifact | None = None,
    verdict: Artifact | None = None,
    made: Sequence[Artifact] = (),
    run_name: str = "",
) -> Iterator[Run]:
    """The run for work done in this context, which is recorded in its root and in these artifacts.

    Args:
        record, verdict: take the record, and a page about it for people.
        made: the artifacts of `work.outputs`.
    """
    work = dataclasses.replace(
        work, copies={name: page.uri for name, page in (("lineage", record), ("verdict", verdict)) if page}
    )
    with run.stage(work, run_name=run_name) as given:
        yield given
    attempt = given.attempt
    assert attempt is not None
    link = attempt.link or (record.uri if record else "")
    for output, part in zip(made, attempt.outputs, strict=True):
        output.metadata.update(shown(part, link, attempt.sha256))
    if record:
        output_path(record.path).write_bytes(attempt.content)
    if verdict:
        write_text(output_path(verdict.path), summary_page(json.loads(attempt.content)))


def work_on(
    stage: str,
    parameters: Mapping[str, Any],
    *,
    inputs: Sequence[RecordedArtifact] = (),
    outputs: Sequence[RecordedArtifact] = (),
    scheduled: str = "",
) -> Work:
    """Work that a stage is about to do, for its record."""
    declared = declared_parameters()
    defaults = [name for name, value in parameters.items() if name in declared and value == declared[name].default]
    return Work(
        stage=stage, parameters=parameters, defaults=defaults, inputs=inputs, outputs=outputs, scheduled=scheduled
    )


def parts(declared: type, artifacts: Mapping[str, Any]) -> list[RecordedArtifact]:
    """The artifacts of a stage's `Inputs` or `Outputs` for lineage; several under one name count separately."""
    found = []
    for declaration in dataclasses.fields(declared):
        given = artifacts[declaration.name]
        for number, one in enumerate(given if declaration.metadata["many"] else [given]):
            found.append(
                RecordedArtifact(
                    name=f"{declaration.name}[{number}]" if declaration.metadata["many"] else declaration.name,
                    contract=contract_of(declaration),
                    path=Path(one.path),
                    uri=one.uri,
                    record=str(one.metadata.get("record", "")),
                    record_sha256=str(one.metadata.get("record_sha256", "")),
                )
            )
    return found


RUN_NAME = "run_name"


def contract_of(declaration: dataclasses.Field[Any]) -> str:
    """The stamp of the contract of a field of `Inputs` or `Outputs`; empty for pages and folders."""
    if "of" not in declaration.metadata:
        return str(declaration.metadata["contract"])
    stage, _, output = declaration.metadata["of"].partition(".")
    made = importlib.import_module(f"ease_lib.stages.{stage}").Outputs
    return str(made.__dataclass_fields__[output].metadata["contract"])


def _named(declared: type, artifacts: Mapping[str, Any]) -> dict[str, Any]:
    """The artifacts of a stage's `Inputs` or `Outputs`."""
    return {field.name: artifacts[field.name] for field in dataclasses.fields(declared)}


def paths_of(artifacts: Mapping[str, Any]) -> dict[str, Any]:
    """The paths of artifacts by name; of several under one name, a list."""
    return {
        name: [one.path for one in given] if isinstance(given, Sequence) else given.path
        for name, given in artifacts.items()
    }


def shown(part: Record, record: str, record_sha256: str) -> dict[str, Any]:
    """Metadata of an artifact for the dashboard and the next stage: the place of its record, which has the rest.

    Kubeflow hands it to every task that reads the artifact, in six copies.
    """
    rows = {"rows": part["rows"]} if "rows" in part else {}
    return {**rows, "record": record, "record_sha256": record_sha256}


@contextmanager
def user_errors(name: str) -> Iterator[None]:
    """Convert an `EaseError` to its message and exit code 2, and a temporary error or a signal to exit code 75."""
    log_to_stderr()
    limit_threads()
    try:
        with sigterm_as_interrupt():
            yield
    except EaseError as error:
        print_error(error)
        raise SystemExit(EXIT_STOPPED if error.time_may_cure else EXIT_ERROR) from None
    except KeyboardInterrupt:
        print(f"{STOPPED_PREFIX}{name} was told to stop; answers so far are kept", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_STOPPED) from None


def print_error(error: EaseError) -> None:
    """Print the error that ends the log of a stage, for people who follow a run."""
    for line in str(error).splitlines():
        print(f"{ERROR_PREFIX}{redacted(line, secrets())}", file=sys.stderr, flush=True)
    if error.time_may_cure:
        print(f"{LINE_PREFIX}{MAY_SUCCEED}", file=sys.stderr, flush=True)


CHATTY = ("aiohttp", "botocore", "httpcore", "httpx", "openai", "urllib3")
"""Libraries that would log every request, because Kubeflow's executor sets all loggers to INFO."""


STARTED = ": started"


def started_stage(line: str) -> str:
    """The stage that begins with this line of the log; empty for another line."""
    return line.removesuffix(STARTED) if line.endswith(STARTED) else ""


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Log start and end of the work."""
    logger.info("%s%s", name, STARTED)
    start = time.perf_counter()
    yield
    logger.info("%s: done in %.1f s", name, time.perf_counter() - start)


def log_to_stderr() -> None:
    """Send our log lines to standard error, once."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(f"{LINE_PREFIX}%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def output_path(path: str | Path) -> Path:
    """A path to write to, its folder made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
