"""Types shared by all tasks: exemplars, rows of a source, and the splits made of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import IO, Literal, Protocol

from ease_lib.digests import sha256_of_text
from ease_lib.equality import as_read, same_written, visible

Fields = tuple[tuple[str, str], ...]
"""Columns of a row that the prompt names besides input and output, with their texts."""
Moment = int | float | Decimal
"""Time by which rows are ordered."""
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""Matches a lone surrogate, which no file and no request can hold."""
NoiseRule = Callable[[str], str]
"""Function of a systematic corruption: the wrong output for an input, e.g. y = 5x - 8."""


class Readable(Protocol):
    """A file as tasks read it: a `Path`, or an object of a store that is read where it is."""

    @property
    def name(self) -> str: ...

    @property
    def suffix(self) -> str: ...

    def open(self, mode: Literal["rb"]) -> IO[bytes]: ...


def row_hash(text: str) -> str:
    """Identifier of a row in prompts, indices and deletions: SHA-256 of its input text without outer white space."""
    return sha256_of_text(text.strip())


def row_hashes(text: str) -> set[str]:
    """Return the hashes that name a row: of its input text as it is written, and of the usual forms of equal texts."""
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    return set(map(row_hash, {text, composed, decomposed, visible(text), same_written(text), as_read(text)}))


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One input with its accepted outputs; the first is the one shown in a prompt.

    `is_noisy` says whether the shown output was corrupted (None: unknown). Reports read it, optimizers never do.
    `origin` is where the row is in the data, as who owns it counts: `tickets.csv, line 3`; empty if it was made.
    """

    exemplar_id: int
    input: str
    outputs: tuple[str, ...]
    is_noisy: bool | None = None
    fields: Fields = ()
    origin: str = ""

    @property
    def output(self) -> str:
        return self.outputs[0]

    @property
    def named(self) -> str:
        """Name of the row in messages: `row 8 (tickets.csv, line 3)`."""
        return f"row {self.exemplar_id}" + (f" ({self.origin})" if self.origin else "")

    def with_output(self, output: str, *, is_noisy: bool) -> Exemplar:
        return replace(self, outputs=(output,), is_noisy=is_noisy)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a source, before it is drawn into a split.

    Args:
        group: rows of the same group stay in one split; empty for no group.
        moment: what a split by time goes by.
        origin: file and place.
    """

    input: str
    outputs: tuple[str, ...]
    is_noisy: bool | None = None
    fields: Fields = ()
    group: str = ""
    moment: Moment | None = None
    origin: str = ""

    @property
    def output(self) -> str:
        return self.outputs[0]


@dataclass(frozen=True, kw_only=True)
class TaskSource:
    """All rows a task offers.

    `rows` that belong to no split are dealt to the pool, the validation and the test set; a source that comes with its
    own splits gives `validation` and `test` too (either may be None: then those rows are dealt out of `rows`).
    `notices` are for people, about the data; `left_out` counts rows that a sample of the source does without.
    Rows of a `group_column` stay together, and by a `time_column` the newest rows are the test set.
    """

    name: str
    metric: str
    rows: Sequence[Row]
    validation: Sequence[Row] | None = None
    test: Sequence[Row] | None = None
    noise_rule: NoiseRule | None = None
    notices: tuple[str, ...] = ()
    left_out: int = 0
    group_column: str = ""
    time_column: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """The three sets of a run; ids are unique over all of them.

    Args:
        unused: rows of the source that are in none of them.
        classes: where outputs are labels, how many rows of pool, validation and test set have each, noise not counted.
        notices: what people should know of the data before anything is paid for; what follows the first line of one
            holds texts of rows, which are shown and never kept.
    """

    name: str
    metric: str
    pool: tuple[Exemplar, ...]
    validation: tuple[Exemplar, ...]
    test: tuple[Exemplar, ...]
    unused: int = 0
    classes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
