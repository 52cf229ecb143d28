"""The search loop, the same for every method: ask, evaluate, record, tell.

while budget and caps allow it and the incumbent is not perfect:
    candidate = optimizer.ask()                 Alg. 1: argmax of the acquisition over the shortlist
    record durably what will be evaluated
    score     = F(candidate)                    through the black-box, on the validation set
    record it durably, then tell the optimizer
return the incumbent

With parallel = b the optimizer is asked for b candidates before it is told their b scores, and they are evaluated at
once. What the journal already holds is told without being asked or evaluated again, so a killed search continues as if
it had never stopped, on whatever machine; of a batch that was cut, only what is missing is evaluated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ease_lib.errors import CapReached
from ease_lib.evaluation.evaluator import Evaluation, Question
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.racing import Race
from ease_lib.evaluation.usage import Usage
from ease_lib.optimizers.base import ExemplarOptimizer, PreparingOptimizer
from ease_lib.optimizers.history import Candidate, History, Observation
from ease_lib.study.caps import Caps
from ease_lib.study.journal import Journal, Record, usage_of_records
from ease_lib.study.ledger import SEARCH
from ease_lib.tasks.base import Exemplar

PERFECT_SCORE = 1.0
BUDGET, PERFECT, EXHAUSTED = "budget", "perfect score", "every sequence evaluated"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A candidate to evaluate, and the race it runs in (None: no racing)."""

    candidate: Candidate
    race: Race | None


Evaluate = Callable[[Mapping[int, Proposal]], Iterator[tuple[int, Evaluation]]]
"""F: evaluates proposals by iteration, all at once, and yields each as soon as it is scored."""


def evaluate_on(objective: Objective, pool: Sequence[Exemplar], instructions: Sequence[str], key: str) -> Evaluate:
    """F on an objective.

    Each evaluation has an account of its own, so that no attempt pays for it twice or forgets what it paid.

    Args:
        instructions: texts by position; the first is empty.
        key: of the search's journal.
    """

    def question(iteration: int, proposal: Proposal) -> Question:
        return Question(
            exemplars=[pool[position] for position in proposal.candidate.sequence],
            instruction=instructions[proposal.candidate.instruction],
            account=f"{key}/{iteration}",
            race=proposal.race,
        )

    return lambda proposals: objective.evaluate_each(
        {iteration: question(iteration, proposal) for iteration, proposal in proposals.items()}
    )


@dataclass(frozen=True, kw_only=True)
class Racing:
    """Settings of racing (`evaluation/racing.py`)."""

    confidence: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Study:
    """A finished search.

    `records` stand in the order of the history; `replayed` of them came from the journal, at no cost to this process.
    `stopped` says why it ended: one of the constants above, or a cap as `name=value`.
    """

    history: History
    records: tuple[Record, ...]
    replayed: int
    stopped: str

    @property
    def usage(self) -> Usage:
        return usage_of_records(self.records)

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)


def search(
    optimizer: ExemplarOptimizer,
    evaluate: Evaluate,
    journal: Journal,
    *,
    budget: int,
    parallel: int = 1,
    racing: Racing | None = None,
    caps: Caps | None = None,
    on_record: Callable[[Record, History], None] = lambda record, history: None,
) -> Study:
    """Run until the budget is spent, a cap is reached, the incumbent is perfect, or nothing is left to propose.

    Args:
        journal: holds the proposals and observations of earlier attempts, and takes each new one before it is needed.
        parallel: b, candidates evaluated at once.
        on_record: called with every new observation and the history that it was proposed from, for progress.

    Raises:
        EndpointError: when an evaluation fails for good; all observations until then are in the journal.
        JournalError: when the journal cannot be written.
    """
    purse = _Purse(caps or Caps())
    attempt = _Attempt(optimizer, evaluate, journal, purse, budget, parallel, racing, on_record)
    try:
        stopped = attempt.run()
    finally:
        purse.close()
    replayed = sum(record.iteration in attempt.known for record in attempt.records)
    return Study(history=attempt.history, records=tuple(attempt.records), replayed=replayed, stopped=stopped)


