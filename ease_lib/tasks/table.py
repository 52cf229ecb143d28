"""Adapter for tables: files of records (`records`) or a data set of a hub, with a column mapping (`columns`).

A file is read record by record, and of a large one a bounded sample is kept (`sample`), so memory does not grow with
it. Records with an empty cell in a column that is needed are left out, and a notice says how many.

Files may be named by split (`SPLIT_NAMES`), or a column names the split of each record. If there are no rows for the
pool, but some for validation (as in AQuA's `dev`), these are dealt into the pool and the validation set, and into the
test set if that has none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ease_lib.equality import as_read
from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks.base import HALF_CHARACTER, Moment, Readable, Row, TaskSource
from ease_lib.tasks.columns import Columns, moment_of
from ease_lib.tasks.places import Place, Record, Records, shown
from ease_lib.tasks.records import COMPRESSED, RecordFile
from ease_lib.tasks.sample import Limit, Sample
from ease_lib.words import grouped

SPLIT_NAMES = {
    "pool": ("train", "pool", "induce"),
    "validation": ("validation", "valid", "dev"),
    "test": ("test", "execute"),
}
ROWS = "rows"
"""Rows that belong to no split."""
Limits = Callable[[str], Limit]
"""Function that returns the limit for a split's rows."""


def split_of(name: str) -> str | None:
    """The split that a file or hub split of this name holds, or None."""
    stem = Path(name.lower().removesuffix(COMPRESSED)).stem
    return _split_named(stem)


def _split_named(name: str) -> str | None:
    return next((split for split, names in SPLIT_NAMES.items() if name in names), None)


def _everything(split: str) -> Limit:
    return Limit(seed=0, rows=None)


def table_source(
    name: str,
    files: Mapping[str, Readable],
    columns: Columns,
    metric: str = "",
    limits: Limits = _everything,
    encoding: str = "",
    max_left_out: float = 1.0,
) -> TaskSource:
    """A task from files: `{"rows": file}`, or by split `{"pool": file, "validation": file, "test": file}`.

    Args:
        metric: empty is that of the columns.
        encoding: of the files' text.
        max_left_out: share of a file's rows that may be left out.

    Raises:
        ConfigError: when a column names the splits of files by split.
        DataError: naming file, row, column and remedy.
    """
    _check_split_once(files, columns)
    tables = [
        _read(_file(file, columns, encoding), columns, limits, split).usable(max_left_out)
        for split, file in files.items()
    ]
    return _source(name, tables, columns, metric)


def _check_split_once(by_split: Collection[str], columns: Columns) -> None:
    if columns.split and set(by_split) != {ROWS}:
        raise ConfigError(
            f"split_column={columns.split} is for one table, and these are by split already: {', '.join(by_split)}; "
            "remove split_column"
        )


