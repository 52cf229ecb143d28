"""Files of records: CSV, TSV, JSONL and JSON (also .gz), Parquet and spreadsheets (.xlsx), read one record at a time.

CSV cells may be separated by comma, semicolon, tab or bar: what fits the first lines. Text is what its byte order mark
says, else the encoding that is named, else UTF-8. Of a spreadsheet the first sheet is read, as it was saved; all texts
of it are in memory then.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.errors import DataError
from ease_lib.tasks.base import Readable

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx")
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
COMPRESSED = ".gz"
TABLE_NAMES = (*SUFFIXES, *(f"{suffix}{COMPRESSED}" for suffix in TEXT_SUFFIXES))
"""How names of tables end."""
DELIMITERS = (",", ";", "\t", "|")
HEAD_LINES = 20
"""Of a CSV file, by which its delimiter is known."""
READ_CHARACTERS = 2**20
PARQUET_ROWS_AT_ONCE = 4096
CELL_ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A")
"""What a spreadsheet shows where a formula has no value."""
MARK = "\ufeff"
"""Byte order mark, as text."""
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_SURROGATE = re.compile("[\udc80-\udcff]")
"""What stands for a byte that could not be decoded."""
csv.field_size_limit(2**31 - 1)

Record = dict[str, Any]
Place = tuple[str, int, int]
"""Unit, its number, and the number of the record where that is another; else 0."""
Records = Iterator[tuple[Place, Record]]


def shown(place: Place) -> str:
    """`line 3 (record 2)` as an editor counts lines, `row 2` where there are none."""
    unit, number, record = place
    return f"{unit} {number}" + (f" (record {record})" if record else "")


class RecordFile:
    """A file of records.

    Args:
        wanted: columns that are needed; of Parquet no others are read.
        encoding: of text without a byte order mark; empty is UTF-8.
        remedy: what the error of a missing column advises.
    """

    def __init__(self, file: Readable, wanted: Sequence[str], encoding: str = "", remedy: str = "") -> None:
        self.name = file.name
        self.notices: list[str] = []
        self._file = file
        self._wanted = wanted
        self._encoding = encoding
        self._remedy = remedy

    def records(self) -> Records:
        """All of them, with their places; `notices` are complete behind the last.

        Raises:
            DataError: naming the file, and the place where it is broken.
        """
        readers: dict[str, Callable[[IO[bytes]], Records]] = {
            ".csv": self._csv,
            ".tsv": self._csv,
            ".jsonl": self._json,
            ".json": self._json,
            ".parquet": self._parquet,
            ".xlsx": self._xlsx,
        }
        suffix = Path(self.name.lower().removesuffix(COMPRESSED)).suffix
        if suffix not in readers or not self.name.lower().endswith(TABLE_NAMES):
            raise DataError(f"{self.name}: unknown kind of table; use one of {', '.join(TABLE_NAMES)}")
        try:
            with _opened(self._file) as content:
                yield from readers[suffix](content)
        except UnicodeError as error:
            raise DataError(self._undecodable(error)) from error
        except (OSError, EOFError, zlib.error, pa.ArrowInvalid, csv.Error, BadZipFile, SyntaxError) as error:
            raise DataError(f"{self.name} cannot be read as {suffix[1:]}: {error}") from error

    def row_count(self) -> int | None:
        """Rows of the whole file where that is known at once: a Parquet file says so."""
        if self._file.suffix.lower() != ".parquet":
            return None
        with self._file.open("rb") as content:
            return int(pq.ParquetFile(content).metadata.num_rows)

    @contextmanager
    def _text(self, content: IO[bytes], newline: str | None = None) -> Iterator[tuple[str, IO[str]]]:
        """The first line, without a byte order mark, and what follows it; of a long line its beginning."""
        with io.TextIOWrapper(content, text_encoding(content, self._encoding), newline=newline) as text:
            yield text.readline(READ_CHARACTERS).removeprefix(MARK), text

    def _undecodable(self, error: UnicodeError) -> str:
        with _opened(self._file) as content:
            encoding = text_encoding(content, self._encoding)
            line = _first_broken_line(content, encoding)
        remedy = "set encoding to what it is, or save it as UTF-8"
        if encoding == "utf-8":
            remedy = "save it as UTF-8 (of a spreadsheet: CSV UTF-8), or set encoding=cp1252, or whatever it is"
        return f"{self.name}{line} is not {encoding.upper()} text; {remedy}"

    def _csv(self, content: IO[bytes]) -> Records:
        with self._text(content, newline="") as (first_line, text):
            if not first_line:
                return
            first_line += text.readline() if not first_line.endswith(("\r", "\n")) else ""
            head = [first_line, *itertools.islice(text, HEAD_LINES - 1)]
            reader = csv.reader(itertools.chain(head, text), delimiter=delimiter_of(head, self._wanted))
            first = next(reader)
            header, has_header = self._header(first)
            line, number = (reader.line_num, 0) if has_header else (0, 0)
            for cells in reader if has_header else itertools.chain([first], reader):
                begins, line = line + 1, reader.line_num
                number += 1
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise DataError(
                        f"{self.name}, {shown(('line', begins, number))}: {len(cells)} cells for {len(header)} "
                        "columns; quote cells that hold commas or line breaks"
                    )
                yield ("line", begins, number), dict(zip(header, cells, strict=True))

    def _header(self, first: list[str]) -> tuple[list[str], bool]:
        """Names of the columns, and whether the first record holds them."""
        if not set(self._wanted) <= set(first) and all(name.isdigit() for name in self._wanted):
            return [str(position) for position in range(1, len(first) + 1)], False
        self._check_once(first)
        return first, True

    def _check_once(self, names: list[str]) -> None:
        twice = next((name for name in self._wanted if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.name}: {names.count(twice)} columns are named {twice!r}; rename the others")

    def _json(self, content: IO[bytes]) -> Records:
        """Of an array, or of an object on each line."""
        with self._text(content) as (first, text):
            records: Iterator[tuple[Place, Any]]
            if Path(self.name.lower().removesuffix(COMPRESSED)).suffix == ".json" and first.lstrip().startswith("["):
                records = _array_items(first, text, self.name)
            else:
                first += text.readline() if not first.endswith("\n") else ""
                lines = enumerate(itertools.chain([first], text), 1)
                records = (
                    (("line", number, 0), _json(line, self.name, number)) for number, line in lines if line.strip()
                )
            for place, record in records:
                if not isinstance(record, dict):
                    raise DataError(
                        f"{self.name}, {shown(place)}: a JSON object is needed, found {type(record).__name__}; "
                        "give one object for each row"
                    )
                yield place, record

    def _parquet(self, content: IO[bytes]) -> Records:
        is_local = isinstance(self._file, Path) and self._file.suffix.lower() == ".parquet"
        file = pq.ParquetFile(self._file if is_local else content)  # Python's file objects: see `tables.table_of`
        names = file.schema_arrow.names
        missing = sorted(set(self._wanted) - set(names))
        if missing:
            raise DataError(f"{self.name}: no column {missing[0]!r}; there are {sorted(names)}: {self._remedy}")
        self._check_once(names)
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS_AT_ONCE, columns=list(self._wanted)):
            for record in batch.to_pylist(maps_as_pydicts="strict"):
                number += 1
                yield ("row", number, 0), record

    def _xlsx(self, content: IO[bytes]) -> Records:
        """Of the first sheet; rows are counted as a spreadsheet does. A column without a name in the header is none."""
        title, sheet = self._sheet(content)
        rows = enumerate(sheet, 1)
        filled = ((number, row) for number, row in rows if any(cell is not None for cell in row))
        top, first = next(filled, (0, ()))
        names = ["" if cell is None else str(spreadsheet_value(cell)).strip() for cell in first]
        header, has_header = self._header(names)
        for number, row in filled if has_header or not first else itertools.chain([(top, first)], filled):
            cells = itertools.chain(map(spreadsheet_value, row), itertools.repeat(None))
            yield (
                (f"sheet '{title}', row", number, 0),
                {name: cell for name, cell in zip(header, cells, strict=False) if name},
            )

    def _sheet(self, content: IO[bytes]) -> tuple[str, Iterator[tuple[Any, ...]]]:
        """Title and rows of the first sheet."""
        import openpyxl  # takes 0.2 s, and few tables are spreadsheets

        try:
            with warnings.catch_warnings(action="ignore"):  # on styles and other things that are no values
                sheet, *others = openpyxl.load_workbook(content, read_only=True, data_only=True).worksheets
        except (BadZipFile, KeyError, ValueError) as error:
            raise DataError(
                f"{self.name} cannot be read as xlsx: {error}; save it anew as Excel workbook, without a password"
            ) from error
        if others:
            self.notices.append(
                f"of the {1 + len(others)} sheets of {self.name} the first is read, {sheet.title!r}; save another one "
                "as a file of its own"
            )
        sheet.reset_dimensions()  # some programs write wrong ones
        return sheet.title, sheet.iter_rows(values_only=True)


def text_encoding(content: IO[bytes], named: str = "") -> str:
    """What a file's byte order mark says; without one the encoding that is named, or UTF-8."""
    begins = content.read(len(codecs.BOM_UTF8))
    content.seek(0)
    if begins.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8" if begins == codecs.BOM_UTF8 else named or "utf-8"


