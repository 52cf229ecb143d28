"""The header of a table of cells: the names of its columns, and where it is repeated.

A name that only looks like the one that is needed (blanks around it, a line break, an accent that is written otherwise)
is that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.equality import same_written
from ease_lib.errors import DataError
from ease_lib.tasks.places import Place, shown


class Header:
    """Names of the columns of a file.

    Args:
        name: of the file.
        first: its first cells: they are the names, or the first record where columns are wanted by number.
        wanted: the columns that are needed.

    Raises:
        DataError: when two columns have a name that is needed.
    """

    def __init__(self, name: str, first: Sequence[str], wanted: Sequence[str]) -> None:
        self._file = name
        self.is_first = set(wanted) <= set(first) or not all(column.isdigit() for column in wanted)
        alike = {same_written(column): column for column in wanted if column not in first}
        names = [alike.get(same_written(column), column) for column in first]
        self.names = names if self.is_first else [str(place) for place in range(1, len(first) + 1)]
        self._plain = _plain(first)
        forms = (str, str.strip, str.lower, str.upper, str.title, str.capitalize)
        is_known = self.is_first and len(first) > 1
        self.known = {form(column) for column in first for form in forms} if is_known else set()
        self._again: list[Place] = []
        check_once(name, self.names, wanted)

    def is_repeated(self, cells: Sequence[str], place: Place) -> bool:
        """Return whether these cells repeat the header, as in joined files, and count it.

        Raises:
            DataError: when they are the same names in another order.
        """
        if cells[0] not in self.known or sorted(plain := _plain(cells)) != sorted(self._plain):
            return False
        if plain != self._plain:
            raise DataError(
                f"{self._file}, {shown(place)}: the header is repeated here with its columns in another order; give "
                "the joined files one order, or split them"
            )
        self._again.append(place)
        return True

    @property
    def notices(self) -> list[str]:
        if not self._again:
            return []
        unit, number, _ = self._again[0]
        times = f"{len(self._again)} times" if len(self._again) > 1 else "once"
        return [f"{self._file} repeats the header {times}, which was left out there (first at {unit} {number})"]


def _plain(names: Sequence[str]) -> list[str]:
    return [str(name).strip().casefold() for name in names]


def check_once(name: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `DataError` when two columns have a name that is needed."""
    twice = next((column for column in wanted if names.count(column) > 1), None)
    if twice is not None:
        raise DataError(f"{name}: {names.count(twice)} columns are named {twice!r}; rename the others")
