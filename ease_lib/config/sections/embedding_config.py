"""Embedding of texts."""

from __future__ import annotations

from dataclasses import dataclass

from ease_lib.config.sections.declaration import Section, param


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(Section):
    """The sentence-embedding model h."""

    embedder: str = param(
        "bundled-minilm",
        "bundled-minilm, a sentence-transformers name or path (paper: all-mpnet-base-v2), or openai:MODEL.",
        form=True,
    )
    embedder_base_url: str = param(
        "",
        "OpenAI-compatible URL of openai:MODEL (key: EASE_EMBEDDER_API_KEY); empty: OpenAI (OPENAI_API_KEY).",
    )
