"""Versions of a prompt in one folder or bucket, the latest of them, and those that hold a row.

versions/VERSION/...           prompt, report, provenance, copies of all lineage records; never changed
versions/VERSION/version.dsse.json  with a key: the signature over version.json and over the versions before it
versions/VERSION/version.json  written last: what is there, with digests; a version without it is not one
latest.json                    the version to use; moved by a conditional write, so that of two at once one wins
rows/HASH/VERSION              a mark for every exemplar, so that finding the prompts of a row is one listing
prompts/SHA256/VERSION         the same for the prompt itself

`ease forget` deletes prompts and reports of versions. Manifests and marks stay: they hold digests only, and say which
versions held the row. A version without its prompt is never the latest again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_TEXT
from ease_lib.artifacts.store import Store, open_store, read_all, side_by_side
from ease_lib.digests import sha256_of
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import LineageError
from ease_lib.lineage.attestation import (
    ENVELOPE_FILE,
    PublicKey,
    Signer,
    WrongSignature,
    named_file,
    open_envelope,
)
from ease_lib.lineage.chain import LATEST_FILE, MANIFEST_CONTRACT, VERSION_FILE, VERSIONS, WITHDRAWN, versions_in
from ease_lib.lineage.record import Record, decode, encode
from ease_lib.lineage.shapes import LatestShape
from ease_lib.notes import Notes
from ease_lib.progress import Told, nobody
from ease_lib.tasks.base import row_hash, row_hashes

ROWS, PROMPTS = "rows", "prompts"


@dataclass(frozen=True, kw_only=True)
class Latest:
    """Content of latest.json when it was read."""

    content: bytes
    version: str
    manifest: Record
    manifest_sha256: str


def version_suffix(run_id: str) -> str:
    """End of the name of a version of this run; it follows the time at which the run began."""
    return f"Z-{run_id[:8]}"


def read_latest(store: Store) -> Latest | None:
    """The latest version, or None before the first.

    Raises:
        LineageError: when latest.json or the version it names is damaged or missing.
    """
    content = store.read(LATEST_FILE)
    if content is None:
        return None
    if content == WITHDRAWN:
        raise LineageError(f"{store.uri}/{LATEST_FILE} is being removed; run the `ease forget` that did not end again")
    try:
        version = parsed(LatestShape, content)["version"]
    except Misfit as error:
        raise LineageError(f"{store.uri}/{LATEST_FILE} is damaged: {error}; `ease lineage verify` has more") from None
    found = read_version(store, version)
    if found is None:
        raise LineageError(f"{store.uri}/{VERSIONS}/{version} is missing, though {LATEST_FILE} names it")
    manifest, sha256 = found
    return Latest(content=content, version=version, manifest=manifest, manifest_sha256=sha256)


def read_version(store: Store, version: str) -> tuple[Record, str] | None:
    """The manifest of a version with its SHA-256, or None if there is none."""
    name = manifest_name(version)
    content = store.read(name)
    return None if content is None else (decode(content, store.address(name), MANIFEST_CONTRACT), sha256_of(content))


@dataclass(frozen=True, kw_only=True)
class Version:
    """A prompt to publish.

    Args:
        files: content by name.
        head: `record` and `record_sha256` of the record that made the prompt.
        published_by: URI of the record of the attempt that publishes; it is not finished yet.
        rows: hashes of the exemplars.
        validation_rows: hashes of the rows that the search was guided by.
        facts: what its manifest says besides all this.
    """

    name: str
    files: Mapping[str, bytes]
    head: Record
    published_by: str
    rows: Sequence[str]
    validation_rows: Sequence[str]
    facts: Mapping[str, Any]

    def manifest(self, previous: Latest | None) -> Record:
        """`version.json`.

        Args:
            previous: the version that was the latest before.
        """
        digests = {name: {"sha256": sha256_of(each), "bytes": len(each)} for name, each in self.files.items()}
        return {
            "version": self.name,
            **self.facts,
            "head": self.head,
            "published_by": self.published_by,
            "rows": list(dict.fromkeys(self.rows)),
            "validation_rows": sorted(set(self.validation_rows)),
            "previous": {"version": previous.version, "sha256": previous.manifest_sha256} if previous else None,
            "files": dict(sorted(digests.items())),
        }


def write_version(
    store: Store, version: Version, *, previous: Latest | None, notes: Notes, key: Signer | None = None
) -> str:
    """Write a version whole; one that is there already, from an earlier attempt of the same run, stays as it is.

    An attempt may have been killed between `version.json` and the marks: those that are not there are written.

    Args:
        previous: the version that was the latest before.
        key: signs the version.

    Returns:
        SHA-256 of the manifest.

    Raises:
        LineageError: when the version is there without a signature by the key: this attempt cannot know who wrote it.
    """
    found = read_version(store, version.name)
    if found is not None:
        if key:
            _refuse_unless_signed(store, version.name, found[1], key.public)
        _take_over(store, *found, notes)
        return found[1]
    for name, content in version.files.items():
        _write(store, f"{VERSIONS}/{version.name}/{name}", content, notes)
    manifest = version.manifest(previous)
    content = encode(manifest, MANIFEST_CONTRACT)
    name = manifest_name(version.name)
    if key:
        named = named_file(name, store.address(name), sha256_of(content))
        _write(store, envelope_name(version.name), key.sign_files([named, *newest_versions(store, key.public)]), notes)
    _write(store, name, content, notes)
    write_marks(store, manifest, notes)
    return sha256_of(content)


def _take_over(store: Store, manifest: Record, manifest_sha256: str, notes: Notes) -> None:
    """Finish a version that an earlier attempt wrote, and note it for the record of the stage as that one would."""
    version = manifest["version"]
    digests = {f"{VERSIONS}/{version}/{name}": file["sha256"] for name, file in manifest["files"].items()}
    digests[manifest_name(version)] = manifest_sha256
    envelope = store.read(envelope_name(version))
    if envelope is not None:
        digests[envelope_name(version)] = sha256_of(envelope)
    for name, sha256 in digests.items():
        notes.object(store.uri, name, sha256)
    write_marks(store, manifest, notes)


def _refuse_unless_signed(store: Store, version: str, manifest_sha256: str, key: PublicKey) -> None:
    name = manifest_name(version)
    try:
        signed = open_envelope(store.read(envelope_name(version)) or b"", [key])
        signed.check_is_about(name, store.address(name))
        problem = "" if signed.files[name] == manifest_sha256 else "of another version.json"
    except WrongSignature as error:
        problem = str(error)
    if problem:
        raise LineageError(
            f"{store.address(f'{VERSIONS}/{version}')} exists already, and its signature is not by this key "
            f"({problem}): an earlier attempt had no key or another one, or someone else wrote it; start a new run"
        )


def manifest_name(version: str) -> str:
    """Name of a version's manifest in signed statements."""
    return f"{VERSIONS}/{version}/{VERSION_FILE}"


