"""A durable cache of answers: no run or process that shares it asks again for a stored answer.

An answer is addressed by the content of its question, all of it hashed: endpoint, model, API, prompt, sampling
settings, parameters that the endpoint refuses, and the generation of answers (`endpoint_notes.py`). Only answers are
stored, never failures. An entry that is damaged counts as a miss and is reported.

    folder   one SQLite file for many processes. Killing processes loses nothing; a power cut may lose the last answers,
             which are asked again.
    s3://    one object per answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ease_lib.artifacts.store import S3_CONNECTIONS, Store
from ease_lib.black_box.client import Completion, LLMClient
from ease_lib.black_box.llm_identity import AnswerKeys, LLMIdentity
from ease_lib.black_box.versions import Versions
from ease_lib.digests import sha256_of_text
from ease_lib.errors import StoreError
from ease_lib.notes import Notes

FILE = "responses.sqlite"
FOLDER = "responses"
LOCK_SECONDS = 120.0
"""How long a process waits for others that write."""
CHECKPOINT_TRIES = 30
"""Number of waits of a second for readers of entries that are to be deleted for good."""
Result = TypeVar("Result")
logger = logging.getLogger("ease")


class ResponseCache(Protocol):
    """Answers by key. Open one with `open_cache`."""

    async def get(self, key: str, notes: Notes) -> Completion | None:
        """The answer stored under a key, or None."""
        ...

    async def put(self, key: str, completion: Completion, notes: Notes) -> None:
        """Store an answer; it is safe from a kill when this returns."""
        ...


@contextmanager
def open_cache(store: Store) -> Iterator[ResponseCache]:
    """Open or create the cache in a run's store.

    Raises:
        StoreError: when it cannot be opened, or is not a cache of EASE.
    """
    opened = ObjectCache(store.below(FOLDER)) if store.folder is None else SqliteCache(store.folder / FILE)
    with closing(opened) as cache:
        yield cache


class SqliteCache:
    """One SQLite file, read and written in the event loop.

    Answers that come in one turn of the loop are committed together at its end. While another process holds the file,
    as `remove_entries` may for seconds, the loop waits.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)  # commits each
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        self._uncommitted: list[asyncio.Future[None]] = []
        """Callers that wait for the commit at the end of this turn of the event loop."""
        self._run(self._prepare)

    async def get(self, key: str, notes: Notes) -> Completion | None:
        select = "SELECT content, sha256 FROM responses WHERE key = ?"
        row = self._run(lambda: self._database.execute(select, (key,)).fetchone())
        return None if row is None else _decoded(key, row[0], row[1], str(self._path), notes)

    async def put(self, key: str, completion: Completion, notes: Notes) -> None:
        content = _encoded(completion)
        digest = _digest(key, content)
        loop = asyncio.get_running_loop()
        if not self._database.in_transaction:
            self._run(lambda: self._database.execute("BEGIN IMMEDIATE"))
            loop.call_soon(self._commit)
        insert = "INSERT OR REPLACE INTO responses (key, content, sha256) VALUES (?, ?, ?)"
        self._uncommitted.append(committed := loop.create_future())
        try:
            self._run(lambda: self._database.execute(insert, (key, content, digest)))
        except StoreError as error:
            self._commit(error)
        await committed
        notes.entry(str(self._path), key, entry_bytes(content, digest))

    def close(self) -> None:
        try:
            self._run(self._database.commit)  # what the loop did not get to
        finally:
            self._database.close()

    def _commit(self, failure: StoreError | None = None) -> None:
        """Commit everything written in this turn; after a failure, nothing."""
        try:
            self._run(self._database.rollback if failure else self._database.commit)
        except StoreError as error:
            failure = error
            self._database.rollback()
        written, self._uncommitted = self._uncommitted, []
        for each in written:
            if each.done():
                continue  # who waited for it gave up
            if failure:
                each.set_exception(failure)
            else:
                each.set_result(None)

    def _prepare(self) -> None:
        self._database.execute("PRAGMA journal_mode = WAL")  # readers do not wait for writers
        self._database.execute("PRAGMA synchronous = NORMAL")  # see the head of this file
        self._database.execute("PRAGMA wal_autocheckpoint = 8000")  # pages of 4 KiB: each is written back less often
        columns = "key TEXT PRIMARY KEY, content TEXT NOT NULL, sha256 TEXT NOT NULL"
        self._database.execute(f"CREATE TABLE IF NOT EXISTS responses ({columns})")

    def _run(self, call: Callable[[], Result]) -> Result:
        """Call, with the waits that SQLite omits when many processes open one file at once."""
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
        remedy = "free space on that disk" if "disk is full" in str(error) else "move it away"
        return StoreError(f"{self._path}: not a usable response cache ({error}); {remedy}, or set another store_uri")


