"""What records, manifests of versions and tombstones are made of: who reads one may have been given it by an enemy.

Fields that a shape does not have are let be.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import StringConstraints
from typing_extensions import TypedDict

Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(Z|\+00:00)$")]


class File(TypedDict):
    """By its digest."""

    sha256: str
    bytes: int


class SourceFile(File):
    """That a stage read."""

    uri: str


class Part(TypedDict):
    """An artifact that a stage read or made, with the record of the stage that made it."""

    name: str
    contract: str
    uri: str
    sha256: str
    bytes: int
    rows: NotRequired[int]
    files: NotRequired[dict[str, File]]
    record: NotRequired[str]
    record_sha256: NotRequired[str]
    schema_sha256: NotRequired[str]


class AnsweredBy(TypedDict):
    model: str
    system_fingerprint: str
    answers: int


class LLM(TypedDict):
    model: str
    endpoint: str
    api: str
    new_answers: int
    cached_answers: int
    prompt_tokens: int
    completion_tokens: int
    answered_by: list[AnsweredBy]
    left_out: NotRequired[list[str]]


class Run(TypedDict):
    id: str
    name: str
    scheduled: str


class Attempt(TypedDict):
    id: str
    work: str
    record: str
    pod: str
    copies: dict[str, str]
    earlier: list[str]
    retry: int


class Software(TypedDict):
    ease: str
    revision: str
    image: str
    python: str
    packages: dict[str, str]


class Embedder(TypedDict):
    name: str


class Findings(TypedDict):
    said: list[str]
    scores: dict[str, str]


class RecordShape(TypedDict):
    """Of the attempt at a stage."""

    stage: str
    state: str
    run: Run
    attempt: Attempt
    started: Moment
    ended: Moment | None
    error: str | None
    inputs: list[Part]
    outputs: list[Part]
    parameters: dict[str, Any]
    defaults: list[str]
    software: Software
    files_read: NotRequired[list[SourceFile]]
    embedder: NotRequired[Embedder | None]
    llm: NotRequired[LLM | None]
    entries: NotRequired[dict[str, dict[str, str]]]
    written: NotRequired[dict[str, dict[str, str]]]
    found: NotRequired[Findings]


class RunOfVersion(TypedDict):
    id: str


class Head(TypedDict):
    record: str
    record_sha256: str


class Previous(TypedDict):
    version: str
    sha256: str


class ManifestShape(TypedDict):
    """Of a published version: version.json."""

    version: str
    run: RunOfVersion
    head: Head
    published_by: str
    rows: list[str]
    validation_rows: list[str]
    previous: Previous | None
    files: dict[str, File]


class LatestShape(TypedDict):
    """Of latest.json: the version that it names."""

    version: str
    sha256: str


class Removed(TypedDict):
    uri: str
    sha256: str


class TombstoneShape(TypedDict):
    row: str
    when: str
    reason: str
    state: str
    removed: list[Removed]


SHAPES: dict[str, type[Any]] = {
    "lineage_record": RecordShape,
    "published_prompt": ManifestShape,
    "tombstone": TombstoneShape,
}
