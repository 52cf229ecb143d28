"""The search loop, the same for every method: ask, evaluate, record, tell.

while budget and caps allow it and the incumbent is not perfect:
    candidate = optimizer.ask()                 Alg. 1: argmax of the acquisition over the shortlist
    record durably what will be evaluated
    score     = F(candidate)                    through the black-box, on the validation set
    record it, then tell the optimizer
return the incumbent, or what the method recommends

Methods that choose the rows of every evaluation (`RowAllocating`) know themselves when their rows are spent.

Observations are told in the order of iterations, however the answers come, so a history does not depend on latency.
With parallel = b up to b evaluations are under way, and the optimizer is asked for the next b / 2 as soon as all but
the b / 2 before them are told: while it thinks, those keep the endpoint busy. Candidates that need no score (at random,
of an initial design) are asked for further ahead, at any b, and are the same as one after another.

What the journal already holds is told without being asked or evaluated again, so a killed search continues as if it had
never stopped, on whatever machine; of evaluations that were cut, only what is missing is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from ease_lib.black_box.budget_ledger import SEARCH
from ease_lib.black_box.usage import Usage
from ease_lib.errors import CapReached
from ease_lib.evaluation.evaluator import Evaluation
from ease_lib.evaluation.objective import Objective
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
from ease_lib.search.task import SearchTask

Result = TypeVar("Result")
LOOKS = 40
"""At what a method that chooses rows would end with, for the search curve; at a time they take milliseconds each."""
QUICK_SECONDS = {"compute": 0.005, "store": 0.0005}
"""Calls that are made at once: of an optimizer, where an LLM takes longer by far; of a journal, where waking another
thread takes as long."""


class Evaluations(Protocol):
    """F: the evaluations under way, all at once."""

    def start(self, iteration: int, candidate: Candidate) -> None:
        """Begin to evaluate."""
        ...

    def wait(self) -> tuple[int, Evaluation]:
        """The next one that is scored, by its iteration.

        Raises:
            EndpointError: when one of them failed for good.
        """
        ...

    def beside(self, work: Future[Result]) -> Result:
        """The result of work in another thread, while answers come and requests go."""
        ...

    def stop(self) -> Usage:
        """End those that are under way; what all that did not get to their end have cost."""
        ...


class EvaluationsOn:
    """F on an objective.

    Each evaluation has an account of its own, so that no attempt pays for it twice or forgets what it paid.

    Args:
        key: of the search's journal.
    """

    def __init__(self, objective: Objective, task: SearchTask, key: str) -> None:
        self._objective = objective
        self._task = task
        self._key = key
        self.wait, self.beside, self.stop = objective.wait, objective.beside, objective.stop

    def start(self, iteration: int, candidate: Candidate) -> None:
        question = self._task.question(candidate.prompt, candidate.rows, f"{self._key}/{iteration}")
        self._objective.start(iteration, question)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A finished search.

    `records` stand in the order of the history; `replayed` of them came from the journal, at no cost to this process.
    `incumbents` says for each the score of what the search would have ended with: its best score until then; a method
    that chooses rows is asked what it would recommend, a few times only. `stopped` says why it ended: one of the
    reasons in `optimizers/problem.py`, or a cap as `name=value`. `unused` is what evaluations have cost that were under
    way when it ended.
    """

    history: History
    records: tuple[Evaluated, ...]
    incumbents: tuple[float, ...]
    replayed: int
    stopped: str
    unused: Usage = field(default_factory=Usage)

    @property
    def usage(self) -> Usage:
        return usage_of_records(self.records) + self.unused

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)


def search(
    optimizer: ExemplarOptimizer,
    evaluations: Evaluations,
    journal: Journal,
    plan: Plan,
    *,
    parallel: int = 1,
    ahead: int = 1,
    latest_of_equals: bool = False,
    on_record: Callable[[Evaluated, History], None] = lambda record, history: None,
) -> Study:
    """Run until the plan's evaluations are made, one of its caps is reached, the incumbent is perfect, or all is tried.

    Args:
        journal: holds the proposals and observations of earlier attempts, and takes each new one before it is needed.
        parallel: b, evaluations under way at most.
        latest_of_equals: as `History` takes it.
        ahead: the same where no proposal depends on their scores: as many as keep the endpoint busy.
        on_record: called with every new observation and the history so far, for progress.

    Raises:
        EndpointError: when an evaluation fails for good; all observations until then are in the journal.
        JournalError: when the journal cannot be written.
    """
    attempt = _SearchAttempt(optimizer, evaluations, journal, plan, parallel, ahead, on_record)
    attempt.history.latest_of_equals = latest_of_equals
    try:
        stopped = attempt.run()
    finally:
        unused = attempt.close()
    replayed = sum(record.iteration in attempt.known for record in attempt.records)
    return Study(
        history=attempt.history,
        records=tuple(attempt.records),
        incumbents=tuple(attempt.incumbents),
        replayed=replayed,
        stopped=stopped,
        unused=unused,
    )


