"""A surrogate of single answers: it predicts the score of an answer from the sequence and the row.

    y(E, x) = level + r(x) + f(E) + noise            f: sum of components (`components.py`), r(x): how easy the row is

The paper's surrogate learns the mean of an evaluation. Here every answer counts by itself, so evaluations may use
different rows and few of them, and the difficulty of rows is separated from the quality of sequences. f is a Gaussian
process whose kernel is a sum of linear kernels with one variance each. These variances, and those of rows and noise,
maximise the marginal likelihood (the MM algorithm of Zhou, Hu, Qiao & Sun, 2019, J. Comput. Graph. Stat. 28(2), for the
components of f, EM for the two others), so the data decide which components matter. If sequences differ by chance
alone, all variance becomes `own`, and the posterior is that of a mean shrunk to the population's.

Everything is closed form. A fit to s sequences takes O(s^3). After it, every added sequence or answer updates the joint
posterior of f and r exactly, in O((s + R)^2) for R rows, so a search fits only when variances are re-estimated.

The posterior mean and variance of f are those of a score on new rows, because row effects are a random sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ease_lib.arrays import Floats, Ints
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.surrogate.components import CODED, Coded, Components

MEAN_VARIANCE = 0.05
"""Prior variance of the mean of all answers around the observed one."""
LEAST_VARIANCE = 1e-7
NEGLIGIBLE = 1e-6
"""Variance of a component that is left out where functions are climbed: a tenth of a point."""
LEAST_OWN, LEAST_OWN_SHARE = 0.001, 0.3
"""Lower bounds of the variance that is the sequences' own, absolute and as a share of what the components explain: few
answers would estimate it as zero, and the model would be believed more than a sequence's own answers (CONTRIBUTING.md,
Decisions)."""
ROUNDS, MORE_ROUNDS = 15, 5
"""Number of rounds for estimating variances, and for one that starts from an earlier estimate."""


@dataclass(kw_only=True)
class Variances:
    """Variances of the components of f by name (each of features of mean square 1), of rows, and of the noise."""

    components: dict[str, float]
    rows: float
    noise: float

    @property
    def sequences(self) -> float:
        """Variance of f."""
        return sum(self.components.values())


@dataclass(frozen=True, kw_only=True)
class AnswerTable:
    """Answers minus their level, by prompt and row.

    Args:
        counts: (s, R) answers; prompt_sums, row_sums: of their scores.
    """

    prompt: Ints
    row: Ints
    score: Floats
    counts: Floats
    prompt_sums: Floats
    row_sums: Floats

    @classmethod
    def of(cls, prompt: Ints, row: Ints, score: Floats, prompts: int, rows: int) -> AnswerTable:
        counts = np.zeros((prompts, rows))
        np.add.at(counts, (prompt, row), 1.0)
        return cls(
            prompt=prompt,
            row=row,
            score=score,
            counts=counts,
            prompt_sums=_sums(prompt, score, prompts),
            row_sums=_sums(row, score, rows),
        )

    def without_rows(self, variances: Variances) -> tuple[Floats, Floats]:
        """(s, s) precision of f from the answers alone, and (s,) precision times mean, with row effects eliminated."""
        shared = self.counts / self.row_precision(variances)
        noise = variances.noise
        precision = np.diag(self.counts.sum(axis=1)) / noise - shared @ self.counts.T / noise**2
        return precision, self.prompt_sums / noise - shared @ self.row_sums / noise**2

    def residual_variances(self, variances: Variances, mean: Floats, covariance: Floats) -> tuple[float, float]:
        """Updated variances of rows and noise (an EM step), for the current f."""
        precision = self.row_precision(variances)
        effects = (self.row_sums - self.counts.T @ mean) / variances.noise / precision
        shared = self.counts / precision / variances.noise
        joint = covariance @ shared
        spread = 1 / precision + np.einsum("sr,sr->r", shared, joint)
        residuals = self.score - mean[self.prompt] - effects[self.row]
        doubt = covariance.diagonal()[self.prompt] + spread[self.row] - 2 * joint[self.prompt, self.row]
        asked = self.counts.sum(axis=0) > 0
        rows = float((effects[asked] ** 2 + spread[asked]).mean())
        noise = float((residuals**2).mean() + np.maximum(doubt, 0.0).mean())
        return max(rows, 1e-5), noise

    def row_precision(self, variances: Variances) -> Floats:
        return np.asarray(self.counts.sum(axis=0) / variances.noise + 1 / variances.rows)


@dataclass(frozen=True)
class _Posterior:
    """Posterior of f at s prompts, without its level."""

    mean: Floats
    covariance: Floats
    weights: Floats
    inverse: Floats

    @classmethod
    def of(cls, prior: Floats, table: AnswerTable, variances: Variances) -> _Posterior:
        """Posterior from K, the prior, and W, the precision that answers give f once rows are eliminated: (K + W^-1)^-1
        = L (I + L^T K L)^-1 L^T, W = L L^T.
        """
        precision, target = table.without_rows(variances)
        size = len(target)
        jitter = 1e-9 * float(np.trace(precision)) / size
        root = _root(precision + jitter * np.eye(size))
        inner = _root(np.eye(size) + root.T @ prior @ root)
        half = _solved(inner, root.T)
        weights = half.T @ _solved(inner, _solved(root, target))
        learnt = half @ prior
        return cls(prior @ weights, prior - learnt.T @ learnt, weights, half.T @ half)


def estimated_variances(
    kernels: Mapping[str, Floats],
    scales: Mapping[str, float],
    table: AnswerTable,
    level_variance: float,
    least_noise: float,
    start: Variances | None,
) -> Variances:
    """Estimate the variances by maximising the marginal likelihood of the answers.

    Args:
        kernels: (s, s) by component, `own` not among them.
        scales: by which they have a mean of 1 on the diagonal; 0 of one that no prompt has.
        start: an earlier estimate, from fewer answers.
    """
    grams = np.array([*(kernel * scales[name] for name, kernel in kernels.items()), np.eye(len(table.counts))])
    names = [*kernels, "own"]
    total = max(float(table.score.var()), 1e-3)
    share = 0.1 * total / max(1, len(kernels))
    variances = start or Variances(
        components={name: share if scales[name] else LEAST_VARIANCE for name in kernels} | {"own": 0.05 * total},
        rows=0.3 * total,
        noise=0.6 * total,
    )
    for _ in range(MORE_ROUNDS if start else ROUNDS):
        values = np.array([variances.components[name] for name in names])
        posterior = _Posterior.of(level_variance + np.tensordot(values, grams, 1), table, variances)
        fitted = grams @ posterior.weights @ posterior.weights
        expected = np.tensordot(grams, posterior.inverse, 2)
        values = np.maximum(values * np.sqrt(np.maximum(fitted, 1e-12) / np.maximum(expected, 1e-12)), LEAST_VARIANCE)
        explained = float(values[:-1].sum())
        values[-1] = max(values[-1], LEAST_OWN_SHARE * explained, LEAST_OWN)
        rows, noise = table.residual_variances(variances, posterior.mean, posterior.covariance)
        components = dict(zip(names, values.tolist(), strict=True))
        variances = Variances(components=components, rows=rows, noise=max(noise, least_noise))
    return variances


@dataclass(frozen=True, kw_only=True)
class Function:
    """One f, the posterior mean or a sample of it: the value of any prompt, by tables.

    Args:
        places: (k + 1, k, n) by length, place from the end, and exemplar.
        length: (k + 1,); instruction, coverage: of each number.
        coded: effects by component.
    """

    components: Components
    mean: float
    places: Floats
    length: Floats
    instruction: Floats
    coverage: Floats
    coded: Mapping[str, Coded]

    def __call__(self, prompts: Prompts) -> Floats:
        """(b,) values, without the prompts' own effects."""
        from_end, lengths = prompts.reversed(), prompts.lengths
        placed = self.places[lengths[:, None], np.arange(from_end.shape[1]), from_end]
        values = self.mean + self.length[lengths] + np.where(from_end >= 0, placed, 0.0).sum(axis=1)
        values += self.instruction[prompts.instructions]
        if len(self.coverage):
            values += self.coverage[self.components.coverage(from_end)]
        for name, effects in self.coded.items():
            values += effects(self.components.codes(name, from_end)).sum(axis=1)
        return np.asarray(values)

    @property
    def exemplar_effects(self) -> Floats:
        """(n,) effect of each exemplar on the score, over all lengths and places, without pairs and classes."""
        used = [self.places[length, place] for length in range(1, len(self.length)) for place in range(length)]
        return np.asarray(np.mean(used, axis=0))