def envelope_name(version: str) -> str:
    return f"{VERSIONS}/{version}/{ENVELOPE_FILE}"


def manifests_and_envelopes(store: Store, versions: Sequence[str]) -> dict[str, bytes | None]:
    """Contents by name, None for missing files."""
    return read_all(store, [name(version) for version in versions for name in (manifest_name, envelope_name)])


def roots_of_versions(store: Store) -> Iterator[str]:
    """Lineage roots of the runs that made the versions there."""
    for version in versions_in(store.walk_names()):
        with suppress(LineageError):
            found = read_version(store, version)
            if found is not None:
                yield str(found[0]["head"]["record"]).rpartition("/runs/")[0]


def newest_versions(store: Store, key: PublicKey) -> list[Record]:
    """Manifests and signatures of the versions that no version signed by this key has before it, to be signed.

    These name all versions, for each names those before it. What other keys signed does not count, so
    the first version that a key signs names all.
    """
    versions = versions_in(store.walk_names())
    contents = manifests_and_envelopes(store, versions)
    followed: set[str] = set()
    for version in versions:
        with suppress(WrongSignature):
            signed = open_envelope(contents[envelope_name(version)] or b"", [key])
            followed |= signed.files.keys() - {manifest_name(version)}
    return [
        named_file(name, store.address(name), sha256_of(content))
        for version in versions
        if manifest_name(version) not in followed and contents[manifest_name(version)] is not None
        for name in (manifest_name(version), envelope_name(version))
        if (content := contents[name]) is not None
    ]


def write_marks(store: Store, manifest: Record, notes: Notes) -> None:
    """The marks by which `find` finds a version; those that are there already stay."""
    for name, content in marks_of(manifest).items():
        if store.read(name) != content:
            store.write(name, content)
        notes.object(store.uri, name, sha256_of(content))


def marks_of(manifest: Record) -> dict[str, bytes]:
    """Marks of a version, by name."""
    version = manifest["version"]
    content = json.dumps({"version": version}).encode()
    prompt = manifest["files"][PROMPT_TEXT]["sha256"]
    return {f"{ROWS}/{row}/{version}": content for row in manifest["rows"]} | {f"{PROMPTS}/{prompt}/{version}": content}


def make_latest(store: Store, version: str, manifest_sha256: str, before: Latest | None) -> bool:
    """Make a version the latest, unless the latest has changed since it was read; return whether it is now."""
    return store.swap(LATEST_FILE, latest_content(version, manifest_sha256), before.content if before else None)


