"""Value of a sequence as a sum of components: the prior of the model of answers.

    length, none            the number of exemplars; whether there are any
    instruction             the instruction before them
    exemplar, text, label   the effect of each exemplar: its own, that of its embedding, and that of its output if
                            outputs are classes; at any place, weighted by how late the place is, and in the last place;
                            for labels also by their share, and in the first place
    coverage                the number of classes shown
    pattern                 the classes shown, in their order
    pair                    an exemplar before another one
    set                     the set of exemplars: other orders of a sequence share its effect
    own                     the effect of the sequence alone, which no other component explains

Each component has weights with an independent normal prior, and features that tell how much of each weight a sequence
has. Its kernel, the covariance of two sequences, is the product of their features. Kernels are computed from the places
of the exemplars in both sequences, so one more sequence adds a row to each kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import Floats, Ints
from ease_lib.search.candidates.prompts import Prompts

TEXT_DIMENSIONS = 32
"""Number of principal components of the embeddings."""
PLACED = (
    *(("present", name) for name in ("exemplar", "text", "label")),
    *(("late", name) for name in ("exemplar", "text", "label")),
    *(("last", "exemplar"), ("last", "label"), ("first", "label"), ("share", "label")),
)
KINDS = ("present", "late", "share", "first", "last")
CODED = ("pair", "set", "pattern")
NUMBERS_PER_BLOCK = 2**21
"""Number of comparisons of exemplars held in memory at once."""


@dataclass(frozen=True, kw_only=True)
class Components:
    """The components of a task's sequences.

    Args:
        k: longest sequence.
        pool: (n, d) embeddings of the exemplars; d = 0 if there are none.
        labels: (n,) class of each exemplar's output; None if outputs are not classes.
        instructions: how many there are.
        left_out: components that are not used.
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

    def without_components(self) -> Components:
        """Components for a model that knows a sequence only by its own answers."""
        return replace(self, left_out=self.names)

    @cached_property
    def names(self) -> list[str]:
        """Names of all components in use except `own`."""
        known = {"exemplar": True, "text": bool(self.pool.shape[1]), "label": bool(self.classes)}
        names = [f"{kind} {base}" for kind, base in PLACED if known[base]]
        names += ["length", "none", "pair", "set"]
        names += ["coverage", "pattern"] if self.classes else []
        names += ["instruction"] if self.instructions > 1 else []
        return [name for name in names if name not in self.left_out]

    @cached_property
    def placed(self) -> list[tuple[str, str]]:
        """Components by the weight of a place and the features of the exemplar there."""
        return [(kind, base) for kind, base in PLACED if f"{kind} {base}" in self.names]

    @cached_property
    def bases(self) -> dict[str, Floats]:
        """(n, p) features of each exemplar, by name; not for `exemplar`, whose features would be the identity."""
        bases = {"text": _principal(self.pool)} if self.pool.shape[1] else {}
        if self.labels is not None:
            bases["label"] = np.eye(self.classes)[self.labels]
        return bases

    @cached_property
    def place_weights(self) -> dict[str, Floats]:
        """Weights by kind: (k + 1, k), of the j-th exemplar from the end of a sequence of each length."""
        weights = {kind: np.zeros((self.k + 1, self.k)) for kind in KINDS}
        for length in range(1, self.k + 1):
            late = 1 / np.arange(1, length + 1)
            weights["present"][length, :length] = 1
            weights["late"][length, :length] = late - late.mean()
            weights["share"][length, :length] = 1 / length
            weights["first"][length, length - 1] = 1
            weights["last"][length, 0] = 1
        return weights

    def described(self, prompts: Prompts) -> Described:
        """Descriptions of prompts from which their kernels are computed."""
        return Described.of(self, prompts)

    def kernels(self, first: Described, second: Described) -> dict[str, Floats]:
        """(a, b) kernels of two sets of prompts by component, for a weight variance of 1."""
        parts = [
            self._kernels(first[start : start + size], second)
            for size in [max(1, NUMBERS_PER_BLOCK // max(1, len(second) * self.k**2))]
            for start in range(0, len(first), size)
        ]
        if not parts:
            return {name: np.zeros((0, len(second))) for name in self.names}
        return {name: np.concatenate([part[name] for part in parts]) for name in self.names}

    def _kernels(self, first: Described, second: Described) -> dict[str, Floats]:
        used = set(self.names)
        found: dict[str, Floats] = {}
        equal = (first.from_end[:, None, :, None] == second.from_end[None, :, None, :]) & (
            first.from_end[:, None, :, None] >= 0
        )
        for kind, base in self.placed:
            name = f"{kind} {base}"
            if base != "exemplar":
                found[name] = first.sums[name] @ second.sums[name].T
            elif kind == "present":
                found[name] = equal.sum(axis=(2, 3), dtype=np.float64)
            else:
                weights = self.place_weights[kind]
                found[name] = np.einsum(
                    "abij,ai,bj->ab", equal, weights[first.lengths], weights[second.lengths], optimize=True
                )
        if "pair" in used:
            before = np.zeros(equal.shape)
            before[:, :, 1:, 1:] = equal.cumsum(axis=2).cumsum(axis=3)[:, :, :-1, :-1]
            found["pair"] = (equal * before).sum(axis=(2, 3))
        if "set" in used:
            longer = np.maximum(first.lengths[:, None], second.lengths)
            found["set"] = ((equal.sum(axis=(2, 3)) == longer) & (longer > 0)).astype(np.float64)
        for name, values in first.numbers.items():
            found[name] = (values[:, None] == second.numbers[name]).astype(np.float64) * (values >= 0)[:, None]
        return found

    def own_kernels(self, prompts: Described) -> dict[str, Floats]:
        """(a,) kernel of each prompt with itself, by component."""
        lengths = prompts.lengths
        found: dict[str, Floats] = {}
        for kind, base in self.placed:
            name = f"{kind} {base}"
            squares = self.place_weights[kind] ** 2
            found[name] = (prompts.sums[name] ** 2).sum(axis=1) if base != "exemplar" else squares.sum(axis=1)[lengths]
        found["pair"] = lengths * (lengths - 1) / 2
        found["set"] = np.minimum(lengths, 1.0)
        found |= {name: (values >= 0).astype(np.float64) for name, values in prompts.numbers.items()}
        return {name: found[name] for name in self.names}

    def codes(self, name: str, from_end: Ints) -> Ints:
        """(b, m) codes of `pair`, `set` or `pattern`; -1 for none."""
        if name == "pair":
            return pair_codes(from_end, self.n)
        return set_codes(from_end) if name == "set" else self.pattern_codes(from_end)

    def pattern_codes(self, from_end: Ints) -> Ints:
        """(b, 1) codes of the classes in their order; -1 without exemplars."""
        assert self.labels is not None
        labels = np.where(from_end >= 0, self.labels[from_end], -1)
        return np.where(from_end[:, :1] >= 0, sequence_codes(labels)[:, -1:], -1)

    def coverage(self, from_end: Ints) -> Ints:
        """(b,) number of classes shown."""
        assert self.labels is not None
        labels = np.where(from_end >= 0, self.labels[from_end], self.classes)
        shown = np.zeros((len(from_end), self.classes + 1), dtype=bool)
        for place in range(labels.shape[1]):
            shown[np.arange(len(from_end)), labels[:, place]] = True
        return np.asarray(shown[:, : self.classes].sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Described:
    """Descriptions of prompts for the kernels.

    Args:
        from_end: (b, k) exemplars, the last one first; -1 if there is none.
        sums: by placed component: (b, p) what the exemplars bring, weighted by their places.
        numbers: by other component: (b,) which of its weights a prompt has; -1 for none.
    """

    from_end: Ints
    lengths: Ints
    sums: Mapping[str, Floats]
    numbers: Mapping[str, Ints]

    @classmethod
    def of(cls, components: Components, prompts: Prompts) -> Described:
        from_end, lengths = prompts.reversed(), prompts.lengths
        sums = {}
        for kind, base in components.placed:
            if base != "exemplar":
                brought = components.bases[base][from_end] * (from_end >= 0)[:, :, None]
                sums[f"{kind} {base}"] = np.einsum("bj,bjp->bp", components.place_weights[kind][lengths], brought)
        numbers = {
            "length": lengths - 1,
            "none": np.where(lengths == 0, 0, -1),
            "instruction": prompts.instructions.astype(np.int64),
        }
        if components.classes:
            numbers["coverage"] = components.coverage(from_end)
            numbers["pattern"] = components.pattern_codes(from_end)[:, 0]
        used = {name: values for name, values in numbers.items() if name in components.names}
        return cls(from_end=from_end, lengths=lengths, sums=sums, numbers=used)

    def with_more(self, more: Described) -> Described:
        """The sequences described here, followed by others."""
        return Described(
            from_end=np.concatenate([self.from_end, more.from_end]),
            lengths=np.concatenate([self.lengths, more.lengths]),
            sums={name: np.concatenate([values, more.sums[name]]) for name, values in self.sums.items()},
            numbers={name: np.concatenate([values, more.numbers[name]]) for name, values in self.numbers.items()},
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, chosen: slice | Ints) -> Described:
        return Described(
            from_end=self.from_end[chosen],
            lengths=self.lengths[chosen],
            sums={name: values[chosen] for name, values in self.sums.items()},
            numbers={name: values[chosen] for name, values in self.numbers.items()},
        )


@dataclass(frozen=True)
class Coded:
    """Effects by code: of a pair of exemplars, a set of them, or a pattern of classes."""

    codes: Ints
    """Codes in ascending order."""
    effects: Floats

    def __call__(self, codes: Ints) -> Floats:
        """Values for any codes; 0 for codes that are not known."""
        if not len(self.codes):
            return np.zeros(codes.shape)
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[places] == codes, self.effects[places], 0.0)


def pair_codes(from_end: Ints, n: int) -> Ints:
    """(b, k (k - 1) / 2) codes of ordered pairs of exemplars; -1 for no pair."""
    k = from_end.shape[1]
    later, earlier = np.triu_indices(k, 1)
    codes = from_end[:, earlier] * n + from_end[:, later]
    return np.where(from_end[:, earlier] >= 0, codes, -1)


def set_codes(from_end: Ints) -> Ints:
    """(b, 1) codes of the set of exemplars; -1 without any."""
    return np.where(from_end[:, :1] >= 0, sequence_codes(np.sort(from_end, axis=1))[:, -1:], -1)


def sequence_codes(numbers: Ints) -> Ints:
    """(b, k) codes of the first number of each row, the first two, ...; numbers are -1 or more."""
    codes = np.zeros(numbers.shape, dtype=np.int64)
    code = np.zeros(len(numbers), dtype=np.int64)
    for place in range(numbers.shape[1]):
        code = _mixed(code * np.int64(1_000_003) + numbers[:, place] + 2)
        codes[:, place] = code
    return codes


def _mixed(codes: Ints) -> Ints:
    """Hash over 63 bits (as in splitmix64), so that different endings have different codes."""
    x = codes.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _principal(pool: NDArray[np.floating]) -> Floats:
    """(n, p) principal components of the embeddings, of mean square norm 1."""
    from scipy.linalg import eigh  # see `answer_model`

    centred = pool.astype(np.float64) - pool.mean(axis=0)
    count, dimensions = centred.shape
    products = centred @ centred.T if count < dimensions else centred.T @ centred
    first = max(0, len(products) - TEXT_DIMENSIONS)
    sizes, directions = eigh(products, subset_by_index=(first, len(products) - 1))
    components = directions * np.sqrt(np.maximum(sizes, 0)) if count < dimensions else centred @ directions
    return np.asarray(components / max(float(np.sqrt(np.mean(np.sum(components**2, axis=1)))), 1e-9))
