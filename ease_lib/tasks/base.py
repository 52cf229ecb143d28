"""The words every task speaks: exemplars, candidate rows of a source, and the splits made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

NoiseRule = Callable[[str], str]
"""A systematic corruption: the wrong output for an input, e.g. y = 5x - 8."""


def row_hash(text: str) -> str:
    """What names a row in prompts, indices and deletions: SHA-256 of its input text without outer white space."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


@dataclass(frozen=True)
class Exemplar:
    """One input with its accepted outputs; the first is the one shown in a prompt.

    `is_noisy` says whether the shown output was corrupted (None: unknown). Reports read it, optimizers never do.
    """

    exemplar_id: int
    input: str
    outputs: tuple[str, ...]
    is_noisy: bool | None = None

    @property
    def output(self) -> str:
        return self.outputs[0]

    def with_output(self, output: str, *, is_noisy: bool) -> Exemplar:
        return replace(self, outputs=(output,), is_noisy=is_noisy)


@dataclass(frozen=True)
class Row:
    """A row as its source gives it, before it is drawn into a split."""

    input: str
    outputs: tuple[str, ...]
    is_noisy: bool | None = None


@dataclass(frozen=True, kw_only=True)
class TaskSource:
    """All rows a task offers.

    `rows` that belong to no split are dealt to the pool, the validation and the test set; a source that comes with its
    own splits gives `validation` and `test` too (either may be None: then those rows are dealt out of `rows`).
    """

    name: str
    metric: str
    rows: Sequence[Row]
    validation: Sequence[Row] | None = None
    test: Sequence[Row] | None = None
    noise_rule: NoiseRule | None = None


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """The three sets of a run; ids are unique over all of them."""

    name: str
    metric: str
    pool: tuple[Exemplar, ...]
    validation: tuple[Exemplar, ...]
    test: tuple[Exemplar, ...]
    notices: tuple[str, ...] = ()
