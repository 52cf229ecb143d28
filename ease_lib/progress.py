"""Progress of work in countable parts: a line in the log every few seconds, and calls to what draws it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ease_lib.words import grouped

logger = logging.getLogger("ease")

Item = TypeVar("Item")
Told = Callable[[int, int], None]
"""Function that is called with the number of finished parts, and the total."""
SECONDS = 10.0


def nobody(done: int, total: int) -> None:
    """Ignore progress, for work that nobody waits for."""


class Counted:
    """Work of so many parts.

    Args:
        noun: what is counted, `texts embedded`.
        tell: called after every part.
    """

    def __init__(self, noun: str, total: int, tell: Told = nobody) -> None:
        self._noun = noun
        self._total = total
        self._tell = tell
        self._done = 0
        self._logged_at = time.monotonic()

    def add(self, parts: int = 1) -> None:
        self._done += parts
        self._tell(self._done, self._total)
        if self._done < self._total and time.monotonic() >= self._logged_at + SECONDS:
            self._logged_at = time.monotonic()
            counts = map(grouped, (self._done, self._total))
            logger.info("%s: %s of %s", self._noun, *counts, extra={"is_progress": True})

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items; each is counted when the loop moves on."""
        for item in items:
            yield item
            self.add()
