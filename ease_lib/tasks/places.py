"""Records of a file, and where each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]
Place = tuple[str, int, int]
"""Unit, its number, and the number of the record if it differs; else 0."""
Records = Iterator[tuple[Place, Record]]


def shown(place: Place) -> str:
    """`line 3 (record 2)` as an editor counts lines, `row 2` if there are none."""
    unit, number, record = place
    return f"{unit} {number}" + (f" (record {record})" if record else "")
