"""The search loop, the same for every method: ask, evaluate, record, tell.

observe what the journal already holds
while budget remains and the incumbent is not perfect:
    candidate = optimizer.ask()                 Alg. 1: argmax of the acquisition over the shortlist
    score     = F(candidate)                    through the black-box, on the validation set
    record it durably, then tell the optimizer
return the incumbent
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ease_lib.candidates.sampling import Sequence
from ease_lib.evaluation.objective import Evaluation, Usage
from ease_lib.optimizers.base import ExemplarOptimizer
from ease_lib.study.history import History, Observation
from ease_lib.study.journal import Journal, Record

PERFECT_SCORE = 1.0


@dataclass(frozen=True, kw_only=True)
class Study:
    """A finished search.

    `records` stand in the order of the history; `replayed` of them came from the journal, at no cost to this process.
    """

    history: History
    records: tuple[Record, ...]
    replayed: int
    stopped: str

    @property
    def usage(self) -> Usage:
        return sum((record.usage for record in self.records), start=Usage())


def search(
    optimizer: ExemplarOptimizer,
    evaluate: Callable[[Sequence], Evaluation],
    journal: Journal,
    *,
    budget: int,
    on_record: Callable[[Record, History], None] = lambda record, history: None,
) -> Study:
    """Run until the budget is spent, the incumbent is perfect, or there is nothing left to propose.

    Args:
        evaluate: F, on a sequence of pool positions.
        journal: holds the observations of earlier attempts, and takes each new one before the next ask.
        on_record: called after every new observation, for progress.

    Raises:
        EndpointError: when an evaluation fails for good; all observations until then are in the journal.
    """
    history = History()
    records: list[Record] = []

    def observe(record: Record) -> None:
        records.append(record)
        history.add(record.observation)
        optimizer.tell(record.observation)

    for record in journal.replay()[:budget]:
        observe(record)
    replayed = len(records)
    stopped = "budget"
    while len(history) < budget:
        if history.incumbent is not None and history.incumbent.score >= PERFECT_SCORE:
            stopped = "perfect score"
            break
        start = time.perf_counter()
        candidate = optimizer.ask(len(history))
        if candidate is None:
            stopped = "every sequence evaluated"
            break
        evaluation = evaluate(candidate.sequence)
        record = Record(
            observation=Observation(
                candidate=candidate, score=evaluation.score, validation_rows=len(evaluation.scores)
            ),
            usage=evaluation.usage,
            seconds=time.perf_counter() - start,
        )
        journal.append(record)
        observe(record)
        on_record(record, history)
    return Study(history=history, records=tuple(records), replayed=replayed, stopped=stopped)
