"""A surrogate of single answers: how rightly a sequence answers a validation row, from which sequence and which row.

    y(E, x) = mean + r(x) + f(E) + noise            f = sum of the components below, r(x): how easy the row is

The paper's surrogate learns the mean of an evaluation. Here every answer counts for itself, so evaluations may be of
different rows and of few of them, and what makes rows easy or hard is told apart from what makes sequences good. f is a
Gaussian process whose kernel is a sum of linear ones (a variance component each):

    length, none            how many exemplars; whether there are any
    instruction             which one stands before them
    exemplar, text, label   which exemplars there are: each one's own effect, what follows from its embedding, and from
                            its output where outputs are classes; wherever it stands, weighted by how late it stands,
                            and for labels also as a share of all and in the last place
    coverage                how many classes are shown
    pair                    which exemplar stands before which other one
    own                     what no component explains: the sequence's own effect

Their variances, those of rows and of the noise are estimated by maximising the marginal likelihood (the MM algorithm of
Zhou, Hu, Qiao & Sun, 2019, J. Comput. Graph. Stat. 28(2), for the components of f, EM for the two others), so the data
say which of them matter: where sequences differ by chance alone all of it becomes `own`, and the posterior is that of a
mean shrunk to the population's. Everything is closed form; with s sequences a fit takes O(s^3), whatever the number of
answers, because rows are eliminated first.

The posterior mean and variance of f are those of a score on new rows: row effects are a sample like the sequences are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from ease_lib.search.candidates.prompts import Prompt, Prompts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEAN_VARIANCE = 0.05
"""Prior variance of the mean of all answers about the one observed."""
TEXT_DIMENSIONS = 32
"""Principal components of the embeddings."""
MOST_SEQUENCES = 800
"""Sequences that a model is fitted to at most: a fit takes the cube of their number."""
PRIOR_ANSWERS = 4.0
"""Answers of the mean of all, by which the mean of few answers is shrunk before sequences are ranked by it."""
LEAST_VARIANCE = 1e-7
LEAST_OWN, LEAST_OWN_SHARE = 0.001, 0.3
"""Of the variance that is the sequences' own, and as a share of what the components explain: from few answers it would
be estimated as nothing, and the model believed more than sequences' own answers (CONTRIBUTING.md, Decisions)."""
ROUNDS = 15
"""Of the estimation of variances."""


Answered = tuple[Prompt, Sequence[int], Sequence[float | None]]
"""A prompt, rows that it was asked, and their scores."""


class Answers:
    """Which prompt answered which row, and how rightly.

    Prompts are numbered in the order they come first.
    """

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.sums: list[float] = []
        """Of the scores of each prompt."""
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
        """Rows that it was asked, in order; refused ones too."""
        number = self._numbers.get(prompt)
        return [] if number is None else self._rows_of[number]

    def all_right(self, prompt: Prompt, least: int) -> bool:
        """Whether it was asked so many rows at least, and answered every one rightly."""
        number = self._numbers[prompt]
        asked = len(self._rows_of[number])
        return asked >= least and self.sums[number] >= asked - 1e-9

    def by_prompt(self) -> Iterator[tuple[Prompt, list[int], list[float | None]]]:
        """Every prompt with the rows that it was asked, and their scores."""
        yield from zip(self.prompts, self._rows_of, self._scores_of, strict=True)

    def table(self, answers: int | None = None) -> tuple[Ints, Ints, Floats]:
        """Prompt, row and score of the first so many answers, or of all."""
        part = slice(answers)
        whole = (np.array(self._prompt[part], dtype=np.int64), np.array(self._row[part], dtype=np.int64))
        return *whole, np.array(self._score[part], dtype=np.float64)

    def __len__(self) -> int:
        return len(self._score)


