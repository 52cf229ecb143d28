"""Values that hold for everything a process does inside of a context: the one way to have them here.

A process runs one stage at a time, in many threads and event loops; a `ContextVar` would be empty in the threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Ambient(Generic[Value]):
    """A value of the process.

    Args:
        default: outside of every context.
    """

    def __init__(self, default: Value) -> None:
        self.value = default

    @contextmanager
    def set(self, value: Value) -> Iterator[Value]:
        """Inside, it is this one."""
        before, self.value = self.value, value
        try:
            yield value
        finally:
            self.value = before
