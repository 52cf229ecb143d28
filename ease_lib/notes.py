"""Facts that a stage notes for its record in addition to artifacts: files read, answers, journal, embedder.

A stage passes its `Notes` to everything it calls; nothing looks them up globally. Pre-flight checks and work without a
record get `Notes` that are thrown away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ease_lib.digests import sha256_of

PACKAGE = "package:"
"""Begins the URI of a file that an installed package carries: `package:NAME/PATH`."""


@dataclass
class Notes:
    """Everything noted during one stage.

    Args:
        files_read: SHA-256 and bytes of files read from stores, by URI.
        entries: SHA-256 of the parts of the journal, of the response cache and of the kept embeddings that the stage
            wrote or relied on, by name in the folder or file that holds them.
        written: SHA-256 of objects that the stage wrote besides its artifacts, in the same form.
        models: answers by model and fingerprint, as the endpoint named them.
        prompt_tokens, completion_tokens: of new answers, and of those without text.
        left_out: parameters that the endpoint refuses, so that answers were drawn without them.
        embedder: name, with SHA-256 of its files and revision, or its endpoint.
        endpoint: URL of the black-box without credentials, the model that is asked for, and the API.
    """

    files_read: dict[str, tuple[str, int]] = field(default_factory=dict)
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    written: dict[str, dict[str, str]] = field(default_factory=dict)
    models: Counter[tuple[str, str]] = field(default_factory=Counter)
    new_answers: int = 0
    cached_answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    left_out: tuple[str, ...] = ()
    embedder: dict[str, str] = field(default_factory=dict)
    endpoint: dict[str, str] = field(default_factory=dict)

    def file(self, uri: str, sha256: str, size: int) -> None:
        """Note a file of so many bytes as an input."""
        self.files_read[uri] = (sha256, size)

    def entry(self, holder: str, name: str, content: bytes) -> None:
        """Note an entry of a journal or cache that was written or used; `holder` is its folder or file."""
        self.entries.setdefault(holder, {})[name] = sha256_of(content)

    def object(self, holder: str, name: str, sha256: str) -> None:
        """Note an immutable object that this attempt wrote, or an earlier attempt at the same work."""
        self.written.setdefault(holder, {})[name] = sha256

    def answered(self, model: str, fingerprint: str) -> None:
        """Note an answer of the endpoint."""
        self.models[model, fingerprint] += 1
        self.new_answers += 1

    def paid(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Note an answer, with or without text."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def answered_from_cache(self) -> None:
        self.cached_answers += 1

    def parameters_left_out(self, names: Iterable[str]) -> None:
        """Note parameters that the endpoint refuses."""
        self.left_out = tuple(sorted(names))
