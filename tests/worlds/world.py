"""A simulated search problem that says how good every prompt truly is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ease_lib.arrays import Floats
from ease_lib.search.candidates.neighbours import climb
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.surrogate.components import sequence_codes
from ease_lib.search.surrogate.representations import precomputed_representation
from ease_lib.seeding import derive_seed, rng


@dataclass(frozen=True, kw_only=True)
class World(ABC):
    """One draw of a kind of world.

    Args:
        k: exemplars of a sequence at most.
        pool, validation: (n, d), (R, d) unit vectors of the texts.
        labels: (n,) class of each exemplar's output, and of the validation rows; -1 for none.
    """

    name: str
    k: int
    pool: Floats
    validation: Floats
    labels: Sequence[int]
    validation_labels: Sequence[int]
    seed: int

    @abstractmethod
    def scores(self, prompts: Prompts) -> Floats:
        """(b,) true scores on new rows."""

    @abstractmethod
    def answers(self, prompt: Prompt, rows: Sequence[int]) -> tuple[float, ...]:
        """Right (1) or wrong (0), always the same for a prompt and a row."""

    @property
    def n(self) -> int:
        return len(self.pool)

    def score(self, prompt: Prompt) -> float:
        if prompt not in self._known:
            self._known[prompt] = float(self.scores(Prompts.of([prompt], self.k))[0])
        return self._known[prompt]

    @cached_property
    def _known(self) -> dict[Prompt, float]:
        return {}

    def problem(self, seed: int, answers: int, *, shortest: int = 0) -> Problem:
        """The search in it.

        Args:
            shortest: sequence.
        """
        outputs = [_output(number, label) for number, label in enumerate(self.labels)]
        of_classes = np.eye(max(self.labels) + 2)[np.array(self.labels)]
        return Problem(
            space=SequenceSpace(self.n, self.k, shortest),
            representation=precomputed_representation(
                "positional",
                self.pool,
                of_classes,
                np.zeros((1, self.pool.shape[1])),
                varies_length=shortest < self.k,
            ),
            pool=self.pool,
            validation=self.validation,
            exemplars=outputs,
            inputs=[str(number) for number in range(self.n)],
            validation_inputs=[str(number) for number in range(len(self.validation))],
            outputs=outputs,
            validation_outputs=[_output(number, label) for number, label in enumerate(self.validation_labels)],
            seed=seed,
            answers=answers,
        )

    @cached_property
    def random_scores(self) -> Floats:
        """(2000,) scores of random sequences of k exemplars."""
        drawn = SequenceSpace(self.n, self.k).sample(rng(self.seed, "random"), 2000)
        return self.scores(Prompts(drawn, np.zeros(len(drawn), np.int64)))

    @property
    def random_score(self) -> float:
        """Mean score of random prompts."""
        return float(self.random_scores.mean())

    @property
    def variance(self) -> float:
        """Variance of the scores of random prompts."""
        return float(self.random_scores.var())

    @cached_property
    def best_single(self) -> float:
        """Score of the best sequence of one exemplar."""
        return float(self.scores(Prompts.of([(0, (each,)) for each in range(self.n)], self.k)).max())

    @cached_property
    def best(self) -> float:
        """Score of the best sequence found by climbing with the true scores, from ten random ones."""
        space = SequenceSpace(self.n, self.k, 0)
        starts = Prompts(space.sample(rng(self.seed, "best"), 10), np.zeros(10, np.int64)).tuples()
        return max(climb(self.scores, start, space, np.arange(self.n))[1] for start in starts)

    @property
    def own_share(self) -> float:
        """Share of the variance that is a prompt's own and tells nothing about other prompts."""
        return 0.0


def prompt_codes(prompts: Prompts) -> NDArray[np.int64]:
    """(b,) a code for each prompt."""
    if not len(prompts):
        return np.zeros(0, dtype=np.int64)
    return sequence_codes(np.column_stack([prompts.instructions, prompts.reversed()]))[:, -1]


def normals(codes: NDArray[np.int64], *address: str | int) -> Floats:
    """Standard normal numbers, each a hash of the code and the address."""
    start = np.int64(derive_seed(0, *address) >> 1)
    mixed = sequence_codes((codes.ravel() ^ start)[:, None])[:, 0]
    return ndtri((mixed.reshape(codes.shape).astype(np.float64) + 0.5) / 2**63)


def _output(number: int, label: int) -> str:
    return f"answer {number}" if label < 0 else f"class {label}"


def unit(vectors: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
