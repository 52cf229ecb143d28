"""What a stage meets beside its artifacts, noted where it happens: files read, answers, the journal, the embedder.

The wrapper that writes a stage's lineage record collects here. Outside of it, notes go nowhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ease_lib.ambient import Ambient

PACKAGE = "package:"
"""Begins the URI of a file that an installed package carries: `package:NAME/PATH`."""


@dataclass
class Observations:
    """Everything noted during one stage.

    Args:
        files_read: SHA-256 and bytes of files read from stores, by URI.
        entries: SHA-256 of the parts of the journal, of the response cache and of the kept embeddings that the stage
            wrote or relied on, by name in the folder or file that holds them.
        written: SHA-256 of objects that the stage wrote beside its artifacts, in the same form.
        models: answers by model and fingerprint, as the endpoint named them.
        left_out: parameters that the endpoint refuses, so that answers were drawn without them.
        embedder: name, with SHA-256 of its files and revision, or its endpoint.
    """

    files_read: dict[str, tuple[str, int]] = field(default_factory=dict)
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    written: dict[str, dict[str, str]] = field(default_factory=dict)
    models: Counter[tuple[str, str]] = field(default_factory=Counter)
    new_answers: int = 0
    cached_answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    left_out: tuple[str, ...] = ()
    embedder: dict[str, str] = field(default_factory=dict)
    endpoint: dict[str, str] = field(default_factory=dict)


_collected = Ambient[Observations | None](None)


@contextmanager
def collecting() -> Iterator[Observations]:
    """Collect what is noted in this process until the context ends."""
    collected = Observations()
    with _collected.set(collected):
        yield collected


def file_read(uri: str, path: Path) -> None:
    """A file of a store was read; `path` is its local copy."""
    if (collected := _collected.value) is not None:
        with path.open("rb") as file:
            collected.files_read[uri] = (hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def digest_read(uri: str, sha256: str, size: int) -> None:
    """A file of a store was read without a local copy."""
    if (collected := _collected.value) is not None:
        collected.files_read[uri] = (sha256, size)


def entry(holder: str, name: str, content: bytes) -> None:
    """An entry of a journal or cache was written or relied on; `holder` is the folder or file that holds it."""
    if (collected := _collected.value) is not None:
        collected.entries.setdefault(holder, {})[name] = hashlib.sha256(content).hexdigest()


def discard(folder: str) -> None:
    """What was noted of entries in a folder does not outlive it."""
    if (collected := _collected.value) is not None:
        for holder in [holder for holder in collected.entries if holder.startswith(folder)]:
            del collected.entries[holder]


def object_written(holder: str, name: str, content: bytes) -> None:
    """An object was written that no later run changes."""
    object_taken_over(holder, name, hashlib.sha256(content).hexdigest())


def object_taken_over(holder: str, name: str, sha256: str) -> None:
    """An object that no later run changes was found as an earlier attempt at the same work had written it."""
    if (collected := _collected.value) is not None:
        collected.written.setdefault(holder, {})[name] = sha256


def answered(model: str, fingerprint: str, prompt_tokens: int, completion_tokens: int) -> None:
    """The endpoint answered."""
    if (collected := _collected.value) is not None:
        collected.models[model, fingerprint] += 1
        collected.new_answers += 1
        collected.prompt_tokens += prompt_tokens
        collected.completion_tokens += completion_tokens


def answered_from_cache() -> None:
    if (collected := _collected.value) is not None:
        collected.cached_answers += 1


def endpoint_used(endpoint: str, model: str, api: str) -> None:
    """A black-box was opened: its URL without credentials, and the model that is asked for."""
    if (collected := _collected.value) is not None:
        collected.endpoint = {"endpoint": endpoint, "model": model, "api": api}


def parameters_left_out(names: Iterable[str]) -> None:
    """The endpoint refuses these parameters."""
    if (collected := _collected.value) is not None:
        collected.left_out = tuple(sorted(names))


def embedder_used(name: str, identity: dict[str, str]) -> None:
    if (collected := _collected.value) is not None:
        collected.embedder = {"name": name, **identity}
