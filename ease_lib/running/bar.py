"""The one line at the bottom of a terminal, or a notebook's bar, that says how far a run is."""

from __future__ import annotations

import io
from typing import TextIO

from tqdm.auto import tqdm

from ease_lib.search.progress import SearchState

SEARCH_FORMAT = "{desc}: {percentage:3.0f}% |{bar}| {n_fmt} of {total_fmt} answers, {remaining} left{postfix}"
STAGE_FORMAT = "{desc} ..."


class Bar:
    """Shows the stage, and of the search answers, incumbent, cost and time left.

    Args:
        file: where it is drawn; nowhere if that is no terminal, but for a notebook.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def __enter__(self) -> Bar:
        self._bar = tqdm(desc="starting", bar_format=STAGE_FORMAT, leave=False, disable=None, file=self._file)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def stage(self, name: str) -> None:
        self._bar.bar_format = STAGE_FORMAT
        self._bar.set_description_str(name.replace("_", " "))

    def searched(self, state: SearchState) -> None:
        if self._bar.total != state.planned:
            self._bar.bar_format = SEARCH_FORMAT
            self._bar.reset(total=state.planned)
            self._bar.initial = state.answers  # those of an earlier attempt took no time
        self._bar.set_postfix_str(_in_words(state), refresh=False)
        self._bar.update(state.answers - self._bar.n)


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
