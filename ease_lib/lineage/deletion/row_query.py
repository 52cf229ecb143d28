"""Queries that name rows, and the texts that show each row.

A row is named by its input text, by one cell of it, by the SHA-256 of its input text, or by a condition on a column.
The records of the runs hold which columns make an input, so a row is also found in a raw table that has it in several
columns.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ease_lib.artifacts.tables import table_of
from ease_lib.config.sections import TaskConfig
from ease_lib.equality import equality_key, same_written
from ease_lib.errors import ConfigError, DataError
from ease_lib.lineage.deletion.table_reader import records_of
from ease_lib.lineage.publishing.versions import as_row_hash
from ease_lib.prompts.template import shown_inputs
from ease_lib.tasks.base import row_hash, row_hashes
from ease_lib.tasks.catalog import columns_of_table
from ease_lib.tasks.columns import Columns, cell_text
from ease_lib.tasks.places import Record

_composed, _decomposed = partial(unicodedata.normalize, "NFC"), partial(unicodedata.normalize, "NFD")
LEAST_CHARACTERS = 12
"""Shorter texts are not searched for within other text, which would often contain them by chance."""


@dataclass(frozen=True)
class RowQuery:
    """The requested row.

    Args:
        row: hash of its input text.
        texts: its input text, and those cells it is made of that no other row has; empty if only the hash is known.
        columns: how runs make inputs of records.
    """

    row: str
    texts: tuple[str, ...] = ()
    columns: tuple[Columns, ...] = ()

    @property
    def quotable(self) -> list[str]:
        """Texts of the row that are long enough to be searched for within other text, composed and decomposed."""
        forms = (form(text) for text in self.texts for form in (str, _composed, _decomposed))
        return [text for text in dict.fromkeys(forms) if len(text) >= LEAST_CHARACTERS]

    def is_value(self, value: str) -> bool:
        """Whether a value is the row's input, or equal to it."""
        return self.row in row_hashes(value) or equality_key(value) in self._inputs

    def is_in(self, value: str) -> bool:
        """Whether a value is the row, or a prompt with it."""
        return any(map(self.is_value, (value, *shown_inputs(value))))

    @cached_property
    def _inputs(self) -> frozenset[bytes]:
        return frozenset(equality_key(text) for text in self.texts if row_hash(text) == self.row)

    def is_record(self, record: Record) -> bool:
        """Whether the cells of a record make its input."""
        return any(self.is_value(text) for text in _inputs_of(record, self.columns))


def hashes_of(text: str) -> set[str]:
    """Hashes of the rows that a text may be: the whole of it, and the inputs of a prompt by the default template."""
    return {row_hash(each) for each in (text, *shown_inputs(text))}


@dataclass(frozen=True)
class RowName:
    """A query that names rows: by a text or its hash, or by a column and its value.

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

    def fits(self, cells: Record, text: str, inputs: Collection[bytes], outputs: Collection[str] = ()) -> bool:
        """Whether a row with these cells and this input is requested.

        Args:
            inputs: what `keys` gives.
            outputs: columns with what is expected. They name no row, for many rows have the same.
        """
        if self.column:
            return self.column in cells and same_written(cell_text(cells[self.column])) == same_written(self.value)
        return any(equality_key(each) in inputs for each in _names_of(cells, text, outputs))

    def keys(self, rows: Iterable[tuple[Record, str]], outputs: Collection[str]) -> frozenset[bytes]:
        """Keys of the requested text; for a hash those of the inputs and cells that it names."""
        if self.text or self.column:
            return frozenset({equality_key(self.text)})
        names = (each for cells, text in rows for each in _names_of(cells, text, outputs))
        return frozenset(equality_key(each) for each in names if self.row in row_hashes(each))


def _names_of(cells: Record, text: str, outputs: Collection[str]) -> Iterator[str]:
    yield text
    yield from (cell_text(cell) for name, cell in cells.items() if name not in outputs)


def columns_of_run(parameters: Mapping[str, Any], data_sets: Iterable[bytes]) -> Columns | None:
    """Columns from which a run makes inputs, by its recorded parameters; None if its task is not a table.

    Args:
        data_sets: tables of its rows, which hold the columns that its prompt names.
    """
    if parameters.get("task") != "table":
        return None
    config = TaskConfig(
        task="table",
        input_columns=str(parameters.get("input_columns", TaskConfig.input_columns)),
        output_column=str(parameters.get("output_column", TaskConfig.output_column)),
    )
    rows = (row for content in data_sets for row in table_of(content).slice(0, 1).to_pylist())
    with suppress(ConfigError):
        return columns_of_table(config, [name for row in rows for name, _ in row["fields"]])
    return None


def matching_rows(
    asked: RowName,
    tables: Iterable[tuple[str, bytes]],
    data_sets: Iterable[bytes],
    columns: tuple[Columns, ...],
) -> list[RowQuery]:
    """The requested rows, with their texts. A row that no table holds is known only by the request.

    Args:
        tables: raw tables, by name.
        data_sets: tables of the rows of runs.
    """
    outputs = {name for each in columns for _, name in each.output if name is not None}
    inputs = {name for each in columns for _, name in each.input if name is not None}
    found: dict[str, dict[str, None]] = {}
    having: dict[str, set[str]] = defaultdict(set)  # hashes of the rows that have a cell
    tables, data_sets = list(tables), list(data_sets)
    keys = asked.keys(_rows_of(tables, data_sets, columns), outputs)
    for record, text in _rows_of(tables, data_sets, columns):
        row = row_hash(text)
        made_of = [cell_text(cell) for name, cell in record.items() if name in inputs]
        for cell in made_of:
            having[cell].add(row)
        if asked.fits(record, text, keys, outputs):
            found.setdefault(row, {text: None}).update(dict.fromkeys(made_of))
    if not found and asked.row:
        found = {asked.row: {asked.text: None} if asked.text else {}}
    return [
        RowQuery(row, tuple(text for text in texts if having.get(text, {row}) == {row}), columns)
        for row, texts in found.items()
    ]


def _rows_of(
    tables: Iterable[tuple[str, bytes]], data_sets: Iterable[bytes], columns: tuple[Columns, ...]
) -> Iterator[tuple[Record, str]]:
    """Cells and input of each row."""
    for content in data_sets:
        for row in table_of(content).select(["input", "fields"]).to_pylist():
            yield dict(row["fields"]), row["input"]
    for name, content in tables:
        with suppress(DataError):  # a table of something else; `places_in` names what cannot be read
            for _, record in records_of(name, content, columns):
                for text in _inputs_of(record, columns):
                    yield record, text


def _inputs_of(record: Record, columns: Iterable[Columns]) -> Iterator[str]:
    for each in columns:
        if all(name in record for _, name in each.input if name is not None):
            yield each.input_text(record)