def spreadsheet_value(value: Any) -> Any:
    """A cell as people see it: whole numbers without a point, dates as ISO, without a time where that is midnight.

    An error (`#N/A`) is nothing.
    """
    if value in CELL_ERRORS:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value


@contextmanager
def _opened(file: Readable) -> Iterator[IO[bytes]]:
    """Its content, uncompressed."""
    with file.open("rb") as content:
        if not file.name.lower().endswith(COMPRESSED):
            yield content
            return
        with gzip.open(content) as inside:
            yield inside  # type: ignore[misc]


def _first_broken_line(content: IO[bytes], encoding: str) -> str:
    """Which line of it is not of this encoding, as `, line 3,`; empty where that cannot be told."""
    try:
        with io.TextIOWrapper(content, encoding, errors="surrogateescape") as text:
            return next((f", line {number}," for number, line in enumerate(text, 1) if _SURROGATE.search(line)), "")
    except UnicodeError:
        return ""


def delimiter_of(head: Sequence[str], wanted: Sequence[str] = ()) -> str:
    """What separates the cells: it makes the wanted columns of the first line, else the most cells, always as many."""
    tables = {delimiter: _cells(head, delimiter) for delimiter in DELIMITERS}
    for delimiter, records in tables.items():
        if records and wanted and set(wanted) <= set(records[0]):
            return delimiter
    cells = {
        delimiter: len(records[0])
        for delimiter, records in tables.items()
        if records and {len(record) for record in records[:-1]} <= {len(records[0])}  # the last may be cut
    }
    return max(cells, key=lambda delimiter: cells[delimiter], default=",")


