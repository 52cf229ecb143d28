"""Digests that identify content: SHA-256, in hexadecimal digits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KEY_CHARACTERS = 32
"""Length of keys that name files and objects: half a digest."""


def sha256_of(content: bytes) -> str:
    """Digest of bytes."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_text(text: str) -> str:
    """Digest of a text in UTF-8."""
    return sha256_of(text.encode())


def sha256_of_json(value: Any) -> str:
    """Digest of a JSON value, whatever the order of its keys."""
    return sha256_of_text(json.dumps(value, sort_keys=True))


def key_of(value: Any) -> str:
    """Name of what is kept for a JSON value: the first half of its digest."""
    return sha256_of_json(value)[:KEY_CHARACTERS]


def sha256_of_file(path: Path) -> str:
    """Digest of a file's content, which is read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(paths: Iterable[Path]) -> str:
    """One digest over the contents of files, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(sha256_of_file(path)))
    return digest.hexdigest()
