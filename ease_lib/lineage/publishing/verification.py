"""Compare published versions with what they say of themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress

from ease_lib.artifacts.store import Store, joined, open_store
from ease_lib.errors import LineageError
from ease_lib.lineage.chain import LATEST_FILE, VERSION_FILE, VERSIONS, WITHDRAWN
from ease_lib.lineage.faults import CHANGED, MISSING, Problem
from ease_lib.lineage.publishing.versions import latest_content, marks_of, read_version, versions_in
from ease_lib.lineage.record import Record
from ease_lib.lineage.verification import differing


def verify_versions(uri: str, *only: str) -> Iterator[Problem]:
    """Compare published versions below a folder with their manifests, their marks, and the latest.

    Args:
        only: the versions to compare; none given is all of them.
    """
    store = open_store(uri)
    uri = store.uri.rstrip("/")
    versions = sorted(only) or versions_in(store)
    if not versions:
        return
    manifests: dict[str, tuple[Record, str]] = {}
    for version in versions:
        try:
            found = read_version(store, version)
        except LineageError as error:
            yield _published(uri, version, VERSION_FILE, CHANGED, str(error))
            continue
        if found is None:
            yield _published(uri, version, VERSION_FILE, MISSING, "without it the version is none")
            continue
        manifests[version] = found
    yield from _latest_problems(store, manifests)
    for version, (manifest, _) in manifests.items():
        previous = manifest.get("previous")
        if previous and previous["version"] in manifests and manifests[previous["version"]][1] != previous["sha256"]:
            yield _published(uri, previous["version"], VERSION_FILE, CHANGED, f"{version} recorded another digest")
        for name, file in manifest["files"].items():
            yield from _different(store, f"{VERSIONS}/{version}/{name}", file["sha256"])
        for name, content in marks_of(manifest).items():
            yield from _different(store, name, hashlib.sha256(content).hexdigest())


def _different(store: Store, name: str, sha256: str) -> Iterator[Problem]:
    problem = differing("publish", joined(store.uri, name), store.read(name), sha256)
    if problem is not None:
        yield problem


def _latest_problems(store: Store, manifests: dict[str, tuple[Record, str]]) -> Iterator[Problem]:
    where = joined(store.uri, LATEST_FILE)
    content = store.read(LATEST_FILE)
    if content is None or content == WITHDRAWN:
        yield Problem(stage="publish", uri=where, what=MISSING)
        return
    try:
        latest = json.loads(content)
        version = str(latest["version"])
    except (ValueError, KeyError, TypeError):
        yield Problem(stage="publish", uri=where, what=CHANGED)
        return
    with suppress(LineageError):  # a damaged one is named as such
        found = manifests.get(version) or read_version(store, version)
        if found is None and not store.find_names(f"{VERSIONS}/{version}"):
            why = f"names {version}, which is not there"
            yield Problem(stage="publish", uri=where, what=CHANGED, why=why)
        elif found and latest_content(version, found[1]) != content:
            yield Problem(stage="publish", uri=where, what=CHANGED, why=f"not what {version} wrote")


def _published(uri: str, version: str, name: str, what: str, why: str = "") -> Problem:
    return Problem(stage="publish", uri=joined(uri, VERSIONS, version, name), what=what, why=why)
