"""JSON as tables: a sequence of values (JSON lines), arrays of records, or one object that holds a table.

    {"text": "...", "team": "..."}                              a record; so are the items of arrays
    {"text": {"0": ...}, "team": {"0": ...}}                    by columns, as pandas writes; lists too
    {"columns": ["text", "team"], "data": [["...", "..."]]}     split
    {"0": {"text": ...}, "1": {...}}                            by index
    {"data": [{"text": ...}]}                                   under a key, whatever it is; by columns too

Nothing is left unread: what is behind a value is the next one, or an error.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from ease_lib.errors import DataError
from ease_lib.tasks.encodings import MARK, without_marks
from ease_lib.tasks.places import Place, Record, Records, shown
from ease_lib.words import cut

READ_CHARACTERS = 2**20
_BLANKS = re.compile(r"\s*")
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_SHOWN = 40
"""Number of characters shown of a text that is not JSON."""
Values = Iterator[tuple[Place, Any]]


def json_records(name: str, text: IO[str], wanted: Sequence[str], remedy: str, notices: list[str]) -> Records:
    """Records of a file of JSON, with their places.

    Args:
        name: of the file.
        wanted: columns that are needed.
        remedy: what the error of a missing column advises.
        notices: takes what people should know.

    Raises:
        DataError: if it is not JSON, or no records.
    """
    blank, first = _first_line(text)
    if first.startswith("{") and not first.endswith("\n"):
        first += text.readline()
    is_of_lines = first.startswith("{") and _is_json(first)
    lines = itertools.chain([first], without_marks(text))
    values = _lines(name, lines, 1 + blank) if is_of_lines else _values(name, first, text)
    head = list(itertools.islice(values, 2))
    if len(head) == 1 and isinstance(head[0][1], dict):
        yield from _records_of(name, *head[0], wanted, remedy, notices)
        return
    for place, record in itertools.chain(head, values):
        yield place, _record(name, place, record)


def _first_line(text: IO[str]) -> tuple[int, str]:
    """Number of blank lines, and the first other line, or its beginning if it is long."""
    blank = 0
    while (first := text.readline(READ_CHARACTERS).replace(MARK, "")).isspace():
        blank += first.endswith("\n")
    return blank, first.lstrip()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    except (ValueError, RecursionError):  # it is, and cannot be held: it is named by its place when it is read
        return True
    return True


def _lines(name: str, lines: Iterable[str], begin: int) -> Values:
    for number, line in enumerate(lines, begin):
        if not line.isspace():
            yield ("line", number, 0), _value(line, name, number)


def _value(text: str, name: str, number: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {number}: not valid JSON ({error.msg}); write one object per line") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}, line {number}: {_too_much(error)}") from error


def _values(name: str, first: str, text: IO[str]) -> Values:
    """A sequence of values, and the items of arrays one by one, so that an array need not fit into memory."""
    decoder = json.JSONDecoder()
    read, place, number, is_inside = first, 0, 0, False
    while True:
        place = (_BETWEEN_ITEMS if is_inside else _BLANKS).match(read, place).end()  # type: ignore[union-attr]
        if read.startswith("]" if is_inside else "[", place):
            is_inside = not is_inside
            place += 1
            continue
        try:
            item, place = decoder.raw_decode(read, place)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError):
                raise DataError(f"{name}, item {number + 1}: {_too_much(error)}") from error
            left = read[place:]
            more = text.read(max(READ_CHARACTERS, len(left))).replace(MARK, "")
            if more:
                read, place = left + more, 0
                continue
            if is_inside or (left and not number):
                message = f"{name}, item {number + 1}: not valid JSON ({error.msg}); correct it"
            elif left:
                message = f"{name}: {cut(left, _SHOWN)!r} after item {number} is not JSON; remove it"
            else:
                return
            raise DataError(message) from error
        number += 1
        yield ("item", number, 0), item


def _too_much(error: Exception) -> str:
    """Message about valid JSON that cannot be read."""
    what = "brackets nested too deep" if isinstance(error, RecursionError) else "a number of thousands of digits"
    return f"{what}; write it as a text, or remove the row"


def _records_of(
    name: str, place: Place, value: Mapping[str, Any], wanted: Sequence[str], remedy: str, notices: list[str]
) -> Records:
    """Records of the only value of a file: a table in one of its forms, else itself.

    Raises:
        DataError: when it holds several tables, or columns do not fit.
    """
    needed = set(wanted)
    for form in (_by_columns, _split, _by_index):
        found = form(name, value, needed)
        if found is not None:
            yield from ((("row", number, 0), record) for number, record in enumerate(found, 1))
            return
    tables = {key: item for key, item in value.items() if _is_table(item)} if not needed & value.keys() else {}
    fitting = {key: item for key, item in tables.items() if needed <= _first(item).keys()} or tables
    if len(fitting) > 1:
        raise _several(name, fitting)
    is_nested = any(isinstance(item, dict | list) for item in value.values())
    if is_nested and not fitting and needed and not needed & value.keys():
        raise DataError(
            f"{name}, {shown(place)}: no column {wanted[0]!r}; there is one object of "
            f"{cut(', '.join(map(repr, value)) or 'nothing', _SHOWN)}, and a table is a list of objects, or one "
            f"a line: {remedy}"
        )
    if not fitting or not needed:
        yield place, dict(value)
        return
    ((key, item),) = fitting.items()
    if others := [repr(other) for other in value if other != key]:
        notices.append(f"of {name} the rows under {key!r} are read, and not {cut(', '.join(others), _SHOWN)}")
    records = item.values() if isinstance(item, dict) else item
    yield from _numbered(name, records, f"{key}, row")


def _several(name: str, tables: Iterable[str]) -> DataError:
    return DataError(
        f"{name} holds several tables: {', '.join(map(repr, tables))}; save each as a file, named by its split"
    )


def _numbered(name: str, records: Iterable[Any], unit: str) -> Records:
    for number, record in enumerate(records, 1):
        place = unit, number, 0
        yield place, _record(name, place, record)


def _record(name: str, place: Place, value: Any) -> Record:
    if not isinstance(value, dict):
        raise DataError(
            f"{name}, {shown(place)}: expected a JSON object, found {type(value).__name__}; give one object for each "
            "row"
        )
    return value


def _by_columns(name: str, value: Mapping[str, Any], needed: set[str]) -> Iterable[Record] | None:
    """Columns that are all lists, or all objects with the same keys."""
    columns = {column: value[column] for column in value if column in needed}
    kinds = set(map(type, columns.values()))
    if not needed or columns.keys() != needed or len(kinds) != 1 or not kinds & {dict, list}:
        return None
    if kinds == {list}:
        lengths = {column: len(cells) for column, cells in columns.items()}
        if len(set(lengths.values())) > 1:
            shown_lengths = ", ".join(f"{column!r} {length}" for column, length in lengths.items())
            raise DataError(f"{name} is by columns, and they are of several lengths ({shown_lengths}); correct it")
        return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    keys, *others = [cells.keys() for cells in columns.values()]
    if any(other != keys for other in others):
        if not set(keys).intersection(*others):
            return None
        raise DataError(f"{name} is by columns, and some of them lack rows that others have; correct it")
    return ({column: cells[key] for column, cells in columns.items()} for key in keys)


def _split(name: str, value: Mapping[str, Any], needed: set[str]) -> Iterable[Record] | None:
    """Names under `columns`, and a list of cells for each row under `data`."""
    names, rows = value.get("columns"), value.get("data")
    if not isinstance(names, list) or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return None
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != len(names)), None)
    if wrong is not None:
        raise DataError(
            f"{name}, row {wrong} of data: {len(rows[wrong - 1])} cells for {len(names)} columns; correct it"
        )
    return (dict(zip(map(str, names), row, strict=True)) for row in rows)


def _by_index(name: str, value: Mapping[str, Any], needed: set[str]) -> Iterable[Record] | None:
    """Objects by any keys: records, of which some may lack a column; or a table by columns."""
    if not needed or not all(isinstance(record, dict) for record in value.values()):
        return None
    fitting = {key: record for key, record in value.items() if needed <= record.keys()}
    tables = [key for key, record in fitting.items() if all(isinstance(record[column], list) for column in needed)]
    if len(tables) > 1 and len(tables) == len(fitting):
        raise _several(name, tables)
    if len(tables) == len(value) == 1:
        return _by_columns(name, fitting[tables[0]], needed)
    return value.values() if fitting else None


def _is_table(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(True for _ in items) and all(isinstance(item, dict) for item in items)


def _first(table: Any) -> Record:
    record: Record = next(iter(table.values() if isinstance(table, dict) else table))
    return record
