"""Remove a row on request, wherever it stands as a whole: in pools, raw tables, answers, prompts and reports.

Tables (CSV, JSON, JSON lines, Parquet) lose the row. Prompts and reports that show it, and answers that repeat it, go
whole: a prompt without one of its exemplars is another prompt. latest.json moves to the version that was the latest
before, or goes when no version without the row is left. What only quotes the text within other text is listed and left.

Records, manifests, indices and journals stay: they hold digests and numbers. A tombstone in the lineage root of every
run that is affected says what will be removed before anything is, and what was when it is done; the same command
continues a removal that was killed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_TEXT
from ease_lib.artifacts.store import S3_CONNECTIONS, FileStore, Store, joined, open_file, open_store
from ease_lib.black_box.cache import FILE as CACHE_FILE
from ease_lib.black_box.cache import LOCK_SECONDS, entry_bytes
from ease_lib.errors import LineageError, StoreError
from ease_lib.lineage.attestation import Signer
from ease_lib.lineage.chain import (
    COPIES,
    LATEST_FILE,
    RECORD_FILE,
    VERSION_FILE,
    VERSIONS,
    Chain,
    Place,
    Step,
    absolute,
    is_record,
    same_place,
)
from ease_lib.lineage.deletion.occurrences import (
    PROMPT,
    Occurrence,
    Wanted,
    answers,
    names_its_rows_elsewhere,
    occurrence,
    quotes,
)
from ease_lib.lineage.deletion.tombstones import DONE, INTENDED, Tombstone, is_sealed, unfinished
from ease_lib.lineage.difference import run_options
from ease_lib.lineage.publishing.versions import Move, move_latest, move_without
from ease_lib.lineage.record import Record, decode
from ease_lib.lineage.recording import now
from ease_lib.lineage.verification import claims_of
from ease_lib.notes import PACKAGE
from ease_lib.tasks.base import row_hash

_RECORD = re.compile(r"^(?P<root>.*?/?)runs/(?P<run>[^/]+)/[a-z_]+-[0-9a-f-]{36}\.json$")


@dataclass(frozen=True, kw_only=True)
class RunAt:
    """A run, and where its tombstones go.

    Args:
        root: its lineage root; where that cannot be reached, the place where the run was found.
        chain: its records, in no order that means anything.
    """

    root: str
    chain: Chain

    @property
    def id(self) -> str:
        return str(self.chain.head.record["run"]["id"])

    def names(self, digests: Collection[str], uris: Collection[str]) -> bool:
        """Whether its records name one of these contents, or something that lies there."""
        checks = (check for step in self.chain.everything for check in claims_of(step, self.chain))
        return any(check.sha256 in digests or check.uri in uris for check in checks)

    def sources(self) -> set[str]:
        """Folders and files that it read or wrote and that may hold rows: raw data, artifacts, answers, prompts."""
        records = [step.record for step in self.chain.everything]
        holders = {holder for record in records for key in ("entries", "written") for holder in record.get(key, {})}
        outputs = [str(part["uri"]) for record in records for part in record["outputs"]]
        artifacts = {common_folder(outputs)}
        read = {str(file["uri"]) for record in records for file in record.get("files_read", [])}
        return {uri.rstrip("/") for uri in artifacts | holders | read if _may_hold_rows(uri)}


def runs_at(places: Sequence[str]) -> list[RunAt]:
    """Every run of which something lies at these places, and the others of its lineage root; the oldest first."""
    found: dict[str, RunAt] = {}
    for place in places:
        store = open_store(place)
        names = store.walk_names()
        roots = {joined(store.uri, match["root"]).rstrip("/") for match in map(_RECORD.match, names) if match}
        records = _documents(store, names)
        linked = {str(step.record["attempt"]["record"]).rpartition("/runs/")[0] for step in records}
        for root in sorted(roots | (linked - {""})):
            for run in _runs(root, _records_of(root), place):
                found.setdefault(run.id, run)
        for run in _runs(store.uri.rstrip("/"), records, place):
            found.setdefault(run.id, run)
    return sorted(found.values(), key=lambda run: str(run.chain.everything[0].record["started"]))


def common_folder(uris: Sequence[str]) -> str:
    """The folder that all of these lie in; empty where there is none."""
    parts = [uri.split("/")[:-1] for uri in uris]
    common = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def _may_hold_rows(uri: str) -> bool:
    is_folder = bool(uri.rstrip("/")) and not uri.endswith(":/")
    return is_folder and "/journals/" not in uri and not uri.startswith(PACKAGE)


def _runs(root: str, steps: Iterable[Step], place: str) -> Iterator[RunAt]:
    by_run: dict[str, list[Step]] = {}
    for step in steps:
        by_run.setdefault(str(step.record["run"]["id"]), []).append(step)
    for found in by_run.values():
        yield RunAt(root=root, chain=Chain(place=Place(place), steps=found))


def _records_of(root: str) -> list[Step]:
    """All records of a lineage root; none where it cannot be reached."""
    try:
        store = open_store(f"{root}/runs")
        contents = list(_read(store, store.walk_names()))
    except StoreError:
        return []
    return [_step(store, name, content) for name, content in contents if _is_record(content)]


def _documents(store: Store, names: Sequence[str]) -> list[Step]:
    """Records beside what they are of: artifacts of the pipeline, results of a run, copies in published versions."""
    wanted = [
        name
        for name in names
        if is_record(joined(store.uri, name))
        or name.split("/")[-1] == RECORD_FILE
        or name.split("/")[-2:-1] == [COPIES]
        or "/" not in name
    ]
    steps = [_step(store, name, content) for name, content in _read(store, wanted) if _is_record(content)]
    distinct = {step.id: step for step in steps}
    return list(distinct.values())


def _read(store: Store, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
        for name, content in zip(names, readers.map(store.read, names), strict=True):
            yield name, content or b""


def _is_record(content: bytes) -> bool:
    with suppress(LineageError, UnicodeDecodeError):
        decode(content, "")
        return True
    return False


def _step(store: Store, name: str, content: bytes) -> Step:
    return Step(uri=joined(store.uri, name), content=content, record=decode(content, name))


LEAST_CHARACTERS = 12
"""A shorter text is quoted by everything."""
LATEST, ANSWER = "latest", "cached answer"
"""Kinds in a tombstone: of latest.json, and of an answer in a cache that is one file."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A file or object that holds the row.

    Args:
        kind: how it holds it, see `Occurrence`; or `answers` of a cache in one file.
        rows: how many of its rows or answers go; 0 where it goes whole.
        before: digest of what is there.
        after: digest of what will be left; None where it goes whole.
        answers: digests by key of the answers that go.
    """

    store: Store
    name: str
    kind: str
    rows: int
    before: str
    after: str | None
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return joined(self.store.uri, self.name)

    def items(self) -> list[Record]:
        """As a tombstone names it: an answer of a cache for itself, for so records name it."""
        if self.answers:
            uris = {f"{self.uri}#{key}": sha256 for key, sha256 in self.answers.items()}
            return [_item(uri, ANSWER, sha256, None) for uri, sha256 in uris.items()]
        return [_item(self.uri, self.kind, self.before, self.after)]

    def remove(self, row: str) -> list[Record]:
        """Take the row out of it, as it is now; what a tombstone says of that."""
        if self.answers:
            _remove_answers(Path(self.store.uri) / self.name, self.answers)
            return self.items()
        content = self.store.read(self.name)
        found = _occurrence(self.store, self.name, content, row) if content is not None else None
        if content is None or found is None:
            return self.items()  # somebody else did it
        if found.left is None:
            self.store.delete(self.name)
        else:
            self.store.write(self.name, found.left)
        return _holder_of(self.store, self.name, content, found).items()


@dataclass(kw_only=True)
class Removal:
    """What removing a row takes.

    Args:
        row: its hash.
        holders: everything that holds it.
        publications: folders of published prompts whose latest.json has to move, with what it will be.
        roots: where the tombstone goes: the lineage roots of all runs that are affected.
        runs: those runs.
        begun: earlier removals of the row that were killed, by root.
        quoting: what shows the text within other text, is a spreadsheet with the row, or cannot be read; it stays.
    """

    row: str
    holders: list[Holder]
    publications: list[tuple[Store, Move]]
    losing: frozenset[str]
    roots: list[str]
    runs: list[RunAt]
    begun: list[tuple[str, Tombstone]]
    quoting: list[str]

    @property
    def is_needed(self) -> bool:
        return bool(self.holders or self.publications or self.begun)

    def carry_out(self, reason: str, key: Signer | None = None) -> list[str]:
        """Remove it, between the two states of the tombstones; where those lie.

        Args:
            key: signs the tombstones; not those that continue one which it did not sign, for what that names was
                chosen by somebody else.

        Raises:
            LineageError: before anything is removed, when no root for a tombstone is known.
        """
        if not self.roots:
            raise LineageError("no record of a run was found there, so no place for the tombstone; name one by --root")
        if key and not all(is_sealed(where, begun, key.public) for where, begun in self.begun):
            key = None
        first = self.begun[0][1] if self.begun else None
        tombstone = Tombstone(
            row=self.row,
            when=first.when if first else now(),
            reason=reason or (first.reason if first else ""),
            state=INTENDED,
            removed=self.items(),
        )
        for root in self.roots:
            tombstone.write(root, key)
        moves = [(store, move_latest(store, self.row, self.losing)) for store, _ in self.publications]
        removed = [_moved(store, move) for store, move in moves if move is not None]
        removed += [item for holder in self.holders for item in holder.remove(self.row)]
        done = replace(tombstone, state=DONE, removed=_merged(tombstone.removed, removed))
        return [self._end(root, done, key) for root in self.roots]

    def items(self) -> list[Record]:
        """What a tombstone says of it beforehand; of removals that were begun too."""
        begun = [item for _, tombstone in self.begun for item in tombstone.removed]
        planned = [item for holder in self.holders for item in holder.items()]
        return _merged(begun, [*planned, *(_moved(store, move) for store, move in self.publications)])

    def _end(self, root: str, tombstone: Tombstone, key: Signer | None) -> str:
        others = [begun for where, begun in self.begun if where == root and begun.when != tombstone.when]
        for each in [*others, tombstone]:
            replace(each, state=DONE).write(root, key)
        return f"{root}/{tombstone.name}"


def plan(places: Sequence[str], row: str, *, text: str = "", root: str = "") -> Removal:
    """What removing a row from places takes; nothing is changed.

    Args:
        row: hash of its input text.
        text: its input text, where it is known: only then can be said what quotes it.
        root: another lineage root for the tombstone.

    Raises:
        LineageError: when a place holds nothing, a cache cannot be read, or text and hash are of two rows.
    """
    if text and row_hash(text) != row:
        raise LineageError("the text given is not that of the hash given; check both")
    runs = runs_at(places)
    known = sorted({run.root for run in runs} | ({open_store(root).uri.rstrip("/")} if root else set()))
    begun = [(where, tombstone) for where in known for tombstone in unfinished(where, row)]
    holders: dict[str, Holder] = {}
    quoting: list[str] = []
    for store, name in _searched(places, [tombstone for _, tombstone in begun]):
        if same_place(joined(store.uri, name)) not in holders:
            holder = _holder(store, name, row, quoting, text)
            if holder is not None:
                holders[same_place(holder.uri)] = holder
    losing = frozenset(_version_of(holder.name) for holder in holders.values()) - {""}
    moves = [(store, move_without(store, row, losing)) for store in _publications(places)]
    removal = Removal(
        row=row,
        holders=sorted(holders.values(), key=lambda holder: holder.kind != PROMPT),  # before what says whose they are
        publications=[(store, move) for store, move in moves if move is not None],
        losing=losing,
        roots=[],
        runs=[],
        begun=begun,
        quoting=quoting,
    )
    removal.runs = _affected(runs, removal.items())
    roots = {run.root for run in removal.runs or runs} | {where for where, _ in begun}
    removal.roots = sorted(roots | ({open_store(root).uri.rstrip("/")} if root else set()))
    return removal


def not_searched(removal: Removal, places: Sequence[str]) -> list[str]:
    """What the runs that are affected read or wrote, and what lies outside of the places that were searched."""
    searched = [same_place(place) for place in places]
    sources = {source for run in removal.runs for source in run.sources()}
    return sorted(source for source in sources if not _is_below(same_place(source), searched))


def search_commands(removal: Removal) -> dict[str, list[str]]:
    """Commands that search without the row, by command the runs that it stands for."""
    found: dict[str, list[str]] = {}
    for run in removal.runs:
        options = run_options(run.chain, leave_out=("answers", "ledger"), exclude_rows=removal.row)
        found.setdefault(f".venv/bin/ease run {' '.join(options)}", []).append(run.id)
    return found


def _is_below(uri: str, places: Collection[str]) -> bool:
    return any(uri == place or uri.startswith(f"{place.rstrip('/')}/") for place in places)


def _affected(runs: Sequence[RunAt], items: Sequence[Record]) -> list[RunAt]:
    """Runs whose records name what is removed: by its digest, or by its address where it was changed before."""
    digests = {item["before_sha256"] for item in items}
    uris = {item["uri"] for item in items if item["kind"] != LATEST}
    return [run for run in runs if run.names(digests, uris)]


def _searched(places: Sequence[str], begun: Sequence[Tombstone]) -> Iterator[tuple[Store, str]]:
    """Every file in the places, and those that a removal that was begun named elsewhere."""
    for place in places:
        store = open_store(place)
        names = store.walk_names()
        for name in names:
            yield store, name
        if not names:
            file = open_file(absolute(place))
            if file[0].read(file[1]) is None:
                raise LineageError(f"{place}: no file or object is there; check --in")
            yield file
    for tombstone in begun:
        for item in tombstone.removed:
            uri = str(item["uri"])
            if item["kind"] != LATEST:
                yield open_file(uri.rpartition("#")[0] if item["kind"] == ANSWER else uri)


def _holder(store: Store, name: str, row: str, quoting: list[str], text: str) -> Holder | None:
    uri = joined(store.uri, name)
    content = store.read(name)
    if content is None:
        return None
    if name.endswith(CACHE_FILE) and isinstance(store, FileStore):
        return _cache(store, name, row)
    try:
        found = _occurrence(store, name, content, row)
    except LineageError as error:
        quoting.append(f"{uri}: {error}")
        return None
    left = content if found is None else found.left
    if left and len(text) >= LEAST_CHARACTERS and quotes(left, text):
        quoting.append(f"quotes it: {uri}")
    return None if found is None else _holder_of(store, name, content, found)


def _occurrence(store: Store, name: str, content: bytes, row: str) -> Occurrence | None:
    found = occurrence(joined(store.uri, name), content, row)
    sequence = names_its_rows_elsewhere(name) if found is None else ""
    beside = store.read(sequence) if sequence else None
    if beside is not None and occurrence(joined(store.uri, sequence), beside, row):
        return Occurrence(kind=PROMPT)
    return found


def _holder_of(store: Store, name: str, content: bytes, found: Occurrence) -> Holder:
    after = _sha256(found.left) if found.left is not None else None
    return Holder(store=store, name=name, kind=found.kind, rows=found.rows, before=_sha256(content), after=after)


def _cache(store: Store, name: str, row: str) -> Holder | None:
    """Answers that repeat the row; questions are kept as hashes only."""
    path = Path(store.uri) / name
    wanted, found = Wanted(row), {}
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS)) as database:
            for key, content, digest in database.execute("SELECT key, content, sha256 FROM responses"):
                if _repeats(content, wanted):
                    found[key] = _sha256(entry_bytes(content, digest))
    except sqlite3.Error as error:
        raise LineageError(f"{path} cannot be searched: {error}; mend it or move it away") from error
    if not found:
        return None
    return Holder(store=store, name=name, kind="answers", rows=len(found), before="", after=None, answers=found)


def _repeats(content: str, wanted: Wanted) -> bool:
    with suppress(ValueError):
        completion = json.loads(content)
        return isinstance(completion, dict) and answers(completion, wanted)
    return False


def _remove_answers(path: Path, keys: Collection[str]) -> None:
    """Delete answers, and what SQLite would keep of their text in the file and its log."""
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as database:
        database.execute("PRAGMA secure_delete = ON")
        with database:
            database.executemany("DELETE FROM responses WHERE key = ?", [(key,) for key in keys])
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _publications(places: Sequence[str]) -> list[Store]:
    """The folders of published prompts in these places, or around them where a place is one version."""
    found: dict[str, Store] = {}
    for place in places:
        store = open_store(place)
        root = store.uri.rstrip("/")
        for name in store.walk_names():
            folder, is_version, _ = f"{root}/{name}".rpartition(f"/{VERSIONS}/")
            if is_version and name.rpartition("/")[2] == VERSION_FILE:
                found.setdefault(folder, open_store(folder))
    return list(found.values())


def _version_of(name: str) -> str:
    """The published version that a file is of; empty for others."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 2 and parts[-3] == VERSIONS and parts[-1] in _OF_PROMPT else ""


_OF_PROMPT = (PROMPT_TEXT, BEST_SEQUENCE)


def _moved(store: Store, move: Move) -> Record:
    after = _sha256(move.after) if move.after is not None else None
    return _item(joined(store.uri, LATEST_FILE), LATEST, _sha256(move.before), after)


def _merged(first: Sequence[Record], more: Sequence[Record]) -> list[Record]:
    """Both, each content of an address once, as the second has it."""
    return list({(item["uri"], item["before_sha256"]): item for item in [*first, *more]}.values())


def _item(uri: str, kind: str, before: str, after: str | None) -> Record:
    return {"uri": uri, "kind": kind, "before_sha256": before, "after_sha256": after}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
