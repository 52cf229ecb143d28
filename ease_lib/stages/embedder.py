"""Open the embedder that a configuration names, with its key from the environment."""

from __future__ import annotations

import os

from ease_lib import observations
from ease_lib.config import ENDPOINT_EMBEDDER, EmbeddingConfig, HardwareConfig
from ease_lib.device import resolve_device
from ease_lib.embedding_endpoint import DEADLINE_SECONDS, EndpointEmbedder
from ease_lib.embeddings import Embedder, load_embedder
from ease_lib.embeddings import check_embedder as check_sentence_embedder
from ease_lib.endpoint_failures import without_credentials

KEY_VARIABLES = ("EASE_EMBEDDER_API_KEY", "OPENAI_API_KEY")
TRIAL_DEADLINE_SECONDS = 5.0


def open_embedder(config: EmbeddingConfig, hardware: HardwareConfig) -> Embedder:
    """`openai:MODEL` behind an endpoint, or a sentence-transformers model.

    Raises:
        ConfigError: when there is no such sentence-transformers model or device within reach.
    """
    if config.embedder.startswith(ENDPOINT_EMBEDDER):
        observations.embedder_used(config.embedder, {"endpoint": without_credentials(config.embedder_base_url)})
        return _endpoint(config, DEADLINE_SECONDS)
    embedder = load_embedder(config.embedder, resolve_device(hardware.device))
    observations.embedder_used(config.embedder, embedder.identity())
    return embedder


def check_embedder(config: EmbeddingConfig) -> None:
    """Ask an endpoint for one short embedding, retried for a few seconds; look for a model without loading its weights.

    Raises:
        ConfigError, EndpointError: when the embedder cannot be used.
    """
    if config.embedder.startswith(ENDPOINT_EMBEDDER):
        _endpoint(config, TRIAL_DEADLINE_SECONDS).embed(["Input: 1\nOutput: 1"])
    else:
        check_sentence_embedder(config.embedder)


def _endpoint(config: EmbeddingConfig, deadline_seconds: float) -> EndpointEmbedder:
    key = next((value for name in KEY_VARIABLES if (value := os.environ.get(name))), "")
    return EndpointEmbedder(
        config.embedder, base_url=config.embedder_base_url, key=key, deadline_seconds=deadline_seconds
    )
