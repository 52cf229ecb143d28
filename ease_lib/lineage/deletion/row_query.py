"""The rows that somebody asks for, and what is known of each: its text, its cells, its number in every run.

A row may be named by its input text or by one cell of it, by the hash of its input text, or by a condition on a column.
How cells make an input is in the records of the runs, so a row is found in a raw table too, of which it is several
columns.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import IO, Any, Literal

from ease_lib.artifacts.contracts import TABLES
from ease_lib.artifacts.tables import stamp_of, table_of
from ease_lib.config.sections import TaskConfig
from ease_lib.errors import ConfigError, EaseError
from ease_lib.lineage.publishing.versions import as_row_hash
from ease_lib.prompts.template import shown_inputs
from ease_lib.tasks.base import row_hash
from ease_lib.tasks.catalog import columns_of_table
from ease_lib.tasks.columns import Columns, cell_text
from ease_lib.tasks.records import TABLE_NAMES, RecordFile

LEAST_CHARACTERS = 12
"""A shorter text is quoted by everything."""
DATA_SETS = ("exemplar_pool", "validation_set", "test_set")
"""Contracts of the tables that hold rows, with their numbers."""
Cells = dict[str, Any]


@dataclass(frozen=True)
class RowQuery:
    """The row that is looked for.

    Args:
        row: hash of its input text.
        texts: its input text, and the cells that make it and are no other row's; none where only the hash is known.
        columns: how runs make inputs of records.
        ids: its numbers, by the folder or file of a run that has given them.
    """

    row: str
    texts: tuple[str, ...] = ()
    columns: tuple[Columns, ...] = ()
    ids: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def quotable(self) -> list[str]:
        """Its texts that are long enough to be looked for within others."""
        return [text for text in self.texts if len(text) >= LEAST_CHARACTERS]

    def is_value(self, value: str) -> bool:
        return row_hash(value) == self.row

    def is_in(self, value: str) -> bool:
        """Whether a value is the row, or a prompt with it."""
        return self.is_value(value) or self.is_in_prompt(value)

    def is_in_prompt(self, text: str) -> bool:
        return any(self.is_value(shown) for shown in shown_inputs(text))

    def is_record(self, record: Any) -> bool:
        """Whether the cells of a record make its input."""
        return isinstance(record, dict) and any(self.is_value(text) for text in inputs_of(record, self.columns))

    def ids_at(self, uri: str) -> frozenset[int]:
        """Its numbers in the run that a file is of."""
        return frozenset().union(*(ids for at, ids in self.ids.items() if uri == at or uri.startswith(f"{at}/")))


def inputs_of(record: Cells, columns: Iterable[Columns]) -> Iterator[str]:
    for each in columns:
        if all(name in record for _, name in each.input if name is not None):
            yield each.input_text(record)


@dataclass(frozen=True)
class RowName:
    """How somebody names rows: by a text or its hash, or by a column and its value.

    Args:
        row: hash of an input text, or of one cell of a row.
        text: that text, where it was given.
    """

    row: str = ""
    text: str = ""
    column: str = ""
    value: str = ""

    @classmethod
    def of(cls, text_or_hash: str) -> RowName:
        row = as_row_hash(text_or_hash)
        return cls(row=row, text="" if row == text_or_hash else text_or_hash)

    @classmethod
    def where(cls, condition: str) -> RowName:
        """
        Raises:
            ConfigError: when it is not `COLUMN=VALUE`.
        """
        column, equals, value = condition.partition("=")
        if not equals or not column.strip():
            raise ConfigError(f"--where {condition}: write COLUMN=VALUE, like customer=C045")
        return cls(column=column.strip(), value=value.strip())

    def fits(self, cells: Cells, text: str, outputs: Collection[str] = ()) -> bool:
        """Whether a row of these cells and this input is one that is asked for.

        Args:
            outputs: columns of what is expected, by which no row is named: many have the same.
        """
        if self.column:
            return self.column in cells and cell_text(cells[self.column]).strip() == self.value
        others = (cell for name, cell in cells.items() if name not in outputs)
        return self.row == row_hash(text) or any(self.row == row_hash(cell_text(cell)) for cell in others)


def columns_of_run(parameters: Mapping[str, Any], fields: Iterable[str]) -> Columns | None:
    """How a run makes inputs of records, by its recorded parameters; None where its task is no table.

    Args:
        fields: columns that its prompt names.
    """
    if parameters.get("task") != "table":
        return None
    config = TaskConfig(
        task="table",
        input_columns=str(parameters.get("input_columns", TaskConfig.input_columns)),
        output_column=str(parameters.get("output_column", TaskConfig.output_column)),
    )
    try:
        return columns_of_table(config, list(fields))
    except ConfigError:
        return None


def matching_rows(asked: RowName, tables: Iterable[tuple[str, bytes]], columns: tuple[Columns, ...]) -> list[RowQuery]:
    """The rows that are asked for, with their texts, from all tables; those by their hash alone that no table has."""
    outputs = {name for each in columns for _, name in each.output if name is not None}
    parts: dict[str, list[str]] = {}
    cells: Counter[str] = Counter()
    for name, content in tables:
        is_raw = _stamp(content) not in DATA_SETS
        for record, text in _rows_of(name, content, columns):
            if asked.fits(record, text, outputs):
                used = {name for each in columns for _, name in each.input if name is not None and name in record}
                parts.setdefault(row_hash(text), [text]).extend(cell_text(record[name]) for name in sorted(used))
            if is_raw:
                cells.update({cell_text(cell) for cell in record.values()})
    found = [
        RowQuery(row, tuple(dict.fromkeys([text, *(cell for cell in made_from if cells[cell] < 2)])), columns)
        for row, (text, *made_from) in parts.items()
    ]
    return found or ([RowQuery(asked.row, (asked.text,) if asked.text else (), columns)] if asked.row else [])


def fields_of(content: bytes) -> list[str]:
    """Columns that a data set of ours keeps beside input and output, which the prompt of its run names."""
    if _stamp(content) not in DATA_SETS:
        return []
    rows = table_of(content).slice(0, 1).select(["fields"]).to_pylist()
    return [name for name, _ in rows[0]["fields"]] if rows else []


def numbers_of(content: bytes, row: str) -> frozenset[int]:
    """Those that a data set of ours gives to a row."""
    if _stamp(content) not in DATA_SETS:
        return frozenset()
    rows = table_of(content).select(["exemplar_id", "input"]).to_pylist()
    return frozenset(each["exemplar_id"] for each in rows if row_hash(each["input"]) == row)


def _rows_of(name: str, content: bytes, columns: tuple[Columns, ...]) -> Iterator[tuple[Cells, str]]:
    """Cells of each record of a table, and its input: of data sets of ours, and of raw ones by each way to make one."""
    stamp = _stamp(content)
    if stamp in DATA_SETS:
        for row in table_of(content).select(["input", "fields"]).to_pylist():
            yield dict(row["fields"]), row["input"]
        return
    if stamp in TABLES or not name.lower().endswith(TABLE_NAMES):
        return
    for each in columns:
        needed = [column for _, column in each.input if column is not None]
        try:
            for _, record in RecordFile(Content(name, content), needed).records():
                for text in inputs_of(record, [each]):
                    yield record, text
        except EaseError:
            continue  # a table of something else


def _stamp(content: bytes) -> str:
    """The contract of a table of ours; empty for any other file."""
    if not content.startswith(b"PAR1"):
        return ""
    try:
        return stamp_of(table_of(content))
    except OSError:
        return ""


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
