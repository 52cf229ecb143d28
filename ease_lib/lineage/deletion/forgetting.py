"""Delete a row on request: every file of a run, a store or a published version that holds it as a whole value.

Tables, prompts, pages and documents that a run wrote are deleted whole, answers one by one. latest.json moves to the
version that was the latest before, or goes when no version without the row is left. Your own tables and texts, and what
only quotes the row within other text, are never changed: they are listed, with file and line.

Records, manifests, indices and journals stay: they hold digests and numbers. A tombstone in the lineage root of every
run that is affected says what will be deleted before anything is, and what was when it is done; the same command
continues a deletion that was killed.
"""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_TEXT
from ease_lib.artifacts.store import FileStore, Store, open_file, open_store, read_all
from ease_lib.black_box.cache import FILE as CACHE_FILE
from ease_lib.black_box.cache import kept_entries, remove_entries
from ease_lib.config.parsing import parameters_of
from ease_lib.digests import sha256_of
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
    step_of,
)
from ease_lib.lineage.deletion.occurrences import answers, holds, kind_of, places_in, shows_sequence_of
from ease_lib.lineage.deletion.row_query import (
    RowName,
    RowQuery,
    columns_of_run,
    fields_of,
    matching_rows,
    numbers_of,
)
from ease_lib.lineage.deletion.tombstones import DONE, INTENDED, Tombstone, is_signed, unfinished
from ease_lib.lineage.difference import run_options
from ease_lib.lineage.publishing.versions import Move, move_latest, move_without
from ease_lib.lineage.record import Record, now
from ease_lib.lineage.verification import claims_of
from ease_lib.notes import PACKAGE
from ease_lib.progress import Told, nobody
from ease_lib.tasks.columns import Columns
from ease_lib.tasks.records import TABLE_NAMES

_RECORD = re.compile(r"^(?P<root>.*?/?)runs/(?P<run>[^/]+)/[a-z_]+-[0-9a-f-]{36}\.json$")
_OF_PROMPT = (PROMPT_TEXT, BEST_SEQUENCE)
DATA_FILES = ("pool", "validation", "test", "kept")
"""Artifacts with rows, by name."""
LATEST, ANSWER = "latest", "cached answer"
"""Kinds in a tombstone: of latest.json, and of an answer in a cache that is one file."""
Numbers = dict[str, frozenset[int]]
Files = tuple[Store, list[str]]
"""What lies in a place that is searched."""


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
        """Whether its records name one of these contents, or something that lies there, which was changed before."""
        claims = (claim for step in self.chain.everything for claim in claims_of(step, self.chain))
        return any(claim.sha256 in digests or claim.uri in uris for claim in claims)

    @property
    def artifacts(self) -> str:
        """The folder of its artifacts; empty where they have none in common."""
        return common_folder([str(part["uri"]) for step in self.chain.everything for part in step.record["outputs"]])

    def data_sets(self) -> dict[str, bytes]:
        """The tables of its rows, by address, as far as they are there."""
        step = self.chain.step_of("build_dataset")
        uris = [str(part["uri"]) for part in step.record["outputs"] if part["name"] in DATA_FILES] if step else []
        found = {uri: self.chain.place.found(uri) for uri in uris}
        return {uri: content for uri, content in found.items() if content is not None}

    def sources(self) -> set[str]:
        """Folders and files that it read or wrote and that may hold rows: raw data, artifacts, answers, prompts."""
        records = [step.record for step in self.chain.everything]
        holders = {holder for record in records for key in ("entries", "written") for holder in record.get(key, {})}
        artifacts = {self.artifacts}
        read = {str(file["uri"]) for record in records for file in record.get("files_read", [])}
        return {uri.rstrip("/") for uri in artifacts | holders | read if _may_hold_rows(uri)}