@dataclass(frozen=True, kw_only=True)
class Features:
    """What the components of a sequence are made from.

    Args:
        k: longest sequence.
        pool: (n, d) embeddings of the exemplars.
        labels: (n,) class of each exemplar's output; None where outputs are no classes.
        instructions: how many there are.
        left_out: components that are not used, for ablations.
    """

    k: int
    pool: NDArray[np.floating]
    labels: Ints | None = None
    instructions: int = 1
    left_out: Collection[str] = ()

    @property
    def n(self) -> int:
        return len(self.pool)

    @cached_property
    def classes(self) -> int:
        return 0 if self.labels is None else int(self.labels.max()) + 1

    def without_components(self) -> Features:
        """For a model that knows of no sequence but by its own answers."""
        names = [*(f"{kind} {name}" for kind, name in self.placed), *self.others]
        return replace(self, left_out=names)

    @cached_property
    def bases(self) -> dict[str, sparse.csr_matrix]:
        """(n, p) by name: how an exemplar enters the components."""
        bases = {"exemplar": sparse.identity(self.n, format="csr"), "text": sparse.csr_matrix(_principal(self.pool))}
        if self.labels is not None:
            ones = np.ones(self.n)
            bases["label"] = sparse.csr_matrix((ones, (np.arange(self.n), self.labels)), shape=(self.n, self.classes))
        return bases

    @cached_property
    def placed(self) -> list[tuple[str, str]]:
        """Components by weight of a place and basis."""
        kinds = [
            *(("present", name) for name in ("exemplar", "text", "label")),
            *(("late", name) for name in ("exemplar", "text", "label")),
            *(("share", "label"), ("last", "label")),
        ]
        return [(kind, name) for kind, name in kinds if name in self.bases and f"{kind} {name}" not in self.left_out]

    @cached_property
    def others(self) -> list[str]:
        names = ["length", "none", "pair"]
        names += ["coverage"] if self.classes else []
        names += ["instruction"] if self.instructions > 1 else []
        return [name for name in names if name not in self.left_out]

    @cached_property
    def place_weights(self) -> dict[str, Floats]:
        """By kind: (k + 1, k) weight of the j-th exemplar from the end of a sequence of each length."""
        weights = {kind: np.zeros((self.k + 1, self.k)) for kind in ("present", "late", "share", "last")}
        for length in range(1, self.k + 1):
            late = 1 / np.arange(1, length + 1)
            weights["present"][length, :length] = 1
            weights["late"][length, :length] = late - late.mean()
            weights["share"][length, :length] = 1 / length
            weights["last"][length, 0] = 1
        return weights

    def pairs(self, prompts: Prompts) -> tuple[Ints, Ints]:
        """Numbers of prompts, and codes of which exemplar stands before which other one there."""
        found = [(numbers, earlier * self.n + later) for numbers, earlier, later in prompts.ordered_pairs()]
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([numbers for numbers, _ in found]), np.concatenate([codes for _, codes in found])

    def coverage(self, prompts: Prompts) -> Ints:
        """(b,) classes that are shown."""
        assert self.labels is not None
        shown = np.zeros((len(prompts), self.classes + 1), dtype=bool)
        labels = np.where(prompts.present, self.labels[prompts.sequences], self.classes)
        for place in range(labels.shape[1]):
            shown[np.arange(len(prompts)), labels[:, place]] = True
        return np.asarray(shown[:, : self.classes].sum(axis=1), dtype=np.int64)

    def of(self, prompts: Prompts, seen_pairs: Ints) -> dict[str, sparse.csr_matrix]:
        """(b, p) features of each component.

        Args:
            seen_pairs: codes, ascending; other pairs have no feature.
        """
        features = {}
        for kind, name in self.placed:
            features[f"{kind} {name}"] = (
                self._occurrences(prompts, self.place_weights[kind]) @ self.bases[name]
            ).tocsr()
        makers = {
            "length": lambda: _one_hot(np.maximum(prompts.lengths - 1, 0), self.k, where=prompts.lengths > 0),
            "none": lambda: _one_hot(np.zeros(len(prompts), np.int64), 1, where=prompts.lengths == 0),
            "pair": lambda: self._seen(prompts, seen_pairs),
            "coverage": lambda: _one_hot(self.coverage(prompts), self.classes + 1),
            "instruction": lambda: _one_hot(prompts.instructions, self.instructions),
        }
        return features | {name: makers[name]() for name in self.others}

    def _occurrences(self, prompts: Prompts, weights: Floats) -> sparse.csr_matrix:
        """(b, n) weight of each exemplar, by length and place."""
        number, place = np.nonzero(prompts.present)
        values = weights[prompts.lengths[number], prompts.from_end[number, place]]
        return sparse.csr_matrix((values, (number, prompts.sequences[number, place])), shape=(len(prompts), self.n))

    def _seen(self, prompts: Prompts, seen: Ints) -> sparse.csr_matrix:
        numbers, codes = self.pairs(prompts)
        places, known = _looked_up(codes, seen)
        ones = np.ones(int(known.sum()))
        return sparse.csr_matrix((ones, (numbers[known], places[known])), shape=(len(prompts), len(seen)))