def latest_content(version: str, manifest_sha256: str) -> bytes:
    return (json.dumps({"version": version, "sha256": manifest_sha256}, indent=1) + "\n").encode()


def has_prompt(store: Store, version: str) -> bool:
    """Whether a version still has the prompt that it was published with."""
    return {PROMPT_TEXT, BEST_SEQUENCE} <= set(store.find_names(f"{VERSIONS}/{version}"))


@dataclass(frozen=True, kw_only=True)
class Move:
    """Change of latest.json when the version that it names may no longer be used; None removes it."""

    before: bytes
    after: bytes | None
    version: str | None


def move_without(store: Store, rows: Collection[str], losing: Collection[str] = ()) -> Move | None:
    """Move of latest.json that the removal of rows requires; None if it can stay.

    The version that was the latest before takes its place, else the newest, of those with a prompt and without the
    rows.

    Args:
        losing: versions that lose their prompt to the removal, in addition to those whose manifest has one of the rows.
    """
    content = store.read(LATEST_FILE)
    if content == WITHDRAWN:
        return Move(before=content, after=None, version=None)
    latest = None
    with suppress(LineageError):  # a damaged one stays as it is; verify names it
        latest = read_latest(store)
    if latest is None or not (latest.version in losing or set(rows) & set(latest.manifest["rows"])):
        return None
    for version in _candidates(store, latest.manifest):
        found = read_version(store, version) if version not in losing and has_prompt(store, version) else None
        if found and not set(rows) & set(found[0]["rows"]):
            return Move(before=latest.content, after=latest_content(version, found[1]), version=version)
    return Move(before=latest.content, after=None, version=None)


def move_latest(store: Store, rows: Collection[str], losing: Collection[str] = ()) -> Move | None:
    """Move latest.json away from rows, also if others move it; return the move, or None if none was needed."""
    while move := move_without(store, rows, losing):
        if store.swap(LATEST_FILE, WITHDRAWN if move.after is None else move.after, move.before):
            if move.after is None:
                store.delete(LATEST_FILE)
            break
    return move


def _candidates(store: Store, manifest: Record) -> Iterator[str]:
    """Yield the versions that were the latest before a given one, the last first; then all others, the newest first."""
    seen = {manifest["version"]}
    while manifest["previous"] and manifest["previous"]["version"] not in seen:
        version = str(manifest["previous"]["version"])
        yield version
        seen.add(version)
        found = read_version(store, version)
        if found is None:
            break
        manifest = found[0]
    yield from sorted(set(versions_in(store.walk_names())) - seen, reverse=True)


def _write(store: Store, name: str, content: bytes, notes: Notes) -> None:
    """Write a file that no later run changes, and note it for the record of the stage."""
    store.write(name, content)
    notes.object(store.uri, name, sha256_of(content))


_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A published version that a search found.

    Args:
        has_prompt: whether its prompt is still there; `ease forget` removes it.
    """

    version: str
    manifest: Record
    is_latest: bool
    has_prompt: bool = True


def as_row_hash(row: str) -> str:
    """The hash of a row, from its input text or its hash."""
    return row if _HASH.fullmatch(row) else row_hash(row)


def find_row(uri: str, row: str) -> Iterator[Found]:
    """Versions below a folder of published prompts whose exemplars hold a row, the oldest first.

    Args:
        row: its input text, or the hash of it.
    """
    store = open_store(uri)
    hashes = [row] if _HASH.fullmatch(row) else sorted(row_hashes(row))
    found = {each.version: each for name in hashes for each in _marked(store, f"{ROWS}/{name}")}
    yield from (found[version] for version in sorted(found))


def find_prompt(uri: str, sha256: str) -> Iterator[Found]:
    """Versions whose prompt has this digest."""
    yield from _marked(open_store(uri), f"{PROMPTS}/{sha256}")


def index(uri: str, progress: Told = nobody) -> int:
    """Write the marks of versions that were copied without them; return the number of these versions."""
    store = open_store(uri)
    names = store.walk_names()
    marks = {name for name in names if name.startswith((f"{ROWS}/", f"{PROMPTS}/"))}
    versions = versions_in(names)
    indexed = 0
    for done, found in enumerate(side_by_side(partial(read_version, store), versions), 1):
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
    manifests = side_by_side(partial(read_version, store), versions)
    prompts = side_by_side(partial(has_prompt, store), versions)
    for version, found, whole in zip(versions, manifests, prompts, strict=True):
        if found:
            is_latest = latest is not None and latest.version == version
            yield Found(version=version, manifest=found[0], is_latest=is_latest, has_prompt=whole)
