"""Delete a row on request: every file of a run, a store or a published version that holds it as a whole value.

Tables, prompts, pages and documents that a run wrote are deleted whole, and so are predictions and embeddings of its
rows; answers are deleted one by one. latest.json moves to the version that was the latest before, or goes if no version
without the row is left. Your own tables and texts, and files that only quote the row within other text, are never
changed: they are listed, with file and line.

Records, manifests, indices and journals stay: they hold digests and numbers. A tombstone in the lineage root of every
affected run lists what will be deleted before anything is, and what was deleted when it is done. The same command
continues a deletion that was killed.
"""

from __future__ import annotations

import os.path
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_FILES, PROMPT_TEXT
from ease_lib.artifacts.store import FileStore, Store, joined, open_file, open_store, read_all
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
    VERSIONS,
    Chain,
    Place,
    Step,
    absolute,
    is_record,
    same_place,
    split_root,
    step_of,
)
from ease_lib.lineage.deletion.occurrences import places_in, rows_of_answer, rows_shown
from ease_lib.lineage.deletion.row_query import RowName, RowQuery, columns_of_run, matching_rows
from ease_lib.lineage.deletion.table_reader import is_table, stamp_in
from ease_lib.lineage.deletion.tombstones import DONE, INTENDED, Tombstone, is_signed, unfinished
from ease_lib.lineage.difference import run_options
from ease_lib.lineage.publishing.versions import Move, move_latest, move_without
from ease_lib.lineage.record import Record, now
from ease_lib.lineage.verification import claims_of
from ease_lib.notes import PACKAGE
from ease_lib.progress import Told, nobody

DATA_SETS = ("pool", "validation", "test", "kept")
"""Artifacts with rows, by name."""
MADE_OF_ROWS = {"embeddings": DATA_SETS, "predictions": ("test",)}
"""Artifacts derived from rows, which they name by number: vectors and answers."""
Files = tuple[Store, list[str]]
"""A store and the names of the files in it that are searched."""
Rows = frozenset[str]
"""Some of the requested rows, by hash."""


