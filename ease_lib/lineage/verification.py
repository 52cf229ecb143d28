"""Recompute every digest behind a result, and say exactly what changed, is missing, or was never recorded.

Each problem names the object and the first stage that it affects: the one that wrote it, or the first that read it.
What follows from a problem is not reported again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from ease_lib.artifacts.store import S3_CONNECTIONS, Store, joined, open_store
from ease_lib.black_box.cache import entry_bytes
from ease_lib.errors import LineageError, StoreError
from ease_lib.lineage.attestation import PublicKey
from ease_lib.lineage.chain import LATEST_FILE, VERSION_FILE, VERSIONS, WITHDRAWN, Chain, Gap, Step, absolute, follow
from ease_lib.lineage.deletion.tombstones import Tombstones
from ease_lib.lineage.faults import CHANGED, MISSING, UNREADABLE, UNRECORDED, Fault
from ease_lib.lineage.publishing.versions import latest_content, marks_of, read_version, versions_in
from ease_lib.lineage.record import Record, digest_of_files
from ease_lib.lineage.recording import mark_content, mark_name
from ease_lib.lineage.signatures import Signatures
from ease_lib.lineage.summary import summary_page


@dataclass(frozen=True, kw_only=True)
class Check:
    """One object to be compared: by its digest, or with the content that it must have."""

    stage: str
    uri: str
    sha256: str = ""
    read: Callable[[], bytes | None]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was compared, and what was found.

    Args:
        signatures: those that hold, each with its key and time.
    """

    checked: int
    problems: tuple[Fault, ...]
    signatures: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not any(problem.is_fault for problem in self.problems)


