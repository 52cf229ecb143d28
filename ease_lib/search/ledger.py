"""The ledger: what the parts of a run, or the cells of a comparison, have paid for or are about to pay for.

Caps are of the whole: search, test set, proposals of instructions, the gate of a publication, failed requests that were
tried again. Each part books what it has spent under its own name, in the store that outlives its process, and sees
there what the others have. A part that asks many things books what comes next before it asks, so that two cells at once
cannot both take the last of it. Without a store a ledger lasts as long as its process.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from ease_lib.artifacts.store import S3_CONNECTIONS, Store
from ease_lib.errors import StoreError
from ease_lib.evaluation.usage import Usage

FOLDER = "ledgers"
PROPOSALS, SELECTION, SEARCH, TEST, GATE = "proposals", "selection", "search", "test", "gate"


class Ledger:
    """Usage by part.

    Args:
        store: where it lies, or None for one that is not shared.
        owner: before the names of the parts, where several runs share a ledger.
    """

    def __init__(self, store: Store | None = None, owner: str = "") -> None:
        self._store = store
        self._owner = f"{owner}." if owner else ""
        self._own: dict[str, Usage] = {}

    def book(self, part: str, usage: Usage) -> None:
        """This is what a part of this run has spent, or will have spent; it replaces what was booked before."""
        self._own[self._owner + part] = usage
        if self._store:
            self._store.write(f"{self._owner}{part}.json", json.dumps(asdict(usage)).encode())

    def spent(self, *, without: Collection[str] = ()) -> Usage:
        """All that is booked, but for these parts of this run."""
        left_out = {self._owner + part for part in without}
        return sum((usage for part, usage in self._entries().items() if part not in left_out), start=Usage())

    def _entries(self) -> dict[str, Usage]:
        if self._store is None:
            return self._own
        names = [name for name in self._store.find_names() if name.endswith(".json")]
        with ThreadPoolExecutor(S3_CONNECTIONS) as readers:
            contents = list(readers.map(self._store.read, names))
        return {name.removesuffix(".json"): _usage(content) for name, content in zip(names, contents, strict=True)}


def open_ledger(store: Store | None, named: str) -> Ledger:
    """The ledger of this name in the run's store; without a name, or without a store, one of this process.

    Args:
        named: its name; behind a slash the owner of its entries, where the runs of a comparison share one.
    """
    name, _, owner = named.partition("/")
    return Ledger(store.below(FOLDER, name) if store and name else None, owner)


def _usage(content: bytes | None) -> Usage:
    try:
        return Usage(**json.loads(content or b"{}"))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"an entry of the ledger is damaged ({error}); remove the folder {FOLDER} of the store"
        ) from error
