"""Tables in any form, read as far as possible."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Literal
from zipfile import BadZipFile

import pyarrow as pa

from ease_lib.artifacts.tables import stamp_of, table_of
from ease_lib.errors import DataError
from ease_lib.tasks.columns import Columns
from ease_lib.tasks.places import Place, Record
from ease_lib.tasks.records import TABLE_NAMES, RecordFile
from ease_lib.tasks.spreadsheets import shown_value

PARQUET_MARK = b"PAR1"
OTHER_ENCODINGS = ("cp1252", "latin-1")
"""Encodings tried for a table that is not in UTF-8; the last one reads any bytes."""


def is_table(name: str) -> bool:
    return name.lower().endswith(TABLE_NAMES)


def stamp_in(content: bytes) -> str:
    """The contract of a table that a stage wrote; empty for any other file."""
    if content.startswith(PARQUET_MARK):
        with suppress(OSError, pa.ArrowException):
            return stamp_of(table_of(content))
    return ""


def records_of(name: str, content: bytes, columns: Sequence[Columns] = ()) -> Iterator[tuple[Place, Record]]:
    """Records of a table with all their columns and all their sheets, in whatever encoding, with their places.

    Args:
        columns: how runs read it: they name the columns of a file without a header, and decide what separates cells.

    Raises:
        DataError: when it cannot be read.
    """
    if name.lower().endswith(".xlsx"):
        yield from _rows_of_sheets(content)
        return
    if content.startswith(PARQUET_MARK):
        try:
            yield from ((("row", number, 0), record) for number, record in enumerate(table_of(content).to_pylist(), 1))
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"it cannot be read as Parquet: {error}") from error
        return
    for needed in {tuple(column for _, column in each.input if column is not None) for each in columns} or {()}:
        yield from _in_any_encoding(Content(PurePath(name).name, content), needed)


def _in_any_encoding(file: Content, needed: Sequence[str]) -> list[tuple[Place, Record]]:
    try:
        return RecordFile(file, needed).read(list)
    except DataError:
        for encoding in OTHER_ENCODINGS:
            with suppress(DataError):
                return RecordFile(file, needed, encoding).read(list)
        raise


def _rows_of_sheets(content: bytes) -> Iterator[tuple[Place, Record]]:
    """Rows of all sheets, the header too, with the cells by their number and by the header."""
    import openpyxl  # see `records`

    try:
        for sheet in openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True).worksheets:
            header: list[str] = []
            for number, row in enumerate(sheet.iter_rows(), 1):
                found = [shown_value(cell) for cell in row]
                values = ["" if value is None else value for value in found]
                header = header or [str(value).strip() for value in values if any(values)]
                numbered = {str(position): value for position, value in enumerate(values)}
                yield (f"sheet '{sheet.title}', row", number, 0), numbered | dict(zip(header, values, strict=False))
    except (BadZipFile, KeyError, ValueError) as error:
        raise DataError(f"it cannot be read as xlsx: {error}") from error


@dataclass(frozen=True)
class Content:
    """A file that was read already."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        return PurePath(self.name).suffix

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return io.BytesIO(self.content)
