"""The representations of an exemplar sequence that the surrogate reads, from sentence embeddings h.

Three representations, chosen by name:

- `sequence` (the paper's): the whole text of the sequence, embedded on the fly. Embedders cut text at their maximum
  length without a word; the cut sequences are counted.
- `average` (the paper's AvgEmb ablation): the mean of the exemplars' embeddings, blind to order.
- `positional` (ours, the default): from the precomputed embeddings e_p of the exemplars in position p = 1..k,

      mean_p e_p,   mean_p tau_p e_p  with tau from -1 to 1,   e_k

  concatenated, and the same three over the embeddings of the outputs alone. It knows the order, needs no embedder
  calls, and cuts no sequence, only single exemplars that are longer than the embedder reads. A pool of n < d exemplars
  spans at most n dimensions, so its vectors are first rotated, isometrically, into a random basis of n.

Sequences are rows of pool positions, shorter ones padded (`candidates/sampling.py`). If lengths differ, or if there are
instructions, `average` and `positional` are extended by the length or the instruction's embedding; `sequence` embeds
the whole text anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from ease_lib.arrays import FloatArray, IntArray
from ease_lib.embedding.embedder import Embedder
from ease_lib.search.candidates.sampling import PADDING, as_tuples, lengths_of
from ease_lib.seeding import rng


class Representation(Protocol):
    """Turns sequences of pool positions, (b, k), into features, (b, d).

    `instructions`: (b,) positions among the instructions; None is the empty one throughout.
    """

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray: ...


class AverageRepresentation:
    """The mean of the exemplars' embeddings."""

    def __init__(self, exemplars: FloatArray) -> None:
        self._exemplars = exemplars

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        return _weighted_sum(self._exemplars, sequences, _shares(sequences))


class PositionalRepresentation:
    """Mean, linear position moment and last exemplar, over exemplars and over outputs alone: (b, 6 min(d, n))."""

    def __init__(self, exemplars: FloatArray, outputs: FloatArray) -> None:
        self._parts = (in_fewer_dimensions(exemplars), in_fewer_dimensions(outputs))

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        shares = _shares(sequences)
        lengths = lengths_of(sequences)
        last = sequences[np.arange(len(sequences)), lengths - 1]
        blocks = []
        for part in self._parts:
            blocks += [
                _weighted_sum(part, sequences, shares),
                _weighted_sum(part, sequences, shares * _places(lengths, sequences.shape[1])),
                part[last],
            ]
        return np.concatenate(blocks, axis=1)


class WithLength:
    """The number of exemplars next to a representation, for sequences of different lengths."""

    def __init__(self, representation: Representation) -> None:
        self._representation = representation

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        lengths = lengths_of(sequences).astype(np.float32)[:, None]
        return np.concatenate([self._representation(sequences, instructions), lengths], axis=1)


class WithInstruction:
    """The instruction's embedding next to a representation.

    Args:
        instructions: (p, d) embeddings; row 0 is that of the empty instruction.
    """

    def __init__(self, representation: Representation, instructions: FloatArray) -> None:
        self._representation = representation
        self._vectors = in_fewer_dimensions(instructions)

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        chosen = np.zeros(len(sequences), dtype=np.int64) if instructions is None else instructions
        return np.concatenate([self._representation(sequences), self._vectors[chosen]], axis=1)


class SequenceRepresentation:
    """The embedding of the whole text, instruction and exemplars, as in the paper; counts what the embedder cuts.

    MPNet reads 384 tokens here, as sentence-transformers has it, and 512 in the authors' code.

    Args:
        prefixes: what each instruction puts before the exemplars; the first is empty.
    """

    def __init__(self, embedder: Embedder, exemplar_texts: Sequence[str], prefixes: Sequence[str] = ("",)) -> None:
        self._embedder = embedder
        self._texts = exemplar_texts
        self._prefixes = prefixes
        self._known: dict[tuple[int, tuple[int, ...]], FloatArray] = {}
        self.embedded = 0
        self.truncated = 0

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        chosen = [0] * len(sequences) if instructions is None else instructions.tolist()
        keys = list(zip(chosen, as_tuples(sequences), strict=True))
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            texts = [
                self._prefixes[instruction] + "\n\n".join(self._texts[position] for position in sequence)
                for instruction, sequence in new
            ]
            self.embedded += len(texts)
            self.truncated += self._embedder.count_truncated(texts)
            self._known.update(zip(new, self._embedder.embed(texts), strict=True))
        return np.stack([self._known[key] for key in keys])


def precomputed_representation(
    name: str, exemplars: FloatArray, outputs: FloatArray, instructions: FloatArray, *, varies_length: bool
) -> Representation:
    """The features of `average` or, for every other name, `positional`, with what varies next to them.

    Args:
        exemplars, outputs: (n, d) embeddings of the pool and of its outputs alone.
        instructions: (p, d) embeddings, row 0 that of the empty one; no rows where there is only that.
    """
    representation: Representation = PositionalRepresentation(exemplars, outputs)
    if name == "average":
        representation = AverageRepresentation(exemplars)
    if varies_length:
        representation = WithLength(representation)
    return WithInstruction(representation, instructions) if len(instructions) else representation


def in_fewer_dimensions(vectors: FloatArray) -> FloatArray:
    """The same n vectors in min(d, n) dimensions: all inner products are kept.

    The basis is random, so that every dimension mixes all directions as those of the embedder do; standardising single
    dimensions then favours none of them.
    """
    n, dimension = vectors.shape
    if n >= dimension:
        return vectors
    directions, sizes, _ = np.linalg.svd(vectors.astype(np.float64), full_matrices=False)
    signs = np.sign(
        directions[np.abs(directions).argmax(axis=0), np.arange(n)]
    )  # a decomposition's signs are arbitrary
    basis, _ = np.linalg.qr(rng(0, "representation", "basis").normal(size=(n, n)))
    return cast(FloatArray, ((directions * signs * sizes) @ basis).astype(np.float32))


def _shares(sequences: IntArray) -> FloatArray:
    """(b, k) weight 1 / length on every exemplar, 0 on padding."""
    present = sequences != PADDING
    shares: FloatArray = (present / present.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def _places(lengths: IntArray, k: int) -> FloatArray:
    """(b, k) tau: evenly spaced from -1 at the first to 1 at the last exemplar; 1 where there is only one."""
    steps = np.maximum(lengths - 1, 1)[:, None]
    places = np.where(lengths[:, None] == 1, 1.0, 2 * np.arange(k) / steps - 1)
    return places.astype(np.float32)


def _weighted_sum(vectors: FloatArray, sequences: IntArray, weights: FloatArray) -> FloatArray:
    """sum_p w_p e_p, one position at a time: memory stays (b, d) whatever k is."""
    total = np.zeros((len(sequences), vectors.shape[1]), dtype=np.float32)
    for position in range(sequences.shape[1]):
        total += weights[:, position, None] * vectors[sequences[:, position]]
    return total
