"""Synthetic problems with a known optimum: what an optimizer can be tried on without an LLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ease_lib.candidates.sampling import Sequence, SequenceSpace
from ease_lib.evaluation.evaluator import Evaluation
from ease_lib.evaluation.usage import Usage
from ease_lib.optimizers.base import Problem
from ease_lib.seeding import rng
from ease_lib.study.loop import Proposal
from ease_lib.surrogate.representations import PositionalRepresentation


@dataclass
class OrderedSum:
    """Each exemplar has a value, and later positions weigh more: the optimum is the k best in ascending order.

    Scores lie in [0, 1]; only the optimum scores 1. `evaluations` counts the calls.
    """

    problem: Problem
    values: np.ndarray
    evaluations: int = 0

    def __call__(self, sequence: Sequence) -> Evaluation:
        self.evaluations += 1
        score = self.raw(sequence) / self.raw(self.optimum)
        return Evaluation(
            score=float(score),
            scores=(float(score),),
            answers=("",),
            prompts=("",),
            failures=("",),
            usage=Usage(requests=1),
        )

    def evaluate_each(self, proposals: Mapping[int, Proposal]) -> Iterator[tuple[int, Evaluation]]:
        """As `study.loop.search` wants it."""
        for iteration, proposal in proposals.items():
            yield iteration, self(proposal.candidate.sequence)

    def raw(self, sequence: Sequence) -> float:
        weights = np.arange(1, len(sequence) + 1)
        return float(weights @ self.values[list(sequence)])

    @property
    def optimum(self) -> Sequence:
        k = self.problem.space.k
        return tuple(int(position) for position in np.argsort(self.values)[-k:])


def ordered_sum(n: int = 12, k: int = 3, *, dimension: int = 8, seed: int = 0) -> OrderedSum:
    """A problem of n exemplars whose embeddings tell their value, up to noise."""
    draw = rng(seed, "ordered_sum")
    embeddings = draw.normal(size=(n + 5, dimension))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    exemplars = embeddings[:n].astype(np.float32)
    problem = Problem(
        space=SequenceSpace(n, k),
        representation=PositionalRepresentation(exemplars, exemplars),
        pool=exemplars,
        validation=embeddings[n:],
        exemplars=[f"Input: exemplar {position}\nOutput: yes" for position in range(n)],
        inputs=[f"exemplar {position}" for position in range(n)],
        validation_inputs=[f"row {position}" for position in range(5)],
        seed=seed,
    )
    return OrderedSum(problem, values=1 + exemplars[:, 0] + 0.05 * draw.normal(size=n))
