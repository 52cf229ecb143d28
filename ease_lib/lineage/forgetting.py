"""Remove a row on request: from pools, journals, caches and prompts, with a tombstone for what was touched.

Tables lose the row; whatever else shows its text (prompts, reports, answers, texts of a journal) is removed whole,
because a prompt without one of its exemplars is another prompt. Records stay: they hold digests and no text, but for
parameters.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.artifacts.store import FileStore, Store, open_store
from ease_lib.errors import LineageError
from ease_lib.evaluation.response_cache import FILE as CACHE_FILE
from ease_lib.lineage.finding import as_row_hash
from ease_lib.lineage.record import Record
from ease_lib.lineage.recording import now
from ease_lib.lineage.tombstones import FOLDER as TOMBSTONES
from ease_lib.lineage.tombstones import write_tombstone
from ease_lib.tasks.base import row_hash

LEAST_CHARACTERS = 4
"""A shorter text is found in everything; whole cells of tables are compared anyway."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A file or object that holds the row.

    Args:
        kind: how it holds it.
        rows: how many of its rows do, where it has rows that can go alone.
        keys: of the answers in a cache that repeat its text.
    """

    store: Store
    name: str
    kind: str
    rows: int = 0
    keys: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        return f"{self.store.uri.rstrip('/')}/{self.name}"


def find_holders(uris: Sequence[str], row: str, text: str = "") -> Iterator[Holder]:
    """Everything below these places that holds a row.

    Args:
        row: hash of its input text, or the text itself.
        text: its input text, where only the hash was given: without it, files of free text cannot be searched.
    """
    wanted = as_row_hash(row)
    text = text or ("" if row == wanted else row)
    if text and row_hash(text) != wanted:
        raise LineageError("the text given is not that of the hash given; check both")
    for uri in uris:
        store = open_store(uri)
        for name in store.walk_names():
            if f"{TOMBSTONES}/" in name:
                continue
            holder = _holder(store, name, wanted, text)
            if holder is not None:
                yield holder


def known_text(uris: Sequence[str], row: str) -> str:
    """The input text of a row of which only the hash is known, from the first table that holds it; else empty."""
    for uri in uris:
        store = open_store(uri)
        for name in store.walk_names():
            content = _table_content(store, name)
            for text in _inputs(content) if content else ():
                if row_hash(text) == row:
                    return text
    return ""


def forget(holders: Sequence[Holder], row: str, root: str, *, reason: str) -> str:
    """Remove a row from everything that holds it, and leave a tombstone in a lineage root; the tombstone's name."""
    wanted = as_row_hash(row)
    removed: list[Record] = []
    for holder in holders:
        before = holder.store.read(holder.name) or b""
        after = _without(holder, wanted, before)
        removed.append(
            {
                "uri": holder.uri,
                "kind": holder.kind,
                "before_sha256": hashlib.sha256(before).hexdigest(),
                "after_sha256": hashlib.sha256(after).hexdigest() if after is not None else None,
            }
        )
    return write_tombstone(root, wanted, removed, when=now(), reason=reason)


def _holder(store: Store, name: str, wanted: str, text: str) -> Holder | None:
    if name.endswith(CACHE_FILE) and isinstance(store, FileStore):
        keys = _cached_answers(Path(store.uri) / name, text) if text else ()
        return Holder(store=store, name=name, kind="answers", rows=len(keys), keys=keys) if keys else None
    if f"/{wanted}/" in f"/{name}":
        return Holder(store=store, name=name, kind="mark")
    content = store.read(name) or b""
    if content[:4] == b"PAR1":
        count = sum(row_hash(value) == wanted for value in _inputs(content))
        if count:
            return Holder(store=store, name=name, kind="table", rows=count)
    elif text and len(text) >= LEAST_CHARACTERS and _mentions(content, text):
        return Holder(store=store, name=name, kind="text")
    return None


def _mentions(content: bytes, text: str) -> bool:
    """Whether a file shows a text, as it is or as JSON or HTML write it."""
    spellings = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], *_escaped(text)}
    return any(spelling.encode() in content for spelling in spellings)


def _escaped(text: str) -> Iterator[str]:
    for quote, apostrophe in (("&quot;", "&#x27;"), ("&#34;", "&#39;")):
        plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        yield plain.replace('"', quote).replace("'", apostrophe)


def _table_content(store: Store, name: str) -> bytes:
    content = store.read(name) or b""
    return content if content[:4] == b"PAR1" else b""


def _inputs(content: bytes) -> list[str]:
    """Input texts of a pool, validation or test set; of other tables none."""
    try:
        table = pq.ParquetFile(io.BytesIO(content))
    except (OSError, pa.ArrowInvalid):
        return []
    if "input" not in table.schema_arrow.names:
        return []
    return [str(value) for value in table.read(columns=["input"])["input"].to_pylist()]


def _without(holder: Holder, wanted: str, before: bytes) -> bytes | None:
    """The content that is left, written back; None where the file went whole."""
    if holder.kind == "table":
        table = pq.read_table(io.BytesIO(before))
        kept = [row_hash(str(value)) != wanted for value in table["input"].to_pylist()]
        left = io.BytesIO()
        pq.write_table(table.filter(pa.array(kept)), left)
        holder.store.write(holder.name, left.getvalue())
        return left.getvalue()
    if holder.kind == "answers":
        with closing(sqlite3.connect(Path(holder.store.uri) / holder.name)) as database, database:
            database.executemany("DELETE FROM responses WHERE key = ?", [(key,) for key in holder.keys])
        return b""
    holder.store.delete(holder.name)
    return None


def _cached_answers(path: Path, text: str) -> tuple[str, ...]:
    """Keys of answers that repeat the text; questions are kept as hashes only."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT key, content FROM responses").fetchall()
    return tuple(key for key, content in rows if _mentions(content.encode(), text))
