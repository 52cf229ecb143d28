"""CSV and TSV, read strictly: a quote that is not closed, or is followed by text, is an error.

Programs differ in their use of quotes. A file is read as spreadsheets write it (a quote within a cell is doubled); if
that fails, with a blank between delimiter and quote, as people write it, or with escaping backslashes, as MySQL and
Spark write it; and if tabs or bars separate the cells, without quoting, as databases write it. The first reading under
which the whole file is consistent counts.

A line without visible text, and empty cells after the last column, are neither record nor cell.
"""

from __future__ import annotations

import csv
import enum
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ease_lib.equality import is_blank
from ease_lib.errors import DataError
from ease_lib.tasks.headers import Header
from ease_lib.tasks.places import Place, Records, shown
from ease_lib.words import grouped

DELIMITERS = (",", ";", "\t", "|")
OF_DATABASES = ("\t", "|")
"""Delimiters of files that may have no quoting."""
HEAD_LINES = 20
"""Number of lines from which the delimiter of a file is recognised."""
NULL = "\\N"
"""The cell of MySQL and PostgreSQL that is missing."""
FEW_LINES = 4
"""Number of lines from which on text does not look like rows by chance."""
LONG_CELL = 10
"""Number of lines of a cell that is suspicious if other cells have one."""
RARE = 1 / 100
"""Share of records below which records of several lines are suspicious."""
_DECLARED = re.compile(r'"?sep=(.)"?\r?\n?', flags=re.IGNORECASE)
"""The first line that tells Excel the delimiter."""
_LINE_END = re.compile(r"\r\n|\r|\n")
_BACKSLASH = re.compile(r'\\(["\\\r\n]?)')
csv.field_size_limit(2**31 - 1)


class Quoting(enum.Enum):
    """Meanings of quotes in a file, in the order in which they are tried."""

    DOUBLED = "spreadsheets"
    SPACED = "a blank before each"
    ESCAPED = "backslashes"
    NONE = "no quotes"
    TRUSTED = "as the first, however much a cell looks like rows"


class Misquoted(DataError):
    """The file does not hold together as it was read.

    Args:
        is_doubt: it could be read, and a cell looks as if it were rows.
    """

    def __init__(self, message: str, place: Place, *, is_doubt: bool = False) -> None:
        super().__init__(message)
        self.place = place
        self.is_doubt = is_doubt


