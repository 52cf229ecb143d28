"""Which published prompts hold a row? One listing, however many versions there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ease_lib.artifacts.store import S3_CONNECTIONS, Store, open_store
from ease_lib.lineage.chain import VERSIONS
from ease_lib.lineage.publishing.versions import (
    PROMPTS,
    ROWS,
    has_prompt,
    marks_of,
    read_latest,
    read_version,
    write_marks,
)
from ease_lib.lineage.record import Record
from ease_lib.notes import Notes
from ease_lib.tasks.base import row_hash

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A version that was published with what was looked for.

    Args:
        has_prompt: whether its prompt is still there; `ease forget` removes it.
    """

    version: str
    manifest: Record
    is_latest: bool
    has_prompt: bool = True


def as_row_hash(row: str) -> str:
    """The hash of a row that is given by its input text or by that hash."""
    return row if _HASH.fullmatch(row) else row_hash(row)


def find_row(uri: str, row: str) -> Iterator[Found]:
    """Versions below a folder of published prompts whose exemplars hold a row, the oldest first.

    Args:
        row: its input text, or the hash of it.
    """
    yield from _marked(open_store(uri), f"{ROWS}/{as_row_hash(row)}")


def find_prompt(uri: str, sha256: str) -> Iterator[Found]:
    """Versions whose prompt has this digest."""
    yield from _marked(open_store(uri), f"{PROMPTS}/{sha256}")


def index(uri: str, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Write the marks of versions that lack them, for versions that were copied without; how many there were."""
    store = open_store(uri)
    names = store.walk_names()
    marks = {name for name in names if name.startswith((f"{ROWS}/", f"{PROMPTS}/"))}
    versions = sorted({name.split("/")[1] for name in names if name.startswith(f"{VERSIONS}/")})
    indexed = 0
    with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
        for done, found in enumerate(readers.map(lambda version: read_version(store, version), versions), 1):
            progress(done, len(versions))
            if found and not marks.issuperset(marks_of(found[0])):
                write_marks(store, found[0], Notes())
                indexed += 1
    return indexed


def _marked(store: Store, folder: str) -> Iterator[Found]:
    versions = store.find_names(folder)
    if not versions:
        return
    latest = read_latest(store)
    with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
        manifests = readers.map(lambda version: read_version(store, version), versions)
        prompts = readers.map(lambda version: has_prompt(store, version), versions)
        for version, found, whole in zip(versions, manifests, prompts, strict=True):
            if found:
                is_latest = latest is not None and latest.version == version
                yield Found(version=version, manifest=found[0], is_latest=is_latest, has_prompt=whole)
