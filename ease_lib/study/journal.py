"""The journal: every observation is on disk before the next is asked for.

One file per search, named by its key (a hash of inputs and settings), one JSON record a line behind a header line. A
killed search finds its file again and continues. A last line that was cut by the kill is dropped and evaluated again;
any other damage is refused, and nothing is ever overwritten. The file is locked while a search runs.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ease_lib.errors import JournalError
from ease_lib.evaluation.objective import Usage
from ease_lib.study.history import Candidate, Observation

VERSION = "ease_journal/1"


@dataclass(frozen=True, kw_only=True)
class Record:
    """An observation with what it cost; `seconds` counts from the ask to the score."""

    observation: Observation
    usage: Usage
    seconds: float


class Journal:
    """An append-only file of records. Open it with `open_journal`."""

    def __init__(self, file: IO[bytes], path: Path, records: list[Record]) -> None:
        self._file = file
        self._path = path
        self._records = records

    def replay(self) -> list[Record]:
        """The records found at opening, in order."""
        return list(self._records)

    def append(self, record: Record) -> None:
        """Write a record through to the disk."""
        try:
            self._file.write(_line({"record": asdict(record)}))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(
                f"{self._path}: cannot be written: {error}; free space or choose another store_uri"
            ) from error


@contextmanager
def open_journal(folder: Path, key: str) -> Iterator[Journal]:
    """Open or create the journal of the search with this key.

    Raises:
        JournalError: when it is in use, damaged, or of another search.
    """
    path = folder / f"{key}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise JournalError(f"{path}: cannot be opened: {error}; choose another store_uri") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(
                f"{path} is in use by another run; wait for it, or give this run another store_uri"
            ) from error
        records = _recover(file, path, key)
        yield Journal(file, path, records)


def _recover(file: IO[bytes], path: Path, key: str) -> list[Record]:
    """Read all records; cut a torn last line off."""
    file.seek(0)
    content = file.read()
    whole, _, torn = content.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if torn:
        file.truncate(len(content) - len(torn))
    if not lines:
        file.write(_line({"version": VERSION, "key": key}))
        file.flush()
        return []
    header = _parsed(lines[0], path, 1)
    if (header.get("version"), header.get("key")) != (VERSION, key):
        raise JournalError(
            f"{path} is not the journal of this run (found {header.get('version')}, {header.get('key')}); "
            "move it away or choose another store_uri"
        )
    return [_record(_parsed(line, path, number), path, number) for number, line in enumerate(lines[1:], 2)]


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise _damaged(path, number) from error
    if not isinstance(content, dict):
        raise _damaged(path, number)
    return content


def _record(content: dict[str, Any], path: Path, number: int) -> Record:
    try:
        fields = content["record"]
        observation = fields["observation"]
        candidate = observation["candidate"]
        return Record(
            observation=Observation(
                candidate=Candidate(**{**candidate, "sequence": tuple(candidate["sequence"])}),
                score=observation["score"],
                validation_rows=observation["validation_rows"],
            ),
            usage=Usage(**fields["usage"]),
            seconds=fields["seconds"],
        )
    except (KeyError, TypeError) as error:
        raise _damaged(path, number) from error


def _damaged(path: Path, number: int) -> JournalError:
    return JournalError(
        f"{path} is damaged in line {number}; it was left as it is: mend or move it away, then run again"
    )