@dataclass(frozen=True, kw_only=True)
class RunAt:
    """A run, and the place of its tombstones.

    Args:
        root: its lineage root; where that cannot be reached, the place where the run was found.
        chain: its records, in no particular order.
    """

    root: str
    chain: Chain

    @property
    def id(self) -> str:
        return str(self.chain.head.record["run"]["id"])

    def outputs(self, names: Collection[str]) -> list[Record]:
        """Artifacts of the run with these names, as the records of the stages name them."""
        outputs = (part for step in self.chain.everything for part in step.record["outputs"])
        return [part for part in outputs if part["name"] in names]

    def data_sets(self, names: Collection[str] = DATA_SETS) -> dict[str, bytes]:
        """The tables of its rows, by address, as far as they are still there."""
        found = {str(part["uri"]): self.chain.place.found(part["uri"]) for part in self.outputs(names)}
        return {uri: content for uri, content in found.items() if content is not None and stamp_in(content)}

    def names(self, digests: Collection[str], uris: Collection[str]) -> bool:
        """Whether its records name one of these contents or addresses."""
        claims = (claim for step in self.chain.everything for claim in claims_of(step, self.chain))
        return any(claim.sha256 in digests or claim.uri in uris for claim in claims)

    def sources(self) -> set[str]:
        """Folders and files that it read or wrote and that may hold rows: raw data, artifacts, answers, prompts."""
        records = [step.record for step in self.chain.everything]
        written = [str(part["uri"]) for record in records for part in record["outputs"]]
        artifacts = os.path.commonprefix(written).rpartition("/")[0]  # noqa: RUF071 of s3:// too
        holders = {holder for record in records for key in ("entries", "written") for holder in record.get(key, {})}
        read = {str(file["uri"]) for record in records for file in record.get("files_read", [])}
        found = {uri.rstrip("/") for uri in holders | read | {artifacts}} - {"", "s3:"}
        return {uri for uri in found if "/journals/" not in uri and not uri.startswith(PACKAGE)}


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A file that holds rows, or a cache in one file with answers that do.

    Args:
        rows: those that it holds; of a cache by the key of the answer, else under the empty key.
        digests: of the content, by the same keys.
    """

    store: Store
    name: str
    rows: Mapping[str, Rows]
    digests: Mapping[str, str]

    @property
    def uri(self) -> str:
        return self.store.address(self.name)

    @property
    def answers(self) -> int:
        return len([key for key in self.rows if key])

    @property
    def version(self) -> str:
        """The published version whose prompt this is; empty for others."""
        *_, folder, version, name = ("", "", *self.uri.split("/"))
        return version if folder == VERSIONS and name in (PROMPT_TEXT, BEST_SEQUENCE) else ""

    def items(self, row: str) -> list[Record]:
        """Items that a tombstone of a row lists."""
        keys = [key for key, rows in self.rows.items() if row in rows]
        return [{"uri": f"{self.uri}#{key}" if key else self.uri, "sha256": self.digests[key]} for key in keys]

    def delete(self) -> None:
        """Delete the file if its content is unchanged; another process may have deleted or replaced it.

        Raises:
            StoreError: when others keep the text of what was deleted, or a bucket keeps its earlier versions.
        """
        if self.answers:
            remove_entries(Path(self.uri), self.rows)
            return
        content = self.store.read(self.name)
        if content is not None and sha256_of(content) == self.digests[""]:
            self.store.delete(self.name)
        self.store.drop_earlier(self.name)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Changes that deleting rows requires.

    Args:
        rows: their hashes.
        holders: every file of EASE that holds one of them.
        publications: folders of published prompts whose latest.json has to move, with what it will be.
        roots: where the tombstones go: the lineage roots of the runs that are affected.
        runs: those runs.
        begun: earlier removals of the rows that were killed, with their roots.
        left: what stays, one line each: lines of other files that show a row, and files that cannot be searched.
    """

    rows: Rows
    holders: list[Holder]
    publications: list[tuple[Store, Move]]
    begun: list[tuple[str, Tombstone]]
    left: list[str]
    roots: list[str] = field(default_factory=list)
    runs: list[RunAt] = field(default_factory=list)

    @property
    def is_needed(self) -> bool:
        return bool(self.holders or self.publications or self.begun)

    @property
    def losing(self) -> frozenset[str]:
        """Published versions that lose their prompt."""
        return frozenset(holder.version for holder in self.holders) - {""}

    def items(self, row: str) -> list[Record]:
        """Items that a tombstone of a row lists, except latest.json: those deleted now or meant by a killed removal."""
        begun = [item for _, tombstone in self.begun if tombstone.row == row for item in tombstone.removed]
        found = [item for holder in self.holders for item in holder.items(row)]
        kept = [item for item in begun if not item["uri"].endswith(f"/{LATEST_FILE}") or not Place().found(item["uri"])]
        return list({(item["uri"], item["sha256"]): item for item in [*kept, *found]}.values())

    def carry_out(self, reason: str, key: Signer | None = None) -> list[str]:
        """Delete the files, between the two states of the tombstones.

        Args:
            key: signs the tombstones. It does not sign one that continues an unsigned one, whose list someone else
                may have written.

        Returns:
            addresses of the tombstones.

        Raises:
            LineageError: before anything is deleted, when no root for a tombstone is known.
        """
        if not self.roots:
            raise LineageError(
                "no record of a run was found there, so no place for the tombstone; name one with --root"
            )
        if key and not all(is_signed(where, begun, key.public) for where, begun in self.begun):
            key = None
        goes = [(store, move) for store, move in self.publications if move.after is None]
        rows = [row for row in sorted(self.rows) if self.items(row)] or (sorted(self.rows) if goes else [])
        tombstones = [self._tombstone(row, reason, goes) for row in rows]
        _write(self.roots, tombstones, key)
        moved = [(store, move_latest(store, self.rows, self.losing)) for store, _ in self.publications]
        for holder in self.holders:
            holder.delete()
        went = [(store, move) for store, move in moved if move is not None and move.after is None]
        done = [replace(each, state=DONE, removed=[*self.items(each.row), *_latest(went)]) for each in tombstones]
        for root, begun in self.begun:
            _write([root], [replace(begun, state=DONE)], key)
        _write(self.roots, done, key)
        return [joined(root, tombstone.name) for root in self.roots for tombstone in done]

    def _tombstone(self, row: str, reason: str, goes: Sequence[tuple[Store, Move]]) -> Tombstone:
        first = next((begun for _, begun in self.begun if begun.row == row), None)
        return Tombstone(
            row=row,
            when=first.when if first else now(),
            reason=reason or (first.reason if first else ""),
            state=INTENDED,
            removed=[*self.items(row), *_latest(goes)],
        )


def _write(roots: Iterable[str], tombstones: Sequence[Tombstone], key: Signer | None) -> None:
    for root in roots:
        for tombstone in tombstones:
            tombstone.write(root, key)


def _latest(moves: Iterable[tuple[Store, Move]]) -> list[Record]:
    return [{"uri": store.address(LATEST_FILE), "sha256": sha256_of(move.before)} for store, move in moves]


