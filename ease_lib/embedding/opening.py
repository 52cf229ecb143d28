"""Open the embedder that a configuration names, with its key from the environment."""

from __future__ import annotations

from dataclasses import replace

from ease_lib.artifacts.store import Store
from ease_lib.config.sections import ENDPOINT_EMBEDDER, EmbeddingConfig, HardwareConfig
from ease_lib.embedding.embedder import Embedder
from ease_lib.embedding.endpoint import DEADLINE_SECONDS, EndpointEmbedder
from ease_lib.embedding.kept import FOLDER, KeptEmbedder
from ease_lib.embedding.models import BFLOAT16, FLOAT32, files_identity, load_embedder
from ease_lib.embedding.models import check_embedder as check_sentence_embedder
from ease_lib.keys import endpoint_key
from ease_lib.machine import computes_in_bfloat16, resolve_device
from ease_lib.notes import Notes
from ease_lib.urls import without_credentials

KEY_VARIABLE = "EASE_EMBEDDER_API_KEY"
TRIAL_DEADLINE_SECONDS = 5.0


def open_embedder(
    config: EmbeddingConfig, hardware: HardwareConfig, *, notes: Notes, store: Store | None = None
) -> Embedder:
    """`openai:MODEL` behind an endpoint, or a sentence-transformers model.

    Args:
        store: the run's, in which vectors are kept from run to run; None keeps none.

    Raises:
        ConfigError: when there is no such sentence-transformers model or device within reach.
    """
    identity = embedder_identity(config)
    if not config.embedder.startswith(ENDPOINT_EMBEDDER):
        hardware = replace(hardware, device=resolve_device(hardware.device))
        if (precision := _precision(hardware)) != FLOAT32:
            identity["precision"] = precision
    notes.embedder = {"name": config.embedder, **identity}
    if store is None:
        return _opened(config, hardware)
    decided = {"name": config.embedder, "device": hardware.device, **identity}
    return KeptEmbedder(config.embedder, decided, store.below(FOLDER), notes, lambda: _opened(config, hardware))


def _precision(hardware: HardwareConfig) -> str:
    """Precision in which the embedder computes: `auto` is bfloat16 on GPUs, and on CPUs that have instructions for it.

    Others compute in it several times more slowly. That is not measured at start: two attempts, or two shards, on one
    machine would differ by chance.
    """
    if hardware.embedder_precision != "auto":
        return hardware.embedder_precision
    return BFLOAT16 if hardware.device == "cuda" or computes_in_bfloat16() else FLOAT32


def embedder_identity(config: EmbeddingConfig) -> dict[str, str]:
    """Identity of an embedder among others of that name. An endpoint tells nothing about its weights."""
    if config.embedder.startswith(ENDPOINT_EMBEDDER):
        return {"endpoint": without_credentials(config.embedder_base_url)}
    return dict(files_identity(config.embedder))


def _opened(config: EmbeddingConfig, hardware: HardwareConfig) -> Embedder:
    if config.embedder.startswith(ENDPOINT_EMBEDDER):
        return _endpoint(config, DEADLINE_SECONDS)
    return load_embedder(config.embedder, hardware.device, _precision(hardware))


def check_embedder(config: EmbeddingConfig, deadline_seconds: float = TRIAL_DEADLINE_SECONDS) -> None:
    """Ask an endpoint for one short embedding, retried for a few seconds; look for a model without loading its weights.

    Raises:
        ConfigError, EndpointError: when the embedder cannot be used.
    """
    if config.embedder.startswith(ENDPOINT_EMBEDDER):
        _endpoint(config, deadline_seconds).embed(["Input: 1\nOutput: 1"])
    else:
        check_sentence_embedder(config.embedder)


def _endpoint(config: EmbeddingConfig, deadline_seconds: float) -> EndpointEmbedder:
    key = endpoint_key(config.embedder_base_url, KEY_VARIABLE)
    return EndpointEmbedder(
        config.embedder, base_url=config.embedder_base_url, key=key, deadline_seconds=deadline_seconds
    )