class AnswerModel:
    """The joint posterior of f and of the rows, given answers, to which more can be added.

    Args:
        prompts: (s,) that were answered; rows: (R,) their numbers in the validation set.
        table: their answers, less the level.
        level: the mean of all answers, and the variance of f's prior mean about it.
        kernels: of the prompts by component, where they are known.

    Attributes:
        prompts: in the order of `mean` and `covariance`.
    """

    def __init__(
        self,
        components: Components,
        prompts: Sequence[Prompt],
        rows: Ints,
        table: AnswerTable,
        variances: Variances,
        scales: Mapping[str, float],
        level: tuple[float, float],
        kernels: Mapping[str, Floats],
    ) -> None:
        self.components = components
        self.prompts = list(prompts)
        self.variances = variances
        self._places = {prompt: place for place, prompt in enumerate(prompts)}
        self._described = components.described(Prompts.of(prompts, components.k))
        self.weight_variances = {name: variances.components[name] * scales[name] for name in components.names}
        self._own = variances.components["own"]
        self._level, self._level_variance = level
        self._codes: dict[str, tuple[int, tuple[Ints, Ints, Ints]]] = {}
        self.kernels = {name: GrowingMatrix(kernel) for name, kernel in kernels.items()}
        prior = self._level_variance + self._own * np.eye(len(prompts))
        for name, kernel in kernels.items():
            prior += self.weight_variances[name] * kernel
        posterior = _Posterior.of(prior, table, variances)
        self._root = _GrowingRoot(_root(prior))
        self._mean = GrowingMatrix(posterior.mean)
        self._covariance = GrowingMatrix(posterior.covariance)
        self._row_places = {row: place for place, row in enumerate(rows.tolist())}
        self._told = [(table.prompt, table.row, table.score)]
        self._known_rows: _Rows | None = None
        self._begun: Callable[[], _Rows] = lambda: _Rows.of(table, variances, posterior)

    @property
    def mean(self) -> Floats:
        """(s,) posterior mean of f at the prompts, as scores."""
        return self._level + self._mean.all

    @property
    def covariance(self) -> Floats:
        """(s, s) posterior covariance of f at the prompts."""
        return self._covariance.all

    @property
    def _rows(self) -> _Rows:
        """Factor computed only when something is added or drawn, because it needs memory for the square of the rows."""
        if self._known_rows is None:
            self._known_rows = self._begun()
        return self._known_rows

    def place(self, prompt: Prompt) -> int:
        """Index of a prompt."""
        return self._places[prompt]

    def __contains__(self, prompt: object) -> bool:
        return prompt in self._places

    def add(self, prompt: Prompt, rows: Sequence[int], scores: Sequence[float | None]) -> None:
        """Learn answers of a prompt; for a new prompt, all of its answers.

        Args:
            rows: of those that the model was made with.
            scores: None of a row that was refused.
        """
        if prompt not in self._places:
            self._append(prompt)
        known = [(row, score) for row, score in zip(rows, scores, strict=True) if score is not None]
        if not known:
            return
        place, noise = self._places[prompt], self.variances.noise
        asked = np.array([self._row_places[row] for row, _ in known])
        covariance, with_rows, among_rows = self._covariance.all, self._rows.with_prompts.all, self._rows.covariance
        said = np.array([score for _, score in known]) - self._level
        self._told.append((np.full(len(known), place), asked, said))
        surprise = said - self._mean.all[place] - self._rows.mean[asked]
        moves = covariance[place] + with_rows[:, asked].T
        row_moves = with_rows[place] + among_rows[asked]
        of_answers = covariance[place, place] + with_rows[place, asked] + with_rows[place, asked][:, None]
        root = _root(of_answers + among_rows[np.ix_(asked, asked)] + noise * np.eye(len(asked)))
        moves, row_moves, surprise = (_solved(root, each) for each in (moves, row_moves, surprise))
        self._mean.all[:] += surprise @ moves
        self._rows.mean += surprise @ row_moves
        covariance -= moves.T @ moves
        with_rows -= moves.T @ row_moves
        among_rows -= row_moves.T @ row_moves

    def _append(self, prompt: Prompt) -> None:
        """Add a prompt without answers; its posterior follows from the others."""
        described = self.components.described(Prompts.of([prompt], self.components.k))
        kernels, own = self.components.kernels(described, self._described), self.components.own_kernels(described)
        cross, itself = self._prior(kernels, own, 1)
        half = self._root.solved(cross[0])
        follows = self._root.solved(half, transposed=True)
        spread = follows @ self._covariance.all
        variance = itself[0] - half @ half + spread @ follows
        for name, kernel in kernels.items():
            self.kernels[name].append(kernel[0], float(own[name][0]))
        self._root.append(half, float(np.sqrt(max(itself[0] - half @ half, LEAST_VARIANCE))))
        self._rows.with_prompts.append(follows @ self._rows.with_prompts.all)
        self._mean.append(np.array(follows @ self._mean.all))
        self._covariance.append(spread, float(variance))
        self._described = self._described.with_more(described)
        self._places[prompt] = len(self.prompts)
        self.prompts.append(prompt)

    def _prior(self, kernels: Mapping[str, Floats], own: Mapping[str, Floats], count: int) -> tuple[Floats, Floats]:
        """(b, s) covariance of prompts with the known ones, and (b,) variance of each."""
        cross = np.full((count, len(self.prompts)), self._level_variance)
        for name, kernel in kernels.items():
            cross += self.weight_variances[name] * kernel
        variance = self._level_variance + self._own + sum(self.weight_variances[name] * own[name] for name in own)
        return cross, np.broadcast_to(variance, (count,)).astype(np.float64)

    def predict(self, prompts: Sequence[Prompt]) -> tuple[Floats, Floats]:
        """(b,) mean and variance of f at prompts that were not observed."""
        described = self.components.described(Prompts.of(prompts, self.components.k))
        kernels, own = self.components.kernels(described, self._described), self.components.own_kernels(described)
        cross, prior = self._prior(kernels, own, len(prompts))
        half = self._root.solved(cross.T)
        follows = self._root.solved(half, transposed=True)
        variance = prior - (half**2).sum(axis=0) + np.einsum("sb,sb->b", follows, self._covariance.all @ follows)
        return self._level + follows.T @ self._mean.all, np.maximum(variance, LEAST_VARIANCE)

    def posterior_mean(self) -> Function:
        return self._function({}, 0.0, self._weights(self._mean.all))

    def sample(self, generator: np.random.Generator) -> tuple[Function, Floats]:
        """A draw from the posterior, and its (s,) values at the prompts, what is their own counted (Matheron's rule: a
        draw of everything from the prior, corrected by what its answers get wrong)."""
        size, variances = len(self.prompts), self.variances
        level = generator.normal() * self._level_variance**0.5
        drawn = {
            name: generator.normal(size=shape) * self.weight_variances[name] ** 0.5
            for name, shape in self._weights_by_component().items()
        }
        known = Prompts.of(self.prompts, self.components.k)
        prior = self._function(drawn, level, np.zeros(size))(known) - self._level
        prior += generator.normal(size=size) * self._own**0.5
        row_effects = generator.normal(size=len(self._rows.mean)) * variances.rows**0.5
        prompt, row, score = self._answers()
        answered = prior[prompt] + row_effects[row] + generator.normal(size=len(score)) * variances.noise**0.5
        missed = (score - answered) / variances.noise
        moved = self._covariance.all @ _sums(prompt, missed, size)
        moved += self._rows.with_prompts.all @ _sums(row, missed, len(row_effects))
        values = prior + moved
        return self._function(drawn, level, self._weights(moved)), self._level + values

    def _answers(self) -> tuple[Ints, Ints, Floats]:
        """Prompt, row and score of every answer, minus the level."""
        prompts, rows, scores = zip(*self._told, strict=True)
        self._told = [(np.concatenate(prompts), np.concatenate(rows), np.concatenate(scores))]
        return self._told[0]

    def _weights(self, values: Floats) -> Floats:
        """(s,) K^-1 times values of the prompts: the contribution of each to the weights of the components."""
        return self._root.solved(self._root.solved(values), transposed=True)

    def _weights_by_component(self) -> dict[str, int]:
        """Number of weights of each component."""
        components = self.components
        counts = {"length": components.k, "none": 1, "instruction": components.instructions}
        counts["coverage"] = components.classes + 1
        counts |= {name: len(self._coded(name)[0]) for name in components.names if name in CODED}
        for kind, base in components.placed:
            counts[f"{kind} {base}"] = components.n if base == "exemplar" else components.bases[base].shape[1]
        return {name: counts[name] for name in components.names}

    def _function(self, drawn: Mapping[str, Floats], level: float, weights: Floats) -> Function:
        """The drawn level and weights, corrected by the prompts' values."""
        components = self.components
        found = {}
        for name, count in self._weights_by_component().items():
            said = self._said(name, weights, count)
            found[name] = drawn.get(name, 0.0) + self.weight_variances[name] * said
        places = np.zeros((components.k + 1, components.k, components.n))
        for kind, base in components.placed:
            effect = found[f"{kind} {base}"]
            effect = effect if base == "exemplar" else components.bases[base] @ effect
            places += components.place_weights[kind][:, :, None] * effect
        none = np.zeros(0)
        return Function(
            components=components,
            mean=self._level + level + self._level_variance * float(weights.sum()),
            places=places,
            length=np.append(found.get("none", np.zeros(1)), found.get("length", np.zeros(components.k))),
            instruction=found.get("instruction", np.zeros(components.instructions)),
            coverage=found.get("coverage", none),
            coded={
                name: Coded(self._coded(name)[0], found[name])
                for name in found
                if name in CODED and self.variances.components[name] > NEGLIGIBLE
            },
        )

    def _said(self, name: str, weights: Floats, count: int) -> Floats:
        """Features of the prompts, transposed, times weights of the prompts."""
        known = self._described
        if name in known.sums:
            return known.sums[name].T @ weights
        if name in CODED:
            _, prompts, codes = self._coded(name)
            return _sums(codes, weights[prompts], count)
        if name in known.numbers:
            numbers = known.numbers[name]
            return _sums(numbers[numbers >= 0], weights[numbers >= 0], count)
        shares = self.components.place_weights[name.split()[0]][known.lengths] * weights[:, None]
        there = known.from_end >= 0
        return _sums(known.from_end[there], shares[there], count)

    def _coded(self, name: str) -> tuple[Ints, Ints, Ints]:
        """The existing codes, ascending; the prompts with a code, and the index of each one's code."""
        if name not in self._codes or self._codes[name][0] != len(self.prompts):
            codes = self.components.codes(name, self._described.from_end)
            prompt, place = np.nonzero(codes >= 0)
            unique, numbers = np.unique(codes[prompt, place], return_inverse=True)
            self._codes[name] = len(self.prompts), (unique, prompt, numbers.ravel())
        return self._codes[name][1]


