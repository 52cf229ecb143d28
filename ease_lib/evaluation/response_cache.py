"""A durable cache of answers: what was paid for once is never asked again, by any run or process that shares the file.

An answer is addressed by the content of its question: endpoint, model, prompt and sampling settings, all of it hashed.
Only answers are stored, never failures. An entry that is damaged counts as a miss and is reported.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ease_lib.errors import StoreError
from ease_lib.evaluation.llm_client import Completion, LLMClient

LOCK_SECONDS = 60.0
"""How long a process waits for others that write."""
logger = logging.getLogger("ease")


class ResponseCache:
    """Answers by key in one SQLite file. Open it with `open_cache`."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database = database
        self._path = path
        self.damaged = 0

    def get(self, key: str) -> Completion | None:
        """The answer stored under a key, or None."""
        row = self._database.execute("SELECT content, sha256 FROM responses WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            content, digest = row
            if _digest(content) != digest:
                raise ValueError
            return Completion(**json.loads(content))
        except (ValueError, TypeError, AttributeError):
            self.damaged += 1
            logger.info("notice: a damaged answer in %s is asked again", self._path)
            return None

    def put(self, key: str, completion: Completion) -> None:
        """Store an answer; it is on disk when this returns."""
        content = json.dumps(asdict(completion))
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO responses (key, content, sha256) VALUES (?, ?, ?)",
                (key, content, _digest(content)),
            )


class CachingClient:
    """Answers from the cache, and asks the wrapped client for the rest.

    Args:
        identity: all that decides an answer beside the prompt: endpoint, model, API, sampling settings.
    """

    def __init__(self, client: LLMClient, cache: ResponseCache, identity: dict[str, Any]) -> None:
        self._client = client
        self._cache = cache
        self._identity = identity

    async def complete(self, prompt: str) -> Completion:
        key = response_key(self._identity, prompt)
        known = self._cache.get(key)
        if known is not None:
            return replace(known, cached=True, retries=0)
        completion = await self._client.complete(prompt)
        self._cache.put(key, completion)
        return completion


def response_key(identity: dict[str, Any], prompt: str) -> str:
    """SHA-256 of the question in a canonical form."""
    return _digest(json.dumps([identity, prompt], sort_keys=True))


@contextmanager
def open_cache(path: Path) -> Iterator[ResponseCache]:
    """Open or create the cache file.

    Raises:
        StoreError: when it cannot be opened, or is no cache of ours.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=LOCK_SECONDS)
        database.execute("PRAGMA journal_mode = WAL")  # readers do not wait for writers
        with database:
            columns = "key TEXT PRIMARY KEY, content TEXT NOT NULL, sha256 TEXT NOT NULL"
            database.execute(f"CREATE TABLE IF NOT EXISTS responses ({columns})")
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"{path}: not a usable response cache ({error}); move it away, or set another store_uri"
        ) from error
    try:
        yield ResponseCache(database, path)
    finally:
        database.close()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
