"""A search with ask and tell: it proposes candidates, and the caller evaluates them in any way and reports scores.

    asked = AskTell(optimizer, journal, plan)
    while not asked.ended:
        new = asked.ask()                    what has to be evaluated, durable in the journal
        asked.score(iteration, observation, usage)   in any order, durable too
        asked.settle()                       tells the optimizer, in the order of asking

Observations are told in the order of iterations, in whatever order the answers come, so a history does not depend on
latency. With parallel = b, up to b evaluations are under way. The optimizer is asked for the next b / 2 as soon as all
but the b / 2 before them are told, so those keep the endpoint busy while it computes. Candidates that need no score
(random ones, an initial design) are asked for further ahead, for any b, and are the same as one after another.

Entries of the journal are told without being asked or evaluated again, so a killed search continues as if it had never
stopped, on any machine. Of evaluations that were interrupted, only the missing answers are asked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from ease_lib.black_box.budget_ledger import SEARCH
from ease_lib.black_box.usage import Usage
from ease_lib.search.journal import Evaluated, Journal, usage_of_records
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import (
    BUDGET,
    EXHAUSTED,
    PERFECT,
    PERFECT_SCORE,
    ExemplarOptimizer,
    OneThreaded,
    PreparingOptimizer,
    RowAllocating,
)
from ease_lib.search.plan_and_caps import Plan

Result = TypeVar("Result")
LOOKS = 40
"""Number of times that a method which chooses rows is asked for its winner, for the search curve."""
QUICK_SECONDS = {"compute": 0.005, "store": 0.0005}
"""Direct calls: to the optimizer, because an LLM takes far longer; to the journal, because waking another thread takes
as long."""


class WaitingFor(Protocol):
    """Function that returns the result of work in another thread."""

    def __call__(self, work: Future[Any], /) -> Any: ...


class AskTell:
    """One attempt at a search; the journal's entries from earlier attempts are told first, at no cost.

    Args:
        journal: holds the proposals and observations of earlier attempts, and takes each new one before it is needed.
        parallel: b, evaluations under way at most; None leaves their number to the caller.
        ahead: the same where no proposal depends on their scores: as many as keep the endpoint busy.
        latest_of_equals: as `History` takes it.
        beside: where optimizer and journal are called.

    Attributes:
        history: all that was told.
        records: the same, with what it cost.
        incumbents: for each the score of what the search would have ended with.
        known: iterations that came from the journal.
        under_way: candidates that were asked for and are not told, by iteration.
    """

    def __init__(
        self,
        optimizer: ExemplarOptimizer,
        journal: Journal,
        plan: Plan,
        *,
        parallel: int | None = 1,
        ahead: int = 1,
        latest_of_equals: bool = False,
        beside: Beside | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._journal = journal
        self._plan = plan
        self._spent = Usage()
        self._seconds = 0.0
        self._group = max(1, (parallel or 1) // 2)
        self._lag = math.inf if parallel is None else parallel - self._group
        self._ahead = ahead
        self._clock = _Clock()
        self._proposed = journal.proposed()
        self._beside = beside or Beside(optimizer)
        self.known = {record.iteration: record for record in journal.replay() if record.iteration < plan.evaluations}
        self._approved = max(self.known, default=-1)
        self._scored = dict(self.known)
        self._next = 0
        self.under_way: dict[int, Candidate] = {}
        self.history = History(comparable=not isinstance(optimizer, RowAllocating), latest_of_equals=latest_of_equals)
        self.records: list[Evaluated] = []
        self.incumbents: list[float] = []
        self._looks = optimizer.left(()) / LOOKS if isinstance(optimizer, RowAllocating) else 0.0
        self._next_look = self._looks
        self._no_more = ""

    @property
    def answers(self) -> int:
        """Number of rows of all scored evaluations, told to the optimizer or not."""
        return sum(len(record.observation.rows) for record in self._scored.values())

    @property
    def ended(self) -> str:
        """Reason why nothing more will be evaluated: one of those in `optimizers/problem.py`, or a cap as `name=value`.

        Empty while something is, or can be asked for.
        """
        return PERFECT if self._is_perfect else "" if self.under_way else self._no_more

    def ask(self, most: int | None = None) -> dict[int, Candidate]:
        """Candidates to evaluate next, by iteration, as many as may be under way; durable when this returns.

        Args:
            most: of them; those that the journal knows need no evaluation, and do not count.
        """
        new: dict[int, Candidate] = {}
        try:
            self._propose(new, most)
            unknown = {iteration: each for iteration, each in new.items() if iteration not in self._proposed}
            if unknown:
                self._beside.store("propose", lambda: self._journal.propose(unknown))
        except BaseException:  # what was not handed out is asked for again
            for iteration in new:
                self.under_way.pop(iteration, None)
            self._next = min([self._next, *new])
            raise
        return new

    def _propose(self, new: dict[int, Candidate], most: int | None) -> None:
        """Add the candidates to evaluate to `new`, and all proposals to `under_way`."""
        self._no_more = ""
        while not self._is_full and (most is None or len(new) < most or self._next in self._scored):
            self._no_more = self._ended_before(self._next)
            if self._no_more:
                break
            iteration, pending = self._next, tuple(self.under_way.values())
            candidate = self._found(iteration) or self._proposal(iteration, pending)
            if candidate is None:
                self._no_more = self._optimizer.ended() if isinstance(self._optimizer, RowAllocating) else EXHAUSTED
                break
            candidate = self._with_rows(candidate)
            if iteration not in self._scored:
                new[iteration] = candidate
            self.under_way[iteration] = candidate
            self._next += 1

    def prepare(self) -> None:
        """Let the optimizer prepare the next group while answers are awaited."""
        coming = range(self._next, min((self._next // self._group + 1) * self._group, self._plan.evaluations))
        if coming and self._next not in self._proposed and isinstance(self._optimizer, PreparingOptimizer):
            needed = self._needed(self._next)
            told = tuple(candidate for iteration, candidate in self.under_way.items() if iteration < needed)
            self._beside.prepare(coming, partial(self._optimizer.prepare, coming, told))

    def score(self, iteration: int, observation: Observation, usage: Usage) -> Evaluated:
        """Record the score of a candidate that is under way; safe from a kill when this returns.

        Args:
            usage: what it cost; `seconds` went by for it alone.

        Raises:
            JournalError, StoreError: when it cannot be stored.
        """
        record = Evaluated(iteration=iteration, observation=observation, usage=usage, seconds=self._clock.lap())
        self._beside.store("append", partial(self._journal.append, record))
        self._scored[iteration] = record
        return record

    def settle(self, most: int | None = None) -> None:
        """Tell the optimizer the scores, up to the first evaluation without one.

        Args:
            most: of them.
        """
        for iteration in list(self.under_way)[:most]:
            if iteration not in self._scored:
                return
            self._tell(iteration)

    def cut(self) -> None:
        """Tell all scores; evaluations without one will not be made any more."""
        for iteration in list(self.under_way):
            if iteration in self._scored:
                self._tell(iteration)

    @property
    def is_waiting(self) -> bool:
        """Whether another score is needed before any can be told."""
        return any(iteration not in self._scored for iteration in list(self.under_way)[:1])

    def finish(self) -> None:
        """Make the final winner the last of `incumbents`."""
        if self.incumbents and isinstance(self._optimizer, RowAllocating):
            self.incumbents[-1] = self._recommended(self._optimizer)

    def close(self, given_up: Usage | None = None) -> Usage:
        """Record the usage in the ledger.

        Args:
            given_up: what evaluations have cost that will not be scored.

        Returns:
            what these and all that was not told have cost.
        """
        self._beside.close()
        told = {record.iteration for record in self.records}
        untold = usage_of_records(record for number, record in self._scored.items() if number not in told)
        unused = (given_up or Usage()) + untold
        self._plan.budget.book(SEARCH, self._spent + unused)
        return unused

    @property
    def _is_perfect(self) -> bool:
        return self.history.incumbent is not None and self.history.incumbent.score >= PERFECT_SCORE

    @property
    def _is_full(self) -> bool:
        """Whether scores have to be told before more may be asked for."""
        if self._told >= self._needed(self._next):
            return False
        pending = tuple(self.under_way.values())
        chosen = self._found(self._next) is not None or not self._optimizer.needs_scores(self._next, pending)
        return not chosen or len(pending) >= self._ahead

    def _needed(self, iteration: int) -> float:
        """Number of scores behind a proposal: all except those of the evaluations under way."""
        return iteration // self._group * self._group - self._lag

    @property
    def _told(self) -> int:
        return min(self.under_way, default=self._next)

    def _ended_before(self, iteration: int) -> str:
        """Reason why this iteration and later ones will not take place; empty if there is none."""
        if self._is_perfect:
            return PERFECT
        if iteration >= self._plan.evaluations:
            return BUDGET
        pending = tuple(self.under_way.values())
        if isinstance(self._optimizer, RowAllocating) and self._optimizer.left(pending) <= 0:
            return BUDGET
        return "" if iteration <= self._approved else self._cap_of_one_more(pending) or ""

    def _cap_of_one_more(self, pending: Iterable[Candidate]) -> str | None:
        """Return the cap that one more evaluation would break, next to those pending."""
        plan = self._plan
        requests = sum(len(each.rows) * plan.answer_requests or plan.evaluation.requests for each in pending)
        return plan.reached(self._spent, self._seconds, requests)

    def _with_rows(self, candidate: Candidate) -> Candidate:
        """The candidate with the rows that it is evaluated on.

        Raises:
            ValueError: when a method that chooses rows has chosen none.
        """
        if not isinstance(self._optimizer, RowAllocating):
            return replace(candidate, rows=self._plan.rows)
        if not candidate.rows:
            raise ValueError(f"no rows were chosen for the prompt {candidate.prompt}")
        return candidate

    def _proposal(self, iteration: int, pending: Sequence[Candidate]) -> Candidate | None:
        return self._beside.compute("ask", lambda: self._optimizer.ask(iteration, pending))

    def _found(self, iteration: int) -> Candidate | None:
        """Proposal of an earlier attempt, perhaps on another machine."""
        if iteration in self.known:
            return self.known[iteration].observation.candidate
        return self._proposed.get(iteration)

    def _tell(self, iteration: int) -> None:
        record = self._scored[iteration]
        del self.under_way[iteration]
        self.records.append(record)
        self._spent += record.usage
        self._seconds += record.seconds
        self._no_more = ""
        self.history.add(record.observation)
        self._beside.compute("tell", partial(self._optimizer.tell, record.observation))
        self.incumbents.append(self._incumbent(record.observation))

    def _incumbent(self, observation: Observation) -> float:
        """Tell the observation and return the incumbent's score."""
        before = self.incumbents[-1] if self.incumbents else 0.0
        if not isinstance(self._optimizer, RowAllocating):
            return max(before, observation.score)
        self._next_look -= len(observation.rows)
        if self._next_look > 0:
            return before
        self._next_look = self._looks
        return self._recommended(self._optimizer)

    def _recommended(self, optimizer: RowAllocating) -> float:
        found = self._beside.compute("recommend", optimizer.recommend)
        return found.score if found else 0.0