class _SearchAttempt:
    """One attempt at a search; what earlier attempts left in the journal comes first."""

    def __init__(
        self,
        optimizer: ExemplarOptimizer,
        evaluations: Evaluations,
        journal: Journal,
        plan: Plan,
        parallel: int,
        ahead: int,
        on_record: Callable[[Evaluated, History], None],
    ) -> None:
        self._optimizer = optimizer
        self._evaluations = evaluations
        self._journal = journal
        self._plan = plan
        self._budget = plan.evaluations
        self._spent = Usage()
        self._seconds = 0.0
        self._group = max(1, parallel // 2)
        self._lag = parallel - self._group
        self._ahead = ahead
        self._on_record = on_record
        self._clock = _Clock()
        self._proposed = journal.proposed()
        self._beside = _Beside(optimizer, evaluations)
        self.known = {record.iteration: record for record in journal.replay() if record.iteration < plan.evaluations}
        self._approved = max(self.known, default=-1)
        self._scored = dict(self.known)
        self._under_way: dict[int, Candidate] = {}
        self._next = 0
        self.history = History(comparable=not isinstance(optimizer, RowAllocating))
        self.records: list[Evaluated] = []
        self.incumbents: list[float] = []
        self._looks = optimizer.left(()) / LOOKS if isinstance(optimizer, RowAllocating) else 0.0
        self._next_look = self._looks

    def run(self) -> str:
        """Search; why it ended."""
        stopped = self._run()
        if self.incumbents and isinstance(self._optimizer, RowAllocating):
            self.incumbents[-1] = self._recommended(self._optimizer)
        return stopped

    def _run(self) -> str:
        while len(self.history) < self._budget:
            if self.history.incumbent is not None and self.history.incumbent.score >= PERFECT_SCORE:
                return PERFECT
            ended = self._ask()
            if not self._under_way:
                return ended
            try:
                self._receive(min(self._under_way))
            except CapReached as error:  # by requests that had to be tried again
                self._tell(*(iteration for iteration in self._under_way if iteration in self._scored))
                return error.cap
            self._tell(min(self._under_way))
        return BUDGET

    def close(self) -> Usage:
        """End what is under way, and book what was spent; what that and all that was not told have cost."""
        given_up = self._evaluations.stop()
        self._beside.close()
        told = {record.iteration for record in self.records}
        unused = given_up + usage_of_records(record for number, record in self._scored.items() if number not in told)
        self._plan.budget.book(SEARCH, self._spent + unused)
        return unused

    def _ask(self) -> str:
        """Begin as many evaluations as may be under way; why no more can follow when those are told."""
        new: dict[int, Candidate] = {}
        ended = BUDGET
        while self._next < self._budget and self._may_ask(self._next):
            iteration = self._next
            pending = tuple(self._under_way.values())
            if isinstance(self._optimizer, RowAllocating) and self._optimizer.left(pending) <= 0:
                break
            if iteration > self._approved and (cap := self._cap_of_one_more(pending)):
                ended = cap
                break
            candidate = self._found(iteration) or self._proposal(iteration, pending)
            if candidate is None:
                ended = self._optimizer.ended() if isinstance(self._optimizer, RowAllocating) else EXHAUSTED
                break
            candidate = self._with_rows(candidate)
            if iteration not in self._scored:
                new[iteration] = candidate
            self._under_way[iteration] = candidate
            self._next += 1
        self._begin(new)
        self._prepare()
        return ended

    def _cap_of_one_more(self, pending: Iterable[Candidate]) -> str | None:
        """That another evaluation beside these would break."""
        plan = self._plan
        requests = sum(len(each.rows) * plan.answer_requests or plan.evaluation.requests for each in pending)
        return plan.reached(self._spent, self._seconds, requests)

    def _with_rows(self, candidate: Candidate) -> Candidate:
        """With those that it is evaluated on.

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

    def _may_ask(self, iteration: int) -> bool:
        if self._told >= self._needed(iteration):
            return True
        pending = tuple(self._under_way.values())
        chosen = self._found(iteration) is not None or not self._optimizer.needs_scores(iteration, pending)
        return chosen and len(pending) < self._ahead

    def _needed(self, iteration: int) -> int:
        """Scores that a proposal is made from: all but those of the evaluations that go on meanwhile."""
        return iteration // self._group * self._group - self._lag

    @property
    def _told(self) -> int:
        return min(self._under_way, default=self._next)

    def _found(self, iteration: int) -> Candidate | None:
        """What an earlier attempt proposed, perhaps on another machine."""
        if iteration in self.known:
            return self.known[iteration].observation.candidate
        return self._proposed.get(iteration)

    def _begin(self, candidates: Mapping[int, Candidate]) -> None:
        """Record what will be evaluated, and begin."""
        unknown = {iteration: each for iteration, each in candidates.items() if iteration not in self._proposed}
        if unknown:
            self._beside.store("propose", lambda: self._journal.propose(unknown))
        for iteration, candidate in candidates.items():
            self._evaluations.start(iteration, candidate)

    def _prepare(self) -> None:
        """While answers are awaited, the optimizer may prepare for the next group."""
        coming = range(self._next, min((self._next // self._group + 1) * self._group, self._budget))
        if coming and self._next not in self._proposed and isinstance(self._optimizer, PreparingOptimizer):
            needed = self._needed(self._next)
            told = tuple(candidate for iteration, candidate in self._under_way.items() if iteration < needed)
            self._beside.prepare(coming, partial(self._optimizer.prepare, coming, told))

    def _receive(self, iteration: int) -> None:
        """Wait until it is scored; the others that are scored meanwhile are recorded too."""
        while iteration not in self._scored:
            start = time.perf_counter()
            done, evaluation = self._evaluations.wait()
            waited = time.perf_counter() - start
            record = _record(done, self._under_way[done], evaluation, waited, self._clock.lap())
            self._beside.store("append", partial(self._journal.append, record))
            self._scored[done] = record
            self._on_record(record, self.history)

    def _tell(self, *iterations: int) -> None:
        for iteration in iterations:
            record = self._scored[iteration]
            del self._under_way[iteration]
            self.records.append(record)
            self._spent += record.usage
            self._seconds += record.seconds
            self.history.add(record.observation)
            self._beside.compute("tell", partial(self._optimizer.tell, record.observation))
            self.incumbents.append(self._incumbent(record.observation))

    def _incumbent(self, observation: Observation) -> float:
        """Its score, the observation told."""
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


class _Beside:
    """Calls that would keep answers waiting, in a thread of their own while requests go on.

    Calls of a kind of which the last was quick are made at once, but for those of an optimizer that must stay in one
    thread.
    """

    def __init__(self, optimizer: ExemplarOptimizer, evaluations: Evaluations) -> None:
        self._evaluations = evaluations
        self._computing = ThreadPoolExecutor(1, "optimizer")
        self._storing = ThreadPoolExecutor(1, "journal")
        self._preparing: tuple[range, Future[None]] | None = None
        self._slow: set[str] = {"ask", "tell", "recommend"} if isinstance(optimizer, OneThreaded) else set()
        self._stay = frozenset(self._slow)

    def compute(self, kind: str, work: Callable[[], Result]) -> Result:
        """The result of an optimizer's call, behind what it prepares."""

        def prepared() -> Result:
            if self._preparing:
                self._preparing[1].result()
            return work()

        # others may have computed meanwhile
        return self._called(self._computing, kind, prepared, time.thread_time, QUICK_SECONDS["compute"])

    def store(self, kind: str, work: Callable[[], Result]) -> Result:
        """The result of a journal's call."""
        return self._called(self._storing, kind, work, time.perf_counter, QUICK_SECONDS["store"])

    def prepare(self, iterations: range, work: Callable[[], None]) -> None:
        """Begin to, once for the same iterations."""
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

        return self._evaluations.beside(_submitted(thread, timed)) if kind in self._slow else timed()


def _submitted(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    """In a context by which its lines are told from those of another run."""
    return thread.submit(copy_context().run, work)


class _Clock:
    """Seconds on the wall, lap by lap."""

    def __init__(self) -> None:
        self._mark = time.perf_counter()

    def lap(self) -> float:
        before, self._mark = self._mark, time.perf_counter()
        return self._mark - before


def _record(iteration: int, candidate: Candidate, evaluation: Evaluation, waited: float, seconds: float) -> Evaluated:
    observation = Observation(
        candidate=candidate,
        score=evaluation.score,
        validation_rows=evaluation.scored_rows,
        failed_rows=evaluation.failed_rows,
        rows=evaluation.rows,
        scores=evaluation.scores,
    )
    usage = replace(evaluation.usage, seconds=waited)
    return Evaluated(iteration=iteration, observation=observation, usage=usage, seconds=seconds)
