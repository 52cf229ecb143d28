"""What can be wrong with something that a record names."""

from __future__ import annotations

from dataclasses import dataclass, field

CHANGED, MISSING, UNRECORDED, UNREADABLE, FORGOTTEN = (
    "changed",
    "missing",
    "never recorded",
    "cannot be read",
    "removed on request",
)


@dataclass(frozen=True, kw_only=True, order=True)
class Problem:
    """Something that is not as it was recorded. `FORGOTTEN` is no fault: a tombstone says which row had to go.

    Args:
        found_sha256: of what is there, where that is something else.
    """

    stage: str
    uri: str
    what: str
    why: str = ""
    found_sha256: str = field(default="", compare=False)

    @property
    def is_fault(self) -> bool:
        return self.what != FORGOTTEN