class Beside:
    """Calls that would delay answers, made in their own thread while requests go on.

    Calls of a kind of which the last was quick are made at once, but for those of an optimizer that must stay in one
    thread.

    Args:
        wait: gives the result of work in another thread; may do other things while it waits.
    """

    def __init__(self, optimizer: ExemplarOptimizer, wait: WaitingFor = Future.result) -> None:
        self._wait = wait
        self._computing = ThreadPoolExecutor(1, "optimizer")
        self._storing = ThreadPoolExecutor(1, "journal")
        self._preparing: tuple[range, Future[None]] | None = None
        self._slow: set[str] = {"ask", "tell", "recommend"} if isinstance(optimizer, OneThreaded) else set()
        self._stay = frozenset(self._slow)

    def compute(self, kind: str, work: Callable[[], Result]) -> Result:
        """The result of a call to the optimizer, after its preparations."""

        def prepared() -> Result:
            if self._preparing:
                self._preparing[1].result()
            return work()

        # others may have computed in between
        return self._called(self._computing, kind, prepared, time.thread_time, QUICK_SECONDS["compute"])

    def store(self, kind: str, work: Callable[[], Result]) -> Result:
        """The result of a journal's call."""
        return self._called(self._storing, kind, work, time.perf_counter, QUICK_SECONDS["store"])

    def prepare(self, iterations: range, work: Callable[[], None]) -> None:
        """Begin to prepare, once for the same iterations."""
        if self._preparing is None or self._preparing[0] != iterations:
            self._preparing = iterations, _submitted(self._computing, work)

    def close(self) -> None:
        self._computing.shutdown()
        self._storing.shutdown()

    def _called(
        self,
        thread: ThreadPoolExecutor,
        kind: str,
        work: Callable[[], Result],
        clock: Callable[[], float],
        quick: float,
    ) -> Result:
        def timed() -> Result:
            begun = clock()
            try:
                return work()
            finally:
                if kind not in self._stay:
                    (self._slow.add if clock() - begun > quick else self._slow.discard)(kind)

        return self._wait(_submitted(thread, timed)) if kind in self._slow else timed()


def _submitted(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    """Submit work in a context that assigns its log lines to this run."""
    return thread.submit(copy_context().run, work)


class _Clock:
    """Stopwatch: wall-clock seconds, lap by lap."""

    def __init__(self) -> None:
        self._mark = time.perf_counter()

    def lap(self) -> float:
        before, self._mark = self._mark, time.perf_counter()
        return self._mark - before