@dataclass(kw_only=True)
class _Table:
    """Content read from a file.

    Args:
        empty: by column how many records were left out for it, and where the first stands.
        swallowed: rows that became part of a cell of another.
        first_moment: its text and kind, for all must be of one.
    """

    name: str
    samples: dict[str, Sample] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    seen: int = 0
    swallowed: int = 0
    empty: dict[str, tuple[int, Place]] = field(default_factory=dict)
    first_moment: tuple[str, str] | None = None

    def filled(self, records: Records, columns: Columns) -> Iterator[tuple[Place, Record]]:
        """Yield the records without an empty cell in a required column; the others are counted.

        Raises:
            DataError: on a missing column.
        """
        names = columns.all
        for place, record in records:
            self.seen += 1
            missing = next((column for column in names if column not in record), None)
            if missing is not None:
                raise DataError(
                    f"{self.name}, {shown(place)}: no column {missing!r}; there are {sorted(map(str, record))}: "
                    f"{columns.remedy_of(missing, record)}"
                )
            empty = next((column for column in names if columns.is_empty(column, record[column])), None)
            if empty is None:
                yield place, record
            else:
                count, first = self.empty.get(empty, (0, place))
                self.empty[empty] = (count + 1, first)

    def split(self, place: Place, value: Any, column: str) -> str:
        """The split that a cell names.

        Raises:
            DataError: when it names none.
        """
        found = _split_named(as_read(str(value)))
        if found is None:
            known = ", ".join(name for names in SPLIT_NAMES.values() for name in names)
            raise DataError(
                f"{self.name}, {shown(place)}: split_column {column!r} holds {value!r}, which is not a split; write "
                f"one of {known}"
            )
        return found

    def moment(self, place: Place, value: Any, column: str) -> Moment:
        """Sort key of the cell.

        Raises:
            DataError: when it is not a date or number, or not what the first one is.
        """
        read = moment_of(value)
        if read is None:
            raise DataError(
                f"{self.name}, {shown(place)}: time_column {column!r} holds {value!r}; write dates as 2026-11-23 or "
                "2026-11-23T09:30, or numbers"
            )
        moment, kind = read
        self.first_moment = self.first_moment or (str(value), kind)
        if kind != self.first_moment[1]:
            raise DataError(
                f"{self.name}, {shown(place)}: time_column {column!r} holds {value!r}, a {kind}, and "
                f"{self.first_moment[0]!r} before, a {self.first_moment[1]}; write all the same way"
            )
        return moment

    def usable(self, max_left_out: float = 1.0) -> _Table:
        """Return the table itself; raise `DataError` when more of its rows than this share are left out, or all."""
        if not self.seen:
            raise DataError(f"{self.name} has no rows; provide a file with at least one")
        if sum(count for count, _ in self.empty.values()) == self.seen:
            column, (_, place) = next(iter(self.empty.items()))
            raise DataError(
                f"{self.name}: none of its {self.seen} rows can be used: column {column!r} is empty (first at "
                f"{_where(place)}); fill the cells, or name another column"
            )
        left_out = self.swallowed + sum(count for count, _ in self.empty.values())
        if left_out > max_left_out * (self.seen + self.swallowed):
            raise DataError(
                f"{self.name}: {grouped(left_out)} of {grouped(self.seen + self.swallowed)} rows are left out, more "
                f"than max_left_out={max_left_out:g} of them: {'; '.join(self._why_left_out())}; correct the table, or "
                "raise max_left_out (1 continues with whatever is left)"
            )
        return self

    def _why_left_out(self) -> list[str]:
        empty = [
            f"{grouped(count)} because column {column!r} is empty (first at {_where(place)})"
            for column, (count, place) in self.empty.items()
        ]
        return [*empty, *(self.notices if self.swallowed else [])]

    def what_was_left_out(self) -> list[str]:
        empty = [
            f"{grouped(count)} of {grouped(self.seen)} rows of {self.name} were left out: column {column!r} is "
            f"empty (first at {_where(place)})"
            for column, (count, place) in self.empty.items()
        ]
        sampled = [
            f"{grouped(len(sample))} of the {grouped(sample.seen)} {'' if split == ROWS else f'{split} '}rows "
            f"of {self.name} were kept to draw from, by seed"
            for split, sample in self.samples.items()
            if len(sample) < sample.seen
        ]
        return [*self.notices, *empty, *sampled]


def _where(place: Place) -> str:
    return f"{place[0]} {place[1]}"


def _file(file: Readable, columns: Columns, encoding: str = "") -> RecordFile:
    return RecordFile(file, columns.all, encoding, columns.remedy, whole=columns.keeps_all)


def _read(file: RecordFile, columns: Columns, limits: Limits, split: str = ROWS) -> _Table:
    """Rows of one file within a limit; every record is checked."""
    table = file.read(lambda records: _read_records(records, file.name, columns, limits, split))
    table.notices += file.notices
    table.swallowed = file.swallowed
    return table


def _read_records(records: Records, name: str, columns: Columns, limits: Limits, split: str) -> _Table:
    table = _Table(name=name)
    for place, record in table.filled(records, columns):
        own = table.split(place, record[columns.split], columns.split) if columns.split else split
        moment = table.moment(place, record[columns.time], columns.time) if columns.time else None
        if own not in table.samples:
            table.samples[own] = Sample(limits(own), f"{name} ({own})" if columns.split else name)
        if table.samples[own].wants_next():
            row = columns.row(record, moment, f"{name}, {_where(place)}")
            _check_characters(row)
            table.samples[own].add(row)
    return table


