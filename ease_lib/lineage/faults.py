"""What can be wrong with something that a record names."""

from __future__ import annotations

from dataclasses import dataclass, field

CHANGED, MISSING, UNRECORDED, UNREADABLE, FORGOTTEN, UNFINISHED, UNSIGNED, MISSIGNED = (
    "changed",
    "missing",
    "never recorded",
    "cannot be read",
    "removed on request",
    "removal unfinished",
    "not signed",
    "wrongly signed",
)


@dataclass(frozen=True, kw_only=True, order=True)
class Fault:
    """Something that is not as it was recorded. `FORGOTTEN` is no fault: a tombstone says which row had to go.

    `UNFINISHED` is one, of a tombstone: what it says should be gone may still be there. `UNSIGNED` is none, nobody with
    a key says anything of it; `MISSIGNED` is one, a signature is there and does not hold.

    Args:
        found_sha256: of what is there, where that is something else.
        expected_sha256: as it was recorded, where it was.
    """

    stage: str
    uri: str
    what: str
    why: str = ""
    found_sha256: str = field(default="", compare=False)
    expected_sha256: str = field(default="", compare=False)

    @property
    def is_fault(self) -> bool:
        return self.what not in (FORGOTTEN, UNSIGNED)
