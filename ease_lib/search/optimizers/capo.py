"""CAPO (Zehle, Schlager, Heiß & Feurer, 2025, AutoML): an evolution of prompts that race against each other.

There is a population of mu prompts. In every generation c children join it, and a race leaves mu of them. A child is
made by

    crossover   half of the exemplars that both parents have together, drawn at random
    mutation    one exemplar more, one less, or neither, with equal probability; then all are shuffled

In a race all remaining prompts are evaluated on one block of rows after the other, until mu are left or z blocks are
used. After each block, prompts leave that at least mu others beat, by a paired t test (one-sided, alpha) of all scores
so far, minus gamma times the prompt's length relative to the longest prompt of the first population.

Differences from the paper and from its authors' package (promptolution 2.3): instructions are those of the problem; a
child has that of one parent or, mutated, any, and no second LLM rewrites them. Exemplars are shown without an LLM's
reasoning. A prompt has no exemplar twice, and no prompt is made twice while there are others. The length of a prompt is
that of its exemplars in characters. If all sequences have k exemplars, the mutation that adds or removes one replaces
one. If the budget ends a race, the blocks that all remaining prompts have answered decide it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ease_lib.evaluation.rows import row_order
from ease_lib.machine import one_thread
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.candidates.sampling import as_rows
from ease_lib.search.optimizers.adaptive import EQUAL, components_of
from ease_lib.search.optimizers.history import Candidate, History, Observation, Phase
from ease_lib.search.optimizers.problem import BUDGET, EXHAUSTED, Problem, Recommendation, ask_random
from ease_lib.search.surrogate.answers import Answers, fitted_model
from ease_lib.seeding import rng

CROSSOVERS, MOST_BLOCKS, ALPHA, LENGTH_PENALTY = 4, 10, 0.2, 0.05
"""c, z, alpha and gamma, as in the paper."""
POPULATION, BLOCK_ROWS = 10, 30
"""mu and the number of rows in a block, as in the paper."""
ENOUGH_ANSWERS = 2_000
"""Answers below which both are halved, as they are if a block exceeds half of the rows; a race takes about 1 500."""
TRIES = 100
"""Number of tries to make a new child."""


@dataclass(frozen=True, kw_only=True)
class _Heat:
    """Prompts left in the race of a generation, before the block of this number; none without children.

    Args:
        population: that was left by the race before.
    """

    generation: int
    population: Sequence[Prompt]
    racing: Sequence[Prompt]
    number: int


class Capo:
    """Optimizer of `capo`; the module's docstring has the method.

    Args:
        problem: `answers` of it are paid for at most.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        rows = len(problem.validation_outputs)
        is_large = problem.answers >= ENOUGH_ANSWERS and rows >= 2 * BLOCK_ROWS
        self._size = POPULATION if is_large else POPULATION // 2
        length = BLOCK_ROWS if is_large else BLOCK_ROWS // 2
        order = row_order(problem.validation_outputs, problem.seed)
        self._blocks = [order[start : start + length] for start in range(0, rows, length)][:MOST_BLOCKS]
        self._answers = Answers()
        self._scores: dict[Prompt, dict[int, float]] = {}
        self._spent = 0
        self._longest = 1
        self._heats = self._races()
        self._heat: _Heat | None = None

    def recall(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        self._learn(prompt, rows, scores)

    def tell(self, observation: Observation) -> None:
        self._spent += len(observation.rows)
        self._begin()
        self._learn(observation.candidate.prompt, observation.rows, observation.scores)
        self._go_on()  # by what was told alone, so that a search that continues does as one that was never stopped

    def _learn(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        self._answers.add(prompt, rows, scores)
        known = self._scores.setdefault(prompt, {})
        known |= {row: 0.0 if score is None else score for row, score in zip(rows, scores, strict=True)}

    def needs_scores(self, iteration: int, pending: Sequence[Candidate]) -> bool:
        return self._next(pending) is None and bool(pending)

    @one_thread()
    def ask(self, iteration: int, pending: Sequence[Candidate] = ()) -> Candidate | None:
        self._begin()
        left = self.left(pending)
        candidate = self._next(pending)
        return replace(candidate, rows=candidate.rows[:left]) if candidate and left > 0 else None

    def left(self, pending: Sequence[Candidate]) -> int:
        return self._problem.answers - self._spent - sum(len(candidate.rows) for candidate in pending)

    def ended(self) -> str:
        return BUDGET if self._spent >= self._problem.answers else EXHAUSTED

    @one_thread()
    def recommend(self, avoided: Collection[int] = ()) -> Recommendation | None:
        """The best prompt of the race, by its mean on rows that all the remaining answered, or of the last
        population."""
        if not len(self._answers):
            return None
        among: Sequence[Prompt] = ()
        if self._heat:
            heat = self._heat
            among = heat.racing if heat.number else [each for each in heat.population if each in self._scores]
        among = [each for each in among or self._scores if self._is_answered(each)]
        if not among:
            among = [each for each in self._scores if self._is_answered(each)]
        if not among:
            return None
        means = {prompt: float(np.mean(self._on(prompt, among))) for prompt in among}
        equal = [prompt for prompt, mean in means.items() if mean >= max(means.values()) - EQUAL]
        clean = [prompt for prompt in equal if set(avoided).isdisjoint(prompt[1])]
        best = max(clean or equal, key=lambda prompt: means[prompt])
        model = fitted_model(components_of(self._problem), self._answers, always=[best])
        place = model.place(best)
        return Recommendation(
            candidate=Candidate(sequence=best[1], phase="search", instruction=best[0]),
            score=float(np.clip(model.mean[place], 0.0, 1.0)),
            error=float(np.sqrt(max(model.covariance[place, place], 0.0))),
            rows=len(self._answers.asked(best)),
        )

    def _is_answered(self, prompt: Prompt) -> bool:
        """Whether the prompt has an answer that was not refused; the model needs one."""
        return any(score is not None for score in self._answers.of(prompt)[1])

    def _on(self, prompt: Prompt, among: Sequence[Prompt]) -> list[float]:
        """Scores of the prompt on the rows that all of these prompts have answered; if there are none, on all of its
        own rows."""
        common = set.intersection(*({*self._scores[each]} for each in among))
        return [self._scores[prompt][row] for row in common or self._scores[prompt]]

    def _next(self, pending: Sequence[Candidate]) -> Candidate | None:
        """A prompt of the heat with the rows of its block that it was not asked yet; None if all were asked."""
        if self._heat is None:
            return None
        under_way: dict[Prompt, set[int]] = {}
        for candidate in pending:
            under_way.setdefault(candidate.prompt, set()).update(candidate.rows)
        for prompt in self._heat.racing:
            known = {*self._scores.get(prompt, ()), *under_way.get(prompt, ())}
            rows = tuple(row for row in self._blocks[self._heat.number] if row not in known)
            if rows:
                phase: Phase = "search" if self._heat.generation else "initial"
                return Candidate(sequence=prompt[1], instruction=prompt[0], phase=phase, rows=rows)
        return None

    def _begin(self) -> None:
        """The first heat, after all earlier answers were recalled."""
        if self._heat is None:
            self._heat = next(self._heats)
            self._go_on()

    def _go_on(self) -> None:
        """Advance to the first heat that needs an unknown answer, or to the last one."""
        while self._heat and self._heat.racing and self._next(()) is None:
            self._heat = next(self._heats)

    def _races(self) -> Iterator[_Heat]:
        """The algorithm; it leaves a heat when all its prompts have answered the block."""
        population = self._first_population()
        self._longest = max([*map(self._length, population), 1])
        for generation in itertools.count():
            children = self._children(population, generation)
            if generation and not children:
                yield _Heat(generation=generation, population=population, racing=(), number=0)
                return
            racing = [*population, *children]
            for number in range(len(self._blocks)):
                yield _Heat(generation=generation, population=population, racing=racing, number=number)
                racing = self._left_in_race(racing, self._blocks[: number + 1])
                if len(racing) <= self._size:
                    break
            population = self._survivors(racing)

    def _left_in_race(self, racing: Sequence[Prompt], blocks: Sequence[Sequence[int]]) -> list[Prompt]:
        """Prompts that fewer than mu others beat on these blocks."""
        rows = [row for block in blocks for row in block]
        scores = np.array([[self._scores[prompt][row] for row in rows] for prompt in racing])
        scores -= LENGTH_PENALTY * np.array([self._length(prompt) / self._longest for prompt in racing])[:, None]
        beaten = better(scores, ALPHA).sum(axis=1)
        return [prompt for prompt, times in zip(racing, beaten, strict=True) if times < self._size]

    def _survivors(self, racing: Sequence[Prompt]) -> list[Prompt]:
        """The best mu by their means on all rows that they were asked (as in the authors' package)."""
        means = {prompt: float(np.mean([*self._scores[prompt].values()])) for prompt in racing}
        return sorted(racing, key=lambda prompt: -means[prompt])[: self._size]

    def _first_population(self) -> list[Prompt]:
        drawn: list[Candidate] = []
        while len(drawn) < self._size and (new := ask_random(self._problem, History(), len(drawn), drawn)):
            drawn.append(new)
        return [candidate.prompt for candidate in drawn]

    def _children(self, population: Sequence[Prompt], generation: int) -> list[Prompt]:
        known = {*self._scores, *population}
        children: list[Prompt] = []
        for number in range(CROSSOVERS if len(population) > 1 else 0):
            generator = rng(self._problem.seed, "child", generation, number)
            made = (self._mutated(_crossed(population, generator), generator) for _ in range(TRIES))
            child = next((each for each in made if each not in known and self._is_allowed(each)), None)
            if child:
                known.add(child)
                children.append(child)
        return children

    def _mutated(self, child: Prompt, generator: np.random.Generator) -> Prompt:
        instruction, exemplars = child[0], list(child[1])
        if self._problem.instructions > 1 and generator.random() < 1 / 3:
            instruction = int(generator.integers(self._problem.instructions))
        space, chance = self._problem.space, generator.random()
        others = np.setdiff1d(np.arange(space.n), exemplars)
        exchanges = len(space.lengths) == 1 and chance < 2 / 3 and bool(len(others))
        if exemplars and (exchanges or 1 / 3 <= chance < 2 / 3):
            exemplars.pop(int(generator.integers(len(exemplars))))
        if len(exemplars) < space.k and len(others) and (exchanges or chance < 1 / 3):
            exemplars.append(int(generator.choice(others)))
        return instruction, tuple(exemplars[int(each)] for each in generator.permutation(len(exemplars)))

    def _is_allowed(self, prompt: Prompt) -> bool:
        space = self._problem.space
        return len(prompt[1]) in space.lengths and bool(space.allows(as_rows([prompt[1]], space.k))[0])

    def _length(self, prompt: Prompt) -> int:
        return sum(len(self._problem.exemplars[each]) for each in prompt[1])


def _crossed(population: Sequence[Prompt], generator: np.random.Generator) -> Prompt:
    parents = [population[int(each)] for each in generator.permutation(len(population))[:2]]
    both = sorted({exemplar for _, sequence in parents for exemplar in sequence})
    size = min(sum(len(sequence) for _, sequence in parents) // 2, len(both))
    exemplars = generator.permutation(both)[:size].tolist() if size else []
    return parents[int(generator.integers(2))][0], tuple(exemplars)


def better(scores: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """(p, p) whether prompt j is better than prompt i, by a paired t test of their (p, r) scores, one-sided.

    Where all differences of two prompts are the same, the better one is.
    """
    from scipy.special import stdtr  # 0.1 s, which stages that search nothing need not spend

    differences = scores[None, :, :] - scores[:, None, :]
    rows = scores.shape[1]
    mean, deviation = differences.mean(axis=2), differences.std(axis=2, ddof=1) if rows > 1 else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = stdtr(rows - 1, -mean / (deviation / rows**0.5))
    return np.asarray(np.where(deviation > 1e-12, chance < alpha, mean > 0))