def _cells(head: Sequence[str], delimiter: str) -> list[list[str]]:
    """Of records with any; none where it cannot be read so."""
    try:
        return [record for record in csv.reader(head, delimiter=delimiter) if record]
    except csv.Error:
        return []


def _array_items(first: str, text: IO[str], name: str) -> Iterator[tuple[Place, Any]]:
    """The items of an array, one after another, so that it need not fit into memory."""
    decoder = json.JSONDecoder()
    read, place, number = first, first.index("[") + 1, 0
    while True:
        place = _BETWEEN_ITEMS.match(read, place).end()  # type: ignore[union-attr]
        try:
            if read.startswith("]", place):
                return
            item, place = decoder.raw_decode(read, place)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError):
                raise DataError(f"{name}, item {number + 1}: {_too_much(error)}") from error
            left = read[place:]
            more = text.read(max(READ_CHARACTERS, len(left)))
            if not more:
                raise DataError(f"{name}, item {number + 1}: not valid JSON ({error.msg}); correct it") from error
            read, place = left + more, 0
            continue
        number += 1
        yield ("item", number, 0), item


def _json(text: str, name: str, number: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {number}: not valid JSON ({error.msg}); one object a line is needed") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}, line {number}: {_too_much(error)}") from error


def _too_much(error: Exception) -> str:
    """What is wrong with JSON that is valid, and cannot be read all the same."""
    what = "brackets nested too deep" if isinstance(error, RecursionError) else "a number of thousands of digits"
    return f"{what}; write it as a text, or remove the row"
