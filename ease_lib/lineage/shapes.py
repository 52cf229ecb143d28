"""Shapes of records, version manifests and tombstones, checked on reading: an enemy may have written the file.

Fields that a shape does not have are let be.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import StringConstraints
from typing_extensions import TypedDict

Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(Z|\+00:00)$")]


class FileShape(TypedDict):
    """Shape of a file named by its digest."""

    sha256: str
    bytes: int


class SourceFileShape(FileShape):
    """Shape of a source file that a stage read."""

    uri: str


class PartShape(TypedDict):
    """An artifact that a stage read or made, with the record of the stage that made it."""

    name: str
    contract: str
    uri: str
    sha256: str
    bytes: int
    rows: NotRequired[int]
    files: NotRequired[dict[str, FileShape]]
    record: NotRequired[str]
    record_sha256: NotRequired[str]
    schema_sha256: NotRequired[str]


class AnsweredByShape(TypedDict):
    model: str
    system_fingerprint: str
    answers: int


class LLMShape(TypedDict):
    model: str
    endpoint: str
    api: str
    new_answers: int
    cached_answers: int
    prompt_tokens: int
    completion_tokens: int
    answered_by: list[AnsweredByShape]
    left_out: NotRequired[list[str]]


class RunShape(TypedDict):
    id: str
    name: str
    scheduled: str


class AttemptShape(TypedDict):
    id: str
    work: str
    record: str
    pod: str
    copies: dict[str, str]
    earlier: list[str]
    retry: int


class SoftwareShape(TypedDict):
    ease: str
    revision: str
    image: str
    python: str
    packages: dict[str, str]


class EmbedderShape(TypedDict):
    name: str


class FindingsShape(TypedDict):
    said: list[str]
    scores: dict[str, str]


class RecordShape(TypedDict):
    """Shape of the record of an attempt at a stage."""

    stage: str
    state: str
    run: RunShape
    attempt: AttemptShape
    started: Moment
    ended: Moment | None
    error: str | None
    inputs: list[PartShape]
    outputs: list[PartShape]
    parameters: dict[str, Any]
    defaults: list[str]
    software: SoftwareShape
    files_read: NotRequired[list[SourceFileShape]]
    embedder: NotRequired[EmbedderShape | None]
    llm: NotRequired[LLMShape | None]
    entries: NotRequired[dict[str, dict[str, str]]]
    written: NotRequired[dict[str, dict[str, str]]]
    found: NotRequired[FindingsShape]


class RunOfVersionShape(TypedDict):
    id: str


class HeadShape(TypedDict):
    record: str
    record_sha256: str


class PreviousShape(TypedDict):
    version: str
    sha256: str


class ManifestShape(TypedDict):
    """Shape of version.json, the manifest of a published version."""

    version: str
    run: RunOfVersionShape
    head: HeadShape
    published_by: str
    rows: list[str]
    validation_rows: list[str]
    previous: PreviousShape | None
    files: dict[str, FileShape]


class LatestShape(TypedDict):
    """Shape of latest.json, which names a version."""

    version: str
    sha256: str


class RemovedShape(TypedDict):
    uri: str
    sha256: str


class TombstoneShape(TypedDict):
    row: str
    when: str
    reason: str
    state: str
    removed: list[RemovedShape]


SHAPES: dict[str, type[Any]] = {
    "lineage_record": RecordShape,
    "published_prompt": ManifestShape,
    "tombstone": TombstoneShape,
}