def common_folder(uris: Sequence[str]) -> str:
    """The folder that all of these lie in; empty where there is none."""
    parts = [uri.split("/")[:-1] for uri in uris]
    common = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def _may_hold_rows(uri: str) -> bool:
    is_folder = bool(uri.rstrip("/")) and not uri.endswith(":/")
    return is_folder and "/journals/" not in uri and not uri.startswith(PACKAGE)


def _runs_at(files: Sequence[Files]) -> list[RunAt]:
    """Every run of which something lies there, and the others of its lineage root; the oldest first."""
    found: dict[str, RunAt] = {}
    for store, names in files:
        place = store.uri.rstrip("/")
        beside = _steps(store, [name for name in names if _may_be_record(store.address(name), name)])
        records = list({step.id: step for step in beside}.values())
        roots = {store.address(match["root"]).rstrip("/") for match in map(_RECORD.match, names) if match}
        roots |= {str(step.record["attempt"]["record"]).rpartition("/runs/")[0] for step in records}
        for root, steps in [*((root, _records_of(root)) for root in sorted(roots - {""})), (place, records)]:
            by_run: dict[str, list[Step]] = {}
            for step in steps:
                by_run.setdefault(str(step.record["run"]["id"]), []).append(step)
            for run, own in by_run.items():
                chain = Chain(place=Place(store.uri), steps=own)
                chain.place.look_for_move(chain.head)
                found.setdefault(run, RunAt(root=root, chain=chain))
    return sorted(found.values(), key=lambda run: str(run.chain.everything[0].record["started"]))


def _records_of(root: str) -> list[Step]:
    """All records of a lineage root; none where it cannot be reached."""
    with suppress(StoreError):
        store = open_store(f"{root}/runs")
        return list(_steps(store, store.walk_names()))
    return []


def _may_be_record(uri: str, name: str) -> bool:
    """Whether a file may be a record beside what it is of: an artifact, a result, a copy in a published version."""
    parts = name.split("/")
    return is_record(uri) or parts[-1] == RECORD_FILE or parts[-2:-1] == [COPIES] or len(parts) == 1


def _steps(store: Store, names: Iterable[str]) -> Iterator[Step]:
    """The records among these files."""
    for name, content in read_all(store, names).items():
        with suppress(LineageError, ValueError):
            yield step_of(store.address(name), content)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A file or object that holds the row and will be deleted, or answers of a cache in one file.

    Args:
        kind: what it is, see `occurrences`; or `answers`.
        sha256: of what is there.
        answers: digests by key of the answers that go; empty where the whole file does.
    """

    store: Store
    name: str
    kind: str
    sha256: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return self.store.address(self.name)

    def items(self) -> list[Record]:
        """As a tombstone names it: an answer of a cache for itself, for so records name it."""
        if self.answers:
            return [_item(f"{self.uri}#{key}", ANSWER, sha256) for key, sha256 in self.answers.items()]
        return [_item(self.uri, self.kind, self.sha256)]

    def delete(self) -> None:
        """Delete it, if it is still what was found; somebody else may have done so.

        Raises:
            StoreError: when others keep the text of what was deleted, or a bucket keeps its earlier versions.
        """
        if self.answers:
            remove_entries(Path(self.uri), self.answers)
            return
        content = self.store.read(self.name)
        if content is not None and sha256_of(content) == self.sha256:
            self.store.delete(self.name)
        self.store.drop_earlier(self.name)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What deleting a row takes.

    Args:
        query: the row.
        holders: everything of ours that holds it.
        publications: folders of published prompts whose latest.json has to move, with what it will be.
        losing: published versions that lose their prompt.
        roots: where the tombstone goes: the lineage roots of all runs that are affected.
        runs: those runs.
        begun: earlier removals of the row that were killed, by root.
        left: what stays, one line each: places that show the row in other files, and files that cannot be searched.
    """

    query: RowQuery
    holders: list[Holder]
    publications: list[tuple[Store, Move]]
    losing: frozenset[str]
    roots: list[str]
    runs: list[RunAt]
    begun: list[tuple[str, Tombstone]]
    left: list[str]

    @property
    def row(self) -> str:
        return self.query.row

    @property
    def is_needed(self) -> bool:
        return bool(self.holders or self.publications or self.begun)

    @property
    def items(self) -> list[Record]:
        """What a tombstone says of it beforehand; of removals that were begun too."""
        planned = [item for holder in self.holders for item in holder.items()]
        planned += [_moved(store, move) for store, move in self.publications]
        return _merged([item for _, tombstone in self.begun for item in tombstone.removed], planned)

    def carry_out(self, reason: str, key: Signer | None = None) -> list[str]:
        """Do it, between the two states of the tombstones; where those lie.

        Args:
            key: signs the tombstones; not those that continue one which it did not sign, for what that names was
                chosen by somebody else.

        Raises:
            LineageError: before anything is deleted, when no root for a tombstone is known.
        """
        if not self.roots:
            raise LineageError("no record of a run was found there, so no place for the tombstone; name one by --root")
        if key and not all(is_signed(where, begun, key.public) for where, begun in self.begun):
            key = None
        first = self.begun[0][1] if self.begun else None
        when, why = (first.when, reason or first.reason) if first else (now(), reason)
        tombstone = Tombstone(row=self.row, when=when, reason=why, state=INTENDED, removed=self.items)
        for root in self.roots:
            tombstone.write(root, key)
        moves = [(store, move_latest(store, self.row, self.losing)) for store, _ in self.publications]
        for holder in self.holders:
            holder.delete()
        moved = [_moved(store, move) for store, move in moves if move is not None]
        done = replace(tombstone, state=DONE, removed=_merged(tombstone.removed, moved))
        for root, begun in self.begun:
            if begun.when != when:
                replace(begun, state=DONE).write(root, key)
        for root in self.roots:
            done.write(root, key)
        return [f"{root}/{done.name}" for root in self.roots]