@dataclass
class _Rows:
    """The posterior of the R row effects.

    Args:
        with_prompts: (s, R) covariance of f at the prompts and the rows.
    """

    mean: Floats
    covariance: Floats
    with_prompts: GrowingMatrix

    @classmethod
    def of(cls, table: AnswerTable, variances: Variances, posterior: _Posterior) -> _Rows:
        precision = table.row_precision(variances)
        given = -(table.counts / precision).T / variances.noise
        with_prompts = posterior.covariance @ given.T
        mean = table.row_sums / variances.noise / precision + given @ posterior.mean
        return cls(mean, np.diag(1 / precision) + given @ with_prompts, GrowingMatrix(with_prompts, columns=False))


class GrowingMatrix:
    """A matrix or vector to which rows, and columns, are added without copying it each time."""

    def __init__(self, values: Floats, *, columns: bool = True) -> None:
        self._columns = columns and values.ndim == 2
        self._size = len(values)
        self._room = self._with_room(values, _with_reserve(len(values)))

    @property
    def all(self) -> Floats:
        """View of the used part."""
        return self._room[: self._size, : self._size] if self._columns else self._room[: self._size]

    def append(self, values: Floats, corner: float = 0.0) -> None:
        """Add a row; for a square matrix also as a column."""
        size = self._size
        if size == len(self._room):
            self._room = self._with_room(self.all, _with_reserve(size))
        if self._columns:
            self._room[size, :size] = self._room[:size, size] = values
            self._room[size, size] = corner
        else:
            self._room[size] = values
        self._size += 1

    def _with_room(self, values: Floats, size: int) -> Floats:
        shape = (size, size) if self._columns else (size, *values.shape[1:])
        room = np.empty(shape)
        room[tuple(slice(0, length) for length in values.shape)] = values
        return room


