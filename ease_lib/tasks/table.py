"""Adapter for tables: CSV, TSV, JSONL and JSON (also .gz), Parquet, or a data set of a hub, with a column mapping.

A file is read record by record, and of a large one a bounded sample is kept (`sample.py`), so memory does not grow with
it. CSV cells may be separated by comma, semicolon, tab or bar: what fits the first lines.

Files may be named by split (`SPLIT_NAMES`). Where there is no file to choose exemplars from, but one for validation
(AQuA's `dev`, say), its rows are dealt into the pool and the validation set, and into the test set if that has no file.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import string
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks.base import Readable, Row, TaskSource
from ease_lib.tasks.sample import Limit, Sample

SPLIT_NAMES = {
    "pool": ("train", "pool", "induce"),
    "validation": ("validation", "valid", "dev"),
    "test": ("test", "execute"),
}
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
    fields: tuple[str, ...] = ()
    """Columns that the row keeps beside."""

    @classmethod
    def parse(
        cls,
        input_columns: str,
        output_column: str,
        remedy: str = "set input_columns and output_column",
        fields: Sequence[str] = (),
    ) -> Columns:
        """From the two parameters: a value with `{` is a template, another names columns.

        Several input columns become one text, a line `column: value` each.

        Args:
            fields: columns that rows keep beside.

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
        return cls(inputs, output, remedy, tuple(fields))

    @property
    def all(self) -> tuple[str, ...]:
        made_from = [column for _, column in (*self.input, *self.output) if column is not None]
        return tuple(dict.fromkeys([*made_from, *self.fields]))


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
    stem = Path(name.lower().removesuffix(COMPRESSED)).stem
    return next((split for split, names in SPLIT_NAMES.items() if stem in names), None)


