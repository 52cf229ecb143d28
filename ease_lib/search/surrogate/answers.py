"""Answers of a search, and the model that is fitted to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ease_lib.arrays import Floats, Ints
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.surrogate.answer_model import (
    MEAN_VARIANCE,
    AnswerModel,
    AnswerTable,
    estimated_variances,
    inverse_of_mean,
)
from ease_lib.search.surrogate.components import Components

MOST_SEQUENCES = 800
"""Maximum number of sequences that a model is fitted to; the cost of a fit grows with its cube."""
MOST_ESTIMATED = 400
"""Number of those prompts from which variances are estimated."""
PRIOR_ANSWERS = 4.0
"""Number of pseudo-answers with the overall mean, by which means of few answers are shrunk before ranking."""

Answered = tuple[Prompt, Sequence[int], Sequence[float | None]]
"""A prompt, its rows and their scores."""


class Answers:
    """Scores of answers by prompt and row.

    Prompts are numbered in the order they come first.
    """

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.sums: list[float] = []
        """Sum of the scores of each prompt."""
        self._rows_of: list[list[int]] = []
        self._scores_of: list[list[float | None]] = []
        self._numbers: dict[Prompt, int] = {}
        self._prompt: list[int] = []
        self._row: list[int] = []
        self._score: list[float] = []

    def add(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        """Args: scores: in [0, 1]; None of a row that was refused and is left out.

        Raises:
            ValueError: when the prompt was asked one of these rows before: its answer would count twice.
        """
        twice = {*self.asked(prompt)}.intersection(rows) or len({*rows}) < len(rows)
        if twice:
            raise ValueError(f"the prompt {prompt} was evaluated twice on the same row")
        number = self._numbers.get(prompt)
        if number is None:
            number = self._numbers[prompt] = len(self.prompts)
            self.prompts.append(prompt)
            self._rows_of.append([])
            self._scores_of.append([])
            self.sums.append(0.0)
        self._rows_of[number] += rows
        self._scores_of[number] += scores
        for row, score in zip(rows, scores, strict=True):
            if score is not None:
                self._prompt.append(number)
                self._row.append(row)
                self._score.append(score)
                self.sums[number] += score

    def asked(self, prompt: Prompt) -> list[int]:
        """Rows of a prompt, in order, refused ones included."""
        number = self._numbers.get(prompt)
        return [] if number is None else self._rows_of[number]

    def of(self, prompt: Prompt) -> tuple[list[int], list[float | None]]:
        """Rows of a prompt, in order, and their scores."""
        number = self._numbers[prompt]
        return self._rows_of[number], self._scores_of[number]

    def all_right(self, least: int) -> Iterator[Prompt]:
        """Prompts with at least so many rows that answered every one rightly."""
        if max(self.sums, default=0.0) < least - 1e-9:  # nearly always
            return
        for number, total in enumerate(self.sums):
            if total >= max(least, len(self._rows_of[number])) - 1e-9:
                yield self.prompts[number]

    def by_prompt(self) -> Iterator[tuple[Prompt, list[int], list[float | None]]]:
        """Every prompt with its rows and their scores."""
        yield from zip(self.prompts, self._rows_of, self._scores_of, strict=True)

    def table(self) -> tuple[Ints, Ints, Floats]:
        """Prompt, row and score of every answer."""
        prompts, rows = (np.array(each, dtype=np.int64) for each in (self._prompt, self._row))
        return prompts, rows, np.array(self._score, dtype=np.float64)

    def __len__(self) -> int:
        return len(self._score)


def fitted_model(
    components: Components,
    answers: Answers,
    *,
    coming: Sequence[int] = (),
    before: AnswerModel | None = None,
    always: Collection[Prompt] = (),
) -> AnswerModel:
    """The model of all answers.

    Of more than `MOST_SEQUENCES` prompts it is fitted to those that are named in `always`, to the most promising ones
    by their shrunk means, three quarters of all, and to some that are spread evenly over the others in the order in
    which they were first asked. A choice by score would make everything look better than it is, so variances are those
    of prompts that are spread evenly over all of them, `MOST_ESTIMATED` at most, and the level is that of all answers.

    Args:
        coming: validation rows of which answers may be added to the model.
        before: a model of the first of these answers, at whose variances their estimation begins.
    """
    prompt, asked, score = table = answers.table()
    rows, row = np.unique(np.concatenate([asked, np.array(coming, dtype=np.int64)]), return_inverse=True)
    row = row[: len(asked)]
    there = np.flatnonzero(np.bincount(prompt, minlength=len(answers.prompts)))
    complete = len(there) <= MOST_SEQUENCES
    level, level_variance = float(score.mean()), MEAN_VARIANCE
    if not complete:
        level_variance = float(score.var()) / len(score)

    def of(numbers: Ints) -> tuple[list[Prompt], AnswerTable]:
        places = np.full(len(answers.prompts), -1)
        places[numbers] = np.arange(len(numbers))
        known = places[prompt] >= 0
        part = AnswerTable.of(places[prompt[known]], row[known], score[known] - level, len(numbers), len(rows))
        return [answers.prompts[number] for number in numbers], part

    prompts, part = of(_spread(there, min(len(there), MOST_ESTIMATED)))
    kernels = _kernels(components, prompts, before)
    scales = {name: inverse_of_mean(kernel.diagonal()) for name, kernel in kernels.items()}
    variances = estimated_variances(
        kernels,
        scales,
        part,
        MEAN_VARIANCE,
        _variance_of_pseudo_answers(level, len(score)),
        before.variances if before else None,
    )
    if len(there) > len(prompts) or not complete:
        named = {number for number in there.tolist() if answers.prompts[number] in always}
        prompts, part = of(there if complete else _promising(there, table, named))
        kernels = _kernels(components, prompts, before)
    return AnswerModel(components, prompts, rows, part, variances, scales, (level, level_variance), kernels)


def _kernels(components: Components, prompts: Sequence[Prompt], before: AnswerModel | None) -> dict[str, Floats]:
    """(s, s) kernels by component; those between known prompts are taken from the previous model."""
    places = np.array([before.place(prompt) if before and prompt in before else -1 for prompt in prompts])
    described = components.described(Prompts.of(prompts, components.k))
    new = np.flatnonzero(places < 0)
    found = {}
    for name, kernel in components.kernels(described[new], described).items():
        # what a new one has is written over what its place, the last one, brings
        found[name] = before.kernels[name].all[places][:, places] if before else np.empty((len(prompts), len(prompts)))
        found[name][new] = kernel
        found[name][:, new] = kernel.T
    return found


def _promising(there: Ints, table: tuple[Ints, Ints, Floats], named: Collection[int]) -> Ints:
    """Numbers of the prompts that a model is fitted to, as `fitted_model` describes; ascending."""
    prompt, _, score = table
    counts, sums = np.bincount(prompt), np.bincount(prompt, score)
    shrunk = (sums[there] + PRIOR_ANSWERS * score.mean()) / (counts[there] + PRIOR_ANSWERS)
    order = np.lexsort((-shrunk, [number not in named for number in there.tolist()]))
    best, others = np.split(there[order], [MOST_SEQUENCES * 3 // 4])
    return np.sort(np.concatenate([best, _spread(np.sort(others), MOST_SEQUENCES - len(best))]))


def _spread(numbers: Ints, count: int) -> Ints:
    """Pick `count` of the numbers, evenly spaced."""
    return numbers[np.linspace(0, len(numbers) - 1, count).round().astype(np.int64)]


def variance_of_mean(scores: Sequence[float]) -> float:
    """Variance of the mean of these scores, with two right and two wrong answers more (Agresti & Coull, 1998, Am. Stat.
    52(2)), so that seven right ones are not believed to be all there is."""
    with_more = np.array([*scores, 0.0, 0.0, 1.0, 1.0])
    return float(with_more.var() / len(with_more))


def _variance_of_pseudo_answers(mean: float, answers: int) -> float:
    """Variance that the four pseudo-answers of `variance_of_mean` add; twenty wrong answers prove little."""
    return 4 * (0.25 + (mean - 0.5) ** 2) / (answers + 4)
