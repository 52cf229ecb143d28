"""Two baselines as the authors' code has them (commit e3514de), on the simulated learner: why their ranks are not ours.

    evolution   changes the best sequence in place and keeps each change, better or not: a random walk; what is scored
                on test rows is where it ends
    influence   reports the sequence of the most influential exemplars, and not the best of the 164 before it

Both report their best, or last, validation score. Ours keep the incumbent and report the best of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.config.comparison import Cell
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.metrics import METRICS
from ease_lib.prompts.template import PromptTemplate
from ease_lib.running.task_data import load_data
from ease_lib.search.optimizers.baselines import influences
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar
from tests.simulation.in_context_learner import answer

Score = Callable[[Sequence[int]], float]
POOL = 100
Found = tuple[float, float]
"""Validation and test score."""


def searched(cell: Cell) -> Iterator[tuple[str, Found]]:
    """Result of each of the two on a cell's data, by its name."""
    parameters = parse_parameters(cell.parameters)
    data = load_data(parameters.task, parameters.task.data_seed(parameters.run.seed), Sources())
    config = parameters.optimizer

    def scored_on(rows: Sequence[Exemplar]) -> Score:
        return lambda sequence: float(np.mean([_right([data.pool[at] for at in sequence], row) for row in rows]))

    for name, search in METHODS.items():
        draw = rng(parameters.run.seed, "as coded", name)
        first = [draw.permutation(len(data.pool))[: config.k] for _ in range(config.budget)]
        yield name, search(first, config.initial_design, scored_on(data.validation), scored_on(data.test), draw)


def _right(exemplars: Sequence[Exemplar], row: Exemplar) -> float:
    return METRICS["instruction_induction"](answer(PromptTemplate().render(exemplars, row)), row.outputs)


def _evolution(
    drawn: Sequence[np.ndarray], design: int, on_validation: Score, on_test: Score, draw: np.random.Generator
) -> Found:
    scores = [on_validation(sequence) for sequence in drawn[:design]]
    walked = drawn[int(np.argmax(scores))].copy()
    for _ in drawn[design:]:
        walked[draw.integers(len(walked))] = draw.integers(POOL)
        scores.append(on_validation(walked))
    return max(scores), on_test(walked)


def _influence(
    drawn: Sequence[np.ndarray], design: int, on_validation: Score, on_test: Score, draw: np.random.Generator
) -> Found:
    values = influences(np.array(drawn), np.array([on_validation(each) for each in drawn]), POOL)
    chosen = np.argsort(-values, kind="stable")[: len(drawn[0])][::-1]
    return on_validation(chosen), on_test(chosen)


METHODS: Mapping[str, Callable[[Sequence[np.ndarray], int, Score, Score, np.random.Generator], Found]] = {
    "evolution": _evolution,
    "influence": _influence,
}
