"""Evolution: replace one random position of the incumbent by a random exemplar (baseline of the paper).

Where instructions are searched too, the instruction is one more position that may be replaced.

Differences from the authors' code: the incumbent is never changed in place, a replacement is never an exemplar that
the sequence already has, and no sequence is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem, ask_random
from ease_lib.seeding import rng

MUTATION_TRIES = 1_000


class Evolution:
    """Mutates the incumbent after `initial_design` random sequences; draws at random where its neighbours are known."""

    def __init__(self, problem: Problem, *, initial_design: int) -> None:
        self._problem = problem
        self._initial_design = initial_design
        self._history = History()

    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        space, incumbent = self._problem.space, self._history.incumbent
        if iteration < self._initial_design or incumbent is None:
            return ask_random(self._problem, self._history, iteration, pending)
        generator = rng(self._problem.seed, "mutation", iteration)
        for _ in range(MUTATION_TRIES if space.n > space.k else 0):
            mutant = _mutate(incumbent.candidate, self._problem, generator)
            if mutant.sequence not in self._history.proposed(pending, mutant.instruction):
                return mutant
        return ask_random(self._problem, self._history, iteration, pending, phase="search")

    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return iteration >= self._initial_design


def _mutate(parent: Candidate, problem: Problem, generator: np.random.Generator) -> Candidate:
    sequence, several = parent.sequence, problem.instructions > 1
    position = int(generator.integers(len(sequence) + several))
    if position == len(sequence):
        instruction = int(generator.integers(problem.instructions))
        return Candidate(sequence=sequence, phase="search", instruction=instruction)
    replacement = int(generator.integers(problem.space.n))
    while replacement in sequence:
        replacement = int(generator.integers(problem.space.n))
    mutant = (*sequence[:position], replacement, *sequence[position + 1 :])
    return Candidate(sequence=mutant, phase="search", instruction=parent.instruction)