def rows_asked_for(places: Sequence[str], asked: RowName) -> list[RowQuery]:
    """The requested rows, with their texts from the tables in these places and those that runs there read.

    Raises:
        LineageError: when a place holds nothing, or no row fits the condition.
    """
    files = [_files_in(place) for place in places]
    runs = _runs_at(files)
    data_sets = {run.id: list(run.data_sets().values()) for run in runs}
    parameters = {run.id: step.record["parameters"] for run in runs if (step := run.chain.step_of("build_dataset"))}
    found = (columns_of_run(each, data_sets[run]) for run, each in parameters.items())
    columns = tuple(dict.fromkeys(each for each in found if each))
    names = {same_place(store.address(name)) for store, names in files for name in names}
    names |= {same_place(uri) for run in runs for uri in run.sources()}
    contents = ((uri, Place().found(uri)) for uri in sorted(filter(is_table, names)))
    raw = [(uri, content) for uri, content in contents if content is not None and not stamp_in(content)]
    rows = matching_rows(asked, raw, [content for each in data_sets.values() for content in each], columns)
    if not rows:
        known = "" if columns else "; no run there says which columns make the input: add --in RUN"
        raise LineageError(f"no row has {asked.column}={asked.value} in the tables there{known}")
    return rows


def plan(places: Sequence[str], queries: Sequence[RowQuery], *, root: str = "", progress: Told = nobody) -> Removal:
    """Plan the deletion of rows from places; change nothing.

    Args:
        root: another lineage root for the tombstones.
        progress: is told how many files were looked into.

    Raises:
        LineageError: when a place holds nothing, or a cache cannot be read.
    """
    files = [_files_in(place) for place in places]
    runs = _runs_at(files)
    rows = frozenset(query.row for query in queries)
    named = {absolute(root)} if root else set()
    roots = sorted({run.root for run in runs} | named)
    begun = [(where, tombstone) for where in roots for row in rows for tombstone in unfinished(where, row)]
    by_digest = _rows_by_digest(runs, begun, rows)
    looked_at = {_key(store, name): (store, name) for store, names in files for name in names}
    for item in (item for _, tombstone in begun for item in tombstone.removed):  # wherever a killed removal meant it
        uri = re.sub(f"(?<=/{re.escape(CACHE_FILE)})#[0-9a-f]+$", "", item["uri"])
        looked_at.setdefault(_key(*open_file(uri)), open_file(uri))
    holders: list[Holder] = []
    left: dict[str, None] = {}
    for number, (store, name) in enumerate(looked_at.values(), 1):
        progress(number, len(looked_at))
        content = store.read(name)
        if content is None:  # another process has deleted it
            continue
        holder = _holder(store, name, content, rows, by_digest)
        if holder is not None:
            holders.append(holder)
        else:
            left |= dict.fromkeys(_shown_in(store.address(name), content, queries))
    removal = Removal(rows=rows, holders=holders, publications=[], begun=begun, left=list(left))
    publications = _publications(store.address(name) for store, name in looked_at.values())
    moves = [(store, move_without(store, rows, removal.losing)) for store in publications]
    items = [item for row in rows for item in removal.items(row)]
    digests, uris = {item["sha256"] for item in items}, {item["uri"] for item in items}
    affected = [run for run in runs if run.names(digests, uris)]
    return replace(
        removal,
        publications=[(store, move) for store, move in moves if move is not None],
        roots=sorted({run.root for run in affected or runs} | {where for where, _ in begun} | named),
        runs=affected,
    )


def _key(store: Store, name: str) -> str:
    """Identity of a file, however it was found; a link to it has another one and is deleted too."""
    return joined(same_place(store.uri), name)


def not_searched(removal: Removal, places: Sequence[str]) -> list[str]:
    """Files that the affected runs read or wrote outside the searched places."""
    searched = tuple(f"{same_place(place).rstrip('/')}/" for place in places)
    sources = {source for run in removal.runs for source in run.sources()}
    return sorted(source for source in sources if not f"{same_place(source)}/".startswith(searched))


def search_commands(removal: Removal) -> dict[str, list[str]]:
    """Commands that search without the rows, each with the runs that it would replace."""
    found: dict[str, list[str]] = defaultdict(list)
    for run in removal.runs:
        rows = ",".join(sorted(removal.rows))
        options = run_options(run.chain, leave_out=parameters_of(internal=True), exclude_rows=rows)
        found[f".venv/bin/ease run {' '.join(options)}"].append(run.id)
    return found


def _files_in(place: str) -> Files:
    """All files in a place, which may be a single file."""
    store = open_store(place)
    names = store.walk_names()
    if names:
        return store, names
    folder, name = open_file(absolute(place))
    if folder.read(name) is None:
        raise LineageError(f"{place}: no file or object is there; check --in")
    return folder, [name]