def rows_asked_for(places: Sequence[str], asked: RowName) -> list[RowQuery]:
    """The rows that are meant, with all that the tables and runs in these places, and what those read, say of them.

    Raises:
        LineageError: when a place holds nothing, or no row fits the condition.
    """
    files = [_files_in(place) for place in places]
    runs = _runs_at(files)
    data = {run.id: run.data_sets() for run in runs}
    columns = tuple(filter(None, (_columns_of(run, data[run.id]) for run in runs)))
    lying = [(store.address(name), store.read(name)) for store, names in files for name in names if _may_be_table(name)]
    read = {uri for run in runs for uri in run.sources() if _may_be_table(uri)} - {uri for uri, _ in lying}
    elsewhere = [(uri, Place().found(uri)) for uri in sorted(read)]
    tables = [(uri, content) for uri, content in [*lying, *elsewhere] if content is not None]
    tables += [(uri, content) for contents in data.values() for uri, content in contents.items()]
    found = matching_rows(asked, tables, columns)
    if not found:
        known = "" if columns else "; no run there says which columns make the input: add --in RUN"
        raise LineageError(f"no row has {asked.column}={asked.value} in the tables there{known}")
    folders = _folders_of_runs(files, runs)
    return [replace(query, ids=_numbers(query.row, data, folders)) for query in found]


def _may_be_table(uri: str) -> bool:
    return uri.lower().endswith(TABLE_NAMES)


def _columns_of(run: RunAt, data: Mapping[str, bytes]) -> Columns | None:
    step = run.chain.step_of("build_dataset")
    fields = next((names for content in data.values() if (names := fields_of(content))), [])
    return columns_of_run(step.record["parameters"], fields) if step else None


def _folders_of_runs(files: Sequence[Files], runs: Sequence[RunAt]) -> dict[str, list[str]]:
    """Where files of a run lie, by its id: its artifacts, its results, the versions that it published."""
    folders = {run.id: [run.artifacts] for run in runs if run.artifacts}
    for store, names in files:
        for name in names:
            if name.rpartition("/")[2] in (RECORD_FILE, VERSION_FILE):
                with suppress(ValueError, KeyError, TypeError):
                    run = str(json.loads(store.read(name) or b"")["run"]["id"])
                    folders.setdefault(run, []).append(store.address(name).rpartition("/")[0])
    return folders


