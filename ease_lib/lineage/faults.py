"""Claims of records about files and objects, and their possible faults."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from ease_lib.artifacts.store import side_by_side
from ease_lib.digests import sha256_of
from ease_lib.errors import LineageError, StoreError
from ease_lib.progress import Told, nobody

CHANGED, MISSING, UNRECORDED, UNREADABLE = "changed", "missing", "never recorded", "cannot be read"
FORGOTTEN, UNFINISHED = "removed on request", "removal unfinished"
UNSIGNED, MISSIGNED = "not signed", "wrongly signed"
UNPUBLISHED = "publication unfinished"


@dataclass(frozen=True, kw_only=True, order=True)
class Fault:
    """Something that is not as it was recorded. `FORGOTTEN` does not count as a fault: a tombstone names the row that
    was removed.

    `UNFINISHED` is a fault of a tombstone: what it lists may still be there. `UNSIGNED` does not count as a fault: no
    signature covers the file. `MISSIGNED` does: a signature is present but invalid. `UNPUBLISHED` does not: a run that
    was killed left files of a version that was never published.

    Args:
        reason: the same in a sentence, of a record that cannot be followed.
        found_sha256: of what is there, where that is something else.
        expected_sha256: as it was recorded, where it was.
    """

    stage: str
    uri: str
    what: str
    why: str = ""
    reason: str = field(default="", compare=False)
    found_sha256: str = field(default="", compare=False)
    expected_sha256: str = field(default="", compare=False)

    @property
    def is_fault(self) -> bool:
        return self.what not in (FORGOTTEN, UNSIGNED, UNPUBLISHED)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Claim that what `read` returns has this digest, with its stage and its place.

    Args:
        follows: whether what is there took the place of another one rightly, as a note that later runs write.
    """

    stage: str
    uri: str
    sha256: str
    read: Callable[[], bytes | None]
    follows: Callable[[bytes], bool] = lambda content: False

    def fault(self) -> Fault | None:
        """Fault of the claim; None if there is none."""
        try:
            content = self.read()
        except (StoreError, LineageError, OSError, sqlite3.Error) as error:
            return Fault(stage=self.stage, uri=self.uri, what=UNREADABLE, why=str(error))
        found = sha256_of(content) if content is not None else None
        if found == self.sha256 or (content is not None and self.follows(content)):
            return None
        what = CHANGED if found else MISSING
        return Fault(stage=self.stage, uri=self.uri, what=what, found_sha256=found or "", expected_sha256=self.sha256)


def faults_of(claims: Collection[Claim], progress: Told = nobody) -> Iterator[Fault]:
    """Compare claims with the actual files, in parallel."""
    for done, fault in enumerate(side_by_side(Claim.fault, claims), 1):
        progress(done, len(claims))
        if fault is not None:
            yield fault
