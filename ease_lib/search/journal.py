"""The journal: a candidate is durable before it is evaluated, an observation before candidates that depend on it.

One journal per search, named by its key (a hash of inputs and settings). A killed search finds it again, on the same
node or on another, and continues. Proposals are never computed again, so it does not matter that another processor may
sum the same numbers to another last digit and would propose another candidate. Nothing is ever overwritten: damaged
journals and those of other searches are refused.

A method that distributes a number of answers over sequences would distribute another number differently, so each number
has its own journal. A new one begins with the entries of the journal with the next smaller number. That is how a higher
cap continues a search, and why a lower one does not stop in the middle of another search.

    folder   one JSON Lines file per search, locked while a search runs. Killing a process loses nothing; what is
             proposed is written through to the disk, with all before it, so a power cut may lose the last observations,
             which are made again. A last line that was cut is dropped and evaluated again.
    s3://    one object per observation and per batch of proposals, created only if absent, so of two runs at once the
             later one is refused. A search that ends copies them all into one object, which the next reads in their
             stead: reading some 1 700 takes 7 s of processor time.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol, cast

from ease_lib.artifacts.store import S3Store, Store, read_all, side_by_side
from ease_lib.black_box.usage import Usage
from ease_lib.digests import sha256_of
from ease_lib.documents import parsed
from ease_lib.errors import JournalError, JournalInUse, StoreError
from ease_lib.notes import Notes
from ease_lib.search.optimizers.history import Candidate, Observation

logger = logging.getLogger("ease")

VERSION = "ease_journal/2"
FOLDER = "journals"
SUFFIX = ".jsonl"
HEADER = "header.json"
PROPOSED = "proposed"
COPIED = "copy-"
"""Prefix of the name of an object with copies of many entries, which ends with their number."""
WORTH_COPYING = 50
"""Number of objects without a copy from which on they are copied into one."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The observation of an iteration, with what it cost.

    Times are of the clock on the wall: `seconds` is what the search took longer because of this evaluation, with
    `usage.seconds` of them spent waiting for the endpoint; over all records they add up to the duration of the search.
    """

    iteration: int
    observation: Observation
    usage: Usage
    seconds: float


def usage_of_records(records: Iterable[Evaluated]) -> Usage:
    """Total cost of these evaluations."""
    return sum((record.usage for record in records), start=Usage())


Found = tuple[list[Evaluated], dict[int, Candidate]]
"""Records in order, and candidates by iteration."""


class Journal(Protocol):
    """Append-only, durable. Open one with `open_journal`."""

    def replay(self) -> Sequence[Evaluated]:
        """The records found at opening, in order of iterations."""
        ...

    def proposed(self) -> Mapping[int, Candidate]:
        """The candidates that were proposed until opening, by iteration; those of the records among them."""
        ...

    def begin(self, records: Sequence[Evaluated], proposed: Mapping[int, Candidate]) -> None:
        """Copy the entries of another search into an empty journal; they are replayed from now on.

        Raises:
            JournalError, StoreError: when it cannot be stored.
        """
        ...

    def propose(self, candidates: Mapping[int, Candidate]) -> None:
        """Store candidates that will be evaluated; they are durable when this returns.

        Raises:
            JournalError, StoreError: when it is not.
        """
        ...

    def append(self, record: Evaluated) -> None:
        """Store a record; it is durable when the next candidates are, and safe from a kill when this returns.

        Raises:
            JournalError, StoreError: when it is not.
        """
        ...


def journal_name(key: str, answers: int | None) -> str:
    """The name of a search's journal.

    Args:
        answers: that a method plans for which spreads them over sequences; None of others.
    """
    return key if answers is None else f"{key}-{answers}"


@contextmanager
def open_journal(store: Store, key: str, notes: Notes, *, answers: int | None = None) -> Iterator[Journal]:
    """Open or create the journal of the search with this key.

    Args:
        store: the run's; journals lie below it in `journals/`, those of one search for several numbers of answers in a
            folder.
        notes: of the stage that writes it.
        answers: as `journal_name` takes them. A new journal begins with what the one with the most answers below these
            holds; what that one asked for confirmation has helped to choose since, and counts as search.

    Raises:
        JournalError: when it is in use, damaged, or of another search.
        StoreError: when the store cannot be used for journals.
    """
    name = journal_name(key, answers)
    folder = store.below(FOLDER) if answers is None else store.below(FOLDER, key)
    with _opened(folder, name, notes) as journal:
        if answers is not None and not journal.proposed():
            _begin_with_fewer(journal, folder, key, answers)
        yield journal


@contextmanager
def open_journal_file(path: Path, key: str, chosen_by: str) -> Iterator[Journal]:
    """Open or create the journal of the search with this key, in a file of its own.

    Raises:
        JournalError: when it is in use, damaged, or of another search.
    """
    with locked_file(path, chosen_by) as (file, _):
        yield FileJournal(file, path, key, Notes(), chosen_by)


@contextmanager
def _opened(store: Store, name: str, notes: Notes) -> Iterator[Journal]:
    if store.folder is None:
        journal = ObjectJournal(cast(S3Store, store.below(name)), name, notes)
        yield journal
        journal.copy_entries()
    else:
        with locked_file(store.folder / f"{name}{SUFFIX}") as (file, path):
            yield FileJournal(file, path, name, notes)


def written(store: Store) -> dict[str, Found]:
    """Current content of the journals below a run's store, by name; nothing is locked, repaired or created.

    Raises:
        JournalError: when one is damaged.
    """
    folder = store.below(FOLDER)
    names = folder.walk_names()
    found: dict[str, Found] = {}
    for name in names:
        key, _, part = name.rpartition("/")
        if name.endswith(SUFFIX):
            whole, _, _ = (folder.read(name) or b"").rpartition(b"\n")  # the last line may be in the making
            _, *lines = whole.split(b"\n")
            entries = [_decoded(line, f"{folder.address(name)}, line {number}") for number, line in enumerate(lines, 2)]
            found[name.rpartition("/")[2].removesuffix(SUFFIX)] = _sorted_out(entries, folder.address(name))
        elif part == HEADER:
            beside = [each.removeprefix(f"{key}/") for each in names if each.startswith(f"{key}/")]
            records = [f"{key}/{each}" for each in beside if each[0].isdecimal() and each.endswith(".json")]
            contents = read_all(folder, records)
            entries = [_decoded(content or b"", folder.address(each)) for each, content in contents.items()]
            found[key.rpartition("/")[2]] = _sorted_out(entries, folder.address(key))
    return found


def _begin_with_fewer(journal: Journal, store: Store, key: str, answers: int) -> None:
    """Read an earlier journal; one that is in use or damaged is ignored, because this search does not need it."""
    names = {name.partition("/")[0].removesuffix(SUFFIX) for name in store.walk_names()}
    for fewer in sorted(_numbers(names, f"{key}-"), reverse=True):
        if fewer >= answers:
            continue
        name = journal_name(key, fewer)
        try:
            with _opened(store, name, Notes()) as other:
                records, proposed = other.replay(), other.proposed()
        except JournalError as error:
            logger.info("notice: the search of %d answers is not continued: %s", fewer, error)
            continue
        if records:
            logger.info("continuing the search of %d answers, journal %s", fewer, name)
            searched = [replace(each, observation=_as_search(each.observation)) for each in records]
            journal.begin(searched, {iteration: _searched(candidate) for iteration, candidate in proposed.items()})
            return


def _numbers(names: Iterable[str], start: str) -> list[int]:
    """Numbers that follow this prefix in names."""
    ends = (name.removeprefix(start) for name in names if name.startswith(start))
    return [int(end) for end in ends if end.isdecimal()]


def _as_search(observation: Observation) -> Observation:
    return replace(observation, candidate=_searched(observation.candidate))


def _searched(candidate: Candidate) -> Candidate:
    return replace(candidate, phase="search") if candidate.phase == "confirmation" else candidate


class FileJournal:
    """JSON Lines behind a header line, in an open and locked file.

    Args:
        chosen_by: the parameter that names its place, for messages.
    """

    def __init__(self, file: IO[bytes], path: Path, key: str, notes: Notes, chosen_by: str = "store_uri") -> None:
        self._file = file
        self._chosen_by = chosen_by
        self._notes = notes
        self._path = path
        self._lines = 0
        self._records, self._candidates = self._recover(key)

    def replay(self) -> Sequence[Evaluated]:
        return self._records

    def proposed(self) -> Mapping[int, Candidate]:
        return self._candidates

    def begin(self, records: Sequence[Evaluated], proposed: Mapping[int, Candidate]) -> None:
        self._write(_encoded_proposals(proposed), *map(_encoded, records), through=True)
        self._records, self._candidates = list(records), dict(proposed)

    def propose(self, candidates: Mapping[int, Candidate]) -> None:
        self._write(_encoded_proposals(candidates), through=True)

    def append(self, record: Evaluated) -> None:
        self._write(_encoded(record))

    def _recover(self, key: str) -> Found:
        """Read everything; cut a torn last line off."""
        self._file.seek(0)
        content = self._file.read()
        whole, _, torn = content.rpartition(b"\n")
        if not whole and not _header(key).startswith(torn):
            raise _damaged(str(self._path))
        if torn:
            self._file.truncate(len(content) - len(torn))
        if not whole:
            self._write(_header(key), through=True)
            return [], {}
        first, *lines = whole.split(b"\n")
        _check_header(first, key, str(self._path), self._chosen_by)
        for line in (first, *lines):
            self._note(line)
        found = (_decoded(line, f"{self._path}, line {number}") for number, line in enumerate(lines, 2))
        return _sorted_out(found, str(self._path))

    def _write(self, *lines: bytes, through: bool = False) -> None:
        append_lines(self._file, self._path, self._chosen_by, *lines, through=through)
        for line in lines:
            self._note(line)

    def _note(self, line: bytes) -> None:
        self._lines += 1
        self._notes.entry(str(self._path.absolute()), str(self._lines), line)


def append_lines(file: IO[bytes], path: Path, chosen_by: str, *lines: bytes, through: bool = False) -> None:
    """Append lines to a file; with `through`, flush them and everything written before to the disk.

    Raises:
        JournalError: when they cannot be written; nothing of them is left in the file then.
    """
    end = file.seek(0, os.SEEK_END)
    content = b"".join(line + b"\n" for line in lines)
    try:
        if file.write(content) != len(content):
            raise OSError("the disk is full")
        if through:
            os.fsync(file.fileno())
    except OSError as error:
        file.truncate(end)  # a disk that was full must not leave half a line in the middle
        raise JournalError(f"{path}: cannot be written: {error}; free space or choose another {chosen_by}") from error


@contextmanager
def locked_file(path: Path, chosen_by: str = "store_uri") -> Iterator[tuple[IO[bytes], Path]]:
    """A locked file to append to, created if it is missing.

    Args:
        chosen_by: the parameter that names its place, for messages.

    Raises:
        JournalError: when it is in use, or cannot be opened or locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise JournalError(f"{path}: cannot be opened: {error}; choose another {chosen_by}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = "another run; wait for it, or give this run another store_uri"
            if chosen_by == "journal":
                holder = "another search, perhaps one of this process; close it, or choose another journal"
            raise JournalInUse(f"{path} is in use by {holder}", length=path.stat().st_size) from error
        except OSError as error:
            raise JournalError(
                f"{path} cannot be locked ({error.strerror}); take a {chosen_by} on a file system with locks"
                + (", or s3://" if chosen_by == "store_uri" else "")
            ) from error
        yield file, path


class MemoryJournal:
    """Journal of a search that ends with its process."""

    def replay(self) -> Sequence[Evaluated]:
        return ()

    def proposed(self) -> Mapping[int, Candidate]:
        return {}

    def begin(self, records: Sequence[Evaluated], proposed: Mapping[int, Candidate]) -> None:
        raise NotImplementedError("a search that is gone with its process has no other to continue")

    def propose(self, candidates: Mapping[int, Candidate]) -> None: ...

    def append(self, record: Evaluated) -> None: ...


class ObjectJournal:
    """A header object, and one object per record and per batch of proposals, below a prefix of a bucket."""

    def __init__(self, store: S3Store, key: str, notes: Notes) -> None:
        self._store = store
        self._notes = notes
        store.check()
        if not store.create(HEADER, _header(key)):
            _check_header(store.read(HEADER) or b"", key, f"{store.uri}{HEADER}")
        listed = store.find_names()
        names = [name for name in listed if name[0].isdecimal()]
        copied = max((name for name in listed if name.startswith(COPIED)), default="")
        copies = _copies(store.read(copied) or b"") if copied else {}
        others = read_all(store, [name for name in names if name not in copies])
        self._contents = {name: copies.get(name) or others.get(name) or b"" for name in names}
        self._not_copied = len(others)
        notes.entry(store.uri, HEADER, _header(key))
        for name, content in self._contents.items():
            notes.entry(store.uri, name, content)
        found = (_decoded(content, store.uri + name) for name, content in self._contents.items())
        self._records, self._candidates = _sorted_out(found, store.uri)

    def replay(self) -> Sequence[Evaluated]:
        return self._records

    def proposed(self) -> Mapping[int, Candidate]:
        return self._candidates

    def begin(self, records: Sequence[Evaluated], proposed: Mapping[int, Candidate]) -> None:
        self.propose(proposed)
        list(side_by_side(self.append, records))
        self._records, self._candidates = list(records), dict(proposed)

    def propose(self, candidates: Mapping[int, Candidate]) -> None:
        self._create(f"{min(candidates):06d}.{PROPOSED}.json", _encoded_proposals(candidates))

    def append(self, record: Evaluated) -> None:
        self._create(f"{record.iteration:06d}.json", _encoded(record))

    def copy_entries(self) -> None:
        """Copy all entries into one object, if that saves the next search many reads; nothing depends on it."""
        if self._not_copied >= WORTH_COPYING:
            with suppress(StoreError):
                self._store.create(f"{COPIED}{len(self._contents):08d}", _copy(self._contents))

    def _create(self, name: str, content: bytes) -> None:
        if not self._store.create(name, content):
            raise JournalInUse(
                f"{self._store.uri}{name} was written by another run of the same search; "
                "wait for that one to end and run again, or give this run another store_uri",
                length=len(self._contents),
            )
        self._notes.entry(self._store.uri, name, content)
        self._contents[name] = content
        self._not_copied += 1


def _copy(entries: Mapping[str, bytes]) -> bytes:
    """Entries as lines of name and content, after their SHA-256."""
    lines = b"\n".join(f"{name} ".encode() + entry for name, entry in entries.items())
    return sha256_of(lines).encode() + b"\n" + lines


def _copies(content: bytes) -> dict[str, bytes]:
    """Entries by name; none if the copy was changed, because the originals exist."""
    digest, _, lines = content.partition(b"\n")
    if digest.decode(errors="replace") != sha256_of(lines):
        return {}
    named = (line.partition(b" ") for line in lines.split(b"\n"))
    return {name.decode(): entry for name, _, entry in named}


def _header(key: str) -> bytes:
    return _json({"version": VERSION, "key": key})


def _check_header(line: bytes, key: str, where: str, chosen_by: str = "store_uri") -> None:
    header = _parsed(line, where)
    if header.get("version") != VERSION or header.get("key") != key:
        raise JournalError(
            f"{where} is not the journal of this run (found {header.get('version')}, {header.get('key')}); "
            f"move it away or choose another {chosen_by}"
        )


def _sorted_out(found: Iterable[Evaluated | dict[int, Candidate]], where: str) -> Found:
    """Records in order of their iterations, and all candidates by iteration."""
    records: list[Evaluated] = []
    candidates: dict[int, Candidate] = {}
    for entry in found:
        if isinstance(entry, Evaluated):
            records.append(entry)
        else:
            candidates |= entry
    iterations = [record.iteration for record in records]
    if len(set(iterations)) < len(iterations):
        raise JournalError(f"{where} has an iteration twice; it was left as it is: move it away, then run again")
    candidates |= {record.iteration: record.observation.candidate for record in records}
    return sorted(records, key=lambda record: record.iteration), candidates


def _encoded(record: Evaluated) -> bytes:
    return _sealed("record", asdict(record))


def _encoded_proposals(candidates: Mapping[int, Candidate]) -> bytes:
    return _sealed(PROPOSED, {str(iteration): asdict(candidate) for iteration, candidate in candidates.items()})


def _sealed(kind: str, content: dict[str, Any]) -> bytes:
    return _json({kind: content, "sha256": sha256_of(_json(content))})


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _decoded(line: bytes, where: str) -> Evaluated | dict[int, Candidate]:
    """A record, or candidates by iteration."""
    try:
        content = _parsed(line, where)
        kind = PROPOSED if PROPOSED in content else "record"
        fields = _json(content[kind])
        if content["sha256"] != sha256_of(fields):
            raise _damaged(where)
        if kind == PROPOSED:
            return {int(iteration): each for iteration, each in parsed(dict[str, Candidate], fields).items()}
        return parsed(Evaluated, fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(where) from error


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise _damaged(where) from error
    if not isinstance(content, dict):
        raise _damaged(where)
    return content


def _damaged(where: str) -> JournalError:
    return JournalError(f"{where} is damaged and was left as it is; repair or move it, then run again")
