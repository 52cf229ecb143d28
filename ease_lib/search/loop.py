"""The search loop, the same for every method: ask, evaluate, record, tell.

while budget and caps allow it and the incumbent is not perfect:
    candidate = optimizer.ask()                 Alg. 1: argmax of the acquisition over the shortlist
    record durably what will be evaluated
    score     = F(candidate)                    through the black-box, on the validation set
    record it, then tell the optimizer
return the incumbent, or what the method recommends

`ask_tell.py` decides what may be asked and in which order scores are told. This module evaluates, until caps are
reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from ease_lib.black_box.usage import Usage
from ease_lib.errors import CapReached
from ease_lib.evaluation.evaluator import Evaluation
from ease_lib.evaluation.objective import Objective
from ease_lib.search.ask_tell import AskTell, Beside
from ease_lib.search.journal import Evaluated, Journal, usage_of_records
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import ExemplarOptimizer
from ease_lib.search.plan_and_caps import Plan
from ease_lib.search.task import SearchTask

Result = TypeVar("Result")


class Evaluations(Protocol):
    """F: the evaluations under way, in parallel."""

    def start(self, iteration: int, candidate: Candidate) -> None:
        """Begin to evaluate."""
        ...

    def wait(self) -> tuple[int, Evaluation]:
        """The next scored evaluation, by its iteration.

        Raises:
            EndpointError: when one of them failed for good.
        """
        ...

    def beside(self, work: Future[Result]) -> Result:
        """The result of work in another thread, while requests go on."""
        ...

    def stop(self) -> Usage:
        """End the evaluations under way; return the cost of all that did not finish."""
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

    `records` are in the order of the history; `replayed` of them came from the journal, at no cost to this process.
    `incumbents` holds for each evaluation the score of the winner if the search had ended there: the best score so far,
    or for a method that chooses rows its own recommendation, which it is asked for a few times only. `stopped` is the
    reason of the end: one of those in `optimizers/problem.py`, or a cap as `name=value`. `unused` is the cost of
    evaluations that were under way at the end.
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
        journal, parallel, ahead, latest_of_equals: as `AskTell` takes them.
        on_record: called with every new observation and the history so far, for progress.

    Raises:
        EndpointError: when an evaluation fails for good; all observations until then are in the journal.
        JournalError: when the journal cannot be written.
    """
    asked = AskTell(
        optimizer,
        journal,
        plan,
        parallel=parallel,
        ahead=ahead,
        latest_of_equals=latest_of_equals,
        beside=Beside(optimizer, evaluations.beside),
    )
    try:
        stopped = _evaluated(asked, evaluations, on_record)
        asked.finish()
    finally:
        unused = asked.close(evaluations.stop())
    return Study(
        history=asked.history,
        records=tuple(asked.records),
        incumbents=tuple(asked.incumbents),
        replayed=sum(record.iteration in asked.known for record in asked.records),
        stopped=stopped,
        unused=unused,
    )


def _evaluated(asked: AskTell, evaluations: Evaluations, on_record: Callable[[Evaluated, History], None]) -> str:
    """Evaluate everything that the optimizer proposes; return the reason of the end."""
    while not asked.ended:
        for iteration, candidate in asked.ask().items():
            evaluations.start(iteration, candidate)
        asked.prepare()
        try:
            _receive_oldest(asked, evaluations, on_record)
        except CapReached as error:  # by requests that had to be tried again
            asked.cut()
            return error.cap
        asked.settle(1)
    return asked.ended


def _receive_oldest(asked: AskTell, evaluations: Evaluations, on_record: Callable[[Evaluated, History], None]) -> None:
    """Wait until the oldest evaluation is scored; others that are scored in between are recorded too."""
    while asked.is_waiting:
        start = time.perf_counter()
        done, evaluation = evaluations.wait()
        usage = replace(evaluation.usage, seconds=time.perf_counter() - start)
        on_record(asked.score(done, _observation(asked.under_way[done], evaluation), usage), asked.history)


def _observation(candidate: Candidate, evaluation: Evaluation) -> Observation:
    return Observation(
        candidate=candidate,
        score=evaluation.score,
        validation_rows=evaluation.scored_rows,
        failed_rows=evaluation.failed_rows,
        rows=evaluation.rows,
        scores=evaluation.scores,
    )
