"""Files of records: CSV, TSV, JSONL and JSON (also .gz), Parquet and spreadsheets (.xlsx), read one record at a time.

CSV cells may be separated by comma, semicolon, tab or bar, whichever fits the first lines. Text is decoded by its byte
order mark, else by the named encoding, else as UTF-8, or as UTF-16 or 32 if it looks like that. Of a spreadsheet the
first visible sheet is read, as it was saved; all its texts are then in memory.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar
from zipfile import BadZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.errors import DataError
from ease_lib.tasks.base import Readable
from ease_lib.tasks.delimited import DelimitedFile, Misquoted, Quoting
from ease_lib.tasks.encodings import text_encoding, without_marks
from ease_lib.tasks.headers import check_once
from ease_lib.tasks.json_records import json_records
from ease_lib.tasks.places import Records
from ease_lib.tasks.spreadsheets import spreadsheet_records

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx")
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
COMPRESSED = ".gz"
TABLE_NAMES = (*SUFFIXES, *(f"{suffix}{COMPRESSED}" for suffix in TEXT_SUFFIXES))
"""Endings of the names of tables."""
PARQUET_ROWS_AT_ONCE = 4096
_SURROGATE = re.compile("[\udc80-\udcff]")
"""Character that replaces a byte that could not be decoded."""
OTHER_KINDS = (
    ((b"\x1f\x8b",), COMPRESSED, "compressed by gzip", "rename it to end in .gz"),
    ((b"PK\x03\x04",), ".xlsx", "an Excel workbook or another archive", "rename the workbook to end in .xlsx"),
    ((b"PAR1\x15",), ".parquet", "Parquet", "rename it to end in .parquet"),
    ((b"\xd0\xcf\x11\xe0",), ".xls", "an old or encrypted Excel workbook", "save it as .xlsx, without a password"),
    ((b"version https://git-lfs",), ".lfs", "a Git LFS pointer, not the file", "run `git lfs pull`"),
    ((b"<!DOCTYPE html", b"<!doctype html"), ".html", "a web page", "download the file itself"),
)
"""Beginnings of files that are not text tables, with the usual ending of their names and a remedy."""
LONGEST_MARK = 32
"""Number of first bytes that show a file's kind."""
Read = TypeVar("Read")