def _check_characters(row: Row) -> None:
    """Raise `DataError` on a lone surrogate, which no request and no file can hold."""
    for text in (row.input, *row.outputs, *(text for _, text in row.fields), row.group):
        half = None if text.isascii() else HALF_CHARACTER.search(text)
        if half:
            before = text[max(0, half.start() - 20) : half.start()]
            raise DataError(
                f"{row.origin}: half a character ({half.group()!a}) follows {before!r}; a text was cut within it "
                "where the table was made, or its bytes are not UTF-8 text: correct it there, or remove the row"
            )


def hub_source(name: str, columns: Columns, max_left_out: float = 1.0) -> TaskSource:
    """A task from a hub data set, `name` or `name:configuration`; needs the `datasets` extra and its network.

    Raises:
        ConfigError: when the extra is not installed.
        DataError: when the data set cannot be loaded or lacks a column.
    """
    loaded = _from_hub("load_dataset", name)
    splits = {split_of(split) or split: rows for split, rows in loaded.items()}
    if len(splits) == 1 and ("pool" not in splits or columns.split):
        splits = {ROWS: next(iter(splits.values()))}
    known = {split: rows for split, rows in splits.items() if split in (*SPLIT_NAMES, ROWS)}
    _check_split_once(known, columns)
    tables = [
        _read_records(_numbered(rows), f"{name}[{split}]", columns, _everything, split).usable(max_left_out)
        for split, rows in known.items()
    ]
    return _source(name, tables, columns)


def check_hub(name: str, columns: Columns) -> int | None:
    """Ask the hub about a data set; return its rows over all splits, or None if unknown.

    Raises:
        ConfigError, DataError: as `hub_source`.
    """
    info = _from_hub("load_dataset_builder", name).info
    missing = sorted(set(columns.all) - set(info.features)) if info.features else []
    if missing:
        raise DataError(
            f"{name}: no column {missing[0]!r}; there are {sorted(info.features)}: {columns.remedy_of(missing[0])}"
        )
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


def _numbered(records: Iterable[Record]) -> Records:
    return ((("row", number, 0), record) for number, record in enumerate(records, 1))


def read_rows(file: Readable, columns: Columns) -> list[Row]:
    """All rows of one file.

    Raises:
        DataError: on a missing column, a broken line, or a file without rows.
    """
    return sampled_rows(file, columns, Limit(seed=0, rows=None)).rows()


def sampled_rows(file: Readable, columns: Columns, limit: Limit) -> Sample:
    """Rows of one file within a limit, whatever their split.

    Raises:
        DataError: as `read_rows`, and where all rows are wanted and do not fit.
    """
    table = _read(_file(file, columns), columns, lambda split: limit)
    return table.usable().samples[ROWS]


def check_head(file: Readable, columns: Columns, rows: int, encoding: str = "") -> int | None:
    """Check the first rows of a file like `table_source`; the rest may still contain errors.

    Returns:
        the rows of the whole file where that is known at once: a Parquet file says so.

    Raises:
        DataError: as `table_source`.
    """
    table = _file(file, columns, encoding)
    head = table.read(
        lambda records: _read_records(itertools.islice(records, rows), table.name, columns, _everything, ROWS)
    )
    if head.seen < rows:
        head.usable()
    return table.row_count()


def _source(name: str, tables: Iterable[_Table], columns: Columns, metric: str = "") -> TaskSource:
    tables = list(tables)
    samples = {split: sample for table in tables for split, sample in table.samples.items()}
    splits = {split: sample.rows() for split, sample in samples.items()}
    validation = splits.get("validation")
    rows = splits.get(ROWS) or splits.get("pool")
    if rows is None:
        rows, validation = validation, None
    if rows is None:
        raise DataError(
            f"{name} has no rows to choose exemplars from: name one file train, pool or induce; found {sorted(splits)}"
        )
    return TaskSource(
        name=name,
        metric=metric or columns.metric,
        rows=rows,
        validation=validation,
        test=splits.get("test"),
        notices=tuple(notice for table in tables for notice in table.what_was_left_out()),
        left_out=sum(sample.seen - len(sample) for sample in samples.values()),
        group_column=columns.group,
        time_column=columns.time,
    )