class ObjectCache:
    """One object per answer; each call takes a thread, for it waits for the network."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(S3_CONNECTIONS, "response cache")

    async def get(self, key: str, notes: Notes) -> Completion | None:
        name = object_name(key)
        stored = await self._in_thread(self._store.read, name)
        if stored is None:
            return None
        digest, _, content = stored.decode(errors="replace").partition("\n")
        return _decoded(key, content, digest, self._store.uri, notes)

    async def put(self, key: str, completion: Completion, notes: Notes) -> None:
        content = _encoded(completion)
        stored = entry_bytes(content, _digest(key, content))
        await self._in_thread(self._store.write, object_name(key), stored)
        notes.entry(self._store.uri, object_name(key), stored)

    def close(self) -> None:
        """Close the cache after all pending writes."""
        self._threads.shutdown()

    async def _in_thread(self, call: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


class CachingClient:
    """Answers from the cache, and asks the wrapped client for the rest; equal questions at once are asked once.

    Args:
        asked: all that decides an answer besides the prompt.
        notes: of the stage that asks.
        left_out: parameters that the endpoint is known to refuse by now; part of the identity too.
        versions: of the model behind the name, each of which has answers of its own; None if there is one only.
    """

    def __init__(
        self,
        client: LLMClient,
        cache: ResponseCache,
        asked: LLMIdentity,
        notes: Notes,
        left_out: Callable[[], frozenset[str]] = frozenset,
        versions: Versions | None = None,
    ) -> None:
        self._client = client
        self._versions = versions
        self._cache = cache
        self._asked = asked
        self._notes = notes
        self._left_out = left_out
        self._known_keys: dict[tuple[str, frozenset[str]], AnswerKeys] = {}
        self._under_way: dict[str, asyncio.Future[Completion]] = {}

    async def complete(self, prompt: str, account: str = "") -> Completion:
        key = self._keys().key(prompt)
        while asked := self._under_way.get(key):
            await asyncio.wait([asked])
            if not asked.cancelled():
                return replace(asked.result(), cached=True)
        asked = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            completion = await self._find_or_ask(key, prompt, account)
        except Exception as error:
            asked.set_exception(error)
            asked.exception()  # mark it as seen, in case no other caller asks the same
            raise
        else:
            asked.set_result(completion)
            return completion
        finally:
            asked.cancel()  # otherwise callers that wait for it ask themselves
            del self._under_way[key]

    async def _find_or_ask(self, key: str, prompt: str, account: str) -> Completion:
        known = await self._kept(key, prompt)
        if known is not None:
            self._notes.answered_from_cache()
            if self._versions:
                self._versions.met(known.model)
            return replace(known, cached=not account or known.account != account)
        completion = await self._client.complete(prompt, account)
        generation = self._versions.generation_of(completion.model) if self._versions else self._asked.generation
        keys = self._keys(generation)  # anew: it may have refused a parameter
        await self._cache.put(keys.key(prompt), completion, self._notes)
        return completion

    async def _kept(self, key: str, prompt: str) -> Completion | None:
        known = await self._cache.get(key, self._notes)
        if known is None and (former := self._keys().former_key(prompt)):
            known = await self._cache.get(former, self._notes)
        for generation, since in self._versions.beside if known is None and self._versions else ():
            known = await self._cache.get(self._keys(generation).key(prompt), self._notes)
            if known is not None and known.answered_at >= since:
                return known
            known = None
        return known

    def _keys(self, generation: str = "") -> AnswerKeys:
        named = generation or self._asked.generation, self._left_out()
        if named not in self._known_keys:
            asked = replace(self._asked, generation=named[0])
            self._known_keys[named] = asked.answer_keys(named[1])
        return self._known_keys[named]


def object_name(key: str) -> str:
    return f"{key[:2]}/{key}"


def entry_bytes(content: str, digest: str) -> bytes:
    """An entry as it is stored in an object, and as lineage records its digest."""
    return f"{digest}\n{content}".encode()


def kept_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    """Keys and entries of a cache in one file, in the form in which an object holds them; none where no file is.

    Raises:
        sqlite3.Error: when it cannot be read.
    """
    if not path.exists():
        return
    address = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS)) as database:
        for key, content, digest in database.execute("SELECT key, content, sha256 FROM responses"):
            yield key, entry_bytes(content, digest)


def remove_entries(path: Path, keys: Iterable[str]) -> None:
    """Delete answers from a cache in one file, and the remains of their text in the file and its log.

    The file is written anew: where a page was joined with its neighbour, copies of a deleted answer are between
    those that stay, and ``secure_delete`` does not overwrite these.

    Raises:
        StoreError: when another process holds the file for long, or the disk has no room for the new one.
    """
    try:
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as database:
            with database:
                database.executemany("DELETE FROM responses WHERE key = ?", [(key,) for key in keys])
            database.execute("VACUUM")
            for _ in range(CHECKPOINT_TRIES):  # others that read hold it up
                busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return
                time.sleep(1)
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} may still hold what was to be deleted: {error}; correct that, and try again"
        ) from error
    raise StoreError(f"{path}-wal may still hold what was deleted: another process uses it; stop that, and try again")


def _encoded(completion: Completion) -> str:
    return json.dumps(vars(completion))


def _decoded(key: str, content: str, digest: str, where: str, notes: Notes) -> Completion | None:
    try:
        if _digest(key, content) == digest:
            completion = Completion(**json.loads(content))
            name = key if where.endswith(FILE) else object_name(key)
            notes.entry(where, name, entry_bytes(content, digest))
            return completion
    except (ValueError, TypeError, AttributeError):
        pass
    logger.info("notice: a damaged answer in %s is asked again", where)
    return None


def _digest(key: str, content: str) -> str:
    """Digest of question and answer, which shows an answer that is stored under another question."""
    return sha256_of_text(f"{key}\n{content}")
