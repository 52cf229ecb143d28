"""Spreadsheets: the cells of the first visible sheet, as people see them.

What the file does not hold is found out where a cell that is needed looks empty: a formula that no program has
calculated is an error, and a cell that is merged with those above has their value.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Sequence
from datetime import datetime, time
from typing import IO, Any

from ease_lib.errors import DataError
from ease_lib.tasks.headers import Header
from ease_lib.tasks.places import Records, shown
from ease_lib.words import cut, grouped

CELL_ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A")
"""Texts that a spreadsheet shows for a formula without a value."""
CALCULATED = ("str", "e")
"""Kinds of a cell whose formula was calculated, and gave a text or an error."""
_DIGITS = re.compile(r'(?:0|"[^"]*"|\\.|[-/ ()])+')
"""A number format of digits that are always shown, and of text: `000`, `000-00-0000`, `"ID-"0000`."""
_UNSEEN_FORM = re.compile(r";.*|\[[^\]]*\]|_.")
"""Parts of a number format that do not belong to the number: sections for other numbers, colours and places, and
padding as wide as a bracket."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that Excel writes by its code, mostly a carriage return."""
_DIGIT = re.compile(r'"([^"]*)"|\\(.)|(.)')


def spreadsheet_records(name: str, content: IO[bytes], wanted: Sequence[str], notices: list[str]) -> Records:
    """Records of the first sheet; rows are counted as a spreadsheet does. A column without a name in the header is
    left out.

    Args:
        name: of the file.
        wanted: columns that are needed.
        notices: takes what people should know.

    Raises:
        DataError: when it cannot be read, or a formula was not calculated.
    """
    book = _workbook(name, content)
    sheet = _first_sheet(book)
    if others := len(book.worksheets) - 1:
        notices.append(
            f"reading the first of {1 + others} sheets of {name}, {sheet.title!r}; save another sheet as a separate "
            "file"
        )
    sheet.reset_dimensions()  # some programs write wrong ones
    unit = f"sheet '{sheet.title}', row"
    filled = (
        (number, row) for number, row in enumerate(sheet.iter_rows(), 1) if any(cell.value is not None for cell in row)
    )
    top, first = next(filled, (0, ()))
    if others and not first:
        raise DataError(f"{name}: its first sheet, {sheet.title!r}, is empty; save the one with the table as a file")
    header = Header(name, ["" if cell.value is None else str(shown_value(cell)).strip() for cell in first], wanted)
    gaps = _Gaps(name, unit, content, header.names, wanted, is_stale=bool(book.calculation.fullCalcOnLoad))
    names = [(place, column) for place, column in enumerate(header.names) if column]
    for number, row in filled if header.is_first or not first else itertools.chain([(top, first)], filled):
        record = {column: shown_value(row[place]) if place < len(row) else None for place, column in names}
        place = (unit, number, 0)
        if header.is_repeated([record.get(column) or "" for column in header.names], place):
            continue
        gaps.fill(number, row, record)
        yield place, record
    notices += [*header.notices, *gaps.notices]


def _first_sheet(book: Any) -> Any:
    return next((sheet for sheet in book.worksheets if sheet.sheet_state == "visible"), book.worksheets[0])


def _workbook(name: str, content: IO[bytes], *, is_streamed: bool = True) -> Any:
    """Return the workbook with the values of its formulas, row by row; or as a whole, with the formulas."""
    import openpyxl  # takes 0.2 s, and few tables are spreadsheets

    try:
        with warnings.catch_warnings(action="ignore"):  # on styles and other things that are not values
            return openpyxl.load_workbook(content, read_only=is_streamed, data_only=is_streamed)
    except Exception as error:  # its parser raises many unrelated kinds
        raise DataError(
            f"{name} cannot be read as xlsx: {error}; save it again as an Excel workbook without a password"
        ) from error


