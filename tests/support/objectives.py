"""Synthetic problems with a known optimum: what an optimizer can be tried on without an LLM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ease_lib.black_box.usage import Usage
from ease_lib.evaluation.evaluator import Evaluation
from ease_lib.search.candidates.sampling import Positions, SequenceSpace
from ease_lib.search.optimizers.history import Candidate
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.surrogate.representations import PositionalRepresentation
from ease_lib.seeding import rng

Result = TypeVar("Result")

ROWS, ANSWERS = 8, 60
"""Validation rows, and answers that a method which chooses rows may ask for."""


class AtOnce:
    """Evaluations that are scored as soon as somebody waits for them.

    Args:
        evaluate: the candidate of an iteration.
        choose: which of the iterations under way is scored next.
    """

    def __init__(
        self, evaluate: Callable[[int, Candidate], Evaluation], choose: Callable[[Iterable[int]], int] = min
    ) -> None:
        self._evaluate = evaluate
        self._choose = choose
        self._under_way: dict[int, Candidate] = {}

    def start(self, iteration: int, candidate: Candidate) -> None:
        self._under_way[iteration] = candidate

    def wait(self) -> tuple[int, Evaluation]:
        iteration = self._choose(self._under_way)
        return iteration, self._evaluate(iteration, self._under_way.pop(iteration))

    def beside(self, work: Future[Result]) -> Result:
        return work.result()

    def stop(self) -> Usage:
        return Usage()


@dataclass
class OrderedSum:
    """Each exemplar has a value, and later positions weigh more: the optimum is the k best in ascending order.

    Scores lie in [0, 1]; only the optimum scores 1. `evaluations` counts the calls.
    """

    problem: Problem
    values: np.ndarray
    evaluations: int = 0

    def __call__(self, sequence: Positions, rows: Iterable[int] = (0,)) -> Evaluation:
        self.evaluations += 1
        score = float(self.raw(sequence) / self.raw(self.optimum))
        asked = tuple(rows)
        blank = ("",) * len(asked)
        return Evaluation(
            score=score,
            rows=asked,
            scores=(score,) * len(asked),
            answers=blank,
            prompts=blank,
            failures=blank,
            kept=(True,) * len(asked),
            usage=Usage(requests=len(asked)),
        )

    def of(self, candidate: Candidate) -> Evaluation:
        """Evaluate the rows that the candidate names, or one."""
        return self(candidate.sequence, candidate.rows or (0,))

    @property
    def at_once(self) -> AtOnce:
        """The objective as `study.loop.search` wants it."""
        return AtOnce(lambda iteration, candidate: self.of(candidate))

    def raw(self, sequence: Positions) -> float:
        weights = np.arange(1, len(sequence) + 1)
        return float(weights @ self.values[list(sequence)])

    @property
    def optimum(self) -> Positions:
        k = self.problem.space.k
        return tuple(int(position) for position in np.argsort(self.values)[-k:])


def ordered_sum(n: int = 12, k: int = 3, *, dimension: int = 8, seed: int = 0) -> OrderedSum:
    """A problem of n exemplars whose embeddings tell their value, up to noise."""
    draw = rng(seed, "ordered_sum")
    embeddings = draw.normal(size=(n + ROWS, dimension))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    exemplars = embeddings[:n].astype(np.float32)
    problem = Problem(
        space=SequenceSpace(n, k),
        representation=PositionalRepresentation(exemplars, exemplars),
        pool=exemplars,
        validation=embeddings[n:],
        exemplars=[f"Input: exemplar {position}\nOutput: yes" for position in range(n)],
        inputs=[f"exemplar {position}" for position in range(n)],
        validation_inputs=[f"row {position}" for position in range(ROWS)],
        outputs=["yes"] * n,
        validation_outputs=["yes"] * ROWS,
        answers=ANSWERS,
        seed=seed,
    )
    return OrderedSum(problem, values=1 + exemplars[:, 0] + 0.05 * draw.normal(size=n))