class DelimitedFile:
    """A file of cells.

    Args:
        name: of the file.
        wanted: columns that are needed.
        quoting: what quotes mean.
    """

    def __init__(self, name: str, wanted: Sequence[str], quoting: Quoting) -> None:
        self._name = name
        self._wanted = wanted
        self._quoting = quoting
        self._cells_of_lines = _CellsOfLines(name)
        self._header: Header | None = None

    @property
    def swallowed(self) -> int:
        """Lines that look like rows and became part of a cell."""
        return self._cells_of_lines.swallowed

    @property
    def notices(self) -> list[str]:
        """Notices about the records; complete after the last record."""
        return [*(self._header.notices if self._header else ()), *self._cells_of_lines.notices]

    def records(self, lines: Iterator[str]) -> Records:
        """Records of the lines, with their places.

        Raises:
            Misquoted: when quotes or numbers of cells do not fit; another quoting may.
            DataError: when the header cannot be used.
        """
        head = list(itertools.islice(lines, HEAD_LINES))
        declared = _DECLARED.fullmatch(head[0]) if head else None
        before = 1 if declared else 0
        head = head[before:]
        if not head:
            return
        default = "\t" if ".tsv" in self._name.lower() else ","
        delimiter = declared[1] if declared else delimiter_of(head, self._wanted, default)
        is_spaced = any(f'{delimiter} "' in line for line in head)
        reader: Any = self._reader(itertools.chain(head, lines), delimiter, head[0], is_spaced=is_spaced)
        line, number = before, 0
        try:
            for first in reader:
                if not is_blank("".join(first)):
                    break
                line = before + reader.line_num
            else:
                return
            self._header = header = Header(self._name, first, self._wanted)
            if header.is_first:
                line = before + reader.line_num
            names, width, is_unquoted = header.names, len(header.names), self._quoting is Quoting.NONE
            for cells in reader if header.is_first else itertools.chain([first], reader):
                begins, line = line + 1, before + reader.line_num
                number += 1
                place = ("line", begins, number)
                if len(cells) != width:
                    if is_blank("".join(cells)):
                        continue
                    if len(cells) < width or not is_blank("".join(cells[width:])):
                        raise self._of_other_width(place, line, len(cells), width)
                    del cells[width:]
                if cells[0] in header.known and header.is_repeated(cells, place):
                    number -= 1
                    continue
                if line != begins:
                    self._look_at(place, line, cells, delimiter)
                if is_unquoted:
                    self._check_unquoted(cells, place)
                if is_spaced and self._quoting is Quoting.DOUBLED:
                    self._check_not_spaced(cells, place)
                if NULL in cells:
                    cells = ["" if cell == NULL else cell for cell in cells]
                yield place, dict(zip(names, cells, strict=True))
        except csv.Error as error:
            place = ("line", line + 1, number + 1 if self._header else 0)
            raise Misquoted(self._broken(error, place, before + reader.line_num), place) from error
        self._cells_of_lines.records = number
        self._cells_of_lines.lines = line

    def _reader(self, lines: Iterator[str], delimiter: str, first_line: str, *, is_spaced: bool) -> Iterator[list[str]]:
        if self._quoting is Quoting.SPACED and not is_spaced:
            raise Misquoted(f"{self._name}: no blank precedes its quotes", ("line", 1, 0))
        if self._quoting is Quoting.ESCAPED:
            lines = (_BACKSLASH.sub(_escaped, line) for line in lines)
            return csv.reader(lines, delimiter=delimiter, escapechar="\\", skipinitialspace=is_spaced, strict=True)
        if self._quoting is Quoting.NONE:
            if delimiter not in OF_DATABASES or '"' in first_line:
                raise Misquoted(f"{self._name}: its header is quoted", ("line", 1, 0))
            return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
        return csv.reader(lines, delimiter=delimiter, skipinitialspace=self._quoting is Quoting.SPACED, strict=True)

    def _look_at(self, place: Place, last: int, cells: list[str], delimiter: str) -> None:
        """Note a record of several lines; if the file may have no quoting, rows within a cell end this reading."""
        is_rows = self._cells_of_lines.note(place, last, cells, delimiter)
        if is_rows and delimiter in OF_DATABASES and self._quoting is not Quoting.TRUSTED:
            raise Misquoted(f"{self._name}: lines {place[1]} to {last} are one cell", place, is_doubt=True)

    def _check_unquoted(self, cells: list[str], place: Place) -> None:
        """Raise `Misquoted` on a cell that is quoted: the file has cells of both kinds."""
        if any(cell[:1] == cell[-1:] == '"' and '""' in cell[1:-1] for cell in cells):
            raise Misquoted(f"{self._name}, {shown(place)}: quoted", place)

    def _check_not_spaced(self, cells: list[str], place: Place) -> None:
        """Raise `Misquoted` on a cell that is in quotes behind a blank; where no other reading fits, they are text."""
        if any(cell[:1] == " " and len(bare := cell.strip()) > 1 and bare[0] == bare[-1] == '"' for cell in cells):
            raise Misquoted(f"{self._name}, {shown(place)}: a blank before a quote", place, is_doubt=True)

    def _of_other_width(self, place: Place, last: int, found: int, width: int) -> Misquoted:
        lines = f"{shown(place)}" if place[1] == last else f"lines {place[1]} to {last} (record {place[2]})"
        return Misquoted(
            f"{self._name}, {lines}: {found} cells for {width} columns; quote cells that hold commas or line breaks",
            place,
        )

    def _broken(self, error: csv.Error, place: Place, last: int) -> str:
        """Message about the wrong quotes of a record."""
        begins = place[1]
        if "unexpected end" in str(error):
            return (
                f"{self._name}, {shown(place)}: a quote opens a cell here but is never closed, so lines {begins} to "
                f'{last} became one cell; close the cell, or write a quote that is text twice ("")'
            )
        if "expected after" in str(error):
            what = "text follows the quote that closes a cell"
            if last > begins:
                what = f"a quote opens a cell here, the next one is in line {last}, and text follows it"
            return f'{self._name}, {shown(place)}: {what}; write a quote that is text twice (""), or correct the line'
        return f"{self._name}, {shown(place)}: {error}; correct the line"