class RecordFile:
    """A file of records.

    Args:
        wanted: columns that are needed; of Parquet no others are read, unless `whole` records are wanted.
        encoding: of text without a byte order mark; empty is UTF-8.
        remedy: what the error of a missing column advises.
    """

    def __init__(
        self, file: Readable, wanted: Sequence[str], encoding: str = "", remedy: str = "", *, whole: bool = False
    ) -> None:
        self.name = file.name
        self.notices: list[str] = []
        self.swallowed = 0
        self._file = file
        self._wanted = wanted
        self._whole = whole
        self._encoding = encoding
        self._remedy = remedy

    def read(self, consume: Callable[[Records], Read]) -> Read:
        """Return a function's result on the records and their places; then `notices` and `swallowed` are complete.

        It is given the records anew, from the first on, where quotes turn out to mean something else in this file.

        Args:
            consume: must not keep anything of records that it was given before.

        Raises:
            DataError: naming the file, and the place where it is broken.
        """
        problem: Misquoted | None = None
        for quoting in Quoting:
            if quoting is Quoting.TRUSTED and not (problem and problem.is_doubt):
                break
            self.notices, self.swallowed = [], 0
            try:
                made = consume(self._records(quoting))
            except Misquoted as error:
                problem = problem or error
                continue
            if problem and quoting is not Quoting.TRUSTED:
                self.notices.append(_read_as(self.name, quoting, problem))
            return made
        raise DataError(str(problem)) from problem

    def _records(self, quoting: Quoting) -> Records:
        readers: dict[str, Callable[[IO[bytes]], Records]] = {
            ".csv": lambda content: self._delimited(content, quoting),
            ".tsv": lambda content: self._delimited(content, quoting),
            ".jsonl": self._json,
            ".json": self._json,
            ".parquet": self._parquet,
            ".xlsx": lambda content: spreadsheet_records(self.name, content, self._wanted, self.notices),
        }
        suffix = Path(self.name.lower().removesuffix(COMPRESSED)).suffix
        if suffix not in readers or not self.name.lower().endswith(TABLE_NAMES):
            raise DataError(f"{self.name}: unknown kind of table; use one of {', '.join(TABLE_NAMES)}")
        try:
            with _opened(self._file) as content:
                yield from readers[suffix](content)
        except UnicodeError as error:
            raise DataError(self._undecodable(error)) from error
        except (OSError, EOFError, zlib.error, pa.ArrowException, KeyError, BadZipFile, SyntaxError) as error:
            raise DataError(f"{self.name} cannot be read as {suffix[1:]}: {error}") from error

    def row_count(self) -> int | None:
        """Number of rows of the whole file if that is known at once, as for Parquet."""
        if self._file.suffix.lower() != ".parquet":
            return None
        with self._file.open("rb") as content:
            return int(pq.ParquetFile(content).metadata.num_rows)

    @contextmanager
    def _text(self, content: IO[bytes], newline: str | None = None) -> Iterator[IO[str]]:
        with io.TextIOWrapper(content, text_encoding(content, self._encoding), newline=newline) as text:
            yield text

    def _undecodable(self, error: UnicodeError) -> str:
        with _opened(self._file) as content:
            encoding = text_encoding(content, self._encoding)
            line = _first_broken_line(content, encoding)
        remedy = "set encoding to the right one, or save it as UTF-8"
        if encoding == "utf-8":
            remedy = "save it as UTF-8 (of a spreadsheet: CSV UTF-8), or set encoding, e.g. cp1252"
        return f"{self.name}{line} is not {encoding.upper()} text; {remedy}"

    def _delimited(self, content: IO[bytes], quoting: Quoting) -> Records:
        table = DelimitedFile(self.name, self._wanted, quoting)
        with self._text(content, newline="") as text:
            yield from table.records(without_marks(text))
        self.notices += table.notices
        self.swallowed = table.swallowed

    def _json(self, content: IO[bytes]) -> Records:
        with self._text(content) as text:
            yield from json_records(self.name, text, self._wanted, self._remedy, self.notices)

    def _parquet(self, content: IO[bytes]) -> Records:
        is_local = isinstance(self._file, Path) and self._file.suffix.lower() == ".parquet"
        file = pq.ParquetFile(self._file if is_local else content)  # Python's file objects: see `tables.table_of`
        names = file.schema_arrow.names
        missing = sorted(set(self._wanted) - set(names))
        if missing:
            raise DataError(f"{self.name}: no column {missing[0]!r}; there are {sorted(names)}: {self._remedy}")
        check_once(self.name, names, self._wanted)
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS_AT_ONCE, columns=None if self._whole else list(self._wanted)):
            for record in batch.to_pylist(maps_as_pydicts="strict"):
                number += 1
                yield ("row", number, 0), record


def _read_as(name: str, quoting: Quoting, problem: Misquoted) -> str:
    what = {
        Quoting.SPACED: "a blank precedes quotes",
        Quoting.ESCAPED: "a backslash precedes quotes that are text",
        Quoting.NONE: "nothing is quoted",
    }[quoting]
    return f"{name} is read as a file where {what} (known by {problem.place[0]} {problem.place[1]})"


@contextmanager
def _opened(file: Readable) -> Iterator[IO[bytes]]:
    """Open the file's content, uncompressed.

    Raises:
        DataError: when the first bytes say that it is something else than its name says.
    """
    with file.open("rb") as content:
        begins = content.read(LONGEST_MARK)
        content.seek(0)
        for marks, end, kind, remedy in OTHER_KINDS:
            if begins.startswith(marks) and not file.name.lower().endswith(end):
                raise DataError(f"{file.name}: its first bytes show that it is {kind}; {remedy}")
        if not file.name.lower().endswith(COMPRESSED):
            yield content
            return
        with gzip.open(content) as inside:
            yield inside  # type: ignore[misc]


def _first_broken_line(content: IO[bytes], encoding: str) -> str:
    """The line that is not in this encoding, as `, line 3,`; empty if that is unknown."""
    try:
        with io.TextIOWrapper(content, encoding, errors="surrogateescape") as text:
            return next((f", line {number}," for number, line in enumerate(text, 1) if _SURROGATE.search(line)), "")
    except UnicodeError:
        return ""
