"""Adapter for tables: CSV, JSONL, JSON and Parquet files, or a data set of a hub, with a column mapping."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks.base import Row, TaskSource

SUFFIXES = (".csv", ".jsonl", ".json", ".parquet")
SPLIT_NAMES = {
    "pool": ("train", "pool", "induce"),
    "validation": ("validation", "valid", "dev"),
    "test": ("test", "execute"),
}
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class Columns:
    """Which columns make the input and the output.

    Several input columns become one text, a line `column: value` each. A CSV file without a header names its columns
    1, 2, 3, ...
    """

    inputs: tuple[str, ...]
    output: str

    @classmethod
    def parse(cls, input_columns: str, output_column: str) -> Columns:
        inputs = tuple(name.strip() for name in input_columns.split(",") if name.strip())
        if not inputs or not output_column.strip():
            raise ConfigError("input_columns and output_column must each name a column")
        return cls(inputs, output_column.strip())

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.inputs, self.output)


def split_of(name: str) -> str | None:
    """The split that a file or hub split of this name holds, or None."""
    stem = Path(name).stem.lower()
    return next((split for split, names in SPLIT_NAMES.items() if stem in names), None)


def table_source(name: str, files: dict[str, Path], columns: Columns) -> TaskSource:
    """A task from files: `{"rows": file}`, or by split `{"pool": file, "validation": file, "test": file}`.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    return _source(name, {split: read_rows(path, columns) for split, path in files.items()})


def hub_source(name: str, columns: Columns) -> TaskSource:
    """A task from a hub data set, `name` or `name:configuration`; needs the `datasets` extra and its network.

    Raises:
        ConfigError: when the extra is not installed.
        DataError: when the data set cannot be loaded or lacks a column.
    """
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            f"task_name={name} without task_uri is a hub data set and needs: pip install 'ease-pipelines[datasets]'"
        ) from error
    path, _, configuration = name.partition(":")
    try:
        loaded = datasets.load_dataset(path, configuration or None)
    except Exception as error:  # the hub client raises many unrelated kinds
        raise DataError(
            f"cannot load hub data set {name}: {error}; check the name, the configuration and the network"
        ) from error
    splits = {split_of(split) or split: rows for split, rows in loaded.items()}
    if "pool" not in splits and len(splits) == 1:
        splits = {"rows": next(iter(splits.values()))}
    known = {split: rows for split, rows in splits.items() if split in (*SPLIT_NAMES, "rows")}
    return _source(
        name,
        {split: list(_rows(enumerate(rows, 1), columns, f"{name}[{split}]", "row")) for split, rows in known.items()},
    )


def read_rows(path: Path, columns: Columns) -> list[Row]:
    """All rows of one file.

    Raises:
        DataError: on a missing column, an empty cell, a broken line, or a file without rows.
    """
    readers = {".csv": _csv_records, ".jsonl": _json_records, ".json": _json_records, ".parquet": _parquet_records}
    if path.suffix not in readers:
        raise DataError(f"{path.name}: unknown kind of table; use one of {', '.join(SUFFIXES)}")
    unit = "line" if path.suffix == ".jsonl" else "row"
    try:
        rows = list(_rows(readers[path.suffix](path, columns), columns, path.name, unit))
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 text (byte {error.start}); convert it") from error
    except (OSError, pa.ArrowInvalid, csv.Error) as error:
        raise DataError(f"{path.name} cannot be read as {path.suffix[1:]}: {error}") from error
    if not rows:
        raise DataError(f"{path.name} has no rows; give a file with at least one")
    return rows


def _source(name: str, splits: dict[str, list[Row]]) -> TaskSource:
    rows = splits.get("rows") or splits.get("pool")
    if rows is None:
        raise DataError(
            f"{name} has no rows to choose exemplars from: name one file train, pool or induce; found {sorted(splits)}"
        )
    return TaskSource(
        name=name, metric="exact_match", rows=rows, validation=splits.get("validation"), test=splits.get("test")
    )


def _rows(records: Iterable[tuple[int, dict[str, Any]]], columns: Columns, file: str, unit: str) -> Iterator[Row]:
    for number, record in records:
        for column in columns.all:
            if column not in record:
                raise DataError(
                    f"{file}, {unit} {number}: no column {column!r}; there are {sorted(map(str, record))}: "
                    "set input_columns and output_column"
                )
            if _is_empty(record[column]):
                raise DataError(f"{file}, {unit} {number}: column {column!r} is empty; fill the cell or remove the row")
        if len(columns.inputs) == 1:
            text = _text(record[columns.inputs[0]])
        else:
            text = "\n".join(f"{column}: {_text(record[column])}" for column in columns.inputs)
        answers = record[columns.output]
        outputs = [_text(answer) for answer in answers] if isinstance(answers, list) else [_text(answers)]
        yield Row(text, tuple(dict.fromkeys(outputs)))


def _is_empty(value: Any) -> bool:
    if isinstance(value, list):
        return not value or any(_is_empty(item) for item in value)
    return value is None or value != value or not _text(value).strip()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


def _csv_records(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        first = next(reader, None)
        if first is None:
            return
        header, pending = _csv_header(first, columns.all)
        for number, cells in enumerate((*pending, *reader) if pending else reader, 1):
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{path.name}, row {number}: {len(cells)} cells for {len(header)} columns; "
                    "quote cells that hold commas or line breaks"
                )
            yield number, dict(zip(header, cells, strict=True))


def _csv_header(first: list[str], wanted: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    if not set(wanted) <= set(first) and all(name.isdigit() for name in wanted):
        return [str(position) for position in range(1, len(first) + 1)], [first]
    return first, []


def _json_records(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        if path.suffix == ".json" and file.read(1) == "[":
            file.seek(0)
            records: Iterable[tuple[int, Any]] = enumerate(_json(file.read(), path, 1), 1)
        else:
            file.seek(0)
            records = ((number, _json(line, path, number)) for number, line in enumerate(file, 1) if line.strip())
        for number, record in records:
            if not isinstance(record, dict):
                raise DataError(f"{path.name}, line {number}: a JSON object is needed, found {type(record).__name__}")
            yield number, record


def _json(text: str, path: Path, number: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path.name}, line {number}: not valid JSON ({error.msg}); one object a line is needed"
        ) from error


def _parquet_records(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    file = pq.ParquetFile(path)
    present = [name for name in columns.all if name in file.schema_arrow.names]
    if len(set(present)) < len(set(columns.all)):
        missing = sorted(set(columns.all) - set(present))[0]
        raise DataError(
            f"{path.name}: no column {missing!r}; there are {sorted(file.schema_arrow.names)}: "
            "set input_columns and output_column"
        )
    number = 0
    for batch in file.iter_batches(columns=list(dict.fromkeys(present))):
        for record in batch.to_pylist():
            number += 1
            yield number, record
