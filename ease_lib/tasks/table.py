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

SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
COMPRESSED = ".gz"
TABLE_NAMES = (*SUFFIXES, *(f"{suffix}{COMPRESSED}" for suffix in SUFFIXES if suffix != ".parquet"))
"""How names of tables end."""
SPLIT_NAMES = {
    "pool": ("train", "pool", "induce"),
    "validation": ("validation", "valid", "dev"),
    "test": ("test", "execute"),
}
DELIMITERS = (",", ";", "\t", "|")
HEAD_LINES = 20
"""Of a CSV file, by which its delimiter is known."""
READ_CHARACTERS = 2**20
PARQUET_ROWS_AT_ONCE = 4096
csv.field_size_limit(2**31 - 1)


Record = dict[str, Any]
Place = tuple[str, int, int]
"""Unit, its number, and the number of the record where that is another; else 0."""
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


def _checked_records(file: Readable, columns: Columns) -> Iterator[tuple[Place, Record]]:
    """The records of a file with their places; all columns are there and filled."""
    readers: dict[str, Callable[[IO[bytes], str, Columns], Iterator[tuple[Place, Record]]]] = {
        ".csv": _csv_records,
        ".tsv": _csv_records,
        ".jsonl": _json_records,
        ".json": _json_records,
        ".parquet": _parquet_records,
    }
    suffix = Path(file.name.lower().removesuffix(COMPRESSED)).suffix
    if suffix not in readers or not file.name.lower().endswith(TABLE_NAMES):
        raise DataError(f"{file.name}: unknown kind of table; use one of {', '.join(TABLE_NAMES)}")
    try:
        with _opened(file) as content:
            yield from _checked(readers[suffix](content, file.name, columns), columns, file.name)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file.name}{_undecodable(file)} is not UTF-8 text; save it as UTF-8 (of a spreadsheet: CSV UTF-8), or "
            f"convert it, e.g. iconv -f cp1252 -t utf-8 {file.name}"
        ) from error
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid, csv.Error) as error:
        raise DataError(f"{file.name} cannot be read as {suffix[1:]}: {error}") from error


@contextmanager
def _opened(file: Readable) -> Iterator[IO[bytes]]:
    """Its content, uncompressed."""
    with file.open("rb") as content:
        if not file.name.lower().endswith(COMPRESSED):
            yield content
            return
        with gzip.open(content) as inside:
            yield inside  # type: ignore[misc]


def _undecodable(file: Readable) -> str:
    """Which line of it is not UTF-8, as `, line 3,`."""
    with _opened(file) as content:
        for number, line in enumerate(content, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f", line {number},"
    return ""


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


def _shown(place: Place) -> str:
    """`line 3 (record 2)` as an editor counts lines, `row 2` where there are none."""
    unit, number, record = place
    return f"{unit} {number}" + (f" (record {record})" if record else "")


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


def _csv_records(content: IO[bytes], name: str, columns: Columns) -> Iterator[tuple[Place, Record]]:
    with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as text:
        head = list(itertools.islice(text, HEAD_LINES))
        if not head:
            return
        reader = csv.reader(itertools.chain(head, text), delimiter=delimiter_of(head, columns.all))
        first = next(reader)
        header, has_header = _csv_header(first, columns.all)
        line, number = (reader.line_num, 0) if has_header else (0, 0)
        for cells in reader if has_header else itertools.chain([first], reader):
            begins, line = line + 1, reader.line_num
            number += 1
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{name}, {_shown(('line', begins, number))}: {len(cells)} cells for {len(header)} columns; "
                    "quote cells that hold commas or line breaks"
                )
            yield ("line", begins, number), dict(zip(header, cells, strict=True))


def delimiter_of(head: Sequence[str], wanted: Sequence[str] = ()) -> str:
    """What separates the cells: it makes the wanted columns of the first line, else the most cells, always as many."""
    tables = {delimiter: _records(head, delimiter) for delimiter in DELIMITERS}
    for delimiter, records in tables.items():
        if records and wanted and set(wanted) <= set(records[0]):
            return delimiter
    cells = {
        delimiter: len(records[0])
        for delimiter, records in tables.items()
        if records and {len(record) for record in records[:-1]} <= {len(records[0])}  # the last may be cut
    }
    return max(cells, key=lambda delimiter: cells[delimiter], default=",")


def _records(head: Sequence[str], delimiter: str) -> list[list[str]]:
    """Those with cells; none where it cannot be read so."""
    try:
        return [record for record in csv.reader(head, delimiter=delimiter) if record]
    except csv.Error:
        return []


def _csv_header(first: list[str], wanted: Sequence[str]) -> tuple[list[str], bool]:
    """Names of the columns, and whether the first record holds them."""
    if not set(wanted) <= set(first) and all(name.isdigit() for name in wanted):
        return [str(position) for position in range(1, len(first) + 1)], False
    return first, True


def _json_records(content: IO[bytes], name: str, columns: Columns) -> Iterator[tuple[Place, Record]]:
    """Of an array, or of an object on each line."""
    with io.TextIOWrapper(content, encoding="utf-8-sig") as text:
        first = text.readline()
        records: Iterator[tuple[Place, Any]]
        if name.lower().endswith(".json") and first.lstrip().startswith("["):
            records = _array_items(first, text, name)
        else:
            lines = enumerate(itertools.chain([first], text), 1)
            records = ((("line", number, 0), _json(line, name, number)) for number, line in lines if line.strip())
        for place, record in records:
            if not isinstance(record, dict):
                raise DataError(
                    f"{name}, {_shown(place)}: a JSON object is needed, found {type(record).__name__}; "
                    "give one object for each row"
                )
            yield place, record


def _array_items(first: str, text: IO[str], name: str) -> Iterator[tuple[Place, Any]]:
    """The items of an array, one after another, so that it need not fit into memory."""
    decoder = json.JSONDecoder()
    left, number = first.lstrip()[1:], 0
    while True:
        left = left.lstrip(" \t\r\n,") if number else left.lstrip()
        if left.startswith("]"):
            return
        try:
            item, end = decoder.raw_decode(left)
        except json.JSONDecodeError as error:
            more = text.read(max(READ_CHARACTERS, len(left)))
            if not more:
                raise DataError(f"{name}, item {number + 1}: not valid JSON ({error.msg}); correct it") from error
            left += more
            continue
        number += 1
        yield ("item", number, 0), item
        left = left[end:]


def _json(text: str, name: str, number: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {number}: not valid JSON ({error.msg}); one object a line is needed") from error


def _parquet_records(content: IO[bytes], name: str, columns: Columns) -> Iterator[tuple[Place, Record]]:
    file = pq.ParquetFile(content)
    present = [column for column in columns.all if column in file.schema_arrow.names]
    if len(present) < len(columns.all):
        missing = sorted(set(columns.all) - set(present))[0]
        raise DataError(f"{name}: no column {missing!r}; there are {sorted(file.schema_arrow.names)}: {columns.remedy}")
    number = 0
    for batch in file.iter_batches(PARQUET_ROWS_AT_ONCE, columns=present):
        for record in batch.to_pylist():
            number += 1
            yield ("row", number, 0), record
