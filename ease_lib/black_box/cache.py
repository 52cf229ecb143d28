"""A durable cache of answers: what was paid for once is not asked again, by any run or process that shares it.

An answer is addressed by the content of its question, all of it hashed: endpoint, model, API, prompt, sampling
settings, parameters that the endpoint refuses, and the generation of answers (`endpoint_notes.py`). Only answers are
stored, never failures. An entry that is damaged counts as a miss and is reported.

    folder   one SQLite file for many processes. Killing processes loses nothing; a power cut may lose the last answers,
             which are asked again.
    s3://    one object per answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ease_lib import observations
from ease_lib.artifacts.store import S3Store, is_s3, joined
from ease_lib.black_box.client import Completion, LLMClient
from ease_lib.errors import StoreError

FILE = "responses.sqlite"
FOLDER = "responses"
LOCK_SECONDS = 120.0
"""How long a process waits for others that write."""
Result = TypeVar("Result")
logger = logging.getLogger("ease")


class ResponseCache(Protocol):
    """Answers by key. Open one with `open_cache`."""

    async def get(self, key: str) -> Completion | None:
        """The answer stored under a key, or None."""
        ...

    async def put(self, key: str, completion: Completion) -> None:
        """Store an answer; it is safe from a kill when this returns."""
        ...


@contextmanager
def open_cache(store_uri: str) -> Iterator[ResponseCache]:
    """Open or create the cache of a folder or `s3://bucket/prefix`.

    Raises:
        StoreError: when it cannot be opened, or is no cache of ours.
    """
    if is_s3(store_uri):
        yield ObjectCache(S3Store(joined(store_uri, FOLDER)))
        return
    cache = SqliteCache(Path(store_uri) / FILE)
    try:
        yield cache
    finally:
        cache.close()


class SqliteCache:
    """One SQLite file; its calls take well under a millisecond, so they run in the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=LOCK_SECONDS)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        self._run(self._prepare)

    async def get(self, key: str) -> Completion | None:
        select = "SELECT content, sha256 FROM responses WHERE key = ?"
        row = self._run(lambda: self._database.execute(select, (key,)).fetchone())
        return None if row is None else _decoded(key, row[0], row[1], str(self._path))

    async def put(self, key: str, completion: Completion) -> None:
        content = _encoded(completion)
        digest = _digest(key, content)
        insert = "INSERT OR REPLACE INTO responses (key, content, sha256) VALUES (?, ?, ?)"

        def store() -> None:
            with self._database:
                self._database.execute(insert, (key, content, digest))

        self._run(store)
        observations.entry(str(self._path.absolute()), key, entry_bytes(content, digest))

    def close(self) -> None:
        self._database.close()

    def _prepare(self) -> None:
        self._database.execute("PRAGMA journal_mode = WAL")  # readers do not wait for writers
        self._database.execute("PRAGMA synchronous = NORMAL")  # see the head of this file
        with self._database:
            columns = "key TEXT PRIMARY KEY, content TEXT NOT NULL, sha256 TEXT NOT NULL"
            self._database.execute(f"CREATE TABLE IF NOT EXISTS responses ({columns})")

    def _run(self, call: Callable[[], Result]) -> Result:
        """Call; what SQLite does not wait for itself when many processes open one file at once is waited for here."""
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return call()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise self._unusable(error) from error
            except sqlite3.Error as error:
                raise self._unusable(error) from error
            time.sleep(0.05)

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path}: not a usable response cache ({error}); move it away, or set another store_uri"
        )


class ObjectCache:
    """One object per answer; each call takes a thread, for it waits for the network."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    async def get(self, key: str) -> Completion | None:
        name = object_name(key)
        stored = await asyncio.to_thread(self._store.read, name)
        if stored is None:
            return None
        digest, _, content = stored.decode(errors="replace").partition("\n")
        return _decoded(key, content, digest, self._store.uri)

    async def put(self, key: str, completion: Completion) -> None:
        content = _encoded(completion)
        stored = entry_bytes(content, _digest(key, content))
        await asyncio.to_thread(self._store.write, object_name(key), stored)
        observations.entry(self._store.uri, object_name(key), stored)


class CachingClient:
    """Answers from the cache, and asks the wrapped client for the rest; equal questions at once are asked once.

    A question that is under way goes on when its asker gives up, while the event loop runs: its answer is paid for.

    Args:
        identity: all that decides an answer beside the prompt: endpoint, model, API, sampling settings, generation.
        left_out: parameters that the endpoint is known to refuse by now; part of the identity too.
    """

    def __init__(
        self,
        client: LLMClient,
        cache: ResponseCache,
        identity: dict[str, Any],
        left_out: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._client = client
        self._cache = cache
        self._identity = identity
        self._left_out = left_out
        self._under_way: dict[str, asyncio.Task[Completion]] = {}

    async def complete(self, prompt: str, account: str = "") -> Completion:
        key = self._key(prompt)
        if key in self._under_way:
            return replace(await asyncio.shield(self._under_way[key]), cached=True)
        task = self._under_way[key] = asyncio.create_task(self._find_or_ask(key, prompt, account))
        task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: str, done: asyncio.Task[Completion]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # taken note of, should nobody wait for it any more

    async def _find_or_ask(self, key: str, prompt: str, account: str) -> Completion:
        known = await self._cache.get(key)
        if known is not None:
            observations.answered_from_cache()
            return replace(known, cached=not account or known.account != account)
        completion = await self._client.complete(prompt, account)
        await self._cache.put(self._key(prompt), completion)
        return completion

    def _key(self, prompt: str) -> str:
        left_out = sorted(self._left_out())
        return response_key({**self._identity, **({"left_out": left_out} if left_out else {})}, prompt)


def response_key(identity: dict[str, Any], prompt: str) -> str:
    """SHA-256 of the question in a canonical form."""
    return hashlib.sha256(json.dumps([identity, prompt], sort_keys=True).encode()).hexdigest()


def object_name(key: str) -> str:
    return f"{key[:2]}/{key}"


def entry_bytes(content: str, digest: str) -> bytes:
    """An entry as it is stored in an object, and as lineage records its digest."""
    return f"{digest}\n{content}".encode()


def _encoded(completion: Completion) -> str:
    return json.dumps(asdict(completion))


def _decoded(key: str, content: str, digest: str, where: str) -> Completion | None:
    try:
        if _digest(key, content) == digest:
            completion = Completion(**json.loads(content))
            name = key if where.endswith(FILE) else object_name(key)
            observations.entry(where, name, entry_bytes(content, digest))
            return completion
    except (ValueError, TypeError, AttributeError):
        pass
    logger.info("notice: a damaged answer in %s is asked again", where)
    return None


def _digest(key: str, content: str) -> str:
    """Over question and answer, so that an answer under the question of another is noticed."""
    return hashlib.sha256(f"{key}\n{content}".encode()).hexdigest()
