"""The budget of a run: caps on what it may cost, and the ledger of what its parts have spent.

Caps apply to the whole run: search, test set, proposals of instructions, the gate of a publication, and failed requests
that were retried. Each part records its spending under its own name, in the store that outlives its process, and reads
the others' there. Without a store, a ledger lasts as long as its process. The runs of a comparison have equal shares of
its caps, and a ledger each.

A `Meter` counts the requests sent, and allows what the budget leaves. A search stops before an evaluation that would
exceed a cap (`search/plan_and_caps.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict

from ease_lib.artifacts.store import Store, read_all
from ease_lib.black_box.usage import Usage
from ease_lib.documents import Misfit, parsed
from ease_lib.errors import StoreError

FOLDER = "ledgers"
PROPOSALS, SELECTION, SEARCH, TEST, GATE = "proposals", "selection", "search", "test", "gate"

FRESH_SECONDS = 10.0


class Budget:
    """Caps, and usage by part.

    What others have booked is read again after `FRESH_SECONDS` at the earliest: a search asks before every evaluation,
    and a store that answers slowly would keep the endpoint waiting.

    Args:
        requests: LLM requests at most, failed ones that were retried included; 0 means no cap.
        cost_usd: at `prices`, USD for a million tokens, as `Usage.cost_usd` takes them; 0 means no cap.
        store: where the ledger lies, or None for one that is not shared.
    """

    def __init__(
        self,
        *,
        requests: int = 0,
        cost_usd: float = 0.0,
        prices: Mapping[str, float] | None = None,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.requests = requests
        self.cost_usd = cost_usd
        self._prices = prices or {}
        self._store = store
        self._clock = clock
        self._own: dict[str, Usage] = {}
        self._booked: dict[str, Usage] = {}
        self._read_at = -math.inf

    @property
    def is_capped(self) -> bool:
        return bool(self.requests or self.cost_usd)

    @property
    def request_cap(self) -> str:
        """The request cap as `name=value`, for messages."""
        return f"max_llm_requests={self.requests}"

    @property
    def cost_cap(self) -> str:
        """The cost cap as `name=value`, for messages."""
        return f"max_cost_usd={self.cost_usd:g}"

    def cost(self, usage: Usage) -> float:
        return usage.cost_usd(**self._prices)

    def requests_left(self, spent: Usage) -> float:
        """Infinite where there is no cap."""
        return self.requests - spent.requests - spent.retries if self.requests else math.inf

    def cost_left(self, spent: Usage) -> float:
        """Infinite where there is no cap."""
        return self.cost_usd - self.cost(spent) if self.cost_usd else math.inf

    def broken(self) -> str | None:
        """The exceeded cap, as `name=value`, or None."""
        spent = self.spent()
        if self.requests_left(spent) < 0:
            return self.request_cap
        return self.cost_cap if self.cost_left(spent) < 0 else None

    def book(self, part: str, usage: Usage) -> None:
        """Record what a part of this run has spent or will have spent; replaces its earlier entry."""
        self._own[part] = usage
        if self._store:
            self._store.write(f"{part}.json", json.dumps(asdict(usage)).encode())

    def spent(self, *, without: Collection[str] = ()) -> Usage:
        """Total usage, without these parts."""
        return sum((usage for part, usage in self._entries().items() if part not in without), start=Usage())

    def _entries(self) -> dict[str, Usage]:
        if self._store and self._clock() >= self._read_at + FRESH_SECONDS:
            names = [name for name in self._store.find_names() if name.endswith(".json")]
            found = read_all(self._store, names)
            self._booked = {name.removesuffix(".json"): _usage(content) for name, content in found.items()}
            self._read_at = self._clock()
        return self._booked | self._own


def ledger_below(store: Store | None, name: str) -> Store | None:
    """Location of the named ledger in the run's store; None without a name or a store."""
    return store.below(FOLDER, name) if store and name else None


def _usage(content: bytes | None) -> Usage:
    try:
        return parsed(Usage, content, extra=False) if content is not None else Usage()
    except Misfit as error:
        raise StoreError(
            f"an entry of the ledger is damaged ({error}); remove the folder {FOLDER} of the store"
        ) from error