def _numbers(row: str, data: Mapping[str, Mapping[str, bytes]], folders: Mapping[str, Sequence[str]]) -> Numbers:
    numbers: Numbers = {}
    for run, contents in data.items():
        ids = frozenset().union(*(numbers_of(content, row) for content in contents.values()))
        numbers |= {folder: numbers.get(folder, frozenset()) | ids for folder in folders.get(run, ()) if ids}
    return numbers


def plan(places: Sequence[str], query: RowQuery, *, root: str = "", progress: Told = nobody) -> Removal:
    """What deleting a row from places takes; nothing is changed.

    Args:
        root: another lineage root for the tombstone.
        progress: is told how many files were looked into.

    Raises:
        LineageError: when a place holds nothing, or a cache cannot be read.
    """
    files = [_files_in(place) for place in places]
    runs = _runs_at(files)
    named = {absolute(root)} if root else set()
    known = sorted({run.root for run in runs} | named)
    begun = [(where, tombstone) for where in known for tombstone in unfinished(where, query.row)]
    found = {same_place(holder.uri): holder for _, tombstone in begun for holder in _begun_holders(tombstone)}
    left: list[str] = []
    looked_at = [(store, name) for store, names in files for name in names]
    for number, (store, name) in enumerate(looked_at, 1):
        progress(number, len(looked_at))
        place = same_place(store.address(name))
        if place in found:
            continue
        holder = _holder(store, name, query)
        if holder is not None:
            found[place] = holder
        else:
            left += _shown_in(store, name, query)
    holders = list(found.values())
    losing = frozenset(_version_of(holder.name) for holder in holders) - {""}
    moves = [(store, move_without(store, query.row, losing)) for store in _publications(files)]
    removal = Removal(
        query=query,
        holders=holders,
        publications=[(store, move) for store, move in moves if move is not None],
        losing=losing,
        roots=[],
        runs=[],
        begun=begun,
        left=left,
    )
    digests = {item["before_sha256"] for item in removal.items}
    uris = {item["uri"] for item in removal.items if item["kind"] != LATEST}
    affected = [run for run in runs if run.names(digests, uris)]
    roots = {run.root for run in affected or runs} | {where for where, _ in begun} | named
    return replace(removal, roots=sorted(roots), runs=affected)


def not_searched(removal: Removal, places: Sequence[str]) -> list[str]:
    """What the runs that are affected read or wrote, and what lies outside of the places that were searched."""
    searched = tuple(f"{same_place(place).rstrip('/')}/" for place in places)
    sources = {source for run in removal.runs for source in run.sources()}
    return sorted(source for source in sources if not f"{same_place(source)}/".startswith(searched))


def search_commands(removals: Sequence[Removal]) -> dict[str, list[str]]:
    """Commands that search without the rows, by command the runs that it stands for."""
    runs = {run.id: run for removal in removals for run in removal.runs}
    found: dict[str, list[str]] = {}
    for run in runs.values():
        rows = ",".join(removal.row for removal in removals if run.id in {each.id for each in removal.runs})
        options = run_options(run.chain, leave_out=parameters_of(internal=True), exclude_rows=rows)
        found.setdefault(f".venv/bin/ease run {' '.join(options)}", []).append(run.id)
    return found


def left_behind(places: Sequence[str], queries: Sequence[RowQuery]) -> list[str]:
    """Where files still show a row, of all that lie in these places, whatever they are; and what cannot be searched."""
    found: dict[str, None] = {}
    for store, names in map(_files_in, places):
        for name, query in itertools.product(names, queries):
            found |= dict.fromkeys(_shown_in(store, name, query))
    return list(found)