def table_source(
    name: str,
    files: Mapping[str, Readable],
    columns: Columns,
    metric: str = "exact_match",
    limits: Callable[[str], Limit] = lambda split: Limit(seed=0, rows=None),
) -> TaskSource:
    """A task from files: `{"rows": file}`, or by split `{"pool": file, "validation": file, "test": file}`.

    Args:
        limits: how much of a split's file is kept.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    samples = {split: sampled_rows(file, columns, limits(split)) for split, file in files.items()}
    source = _source(name, {split: sample.rows() for split, sample in samples.items()}, metric)
    return _with_what_was_left_out(source, {files[split].name: sample for split, sample in samples.items()})


def _with_what_was_left_out(source: TaskSource, samples: Mapping[str, Sample]) -> TaskSource:
    notices = [
        f"{_thousands(len(sample))} of the {_thousands(sample.seen)} rows of {name} were kept to draw from, by seed"
        for name, sample in samples.items()
        if len(sample) < sample.seen
    ]
    left_out = sum(sample.seen - len(sample) for sample in samples.values())
    return replace(source, notices=(*source.notices, *notices), left_out=left_out)


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def hub_source(name: str, columns: Columns) -> TaskSource:
    """A task from a hub data set, `name` or `name:configuration`; needs the `datasets` extra and its network.

    Raises:
        ConfigError: when the extra is not installed.
        DataError: when the data set cannot be loaded or lacks a column.
    """
    loaded = _from_hub("load_dataset", name)
    splits = {split_of(split) or split: rows for split, rows in loaded.items()}
    if "pool" not in splits and len(splits) == 1:
        splits = {"rows": next(iter(splits.values()))}
    known = {split: rows for split, rows in splits.items() if split in (*SPLIT_NAMES, "rows")}
    return _source(name, {split: _all_rows(rows, columns, f"{name}[{split}]") for split, rows in known.items()})


def check_hub(name: str, columns: Columns) -> int | None:
    """Ask the hub about a data set; its rows over all splits, or None where it does not say.

    Raises:
        ConfigError, DataError: as `hub_source`.
    """
    info = _from_hub("load_dataset_builder", name).info
    missing = sorted(set(columns.all) - set(info.features)) if info.features else []
    if missing:
        raise DataError(f"{name}: no column {missing[0]!r}; there are {sorted(info.features)}: {columns.remedy}")
    return sum(split.num_examples for split in info.splits.values()) if info.splits else None


def _from_hub(function: str, name: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            f"task_name={name} without task_uri is a hub data set and needs: pip install 'ease-pipelines[datasets]'"
        ) from error
    path, _, configuration = name.partition(":")
    try:
        return getattr(datasets, function)(path, configuration or None)
    except Exception as error:  # the hub client raises many unrelated kinds
        raise DataError(
            f"cannot load hub data set {name}: {error}; check the name, the configuration and the network"
        ) from error


def _all_rows(records: Iterable[Record], columns: Columns, name: str) -> list[Row]:
    places = ((("row", number, 0), record) for number, record in enumerate(records, 1))
    return [_row(record, columns) for _, record in _checked(places, columns, name)]


def read_rows(file: Readable, columns: Columns) -> list[Row]:
    """All rows of one file.

    Raises:
        DataError: on a missing column, an empty cell, a broken line, or a file without rows.
    """
    return sampled_rows(file, columns, Limit(seed=0, rows=None)).rows()


def sampled_rows(file: Readable, columns: Columns, limit: Limit) -> Sample:
    """Rows of one file within a limit; every record is looked at.

    Raises:
        DataError: as `read_rows`, and where all rows are wanted and do not fit.
    """
    sample = Sample(limit, file.name)
    for _, record in _checked_records(file, columns):
        if sample.wants_next():
            sample.add(_row(record, columns))
    if not sample.seen:
        raise DataError(f"{file.name} has no rows; give a file with at least one")
    return sample


def check_head(file: Readable, columns: Columns, rows: int) -> int | None:
    """Look at the first rows of a file as `read_rows` does at all; the rest may hold what stops a run.

    Returns:
        the rows of the whole file where that is known at once: a Parquet file says so.

    Raises:
        DataError: as `read_rows`.
    """
    found = sum(1 for _ in itertools.islice(_checked_records(file, columns), rows))
    if not found:
        raise DataError(f"{file.name} has no rows; give a file with at least one")
    if file.suffix.lower() != ".parquet":
        return None
    with file.open("rb") as content:
        return int(pq.ParquetFile(content).metadata.num_rows)


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


def _checked(records: Iterable[tuple[Place, Record]], columns: Columns, file: str) -> Iterator[tuple[Place, Record]]:
    names = columns.all
    for place, record in records:
        for column in names:
            if column not in record:
                raise DataError(
                    f"{file}, {_shown(place)}: no column {column!r}; there are {sorted(map(str, record))}: "
                    f"{columns.remedy}"
                )
            if _is_empty(record[column]):
                raise DataError(f"{file}, {_shown(place)}: column {column!r} is empty; fill the cell or remove the row")
        yield place, record


def _row(record: Record, columns: Columns) -> Row:
    answers = _items(columns.output, record)
    outputs = [_filled(columns.output, record)] if answers is None else map(_text, answers)
    fields = tuple((column, _trimmed(_text(record[column]))) for column in columns.fields)
    return Row(_trimmed(_filled(columns.input, record)), tuple(dict.fromkeys(map(_trimmed, outputs))), fields=fields)


def _trimmed(text: str) -> str:
    """Without blanks around it, which would make another label of it; the indentation of several lines is kept."""
    text = text.strip("\r\n").rstrip()
    return text if "\n" in text else text.strip()


def _filled(template: Template, record: dict[str, Any]) -> str:
    return "".join(literal + ("" if column is None else _text(record[column])) for literal, column in template)


def _items(template: Template, record: dict[str, Any]) -> list[Any] | None:
    """The list in the one column that is the whole template; None where that is no list, or the template says more."""
    (literal, column), *more = template
    value = None if literal or more or column is None else record[column]
    return value if isinstance(value, list) else None


def _is_empty(value: Any) -> bool:
    if type(value) is str:  # most are
        return not value or value.isspace()
    if isinstance(value, list):
        return not value or any(_is_empty(item) for item in value)
    return value is None or value != value or not _text(value).strip()


def _text(value: Any) -> str:
    """A cell as a prompt shows it: lists a line for each item, objects as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)