def _runs_at(files: Sequence[Files]) -> list[RunAt]:
    """Every run with a file there, and the others of its lineage root; the oldest first."""
    found: dict[str, RunAt] = {}
    for store, names in files:
        place = store.uri.rstrip("/")
        lying = list(_steps(store, [name for name in names if _may_be_record(store.address(name))]))
        records = [step.uri for step in lying] + [str(step.record["attempt"]["record"]) for step in lying]
        roots = {split_root(uri)[0] for uri in records if "/runs/" in uri}
        for root, steps in [*((root, _records_of(root)) for root in sorted(roots)), (place, lying)]:
            by_run: dict[str, dict[str, Step]] = defaultdict(dict)
            for step in steps:
                by_run[str(step.record["run"]["id"])][step.id] = step
            for run, own in by_run.items():
                if run not in found:
                    found[run] = RunAt(root=root, chain=Chain(place=Place(store.uri), steps=list(own.values())))
                    found[run].chain.place.look_for_move(found[run].chain.head)
    return sorted(found.values(), key=lambda run: str(run.chain.everything[0].record["started"]))


def _records_of(root: str) -> list[Step]:
    """All records of a lineage root; none if it cannot be reached."""
    with suppress(StoreError):
        store = open_store(f"{root}/runs")
        return list(_steps(store, store.walk_names()))
    return []


def _may_be_record(uri: str) -> bool:
    """Whether a file's address is that of a record: in a lineage root, among artifacts, or of a copy."""
    *_, folder, name = uri.split("/")
    return is_record(uri) or name == RECORD_FILE or folder == COPIES


def _steps(store: Store, names: Iterable[str]) -> Iterator[Step]:
    """The records among these files."""
    for name, content in read_all(store, names).items():
        with suppress(LineageError, ValueError):
            yield step_of(store.address(name), content)


def _rows_by_digest(runs: Sequence[RunAt], begun: Sequence[tuple[str, Tombstone]], rows: Rows) -> dict[str, set[str]]:
    """Rows by digests of content that does not show them: files derived from them, and files of a killed removal."""
    found: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for name, made_of in MADE_OF_ROWS.items():
            shown = [rows_shown(uri, content) or set() for uri, content in run.data_sets(made_of).items()]
            for part in run.outputs([name]):
                found[str(part["sha256"])] |= rows & set().union(*shown)
    for _, tombstone in begun:
        for item in tombstone.removed:
            found[item["sha256"]].add(tombstone.row)
    return found


def _holder(
    store: Store, name: str, content: bytes, rows: Rows, by_digest: Mapping[str, Collection[str]]
) -> Holder | None:
    """The file, if EASE wrote it and it holds one of the rows."""
    if isinstance(store, FileStore) and name.endswith(CACHE_FILE):
        contents = {key: (rows_of_answer(entry), sha256_of(entry)) for key, entry in _entries(store, name)}
    else:
        uri = store.address(name)
        shown = rows_shown(uri, content)
        if shown is None:
            return None
        folder, slash, file = name.rpartition("/")
        beside = f"{folder}{slash}{BEST_SEQUENCE}" if file in PROMPT_FILES else ""
        shown |= rows_shown(store.address(beside), store.read(beside) or b"") or set() if beside else set()
        contents = {"": (shown, sha256_of(content))}
    held = {key: rows & (shown | set(by_digest.get(sha256, ()))) for key, (shown, sha256) in contents.items()}
    held = {key: found for key, found in held.items() if found}
    return Holder(store=store, name=name, rows=held, digests={key: contents[key][1] for key in held}) if held else None


def _entries(store: FileStore, name: str) -> list[tuple[str, bytes]]:
    path = Path(store.address(name))
    try:
        return list(kept_entries(path))
    except sqlite3.Error as error:
        raise LineageError(f"{path} cannot be searched: {error}; repair it or move it away") from error


def _shown_in(uri: str, content: bytes, queries: Sequence[RowQuery]) -> Iterator[str]:
    """Lines that tell where a file shows the rows, or why it cannot be searched."""
    try:
        for query in queries:
            for place in places_in(uri, content, query):
                yield f"{uri}, {place}"
    except LineageError as error:
        yield f"{uri}: {error}"


def _publications(addresses: Iterable[str]) -> list[Store]:
    """The folders of published prompts that these files lie in."""
    folders = {uri.rpartition(f"/{VERSIONS}/")[0] for uri in addresses}
    return [open_store(folder) for folder in sorted(folders - {""})]