@dataclass(kw_only=True)
class Variances:
    """Of the components of f by name (each of features of mean square 1), of rows, and of the noise."""

    components: dict[str, float]
    rows: float
    noise: float

    @property
    def sequences(self) -> float:
        """Of f."""
        return sum(self.components.values())


@dataclass(frozen=True, kw_only=True)
class Function:
    """One f, the posterior mean or a sample of it: the value of any prompt, by tables.

    Args:
        places: (k + 1, k, n) by length, place from the end, and exemplar.
        pair: of `seen_pairs`; others count nothing.
        own: (s,) effects of the prompts that were observed; of any other it is not known and not counted.
    """

    features: Features
    observed: Prompts
    seen_pairs: Ints
    mean: float
    places: Floats
    length: Floats
    instruction: Floats
    coverage: Floats
    pair: Floats
    own: Floats

    def __call__(self, prompts: Prompts) -> Floats:
        """(b,) values."""
        positions = np.where(prompts.present, prompts.sequences, 0)
        placed = self.places[prompts.lengths[:, None], prompts.from_end, positions]
        values = self.mean + self.length[prompts.lengths] + np.where(prompts.present, placed, 0.0).sum(axis=1)
        values += self.instruction[prompts.instructions]
        if len(self.coverage):
            values += self.coverage[self.features.coverage(prompts)]
        if len(self.pair):
            numbers, codes = self.features.pairs(prompts)
            places, known = _looked_up(codes, self.seen_pairs)
            np.add.at(values, numbers[known], self.pair[places[known]])
        return np.asarray(values)

    def at_observed(self) -> Floats:
        """(s,) values of the prompts that were observed."""
        return self(self.observed) + self.own

    @property
    def exemplar_effects(self) -> Floats:
        """(n,) what an exemplar adds to the score, over all lengths and places, apart from pairs and classes shown."""
        used = [self.places[length, place] for length in range(1, len(self.length)) for place in range(length)]
        return np.asarray(np.mean(used, axis=0))