def verify(chain: Chain, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Verification:
    """Compare everything that the records of a chain name with what is there now; removals on request count too."""
    found = [_of_gap(gap) for gap in chain.gaps]
    checks: dict[str, Check] = {}
    for step in chain.everything:
        for check in checks_of(step, chain):  # what a later attempt wrote again is as that one says
            first = checks.get(check.uri, check)
            checks[check.uri] = replace(check, stage=first.stage)
    damaged = {problem.uri for problem in found}
    todo = [check for check in checks.values() if check.uri not in damaged]
    with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
        for done, problem in enumerate(readers.map(_compared, todo), 1):
            progress(done, len(todo))
            if problem is not None:
                found.append(problem)
    found += _unexplained(chain)
    return Verification(checked=len(todo), problems=tuple(sorted(dict.fromkeys(found))))


def _of_gap(gap: Gap) -> Fault:
    of_publication = gap.uri.endswith((f"/{LATEST_FILE}", f"/{VERSION_FILE}"))
    why = gap.reason if gap.kind == UNRECORDED else "" if of_publication else "lineage record"
    return Fault(stage=gap.stage, uri=gap.uri, what=gap.kind, why=why)


def _compared(check: Check) -> Fault | None:
    try:
        content = check.read()
    except (StoreError, LineageError, OSError, sqlite3.Error) as error:
        return Fault(stage=check.stage, uri=check.uri, what=UNREADABLE, why=str(error))
    return differing(check.stage, check.uri, content, check.sha256)


def differing(stage: str, uri: str, content: bytes | None, expected: str) -> Fault | None:
    """The problem of an object that is missing (None) or not what it should be."""
    if content is None:
        return Fault(stage=stage, uri=uri, what=MISSING, expected_sha256=expected)
    found = hashlib.sha256(content).hexdigest()
    if found == expected:
        return None
    return Fault(stage=stage, uri=uri, what=CHANGED, found_sha256=found, expected_sha256=expected)


def checks_of(step: Step, chain: Chain) -> Iterator[Check]:
    """Everything that one record names, the record itself and its copies included."""
    yield from _record_checks(step, chain)
    for part in step.record["outputs"]:
        files = part.get("files")
        for name, file in files.items() if files is not None else [("", part)]:
            yield _check(step, chain, f"{part['uri']}/{name}" if name else part["uri"], file["sha256"])
    for read in step.record.get("files_read", []):
        yield _check(step, chain, read["uri"], read["sha256"])
    for holder, entries in step.record.get("entries", {}).items():
        yield from _entry_checks(step, chain, holder, entries)
    for holder, written in step.record.get("written", {}).items():
        for name, sha256 in written.items():
            yield _check(step, chain, joined(holder, name), sha256)


def _check(step: Step, chain: Chain, uri: str, sha256: str) -> Check:
    return Check(stage=step.stage, uri=uri, sha256=sha256, read=lambda: chain.place.read(uri))


def _record_checks(step: Step, chain: Chain) -> Iterator[Check]:
    attempt = step.record["attempt"]
    if attempt["record"]:
        yield _check(step, chain, attempt["record"], step.sha256)
        root, name = _split_root(attempt["record"])
        mark = hashlib.sha256(mark_content(step.record, name)).hexdigest()
        yield _check(step, chain, f"{root}/{mark_name(step.record)}", mark)
    if step.record["state"] == "complete":
        contents = {"lineage": step.content, "chain": summary_page(step.record).encode()}
        for copy, uri in attempt["copies"].items():
            yield _check(step, chain, uri, hashlib.sha256(contents[copy]).hexdigest())


def _split_root(uri: str) -> tuple[str, str]:
    """Root and name of a record."""
    root, _, rest = uri.rpartition("/runs/")
    return root, f"runs/{rest}"


def _entry_checks(step: Step, chain: Chain, holder: str, entries: Record) -> Iterator[Check]:
    """Entries of a journal or cache: lines of a file, rows of a database, or objects."""
    if holder.endswith(".jsonl"):
        reader: Callable[[str], bytes | None] = _Lines(chain, holder).read
    elif holder.endswith(".sqlite"):
        reader = _Rows(chain, holder).read
    else:
        reader = _Objects(chain, holder).read
    for name, sha256 in entries.items():
        uri = f"{holder}#{name}" if holder.endswith((".jsonl", ".sqlite")) else joined(holder, name)
        yield Check(stage=step.stage, uri=uri, sha256=sha256, read=lambda name=name: reader(name))  # type: ignore[misc]


class _Objects:
    def __init__(self, chain: Chain, holder: str) -> None:
        self._place, self._holder = chain.place, holder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        return self._place.read(f"{self._holder}/{name}")


class _Lines:
    """Lines of a journal file, numbered from 1."""

    def __init__(self, chain: Chain, holder: str) -> None:
        self._trail, self._holder = chain, holder
        self._lines: list[bytes] | None = None

    def read(self, name: str) -> bytes | None:
        if self._lines is None:
            self._lines = (self._trail.place.read(self._holder) or b"").split(b"\n")
        number = int(name) - 1
        return self._lines[number] if number < len(self._lines) and self._lines[number] else None


class _Rows:
    """Answers in an SQLite file, in the form in which an object holds them."""

    def __init__(self, chain: Chain, holder: str) -> None:
        self._path = chain.place.path_of(holder)
        self._rows: dict[str, bytes] | None = None

    def read(self, name: str) -> bytes | None:
        if self._rows is None:
            self._rows = self._read_all()
        return self._rows.get(name)

    def _read_all(self) -> dict[str, bytes]:
        if not self._path.exists():
            return {}
        with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT key, content, sha256 FROM responses").fetchall()
        return {key: entry_bytes(content, digest) for key, content, digest in rows}


def _unexplained(chain: Chain) -> Iterator[Fault]:
    """Inputs that are not what the linked stage made, earlier attempts without a record, and folders' own digests."""
    for step in chain.steps:
        for part in step.record["inputs"]:
            if part.get("record") and not any(gap.uri == part["record"] for gap in chain.gaps):
                made = next((other for other in chain.steps if other.sha256 == part["record_sha256"]), None)
                if made and all(output["sha256"] != part["sha256"] for output in made.record["outputs"]):
                    yield Fault(stage=step.stage, uri=part["uri"], what=CHANGED, why=f"before {step.stage} read it")
        for part in step.record["outputs"]:
            if "files" in part and digest_of_files(part["files"]) != part["sha256"]:
                yield Fault(stage=step.stage, uri=part["uri"], what=CHANGED, why="digest of the folder")
    root = _split_root(chain.head.record["attempt"]["record"])[0]
    for step in chain.everything if root else ():
        for name in step.record["attempt"]["earlier"]:
            if chain.place.read(f"{root}/{name}") is None:
                yield Fault(stage=step.stage, uri=f"{root}/{name}", what=MISSING, why="record of an earlier attempt")


def verify_results(chain: Chain, folder: str) -> list[Fault]:
    """Compare the results that `ease run` left in its output folder with those that the report stage wrote."""
    report = chain.step_of("report")
    store = open_store(folder)
    if report is None or store.read("lineage.json") is None:
        return []
    files = next(part["files"] for part in report.record["outputs"] if part["name"] == "results")
    wanted = {name: file["sha256"] for name, file in files.items()}
    wanted["lineage.json"] = chain.head.sha256
    where = store.uri.rstrip("/")
    compared = (differing("report", f"{where}/{name}", store.read(name), sha256) for name, sha256 in wanted.items())
    return [problem for problem in compared if problem is not None]


def verify_versions(uri: str, *only: str) -> Iterator[Fault]:
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


def _different(store: Store, name: str, sha256: str) -> Iterator[Fault]:
    problem = differing("publish", joined(store.uri, name), store.read(name), sha256)
    if problem is not None:
        yield problem


def _latest_problems(store: Store, manifests: dict[str, tuple[Record, str]]) -> Iterator[Fault]:
    where = joined(store.uri, LATEST_FILE)
    content = store.read(LATEST_FILE)
    if content is None or content == WITHDRAWN:
        yield Fault(stage="publish", uri=where, what=MISSING)
        return
    try:
        latest = json.loads(content)
        version = str(latest["version"])
    except (ValueError, KeyError, TypeError):
        yield Fault(stage="publish", uri=where, what=CHANGED)
        return
    with suppress(LineageError):  # a damaged one is named as such
        found = manifests.get(version) or read_version(store, version)
        if found is None and not store.find_names(f"{VERSIONS}/{version}"):
            why = f"names {version}, which is not there"
            yield Fault(stage="publish", uri=where, what=CHANGED, why=why)
        elif found and latest_content(version, found[1]) != content:
            yield Fault(stage="publish", uri=where, what=CHANGED, why=f"not what {version} wrote")


def _published(uri: str, version: str, name: str, what: str, why: str = "") -> Fault:
    return Fault(stage="publish", uri=joined(uri, VERSIONS, version, name), what=what, why=why)


def verify_place(
    place: str,
    run: str = "",
    *,
    all_versions: bool = False,
    keys: Sequence[PublicKey] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verification:
    """Compare everything behind what is at a place: a run's folder, published prompts, a lineage root, a record.

    Args:
        run: id of the run, where there are several; else the newest.
        all_versions: compare every version that was published beside it, not only its own and the latest.
        keys: public keys to check signatures by; none given, signatures are not looked at.

    Raises:
        LineageError: when no record is there to start from.
    """
    place = absolute(place)
    chain = follow(place, run)
    verdict = verify(chain, progress=progress)
    problems = {problem.uri: problem for problem in verdict.problems}
    published = _published_of(chain)
    folders = {folder: set[str]() for folder in published or [place]} if all_versions else published
    others = [root for folder in folders for root in _roots_of_versions(folder)] if all_versions else []
    tombstones = Tombstones.of(chain, [*folders, *others], keys)
    signatures = Signatures(keys=keys)
    if keys:
        signatures.look_at(chain, folders, all_versions=all_versions)
    of_versions = [problem for folder, only in folders.items() for problem in verify_versions(folder, *sorted(only))]
    for problem in [*verify_results(chain, place), *of_versions, *tombstones.problems, *signatures.problems]:
        problems.setdefault(problem.uri, problem)
    explained = sorted(tombstones.explained(problem) for problem in problems.values())
    holding = tuple(f"{uri}: {signed.shown}" for uri, signed in signatures.holding.items())
    return Verification(checked=verdict.checked, problems=tuple(explained), signatures=holding)


def _published_of(chain: Chain) -> dict[str, set[str]]:
    """Folders of published prompts, with the versions there that the run wrote or that was followed."""
    found: dict[str, set[str]] = {}
    for step in chain.everything:
        for published, names in step.record.get("written", {}).items() if step.stage == "publish" else ():
            parts = [name.split("/") for name in names]
            versions = found.setdefault(chain.place.store_of(published).uri.rstrip("/"), set())
            versions |= {part[1] for part in parts if part[0] == VERSIONS}
    if chain.version:
        folder, _, version = chain.version.rpartition(f"/{VERSIONS}/")
        found.setdefault(folder, set()).add(version)
    return found


def _roots_of_versions(uri: str) -> Iterator[str]:
    """Lineage roots of the runs that made the versions in a folder."""
    store = open_store(uri)
    for version in versions_in(store):
        with suppress(LineageError):
            found = read_version(store, version)
            if found is not None:
                yield str(found[0]["head"]["record"]).rpartition("/runs/")[0]
