"""The interface of every search method, and its problem."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ease_lib.search.candidates.optimal_transport import cosine_cost
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.history import Candidate, History, Observation, Phase
from ease_lib.search.surrogate.representations import Representation
from ease_lib.seeding import rng


class ExemplarOptimizer(Protocol):
    """Proposes candidates and learns from their scores. Knows no files, no LLM, no budget.

    `ask` is a pure function of what was told, of `pending`, of its settings and of `rng(seed, "ask", iteration)`:
    replaying the `tell`s of a history restores an optimizer completely.
    """

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        """The next candidate; None when there is nothing more to propose.

        Args:
            pending: candidates that are being evaluated: never proposed again, and their scores not known yet.
        """
        ...

    def tell(self, observation: Observation) -> None:
        """Learn a score."""
        ...

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        """Whether `ask` might propose something else if the scores of `pending` were told first."""
        ...


@runtime_checkable
class PreparingOptimizer(Protocol):
    """An optimizer that can work while scores are awaited."""

    def prepare(self, iterations: range, pending: Sequence[Candidate]) -> None:
        """Compute in advance what `ask` needs for these iterations, apart from the scores of `pending`.

        Called while neither `ask` nor `tell` is. It changes no proposal, only their speed.

        Args:
            pending: candidates whose scores will be told before these iterations are asked for.
        """
        ...


@runtime_checkable
class OneThreaded(Protocol):
    """An optimizer that is called, and prepares, in one and the same thread from the first call to the last.

    Sums of torch's kernels may differ in the last digit from one thread to another, and a search that is continued is
    to propose what an uninterrupted one does.
    """

    one_threaded: bool


PERFECT_SCORE = 1.0
BUDGET, PERFECT, EXHAUSTED = "budget", "perfect score", "every sequence evaluated"
"""Reasons why a search ends."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The prompt that a search ends with, and what is known of its score on new rows.

    Args:
        score: posterior mean, corrected for having been chosen; error: its standard deviation.
        rows: answers it rests on.
    """

    candidate: Candidate
    score: float
    error: float
    rows: int


@runtime_checkable
class RowAllocating(Protocol):
    """An optimizer that chooses the rows of its candidates, keeps to a number of them, and names the winner."""

    def tell(self, observation: Observation) -> None:
        """Learn an observation, as every optimizer does."""
        ...

    def left(self, pending: Sequence[Candidate]) -> int:
        """Number of answers that the optimizer may still ask for after these."""
        ...

    def recommend(self, avoided: Collection[int] = ()) -> Recommendation | None:
        """The best prompt by all scores so far; None before the first.

        Args:
            avoided: exemplars, by position, without which a prompt that is as good is better.
        """
        ...

    def recall(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        """Learn answers of an earlier search, at no cost; called before anything else."""
        ...

    def ended(self) -> str:
        """Reason why `ask` has no more candidates: one of those above."""
        ...


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Information available to a search method: the number of exemplars, their embeddings and the validation set's.

    Args:
        representation: features of sequences, for the surrogate; None for a method that has none.
        pool: (n, d) unit-length embeddings of the exemplars; validation: (m, d) of the validation rows; d = 0 if
            there are none.
        exemplars: the texts of the pool as a prompt shows them.
        inputs, validation_inputs: the input texts, for lexical similarity.
        device: where a surrogate computes, `cpu` or `cuda`.
        instructions: how many there are to choose from; position 0 is the empty one.
        outputs: (n,) first output of each exemplar; validation_outputs: (m,) of the validation rows.
        evaluated: positions of the validation rows that every evaluation asks, by which alone exemplars are found
            similar or not; None for all.
        answers: that a method that chooses rows may ask for.
        ask_llm: the black-box's answer to a prompt, for the one method that asks it which exemplars to take.
    """

    space: SequenceSpace
    representation: Representation | None
    pool: NDArray[np.floating]
    validation: NDArray[np.floating]
    exemplars: Sequence[str]
    inputs: Sequence[str]
    validation_inputs: Sequence[str]
    outputs: Sequence[str]
    validation_outputs: Sequence[str]
    seed: int
    device: str = "cpu"
    instructions: int = 1
    evaluated: Sequence[int] | None = None
    answers: int = 0
    ask_llm: Callable[[str], str] | None = None

    @property
    def evaluated_rows(self) -> NDArray[np.floating]:
        """(m', d) embeddings of the validation rows that an evaluation asks."""
        return self.validation if self.evaluated is None else self.validation[sorted(self.evaluated)]

    @property
    def evaluated_inputs(self) -> list[str]:
        """Input texts of the evaluated rows."""
        rows = range(len(self.validation_inputs)) if self.evaluated is None else sorted(self.evaluated)
        return [self.validation_inputs[row] for row in rows]

    @cached_property
    def cost(self) -> NDArray[np.floating]:
        """(n, m') distance 1 - cos of exemplar i to validation row j, of those that an evaluation asks."""
        return cosine_cost(self.pool, self.evaluated_rows)

    @cached_property
    def relevance(self) -> NDArray[np.float64]:
        """(n,) mean cosine of each exemplar to the validation rows that an evaluation asks."""
        return np.asarray(self.pool.astype(np.float64) @ self.evaluated_rows.astype(np.float64).mean(axis=0))


def ask_random(
    problem: Problem, history: History, iteration: int, pending: Sequence[Candidate], *, phase: Phase = "initial"
) -> Candidate | None:
    """A random sequence and instruction not yet proposed: every method's initial design, and all of Best-of-N."""
    instructions = rng(problem.seed, "instruction", iteration).permutation(problem.instructions).tolist()
    for instruction in instructions:
        sequence = problem.space.draw(problem.seed, iteration, history.proposed(pending, instruction))
        if sequence is not None:
            return Candidate(sequence=sequence, phase=phase, instruction=instruction)
    return None
