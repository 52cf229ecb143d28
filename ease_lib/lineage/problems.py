"""What can be wrong with something that a record names."""

from __future__ import annotations

from dataclasses import dataclass

CHANGED, MISSING, UNRECORDED, UNREADABLE, FORGOTTEN = (
    "changed",
    "missing",
    "never recorded",
    "cannot be read",
    "removed on request",
)


@dataclass(frozen=True, kw_only=True, order=True)
class Problem:
    """Something that is not as it was recorded. `FORGOTTEN` is no fault: a tombstone says who asked for it."""

    stage: str
    uri: str
    what: str
    why: str = ""

    @property
    def is_fault(self) -> bool:
        return self.what != FORGOTTEN
