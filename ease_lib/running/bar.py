"""Progress bar of a run or a command, at the bottom of a terminal or in a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tqdm.auto import tqdm

from ease_lib.progress import Told
from ease_lib.search.search_progress import SearchState

SEARCH_FORMAT = "{desc}: {percentage:3.0f}% |{bar}| {n_fmt} of {total_fmt} answers, {remaining} left{postfix}"
COUNT_FORMAT = "{desc}: {percentage:3.0f}% |{bar}| {n_fmt} of {total_fmt}, {remaining} left"
STAGE_FORMAT = "{desc} ..."
DELAY_SECONDS = 1.0
"""Work that takes less time shows no bar."""


class Bar:
    """Shows the stage and, for the search, answers, incumbent, cost and time left.

    Args:
        file: where it is drawn; nowhere if that is not a terminal, but for a notebook.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._work: tuple[str, int] | None = None

    def __enter__(self) -> Bar:
        self._bar = tqdm(desc="starting", bar_format=STAGE_FORMAT, leave=False, disable=None, file=self._file)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def stage(self, name: str) -> None:
        self._work = None
        self._bar.bar_format = STAGE_FORMAT
        self._bar.set_description_str(name.replace("_", " "))

    def searched(self, state: SearchState) -> None:
        self._begin(SEARCH_FORMAT, state.planned, state.answers)
        self._bar.set_postfix_str(_in_words(state), refresh=False)
        self._bar.update(state.answers - self._bar.n)

    def counted(self, done: int, total: int) -> None:
        self._begin(COUNT_FORMAT, total, 0)
        self._bar.update(done - self._bar.n)

    def _begin(self, shape: str, total: int, before: int) -> None:
        """Switch the bar to this work, unless it shows it already; parts done before take no time."""
        if self._work != (shape, total):
            self._work = shape, total
            self._bar.bar_format = shape
            self._bar.reset(total=total)
            self._bar.initial = before


@contextmanager
def counting(what: str) -> Iterator[Told]:
    """A bar for a command on a terminal; yields the function that receives the progress."""
    with tqdm(desc=what, bar_format=COUNT_FORMAT, leave=False, disable=None, delay=DELAY_SECONDS) as bar:

        def told(done: int, total: int) -> None:
            if done < bar.n:  # the next round of several
                bar.reset()
            bar.total = total
            bar.update(done - bar.n)

        yield told


def _in_words(state: SearchState) -> str:
    best = "" if state.best is None else f"best {state.best:.3f}"
    error = "" if state.error is None else f" ± {state.error:.3f}"
    cost = f"${state.cost_usd:.4f}" if state.cost_usd else ""
    return ", ".join(filter(None, (best + error, f"{state.requests} requests", cost)))


class LinesAbove(io.StringIO):
    """Takes the lines of a run and shows them above the bar."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._shown = file

    def write(self, text: str) -> int:
        tqdm.write(text, file=self._shown, end="")
        return len(text)
