"""Adapter for tables: CSV, JSONL, JSON and Parquet files, or a data set of a hub, with a column mapping.

Files may be named by split (`SPLIT_NAMES`). Where there is no file to choose exemplars from, but one for validation
(AQuA's `dev`, say), its rows are dealt into the pool and the validation set, and into the test set if that has no file.
"""

from __future__ import annotations

import csv
import json
import string
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


Template = tuple[tuple[str, str | None], ...]
"""Pairs of text and the column that follows it; None where no column does."""


@dataclass(frozen=True)
class Columns:
    """How the columns of a record make the input and the output of a row.

    An output that is one column and nothing else may hold a list: its items are the accepted outputs. Any other list
    becomes its items, a line each. A CSV file without a header names its columns 1, 2, 3, ...
    """

    input: Template
    output: Template
    remedy: str
    """What a missing column's error advises."""

    @classmethod
    def parse(
        cls, input_columns: str, output_column: str, remedy: str = "set input_columns and output_column"
    ) -> Columns:
        """From the two parameters: a value with `{` is a template, another names columns.

        Several input columns become one text, a line `column: value` each.

        Raises:
            ConfigError: when no column is named, or a template is broken.
        """
        names = [name.strip() for name in input_columns.split(",") if name.strip()]
        if not names or not output_column.strip():
            raise ConfigError("input_columns and output_column must each name a column")
        inputs: Template
        if "{" in input_columns:
            inputs = parse_template(input_columns)
        elif len(names) == 1:
            inputs = (("", names[0]),)
        else:
            inputs = tuple((f"{name}: " if name == names[0] else f"\n{name}: ", name) for name in names)
        output = parse_template(output_column) if "{" in output_column else (("", output_column.strip()),)
        return cls(inputs, output, remedy)

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for _, column in (*self.input, *self.output) if column is not None))


def parse_template(text: str) -> Template:
    r"""Read `Premise: {premise}\nHypothesis: {hypothesis}`; `{{` and `}}` are braces, backslash and n a line break.

    Raises:
        ConfigError: on unpaired braces, a field that is more than a column's name, or none at all.
    """
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigError(f"template {text!r}: {error}; write {{{{ and }}}} for braces that are text") from error
    for _, column, specification, conversion in parts:
        if column is not None and (not column or specification or conversion or set(column) & set(".[]{}")):
            raise ConfigError(
                f"template {text!r}: {{{column}...}} is more or less than a column's name, like {{question}}"
            )
    if all(column is None for _, column, _, _ in parts):
        raise ConfigError(f"template {text!r} has no column; name at least one, like {{question}}")
    return tuple((literal.replace("\\n", "\n"), column) for literal, column, _, _ in parts)


def split_of(name: str) -> str | None:
    """The split that a file or hub split of this name holds, or None."""
    stem = Path(name).stem.lower()
    return next((split for split, names in SPLIT_NAMES.items() if stem in names), None)


def table_source(name: str, files: dict[str, Path], columns: Columns, metric: str = "exact_match") -> TaskSource:
    """A task from files: `{"rows": file}`, or by split `{"pool": file, "validation": file, "test": file}`.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    return _source(name, {split: read_rows(path, columns) for split, path in files.items()}, metric)


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


def _source(name: str, splits: dict[str, list[Row]], metric: str = "exact_match") -> TaskSource:
    validation = splits.get("validation")
    rows = splits.get("rows") or splits.get("pool")
    if rows is None:
        rows, validation = validation, None
    if rows is None:
        raise DataError(
            f"{name} has no rows to choose exemplars from: name one file train, pool or induce; found {sorted(splits)}"
        )
    return TaskSource(name=name, metric=metric, rows=rows, validation=validation, test=splits.get("test"))


def _rows(records: Iterable[tuple[int, dict[str, Any]]], columns: Columns, file: str, unit: str) -> Iterator[Row]:
    for number, record in records:
        for column in columns.all:
            if column not in record:
                raise DataError(
                    f"{file}, {unit} {number}: no column {column!r}; there are {sorted(map(str, record))}: "
                    f"{columns.remedy}"
                )
            if _is_empty(record[column]):
                raise DataError(f"{file}, {unit} {number}: column {column!r} is empty; fill the cell or remove the row")
        answers = _items(columns.output, record)
        outputs = [_filled(columns.output, record)] if answers is None else map(_text, answers)
        yield Row(_filled(columns.input, record), tuple(dict.fromkeys(outputs)))


def _filled(template: Template, record: dict[str, Any]) -> str:
    return "".join(literal + ("" if column is None else _text(record[column])) for literal, column in template)


def _items(template: Template, record: dict[str, Any]) -> list[Any] | None:
    """The list in the one column that is the whole template; None where that is no list, or the template says more."""
    (literal, column), *more = template
    value = None if literal or more or column is None else record[column]
    return value if isinstance(value, list) else None


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
    if len(present) < len(columns.all):
        missing = sorted(set(columns.all) - set(present))[0]
        raise DataError(
            f"{path.name}: no column {missing!r}; there are {sorted(file.schema_arrow.names)}: {columns.remedy}"
        )
    number = 0
    for batch in file.iter_batches(columns=present):
        for record in batch.to_pylist():
            number += 1
            yield number, record
