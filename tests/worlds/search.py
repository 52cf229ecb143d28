"""Searches in worlds, as the search loop makes them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ease_lib.config.sections import OptimizerConfig
from ease_lib.evaluation.rows import row_order
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import ExemplarOptimizer, RowAllocating
from ease_lib.search.optimizers.registry import create_optimizer
from tests.worlds.world import World

EVALUATION_ROWS = OptimizerConfig.evaluation_rows
SAMPLED_CANDIDATES, SHORTLIST_SIZE = 400, 100
"""q and q' of EASE, where the paper has 50 000 and 1 000: a search of 3 300 answers then takes a minute or two."""


@dataclass(frozen=True)
class Found:
    """Result of a search.

    Args:
        score: the true one of its prompt; expected: what the search says of it.
        length: of the prompt, in exemplars.
        seconds: that the method took itself.
    """

    score: float
    expected: float
    length: int
    seconds: float


def search(world: World, method: str, answers: int, seed: int, parallel: int = 0) -> Found:
    """A search with a method's defaults; those of a fixed length take the longest of the world."""
    config = OptimizerConfig(
        method=method,
        k=world.k,
        budget=answers // EVALUATION_ROWS,
        parallel=parallel,
        sampled_candidates=SAMPLED_CANDIDATES,
        shortlist_size=SHORTLIST_SIZE,
    )
    problem = world.problem(seed, answers, shortest=config.shortest)
    start = time.process_time()
    optimizer = create_optimizer(config, problem)
    rows = tuple(row_order(problem.validation_outputs, seed)[:EVALUATION_ROWS])
    history = searched(optimizer, world, rows, config)
    if isinstance(optimizer, RowAllocating):
        best = optimizer.recommend()
        assert best is not None
        prompt, expected = best.candidate.prompt, best.score
    else:
        assert history.incumbent is not None
        prompt, expected = history.incumbent.candidate.prompt, history.incumbent.score
    seconds = time.process_time() - start
    return Found(score=world.score(prompt), expected=expected, length=len(prompt[1]), seconds=seconds)


def searched(optimizer: ExemplarOptimizer, world: World, rows: tuple[int, ...], config: OptimizerConfig) -> History:
    """Search like `ease_lib/search/loop.py`: b / 2 proposals at once, while b / 2 before them are evaluated.

    Args:
        rows: of every evaluation, where the method does not choose them.
    """
    chooses = isinstance(optimizer, RowAllocating)
    history = History(comparable=not chooses)
    group = max(1, config.under_way // 2)
    pending: list[Candidate] = []
    iteration = 0
    while chooses or iteration < config.budget:
        if iteration % group == 0:
            while len(pending) > config.under_way - group:
                _tell(optimizer, history, world, pending.pop(0), rows)
        candidate = optimizer.ask(iteration, tuple(pending))
        if candidate is None and not pending:
            break
        if candidate is None:
            _tell(optimizer, history, world, pending.pop(0), rows)
            continue
        pending.append(candidate)
        iteration += 1
    for candidate in pending:
        _tell(optimizer, history, world, candidate, rows)
    return history


def _tell(
    optimizer: ExemplarOptimizer, history: History, world: World, candidate: Candidate, rows: tuple[int, ...]
) -> None:
    asked = candidate.rows or rows
    scores = world.answers(candidate.prompt, asked)
    observation = Observation(
        candidate=candidate, score=sum(scores) / len(scores), validation_rows=len(scores), rows=asked, scores=scores
    )
    optimizer.tell(observation)
    history.add(observation)
