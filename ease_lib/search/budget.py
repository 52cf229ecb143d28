"""The budget: caps on what a run may cost, and the ledger of what its parts have spent.

Each cap stops the search before the evaluation that would break it. Requests that fail and are tried again may use it
up within an evaluation, which ends there.

Caps are of the whole: search, test set, proposals of instructions, the gate of a publication, failed requests that were
tried again. Each part books what it has spent under its own name, in the store that outlives its process, and sees
there what the others have. Without a store a ledger lasts as long as its process. The runs of a comparison have equal
shares of its caps, and a ledger each.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field

from ease_lib.artifacts.store import Store, read_all
from ease_lib.black_box.meter import Allowance
from ease_lib.errors import StoreError
from ease_lib.evaluation.usage import Usage
from ease_lib.words import grouped

FOLDER = "ledgers"
PROPOSALS, SELECTION, SEARCH, TEST, GATE = "proposals", "selection", "search", "test", "gate"

FRESH_SECONDS = 10.0


class Ledger:
    """Usage by part.

    What others have booked is read again after `FRESH_SECONDS` at the earliest: a search asks before every evaluation,
    and a store that answers slowly would keep the endpoint waiting.

    Args:
        store: where it lies, or None for one that is not shared.
    """

    def __init__(self, store: Store | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._own: dict[str, Usage] = {}
        self._booked: dict[str, Usage] = {}
        self._read_at = -math.inf

    def book(self, part: str, usage: Usage) -> None:
        """This is what a part of this run has spent, or will have spent; it replaces what was booked before."""
        self._own[part] = usage
        if self._store:
            self._store.write(f"{part}.json", json.dumps(asdict(usage)).encode())

    def spent(self, *, without: Collection[str] = ()) -> Usage:
        """All that is booked, but for these parts."""
        return sum((usage for part, usage in self._entries().items() if part not in without), start=Usage())

    def _entries(self) -> dict[str, Usage]:
        if self._store and self._clock() >= self._read_at + FRESH_SECONDS:
            names = [name for name in self._store.find_names() if name.endswith(".json")]
            found = read_all(self._store, names)
            self._booked = {name.removesuffix(".json"): _usage(content) for name, content in found.items()}
            self._read_at = self._clock()
        return self._booked | self._own


def open_ledger(store: Store | None, name: str) -> Ledger:
    """The ledger of this name in the run's store; without a name, or without a store, one of this process."""
    return Ledger(store.below(FOLDER, name) if store and name else None)


def _usage(content: bytes | None) -> Usage:
    try:
        return Usage(**json.loads(content or b"{}"))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"an entry of the ledger is damaged ({error}); remove the folder {FOLDER} of the store"
        ) from error


NO_ESTIMATE = Usage(requests=1)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Caps of the whole run; 0 is no cap.

    Args:
        requests: LLM requests, failed ones that were retried included.
        cost_usd: at `prices`, USD for a million tokens, as `Usage.cost_usd` takes them.
    """

    requests: int = 0
    cost_usd: float = 0.0
    prices: Mapping[str, float] = field(default_factory=lambda: {"prompt_usd": 0.0, "completion_usd": 0.0})

    def broken_by(self, usage: Usage) -> str | None:
        """The cap that so much is above, as `name=value`, or None."""
        if self.requests and usage.requests + usage.retries > self.requests:
            return f"max_llm_requests={self.requests}"
        if self.cost_usd and self.cost(usage) > self.cost_usd:
            return f"max_cost_usd={self.cost_usd:g}"
        return None

    def cost(self, usage: Usage) -> float:
        return usage.cost_usd(**self.prices)

    def allowance(self, spent: Usage) -> Allowance:
        """What may still be sent once so much is spent."""
        return Allowance(
            requests=self.requests - spent.requests - spent.retries if self.requests else math.inf,
            cost_usd=self.cost_usd - self.cost(spent) if self.cost_usd else math.inf,
            request_cap=f"max_llm_requests={self.requests}",
            cost_cap=f"max_cost_usd={self.cost_usd:g}",
            cost=lambda paid, judged: self.cost(Usage.of(paid, judged=judged)),
        )


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The caps as the search obeys them, which leaves the test set its part.

    Args:
        seconds: duration of the search at most, over all attempts; 0 is no cap.
        evaluation: about what one evaluation costs, `requests` at most (of a method that chooses rows: a row); once
            something is spent, that tells better what a request costs.
        answer_requests: requests of one answer: 2 where a judge scores it.
        test_requests: of the test set.
        ledger: what other parts have spent, and where the search books its own.
    """

    limits: Limits = Limits()
    seconds: float = 0.0
    evaluation: Usage = NO_ESTIMATE
    answer_requests: int = 1
    test_requests: int = 0
    ledger: Ledger = field(default_factory=Ledger)

    def reached(self, spent: Usage, seconds: float, under_way: int = 0) -> str | None:
        """The cap that the next evaluation would break, as `name=value`, or None; what it will cost is booked.

        Args:
            spent: by all evaluations so far.
            seconds: that the search has taken.
            under_way: requests of evaluations that are proposed and will be paid for before.
        """
        if self.seconds and seconds >= self.seconds:
            return f"max_seconds={self.seconds:g}"
        if not (self.limits.requests or self.limits.cost_usd):
            return None
        coming = self.expected(self.evaluation.requests + under_way, spent)
        self.ledger.book(SEARCH, spent + coming)
        self.ledger.book(TEST, self.expected(self.test_requests, spent))
        cap = self.limits.broken_by(self.ledger.spent())
        if cap:
            self.ledger.book(SEARCH, spent)
        return cap

    def allowance(self, own: Usage) -> Allowance:
        """What the search may still send: neither what others have spent, nor its own, nor the test set's requests.

        What these will cost is estimated anew before each evaluation; here a first guess would bind the whole search.

        Args:
            own: what the search has spent, in earlier attempts.
        """
        others = self.ledger.spent(without=[SEARCH, TEST])
        return self.limits.allowance(others + own + Usage(requests=self.test_requests))

    def expected(self, requests: int, spent: Usage) -> Usage:
        """About what so many requests cost."""
        example = spent if spent.requests else self.evaluation
        return example.share(requests / example.requests)

    def described(self, requests: int) -> str:
        """About what so many requests cost, in words."""
        coming = self.expected(requests, Usage())
        prompt = _rounded(coming.prompt_tokens + coming.judge_prompt_tokens)
        completion = _rounded(coming.completion_tokens + coming.judge_completion_tokens)
        cost = self.limits.cost(coming)
        text = f"about {prompt} prompt and {completion} completion tokens"
        return f"{text}, about ${cost:.2f}" if cost else text


def _rounded(number: float) -> str:
    """Two digits that mean something."""
    return grouped(float(f"{number:.2g}"))