def _files_in(place: str) -> Files:
    """All files in a place, or the one that it is."""
    store = open_store(place)
    names = store.walk_names()
    if names:
        return store, names
    folder, name = open_file(absolute(place))
    if folder.read(name) is None:
        raise LineageError(f"{place}: no file or object is there; check --in")
    return folder, [name]


def _begun_holders(tombstone: Tombstone) -> Iterator[Holder]:
    """What a removal that was begun has still to delete, wherever that lies."""
    caches: dict[str, dict[str, str]] = {}
    for item in tombstone.removed:
        uri = str(item["uri"])
        if item["kind"] == ANSWER:
            path, _, key = uri.rpartition("#")
            caches.setdefault(path, {})[key] = item["before_sha256"]
        elif item["kind"] != LATEST:
            store, name = open_file(uri)
            content = store.read(name)
            if content is not None and sha256_of(content) == item["before_sha256"]:
                yield Holder(store=store, name=name, kind=item["kind"], sha256=item["before_sha256"])
    for path, keys in caches.items():
        there = {key: sha256_of(entry) for key, entry in kept_entries(Path(path)) if key in keys}
        if there:
            store, name = open_file(path)
            yield Holder(store=store, name=name, kind="answers", answers=there)


def _holder(store: Store, name: str, query: RowQuery) -> Holder | None:
    """The file, if it is one of ours that holds the row."""
    if name.endswith(CACHE_FILE) and isinstance(store, FileStore):
        return _cache(store, name, query)
    content = store.read(name)
    if content is None:
        return None
    uri = store.address(name)
    kind = kind_of(uri, content)
    sequence = shows_sequence_of(name) if kind else ""
    beside = (store.read(sequence) if sequence else None) or b""
    is_held = holds(kind, uri, content, query) or holds(kind_of(sequence, beside), sequence, beside, query)
    return Holder(store=store, name=name, kind=kind, sha256=sha256_of(content)) if is_held else None


def _shown_in(store: Store, name: str, query: RowQuery) -> list[str]:
    """Where a file shows the row, one line each; one that says so where it cannot be searched."""
    content = store.read(name)
    try:
        places = places_in(name, content, query) if content is not None else []
    except LineageError as error:
        return [f"{store.address(name)}: {error}"]
    return [f"{store.address(name)}, {place}" for place in places]


def _cache(store: Store, name: str, query: RowQuery) -> Holder | None:
    """Answers that are about the row or repeat it; questions are kept as hashes only."""
    path = Path(store.address(name))
    try:
        found = {key: sha256_of(entry) for key, entry in kept_entries(path) if answers(entry, query)}
    except sqlite3.Error as error:
        raise LineageError(f"{path} cannot be searched: {error}; repair it or move it away") from error
    return Holder(store=store, name=name, kind="answers", answers=found) if found else None


def _publications(files: Sequence[Files]) -> list[Store]:
    """The folders of published prompts in these places, or around them where a place is one version."""
    found: dict[str, Store] = {}
    for store, names in files:
        for name in names:
            folder, is_version, _ = store.address(name).rpartition(f"/{VERSIONS}/")
            if is_version and name.rpartition("/")[2] == VERSION_FILE:
                found.setdefault(folder, open_store(folder))
    return list(found.values())


def _version_of(name: str) -> str:
    """The published version that a file is of; empty for others."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 2 and parts[-3] == VERSIONS and parts[-1] in _OF_PROMPT else ""


def _moved(store: Store, move: Move) -> Record:
    after = sha256_of(move.after) if move.after is not None else None
    return _item(store.address(LATEST_FILE), LATEST, sha256_of(move.before), after)


def _merged(first: Sequence[Record], more: Sequence[Record]) -> list[Record]:
    """Both, each content of an address once, as the second has it."""
    return list({(item["uri"], item["before_sha256"]): item for item in [*first, *more]}.values())


def _item(uri: str, kind: str, before: str, after: str | None = None) -> Record:
    return {"uri": uri, "kind": kind, "before_sha256": before, "after_sha256": after}