class _GrowingRoot:
    """A lower triangular matrix to which rows are added; below it there is a part of the identity, so that systems are
    solved without copying it."""

    def __init__(self, root: Floats) -> None:
        self._size = len(root)
        self._room = self._with_room(root)

    def solved(self, values: Floats, *, transposed: bool = False) -> Floats:
        """Solve the system like `_solved`."""
        padded = np.zeros((len(self._room), *values.shape[1:]), order="F")
        padded[: self._size] = values
        return _solved(self._room, padded, transposed=transposed)[: self._size]

    def append(self, values: Floats, corner: float) -> None:
        """Add a row, with its diagonal element."""
        size = self._size
        if size == len(self._room):
            self._room = self._with_room(self._room)
        self._room[size, :size] = values
        self._room[size, size] = corner
        self._size += 1

    @staticmethod
    def _with_room(root: Floats) -> Floats:
        room = np.eye(_with_reserve(len(root)))
        room[: len(root), : len(root)] = root
        return room


def _with_reserve(size: int) -> int:
    """Capacity to allocate; until variances are estimated again, the size grows by `CHECKPOINT_GROWTH` at most."""
    return size + size // 4 + 16


def _root(matrix: Floats) -> Floats:
    """Cholesky factor of the matrix, lower triangular."""
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def _solved(root: Floats, values: Floats, *, transposed: bool = False) -> Floats:
    """Solution x of root x = values, for a lower triangular root."""
    from scipy.linalg.lapack import dtrtrs  # 0.3 s, which stages that fit no model need not spend

    solution, singular = dtrtrs(root.T, values, lower=0, trans=0 if transposed else 1)  # in Fortran's order
    if singular:
        raise np.linalg.LinAlgError(f"a root of {len(root)} rows has a zero in row {singular}")
    return np.asarray(solution)


def _sums(groups: Ints, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(groups, values, minlength=size), dtype=np.float64)


def inverse_of_mean(squares: Floats) -> float:
    """1 divided by the mean, or 0 for a component that no prompt has, about which nothing can be learnt."""
    mean = float(squares.mean())
    return 1 / mean if mean > LEAST_VARIANCE else 0.0