class _Attempt:
    """One attempt at a search: batch after batch, what earlier attempts left in the journal first."""

    def __init__(
        self,
        optimizer: ExemplarOptimizer,
        evaluate: Evaluate,
        journal: Journal,
        purse: _Purse,
        budget: int,
        parallel: int,
        racing: Racing | None,
        on_record: Callable[[Record, History], None],
    ) -> None:
        self._optimizer = optimizer
        self._evaluate = evaluate
        self._journal = journal
        self._purse = purse
        self._budget = budget
        self._parallel = parallel
        self._racing = racing
        self._on_record = on_record
        self._clock = _Clock()
        self.known = {record.iteration: record for record in journal.replay() if record.iteration < budget}
        self.history = History()
        self.records: list[Record] = []

    def run(self) -> str:
        """Search; why it ended."""
        while len(self.history) < self._budget:
            if self.history.incumbent is not None and self.history.incumbent.score >= PERFECT_SCORE:
                return PERFECT
            iterations = self._next(len(self.history))
            batch = {iteration: self.known[iteration] for iteration in iterations if iteration in self.known}
            ended = self._complete(batch, iterations) if len(batch) < len(iterations) else None
            for record in (batch[iteration] for iteration in sorted(batch)):
                self._tell(record)
            if ended:
                return ended
        return BUDGET

    def _next(self, start: int) -> range:
        return range(start, min(start + self._parallel, self._budget))

    def _complete(self, batch: dict[int, Record], iterations: range) -> str | None:
        """Evaluate what is missing of a batch and add it; why the search ends here, if it does."""
        proposed = self._journal.proposed()
        approved = max(batch, default=-1)
        candidates = _ask(self._optimizer, iterations, self._purse, proposed, approved=approved)
        if not candidates:
            batch.clear()
            return self._purse.cap or EXHAUSTED
        new = {iteration: candidate for iteration, candidate in candidates.items() if iteration not in proposed}
        if new:
            self._journal.propose(new)
        proposals = {
            iteration: Proposal(candidate=candidate, race=_race(self._racing, self.history, iteration))
            for iteration, candidate in candidates.items()
            if iteration not in batch
        }
        try:
            with _preparing(self._optimizer, self._next(iterations.stop), tuple(candidates.values())):
                for record in _evaluated(self._evaluate, proposals, self._clock):
                    self._journal.append(record)
                    batch[record.iteration] = record
                    self._on_record(record, self.history)
        except CapReached as error:  # by requests that had to be tried again
            return error.cap
        return None

    def _tell(self, record: Record) -> None:
        self.records.append(record)
        self._purse.pay(record)
        self.history.add(record.observation)
        self._optimizer.tell(record.observation)


class _Purse:
    """What was spent, against the caps; `cap` is the one that was reached."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._spent = Usage()
        self._seconds = 0.0
        self.cap: str | None = None

    def pay(self, record: Record) -> None:
        self._spent += record.usage
        self._seconds += record.seconds

    def close(self) -> None:
        """Book what was spent, and no more than that."""
        self._caps.ledger.book(SEARCH, self._spent)

    def allows_one_more(self, under_way: int) -> bool:
        self.cap = self._caps.reached(self._spent, self._seconds, under_way)
        return self.cap is None


class _Clock:
    """Seconds on the wall, lap by lap."""

    def __init__(self) -> None:
        self._mark = time.perf_counter()

    def lap(self) -> float:
        before, self._mark = self._mark, time.perf_counter()
        return self._mark - before


def _ask(
    optimizer: ExemplarOptimizer,
    iterations: range,
    purse: _Purse,
    proposed: Mapping[int, Candidate],
    *,
    approved: int,
) -> dict[int, Candidate]:
    """Candidates by iteration, fewer where a cap or the end of the space comes first.

    What was proposed by an earlier attempt stays proposed. Iterations up to `approved` were allowed by the caps of an
    earlier attempt, which paid for them.
    """
    candidates: dict[int, Candidate] = {}
    for iteration in iterations:
        if iteration > approved and not purse.allows_one_more(len(candidates)):
            break
        candidate = proposed.get(iteration) or optimizer.ask(iteration, tuple(candidates.values()))
        if candidate is None:
            break
        candidates[iteration] = candidate
    return candidates


def _race(racing: Racing | None, history: History, iteration: int) -> Race | None:
    if racing is None:
        return None
    incumbent = history.incumbent.score if history.incumbent else None
    return Race(incumbent=incumbent, confidence=racing.confidence, seed=racing.seed, iteration=iteration)


@contextmanager
def _preparing(optimizer: ExemplarOptimizer, iterations: range, pending: Sequence[Candidate]) -> Iterator[None]:
    """While the scores of `pending` are awaited, the optimizer may prepare the next batch in another thread."""
    if not isinstance(optimizer, PreparingOptimizer) or not iterations:
        yield
        return
    with ThreadPoolExecutor(1) as beside:
        prepared = beside.submit(optimizer.prepare, iterations, pending)
        yield
        prepared.result()


def _evaluated(evaluate: Evaluate, proposals: Mapping[int, Proposal], clock: _Clock) -> Iterator[Record]:
    """A record of each proposal as it is scored."""
    scored = evaluate(proposals)
    while True:
        start = time.perf_counter()
        done = next(scored, None)
        if done is None:
            return
        waited = time.perf_counter() - start
        iteration, evaluation = done
        observation = Observation(
            candidate=proposals[iteration].candidate,
            score=evaluation.score,
            validation_rows=evaluation.scored_rows,
            partial=evaluation.partial,
            failed_rows=evaluation.failed_rows,
        )
        usage = replace(evaluation.usage, seconds=waited)
        yield Record(iteration=iteration, observation=observation, usage=usage, seconds=clock.lap())
