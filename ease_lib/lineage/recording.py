"""Write the record of an attempt at a stage: when it starts, and again when it ends, however it ends.

A record lies in the root (`lineage_uri`) as `runs/RUN/STAGE-ATTEMPT.json`, and for an attempt that succeeded also
where the pipeline keeps the stage's output `lineage`. A killed attempt leaves its record at "started". Beside it lies
`attempts/WORK/ATTEMPT`, where WORK is a hash of stage, parameters and inputs: so an attempt finds the earlier ones at
the same work, in its own run or in the one that was continued.
"""

from __future__ import annotations

import json
import logging
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ease_lib import __version__
from ease_lib.artifacts.store import Store
from ease_lib.digests import sha256_of
from ease_lib.errors import EaseError
from ease_lib.keys import secret_headers
from ease_lib.lineage.record import Record, answered_by, described, digest_of, encode, now
from ease_lib.lineage.redaction import redacted, redacted_document, secrets_of
from ease_lib.notes import Notes

logger = logging.getLogger("ease")
PACKAGES = ("torch", "numpy", "scipy", "pyarrow", "sentence-transformers", "pot", "openai", "rank-bm25", "boto3", "kfp")
SIGNATURES = "signatures"
"""Folder of a lineage root: `signatures/NAME` is the signature of the file `NAME` there."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The run that this process works for, and its places, which `running/run_context.py` reads from the environment.

    Args:
        image: reference with tag or digest; empty outside containers.
        openlineage_key: for the endpoint of `openlineage_url`.
        has_openlineage: whether OpenLineage's own variables say where events go.
        secrets: values that no record may hold.
    """

    run_id: str
    run_name: str = ""
    image: str = ""
    revision: str = ""
    pod: str = ""
    retry: int = 0
    openlineage_key: str = ""
    has_openlineage: bool = False
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedArtifact:
    """An input or output of a stage, and for an input the record of the stage that made it."""

    name: str
    contract: str
    path: Path
    uri: str
    record: str = ""
    record_sha256: str = ""

    def described(self) -> Record:
        known = {"name": self.name, "contract": self.contract, "uri": self.uri, **described(self.path)}
        return {**known, **({"record": self.record, "record_sha256": self.record_sha256} if self.record else {})}


@dataclass(kw_only=True)
class Work:
    """Work that an attempt is about to do.

    Args:
        parameters: those the stage receives, with `defaults` naming the ones left at theirs.
        scheduled: when Kubeflow made the run: of a recurring run within seconds of its plan, of others its start.
        copies: URIs of the record (`lineage`) and of its page (`verdict`) among the artifacts of the pipeline.
    """

    stage: str
    parameters: Mapping[str, Any]
    defaults: Sequence[str]
    inputs: Sequence[RecordedArtifact] = ()
    outputs: Sequence[RecordedArtifact] = ()
    scheduled: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Attempt:
    """An attempt under way; after the context `content` is its written record, and `outputs` are its outputs.

    Args:
        link: URI of the record in the root, or empty without a root.
        notes: what the stage meets besides its artifacts.
        found: what the run or comparison found, of the stage that ends it: sentences `said` and `scores` by name, for
            people.
        sign: signs the record when the stage has ended well, by its name in the root, its address and its content; of
            a stage that has a key.
    """

    link: str
    inputs: list[Record]
    notes: Notes = field(default_factory=Notes)
    outputs: list[Record] = field(default_factory=list)
    content: bytes = b""
    found: Record | None = None
    sign: Callable[[str, str, bytes], bytes] | None = None

    @property
    def sha256(self) -> str:
        return sha256_of(self.content)


