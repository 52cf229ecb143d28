"""Rows of a program as a table of a task: a JSON line each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ease_lib.errors import DataError
from ease_lib.tasks.missing import plain_value


def write_rows(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write rows, each a mapping of columns.

    Raises:
        DataError: when a row is not a mapping, or a column's name not text.
    """
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(
                    f"row {number} is {type(row).__name__}, not a mapping of columns; of a pandas DataFrame give "
                    'df.to_dict("records"), of a polars one df.to_dicts(), of a pyarrow table table.to_pylist()'
                )
            try:
                file.write(json.dumps(dict(row), default=_as_json) + "\n")
            except TypeError as error:  # a key that is not text
                raise DataError(f"row {number}: {error}; give columns names that are text") from error


def _as_json(value: object) -> object:
    """Convert a value to JSON types: a set becomes a list in a fixed order, an array a list."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")  # what is not text is refused as half a character
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    plain = plain_value(value)
    return str(value) if plain is value else plain