class AnswerModel:
    """The posterior of f, given answers.

    Args:
        prompts: (s,) that were answered.
        table: place of the prompt, row and score of each answer.
        rows: validation rows there are.
        variances: estimated before; None estimates them from these answers.
        level: mean of all answers, and its variance, where these are a choice of them; None takes that of these.

    Attributes:
        mean, covariance: (s,) and (s, s) of f at the prompts, as scores in [0, 1].
    """

    def __init__(
        self,
        features: Features,
        prompts: Sequence[Prompt],
        table: tuple[Ints, Ints, Floats],
        rows: int,
        variances: Variances | None = None,
        level: tuple[float, float] | None = None,
    ) -> None:
        prompt, row, score = table
        self.features = features
        self.prompts = tuple(prompts)
        self._prompts = Prompts.of(prompts, features.k)
        self._seen_pairs = np.unique(features.pairs(self._prompts)[1])
        self._phi = features.of(self._prompts, self._seen_pairs)
        self._scale = {name: _inverse_of_mean_square(phi) for name, phi in self._phi.items()}
        self._grams = {name: (phi @ phi.T).toarray() * self._scale[name] for name, phi in self._phi.items()}
        self._grams["own"] = np.eye(len(prompts))
        self._level, self._level_variance = level or (float(score.mean()), MEAN_VARIANCE)
        self._least_noise = _variance_of_pseudo_answers(self._level, len(score))
        self._data = _Table.of(prompt, row, score - self._level, len(prompts), rows)
        self.variances = variances or self._estimated()
        self._solve(self.variances)

    def _estimated(self) -> Variances:
        total = max(self._data.variance, 1e-3)
        share = 0.1 * total / max(1, len(self._phi))
        variances = Variances(
            components={name: share if scale else LEAST_VARIANCE for name, scale in self._scale.items()}
            | {"own": 0.05 * total},
            rows=0.3 * total,
            noise=0.6 * total,
        )
        for _ in range(ROUNDS):
            self._solve(variances)
            variances = self._improved(variances)
        return variances

    def _solve(self, variances: Variances) -> None:
        """Posterior of f: with K its prior and W the precision that answers give it once rows are eliminated,
        (K + W^-1)^-1 = L (I + L^T K L)^-1 L^T, W = L L^T.
        """
        self._precision, target = self._data.without_rows(variances)
        size = len(target)
        jitter = 1e-9 * float(np.trace(self._precision)) / size
        self._root = np.linalg.cholesky(self._precision + jitter * np.eye(size))
        prior = self._level_variance + sum(variances.components[name] * gram for name, gram in self._grams.items())
        inner = cho_factor(np.eye(size) + self._root.T @ prior @ self._root)
        self._inverse = self._root @ cho_solve(inner, self._root.T)
        self._weights = self._root @ cho_solve(inner, solve_triangular(self._root, target, lower=True))
        self.mean = self._level + prior @ self._weights
        self.covariance = prior - prior @ self._inverse @ prior

    def _improved(self, variances: Variances) -> Variances:
        components = {}
        for name, gram in self._grams.items():
            fitted, expected = self._weights @ gram @ self._weights, float(np.sum(self._inverse * gram))
            step = np.sqrt(max(fitted, 1e-12) / max(expected, 1e-12))
            components[name] = max(float(variances.components[name] * step), LEAST_VARIANCE)
        explained = sum(variance for name, variance in components.items() if name != "own")
        components["own"] = max(components["own"], LEAST_OWN_SHARE * explained, LEAST_OWN)
        rows, noise = self._data.residual_variances(variances, self.mean - self._level, self.covariance)
        return Variances(components=components, rows=rows, noise=max(noise, self._least_noise))

    def predict(self, prompts: Sequence[Prompt]) -> tuple[Floats, Floats]:
        """(b,) mean and variance of f at prompts that were not observed."""
        rows = Prompts.of(prompts, self.features.k)
        cross = np.full((len(rows), len(self._prompts)), self._level_variance)
        prior = np.full(len(rows), self._level_variance + self.variances.components["own"])
        for name, phi in self.features.of(rows, self._seen_pairs).items():
            factor = self.variances.components[name] * self._scale[name]
            cross += factor * (phi @ self._phi[name].T).toarray()
            squares = np.asarray(phi.multiply(phi).sum(axis=1)).ravel()
            prior += factor * (rows.lengths * (rows.lengths - 1) / 2 if name == "pair" else squares)
        variance = prior - np.einsum("bs,st,bt->b", cross, self._inverse, cross)
        return self._level + cross @ self._weights, np.maximum(variance, LEAST_VARIANCE)

    def posterior_mean(self) -> Function:
        return self._function({}, self._level, self._weights, np.zeros(len(self._weights)))

    def sample(self, generator: np.random.Generator) -> Function:
        """A draw from the posterior (Matheron's rule: a draw from the prior, corrected by what it gets wrong)."""
        level = generator.normal() * self._level_variance**0.5
        drawn, values = {}, np.full(len(self._weights), level)
        for name, phi in self._phi.items():
            spread = (self.variances.components[name] * self._scale[name]) ** 0.5
            drawn[name] = spread * generator.normal(size=phi.shape[1])
            values += phi @ drawn[name]
        own = generator.normal(size=len(values)) * self.variances.components["own"] ** 0.5
        noise = solve_triangular(self._root, generator.normal(size=len(values)), lower=True, trans="T")
        weights = self._weights - self._inverse @ (values + own + noise)
        return self._function(drawn, self._level + level, weights, own)

    def _function(self, drawn: Mapping[str, Floats], level: float, weights: Floats, own: Floats) -> Function:
        features = self.features
        found = {
            name: drawn.get(name, 0.0) + self.variances.components[name] * self._scale[name] * (phi.T @ weights)
            for name, phi in self._phi.items()
        }
        places = np.zeros((features.k + 1, features.k, features.n))
        for kind, name in features.placed:
            effect = features.bases[name] @ found[f"{kind} {name}"]
            places += features.place_weights[kind][:, :, None] * effect
        return Function(
            features=features,
            observed=self._prompts,
            seen_pairs=self._seen_pairs,
            mean=level + self._level_variance * float(weights.sum()),
            places=places,
            length=np.append(found.get("none", np.zeros(1)), found.get("length", np.zeros(features.k))),
            instruction=found.get("instruction", np.zeros(features.instructions)),
            coverage=found.get("coverage", np.zeros(0)),
            pair=found.get("pair", np.zeros(0)),
            own=own + self.variances.components["own"] * weights,
        )


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Answers, less their mean, by prompt and row.

    Args:
        counts: (s, R) answers; prompt_sums, row_sums: of their scores.
    """

    prompt: Ints
    row: Ints
    score: Floats
    counts: Floats
    prompt_sums: Floats
    row_sums: Floats
    variance: float = field(default=0.0)

    @classmethod
    def of(cls, prompt: Ints, row: Ints, score: Floats, prompts: int, rows: int) -> _Table:
        counts = np.zeros((prompts, rows))
        np.add.at(counts, (prompt, row), 1.0)
        return cls(
            prompt=prompt,
            row=row,
            score=score,
            counts=counts,
            prompt_sums=_sums(prompt, score, prompts),
            row_sums=_sums(row, score, rows),
            variance=float(score.var()),
        )

    def without_rows(self, variances: Variances) -> tuple[Floats, Floats]:
        """(s, s) precision of f from the answers alone, and (s,) that times what they say of it, rows eliminated."""
        shared = self.counts / self._row_precision(variances)
        noise = variances.noise
        precision = np.diag(self.counts.sum(axis=1)) / noise - shared @ self.counts.T / noise**2
        return precision, self.prompt_sums / noise - shared @ self.row_sums / noise**2

    def residual_variances(self, variances: Variances, mean: Floats, covariance: Floats) -> tuple[float, float]:
        """Better variances of rows and of the noise (an EM step), with f as it is now."""
        precision = self._row_precision(variances)
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

    def _row_precision(self, variances: Variances) -> Floats:
        return np.asarray(self.counts.sum(axis=0) / variances.noise + 1 / variances.rows)


def fitted_model(
    features: Features,
    answers: Answers,
    rows: int,
    variances: Variances | None = None,
    *,
    first: int | None = None,
    always: Collection[Prompt] = (),
) -> AnswerModel:
    """The model of all answers, or of the first so many.

    Of more than `MOST_SEQUENCES` prompts it is fitted to those that are named in `always`, to the most promising ones
    by their shrunk means, three quarters of all, and to some that are spread evenly over the others in the order in
    which they were first asked. A choice by score would make everything look better than it is, so variances are those
    of prompts that are spread evenly over all of them, and the level is that of all answers.
    """
    prompt, row, score = table = answers.table(first)
    there = np.flatnonzero(np.bincount(prompt, minlength=len(answers.prompts)))

    def model(numbers: Ints, variances: Variances | None, level: tuple[float, float] | None = None) -> AnswerModel:
        places = np.full(len(answers.prompts), -1)
        places[numbers] = np.arange(len(numbers))
        known = places[prompt] >= 0
        of_them = places[prompt[known]], row[known], score[known]
        return AnswerModel(features, [answers.prompts[number] for number in numbers], of_them, rows, variances, level)

    if len(there) <= MOST_SEQUENCES:
        return model(there, variances)
    named = {number for number in there.tolist() if answers.prompts[number] in always}
    variances = variances or model(_spread(there, MOST_SEQUENCES), None).variances
    level = float(score.mean()), float(score.var()) / len(score)
    return model(_promising(there, table, named), variances, level)


def _promising(there: Ints, table: tuple[Ints, Ints, Floats], named: Collection[int]) -> Ints:
    """Those of the prompts that a model is fitted to, as `fitted_model` says; all ascending."""
    prompt, _, score = table
    counts, sums = np.bincount(prompt), np.bincount(prompt, score)
    shrunk = (sums[there] + PRIOR_ANSWERS * score.mean()) / (counts[there] + PRIOR_ANSWERS)
    order = np.lexsort((-shrunk, [number not in named for number in there.tolist()]))
    best, others = np.split(there[order], [MOST_SEQUENCES * 3 // 4])
    return np.sort(np.concatenate([best, _spread(np.sort(others), MOST_SEQUENCES - len(best))]))


def _spread(numbers: Ints, count: int) -> Ints:
    """So many of them, evenly."""
    return numbers[np.linspace(0, len(numbers) - 1, count).round().astype(np.int64)]


def _principal(pool: NDArray[np.floating]) -> Floats:
    """(n, p) principal components of the embeddings, of mean square norm 1."""
    centred = pool.astype(np.float64) - pool.mean(axis=0)
    count, dimensions = centred.shape
    products = centred @ centred.T if count < dimensions else centred.T @ centred
    first = max(0, len(products) - TEXT_DIMENSIONS)
    sizes, directions = eigh(products, subset_by_index=(first, len(products) - 1))
    components = directions * np.sqrt(np.maximum(sizes, 0)) if count < dimensions else centred @ directions
    return np.asarray(components / max(float(np.sqrt(np.mean(np.sum(components**2, axis=1)))), 1e-9))


def _looked_up(codes: Ints, seen: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Place of each code among those seen, and whether it is there."""
    if not len(seen):
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), dtype=bool)
    places = np.minimum(np.searchsorted(seen, codes), len(seen) - 1)
    return places, seen[places] == codes


def _variance_of_pseudo_answers(mean: float, answers: int) -> float:
    """What two right and two wrong answers more would add to the variance (Agresti & Coull, 1998, Am. Stat. 52(2)):
    twenty wrong answers and no right one do not prove that there are none."""
    return 4 * (0.25 + (mean - 0.5) ** 2) / (answers + 4)


def _sums(groups: Ints, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(groups, values, minlength=size), dtype=np.float64)


def _one_hot(values: NDArray[np.integer], size: int, where: NDArray[np.bool_] | None = None) -> sparse.csr_matrix:
    ones = np.ones(len(values)) if where is None else where.astype(np.float64)
    return sparse.csr_matrix((ones, (np.arange(len(values)), values)), shape=(len(values), size))


def _inverse_of_mean_square(phi: sparse.csr_matrix) -> float:
    """Of the norms of the rows; 0 for a component that no prompt has, of which nothing can be learnt."""
    mean = float(phi.multiply(phi).sum() / phi.shape[0])
    return 1 / mean if mean > LEAST_VARIANCE else 0.0