class _Gaps:
    """Cells of needed columns that the sheet, as it is read row by row, does not give a value.

    Args:
        content: of the file, of which the formulas and the merged cells are read when the first gap is met.
        names: of the columns, in their order.
        is_stale: the program that wrote the file left calculating to the next one: 0 is not a value of a formula then.
    """

    def __init__(
        self, name: str, unit: str, content: IO[bytes], names: Sequence[str], wanted: Sequence[str], *, is_stale: bool
    ) -> None:
        self._name = name
        self._unit = unit
        self._content = content
        self._columns = [(place, column) for place, column in enumerate(names) if column in wanted]
        self._is_stale = is_stale
        self._sheet: Any = None
        self._tops: dict[tuple[int, int], int] = {}
        self._last: dict[str, tuple[int, Any]] = {}
        self._filled: dict[str, tuple[int, int]] = {}

    def fill(self, number: int, row: Sequence[Any], record: dict[str, Any]) -> None:
        """Give merged cells their values.

        Raises:
            DataError: on a formula that was not calculated.
        """
        for place, column in self._columns:
            value = record[column]
            if value is None or (self._is_stale and value == 0 and not isinstance(value, bool)):
                cell = row[place] if place < len(row) else None
                self._check_calculated(number, place, column, cell)
            if value is None:
                last, shown_above = self._last.get(column, (0, None))
                if last and self._tops.get((number, place)) == last:
                    record[column] = shown_above
                    count, first = self._filled.get(column, (0, number))
                    self._filled[column] = (count + 1, first)
            else:
                self._last[column] = (number, value)

    def _check_calculated(self, number: int, place: int, column: str, cell: Any) -> None:
        if self._sheet is None:
            self._sheet = _first_sheet(_workbook(self._name, self._content, is_streamed=False))
            self._tops = {
                (below, area.min_col - 1): area.min_row
                for area in self._sheet.merged_cells.ranges
                if area.min_col == area.max_col
                for below in range(area.min_row + 1, area.max_row + 1)
            }
        formula = self._sheet.cell(number, place + 1)
        if formula.data_type == "f" and getattr(cell, "data_type", "") not in CALCULATED:
            raise DataError(
                f"{self._name}, {shown((self._unit, number, 0))}: column {column!r} holds the formula "
                f"{cut(str(getattr(formula.value, 'text', formula.value)), 60)}, and the file does not hold its value; "
                "open it in a spreadsheet program and save it, or paste the values"
            )

    @property
    def notices(self) -> list[str]:
        return [
            f"{grouped(count)} cells of column {column!r} of {self._name} are merged with cells above and have their "
            f"value (first at {self._unit} {first})"
            for column, (count, first) in self._filled.items()
        ]


def shown_value(cell: Any) -> Any:
    """Return the value of a cell as people see it: as `spreadsheet_value`, with the digits its number format shows."""
    value = None if cell.data_type == "e" else spreadsheet_value(cell.value)
    if isinstance(value, str) and isinstance(cell.value, str):
        return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    if type(value) is int and not isinstance(cell.value, str) and (form := cell.number_format) not in ("General", "0"):
        return with_digits(value, form)
    return value


def with_digits(number: int, form: str) -> int | str:
    """Return a number in a format such as `000`, which shows 1 as 001; in any other format as it is."""
    form = _UNSEEN_FORM.sub("", form)
    if number < 0 or not _DIGITS.fullmatch(form) or form.count("0") == 0:
        return number
    parts = [(quoted or escaped, plain) for quoted, escaped, plain in _DIGIT.findall(form)]
    places = sum(plain == "0" for _, plain in parts)
    digits = f"{number:0{places}d}"
    extra = len(digits) - places
    shown_parts = []
    for text, plain in parts:
        if plain != "0":
            shown_parts.append(text or plain)
            continue
        shown_parts.append(digits[: extra + 1])
        digits, extra = digits[extra + 1 :], 0
    return "".join(shown_parts)


def spreadsheet_value(value: Any) -> Any:
    """Return a cell as people see it: whole numbers without a point, dates as ISO, without a time at midnight.

    An error (`#N/A`) is nothing.
    """
    if value in CELL_ERRORS:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value