@contextmanager
def recording(work: Work, store: Store | None, context: RunContext) -> Iterator[Attempt]:
    """Record an attempt at a stage, which runs in this context.

    Args:
        store: the lineage root; None keeps no record there.

    Raises:
        StoreError: when the root cannot be written: work that cannot be proven is not done.
    """
    attempt_id = str(uuid.uuid4())
    name = f"runs/{context.run_id}/{work.stage}-{attempt_id}.json"
    inputs = [part.described() for part in work.inputs]
    attempt = Attempt(link=store.address(name) if store else "", inputs=inputs)
    record = _begun(work, attempt, attempt_id, context)
    record["attempt"]["earlier"] = _earlier(store, record["attempt"]["work"])
    if store:
        store.write(mark_name(record), mark_content(record, name))

    def keep(state: str, **more: Any) -> None:
        record.update(redacted_document({"state": state, **more}, _secrets(context)))
        attempt.content = encode(record)
        if store:
            store.write(name, attempt.content)
        url = str(work.parameters.get("openlineage_url", ""))
        if url or context.has_openlineage:
            _send_event(record, url, context)

    def end(state: str, **more: Any) -> None:
        keep(state, ended=now(), **more, **_met(attempt.notes))

    keep("started")
    try:
        yield attempt
        attempt.outputs = [part.described() for part in work.outputs]
    except KeyboardInterrupt:
        end("stopped")
        raise
    except Exception as error:
        end("failed", error=str(error) if isinstance(error, EaseError) else f"{type(error).__name__}: {error}")
        raise
    end("complete", outputs=attempt.outputs, **({"found": attempt.found} if attempt.found else {}))
    if store and attempt.sign:
        store.write(f"{SIGNATURES}/{name}", attempt.sign(name, store.address(name), attempt.content))


def _send_event(record: Record, url: str, context: RunContext) -> None:
    from ease_lib.lineage.exports.openlineage import emit, openlineage_events  # takes 0.2 s

    problem = emit(openlineage_events(record)[-1:], url, context.openlineage_key)
    if problem:
        logger.info("notice: %s", redacted(problem, _secrets(context)))


def _begun(work: Work, attempt: Attempt, attempt_id: str, context: RunContext) -> Record:
    parameters = redacted_document(dict(work.parameters), _secrets(context))
    files = [[part["name"], part["sha256"]] for part in attempt.inputs]
    deciding = {"stage": work.stage, "parameters": parameters, "inputs": files}
    record: Record = {
        "stage": work.stage,
        "state": "started",
        "run": {"id": context.run_id, "name": context.run_name, "scheduled": work.scheduled},
        "attempt": {
            "id": attempt_id,
            "work": digest_of(deciding)[:32],  # the same for the same work, in whatever run
            "record": attempt.link,
            "copies": dict(work.copies),
            "retry": context.retry,
            "pod": context.pod,
        },
        "started": now(),
        "ended": None,
        "error": None,
        "inputs": attempt.inputs,
        "outputs": [],
        "parameters": parameters,
        "defaults": sorted(work.defaults),
        "software": _software(context),
    }
    return dict(redacted_document(record, _secrets(context)))


def _secrets(context: RunContext) -> tuple[str, ...]:
    """Secrets in the environment, and those sent as headers since."""
    return (*context.secrets, *secrets_of((), secret_headers()))


def _software(context: RunContext) -> Record:
    return {
        "ease": __version__,
        "revision": context.revision,
        "image": context.image,
        "python": platform.python_version(),
        "packages": dict(_versions()),
    }


@cache
def _versions() -> dict[str, str]:
    """Versions of the packages that affect results; reading them takes longer than some stages."""
    versions = {}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _met(observed: Notes) -> Record:
    """Facts that the stage noted in addition to its artifacts."""
    counts = ("new_answers", "cached_answers", "prompt_tokens", "completion_tokens")
    llm: Record = {**observed.endpoint, "answered_by": answered_by(observed.models)}
    llm |= {name: getattr(observed, name) for name in counts}
    if observed.left_out:
        llm["left_out"] = list(observed.left_out)
    return {
        "files_read": [
            {"uri": uri, "sha256": sha256, "bytes": size} for uri, (sha256, size) in sorted(observed.files_read.items())
        ],
        "embedder": observed.embedder or None,
        "llm": llm if observed.endpoint else None,
        "entries": {holder: dict(sorted(names.items())) for holder, names in sorted(observed.entries.items())},
        "written": {holder: dict(sorted(names.items())) for holder, names in sorted(observed.written.items())},
    }


def mark_name(record: Record) -> str:
    """Name of the mark that an attempt leaves in the root for later attempts at the same work."""
    return f"attempts/{record['attempt']['work']}/{record['attempt']['id']}"


def mark_content(record: Record, name: str) -> bytes:
    return json.dumps({"record": name, "started": record["started"]}).encode()


def _earlier(store: Store | None, work: str) -> list[str]:
    """Names in the root of the records of earlier attempts at this work, the oldest first."""
    if store is None:
        return []
    folder = f"attempts/{work}"
    marks = [json.loads(store.read(f"{folder}/{mark}") or b"{}") for mark in store.find_names(folder)]
    return [mark["record"] for mark in sorted(marks, key=lambda mark: str(mark.get("started"))) if "record" in mark]
