"""Log lines of a run: their destinations, and the run of each line if one process has several.

EASE logs every line with the logger `ease`. What a thread logs belongs to the run that it works for, which a
context variable says; a line of a thread that does not know is shown by every run of the process.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

logger = logging.getLogger("ease")
LINE_PREFIX = "[ease] "
ERROR_PREFIX = f"{LINE_PREFIX}error: "
STOPPED_PREFIX = f"{LINE_PREFIX}stopped: "
"""Prefix of the log lines of a stage in its own process."""
RESULT = "result: "
"""Prefix of lines with verdict, scores and cost, for people who follow a run."""
CELL_DONE = re.compile(r".+, repeat \d+: (\d|FAILED)")
CELLS_DONE = re.compile(r"\d+ of \d+ cells")
"""Prefixes of lines of a comparison's worker: about a finished cell, and about the progress of all."""
IS_PROGRESS = "is_progress"
"""Attribute of lines that report the progress of a search."""
MAY_SUCCEED = "notice: trying again may help"
"""Suffix of errors that may be temporary; other errors should not be retried."""
BEGINS_AGAIN = "; it continues in "
"""Part of the notice of a process that died or failed for a temporary reason; earlier errors no longer count."""
_run: ContextVar[str] = ContextVar("run", default="")
_lock = threading.Lock()
_open: list[logging.Handler] = []
"""Handlers of the runs of this process that have not ended."""
_before: list[tuple[list[logging.Handler], int, bool]] = []
"""Handlers, level and `propagate` of the logger before the first of them."""


@contextmanager
def lines_of_run(run_id: str, file: Path, lines: TextIO | None, *, has_bar: bool = False) -> Iterator[None]:
    """Send log lines of this thread, and of threads started with its context, to a file and to `lines`.

    Args:
        has_bar: whether a bar shows how far the run is: lines which say that (`IS_PROGRESS`) go to the file alone.
    """
    kept = logging.FileHandler(file, mode="w", encoding="utf-8")
    own: list[logging.Handler] = [*([logging.StreamHandler(lines)] if lines else []), kept]
    for handler in own:
        handler.addFilter(lambda record: _run.get() in ("", run_id))
    if lines and has_bar:
        own[0].addFilter(lambda record: not hasattr(record, IS_PROGRESS))
    token = _run.set(run_id)
    _begin(own)
    try:
        yield
    finally:
        _end(own)
        _run.reset(token)
        kept.close()


def _begin(own: list[logging.Handler]) -> None:
    with _lock:
        if not _open:
            _before.append((logger.handlers[:], logger.level, logger.propagate))
            logger.handlers[:] = []
        _open.extend(own)
        for handler in own:
            logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO)


def _end(own: list[logging.Handler]) -> None:
    with _lock:
        for handler in own:
            _open.remove(handler)
            logger.removeHandler(handler)
        if not _open:
            logger.handlers[:], level, logger.propagate = _before.pop()
            logger.setLevel(level)