class _CellsOfLines:
    """Records of several lines: usual in tables of long texts, or rows that a stray quote made one cell.

    Rows that were swallowed are lines with as many delimiters as the header each, first and last one too. Of prose this
    holds by chance for a few lines only: behind a comma there is a blank, and a delimiter ends no line.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._rows: list[tuple[int, int, int]] = []
        self._longest = (0, 0, 0)
        self.records = 0
        self.lines = 0

    def note(self, place: Place, last: int, cells: list[str], delimiter: str) -> bool:
        """Count a record; return whether its lines look like rows."""
        _, begins, number = place
        self._number += 1
        self._longest = max(self._longest, (last - begins + 1, begins, number))
        is_rows = _are_rows(_LINE_END.split(delimiter.join(cells)), delimiter, len(cells))
        if is_rows:
            self._rows.append((last - begins + 1, begins, number))
        return is_rows

    @property
    def _suspicious(self) -> list[tuple[int, int, int]]:
        are_most = 2 * len(self._rows) > self._number
        return [found for found in self._rows if are_most or found[0] >= FEW_LINES]

    @property
    def swallowed(self) -> int:
        return sum(lines - 1 for lines, _, _ in self._suspicious)

    @property
    def notices(self) -> list[str]:
        counted = f"{grouped(self.lines)} lines of {self._name} are {grouped(self.records)} records"
        remedy = 'if a quote in the first of them is text, write it twice ("")'
        if found := self._suspicious:
            lines, begins, number = found[0]
            more = f", as {len(found) - 1} more did elsewhere" if len(found) > 1 else ""
            return [
                f"{counted}: lines {begins} to {begins + lines - 1} became one cell (record {number}), though each "
                f"looks like a row{more}; {remedy}"
            ]
        lines, begins, number = self._longest
        if lines >= LONG_CELL and self._number <= max(1, RARE * self.records):
            return [
                f"{counted}: lines {begins} to {begins + lines - 1} became one cell (record {number}), where nearly "
                f"all others have one line; {remedy}"
            ]
        return []


def _are_rows(lines: Sequence[str], delimiter: str, width: int) -> bool:
    """Return whether each line would be a row by itself."""
    for line in lines:
        cells = line.split(delimiter)
        if len(cells) != width or sum(map(bool, map(str.strip, cells))) < 2 or any(c[:1] == " " for c in cells[1:]):
            return False
    return True


def _escaped(found: re.Match[str]) -> str:
    r"""Return an escape that counts as it is; a backslash before anything else (`C:\new`) is text."""
    return found[0] if found[1] else r"\\"


def delimiter_of(head: Sequence[str], wanted: Sequence[str] = (), default: str = ",") -> str:
    """Return the delimiter: the one that finds the wanted columns in the first line, else the one with the most cells,
    equally many in each line; else the default."""
    tables = {delimiter: _cells(head, delimiter) for delimiter in DELIMITERS}
    for delimiter, records in tables.items():
        if records and wanted and set(wanted) <= set(records[0]):
            return delimiter
    cells = {
        delimiter: len(records[0])
        for delimiter, records in tables.items()
        if records and {len(record) for record in records[:-1]} <= {len(records[0])}  # the last may be cut
    }
    return max(cells, key=lambda delimiter: (cells[delimiter], delimiter == default), default=default)


def _cells(head: Iterable[str], delimiter: str) -> list[list[str]]:
    """Return records with any cells; none if the file cannot be read like that."""
    try:
        return [record for record in csv.reader(head, delimiter=delimiter) if not is_blank("".join(record))]
    except csv.Error:
        return []
