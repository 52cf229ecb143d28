"""Rows that a file of a run, a store or a published version shows, and places where any other file shows one.

A row is named by the hash of its input text, and only a whole value shows it: a string of a table or document, an
answer, or `Input: TEXT` before `Output:` in a prompt. What only quotes it within other text is found by `places_in`.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import markupsafe

from ease_lib.artifacts.contracts import DOCUMENTS, TABLES
from ease_lib.artifacts.result_files import HARMFUL, MISLABELLED, PROMPT_FILES
from ease_lib.artifacts.tables import table_of
from ease_lib.black_box.cache import FILE as CACHE_FILE
from ease_lib.black_box.client import ABOUT
from ease_lib.errors import DataError, LineageError
from ease_lib.lineage.attestation import ENVELOPE_FILE
from ease_lib.lineage.chain import LATEST_FILE, MANIFEST_CONTRACT
from ease_lib.lineage.deletion import tombstones
from ease_lib.lineage.deletion.row_query import RowQuery, hashes_of
from ease_lib.lineage.deletion.table_reader import PARQUET_MARK, is_table, records_of, stamp_in
from ease_lib.lineage.exports import croissant
from ease_lib.lineage.exports.slsa import EVENTS_FILE, PROVENANCE_FILE
from ease_lib.lineage.record import CONTRACT
from ease_lib.tasks.encodings import MARK, text_encoding
from ease_lib.tasks.records import COMPRESSED

TEXT_FIELDS = frozenset({"input", "outputs", "prediction", "text", "instruction"})
"""Fields of our tables and documents that hold text of rows or models; the others hold names and parameters."""
GZIP_MARK, ZIP_MARK = b"\x1f\x8b", b"PK\x03\x04"
CLOSED_MARKS = {
    **{ZIP_MARK: "a zip archive", b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz"},
    **{b"\x28\xb5\x2f\xfd": "compressed by zstd", b"SQLite format 3\0": "a SQLite database"},
}
"""Beginnings of files that are not searched, and their kinds."""
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "cp1252")
"""Encodings in which a text is looked for."""
_NUMBERS = re.compile(
    r"(^|/)(attempts/[0-9a-f]+/[0-9a-f-]{36}|(rows|prompts)/[0-9a-f]{64}/[^/]+"
    r"|journals/([0-9a-f]+/)?[0-9a-f-]+(\.jsonl|/[^/]+)|searches/[0-9a-f]+/[^/]+)$"
)
_NUMBERS_NAMES = (LATEST_FILE, PROVENANCE_FILE, EVENTS_FILE, croissant.FILE, ENVELOPE_FILE, "executor_output.json")
_NUMBERS_CONTRACTS = frozenset(name.partition("/")[0] for name in (CONTRACT, MANIFEST_CONTRACT, tombstones.CONTRACT))
_ANSWER = re.compile(rb"[0-9a-f]{64}\n(?=\{)")
_PAGE_ROWS = re.compile(rb'^\s*<!doctype html>.{,2000}?<meta name="ease-rows" content="([0-9a-f ]*)">', re.DOTALL)
"""The head of a page by EASE names the rows that it shows (`reporting/page.py`); texts in it are escaped."""


def has_digests_only(name: str, content: bytes) -> bool:
    """Whether a file of EASE holds digests, numbers and parameters: a record, manifest, mark, journal or export.

    Args:
        name: its address.
    """
    if _NUMBERS.search(name) or name.rpartition("/")[2] in _NUMBERS_NAMES:
        return True
    return _contract_of(_json(content)) in _NUMBERS_CONTRACTS


def rows_shown(name: str, content: bytes) -> set[str] | None:
    """Hashes of all texts that a file of EASE shows and that may be rows; None for any other file.

    Args:
        name: its address.
    """
    file = name.rpartition("/")[2]
    if has_digests_only(name, content):
        return None
    if content.startswith(PARQUET_MARK):
        return _rows_of_table(content) if stamp_in(content) in TABLES else None
    if _ANSWER.match(content):
        return rows_of_answer(content)
    if file in PROMPT_FILES:
        texts = [content.decode(errors="replace"), *_strings(_json(content))]
        return {row for text in texts for row in hashes_of(text)}
    page = _PAGE_ROWS.match(content)
    if page:
        return set(page[1].decode().split())
    document = _json(content)
    if file in (HARMFUL, MISLABELLED) or _contract_of(document) in DOCUMENTS:
        return {row for text in _texts_of(document) for row in hashes_of(text)}
    return None


def rows_of_answer(entry: bytes) -> set[str]:
    """Hashes of the row that a cached answer is about, and of those that it repeats; the question is kept as a hash."""
    completion = _json(entry.partition(b"\n")[2])
    if not isinstance(completion, dict):
        return set()
    about = str(completion.get("account", "")).rpartition(ABOUT)[2]
    return {about, *hashes_of(str(completion.get("text", "")))}


def places_in(name: str, content: bytes, query: RowQuery) -> list[str]:
    """Places where a file shows the row, as `line 12` or `row 3`: as a value, unless it is ours, or within other text.

    Raises:
        LineageError: when it cannot be searched.
    """
    if content.startswith(GZIP_MARK):
        try:
            return places_in(name.removesuffix(COMPRESSED), gzip.decompress(content), query)
        except (OSError, EOFError, zlib.error) as error:
            raise LineageError(f"cannot be read as gzip: {error}") from error
    is_ours = rows_shown(name, content) is not None or has_digests_only(name, content)
    if content.startswith(PARQUET_MARK) or (content.startswith(ZIP_MARK) and name.lower().endswith(".xlsx")):
        try:
            return _shown(_places_of_records(name, content, query, is_ours=is_ours))
        except DataError as error:
            raise LineageError(f"cannot be searched: {error}") from error
    closed = next((what for mark, what in CLOSED_MARKS.items() if content.startswith(mark)), "")
    if closed and not name.endswith(CACHE_FILE):
        raise LineageError(f"{closed}, which is not searched")
    found = {("line", line) for text in query.quotable for line in _lines_with(content, text)}
    if not is_ours:
        lines = content.decode(text_encoding(io.BytesIO(content)), errors="replace").removeprefix(MARK).splitlines()
        found |= {("line", number) for number, line in enumerate(lines, 1) if query.is_value(line)}
        with suppress(DataError):  # not a table: it was searched as text
            records = _places_of_records(name, content, query, is_ours=False) if is_table(name) else set()
            found |= {place for place in records if place[0] == "line" or not found}
    return _shown(found)


def _shown(places: set[tuple[str, int]]) -> list[str]:
    return [f"{unit} {number}" for unit, number in sorted(places)]


def _places_of_records(name: str, content: bytes, query: RowQuery, *, is_ours: bool) -> set[tuple[str, int]]:
    """Units and numbers of the records that show the row; the names of the columns may be a row without a header."""
    found = set()
    header = 1 if re.search(r"\.[ct]sv$", name.lower()) else 0
    for (unit, number, _), record in records_of(name, content, query.columns):
        texts = list(_strings(list(record.values())))
        if any(row in text for row in query.quotable for text in texts):
            found.add((unit, number))
        if not is_ours and (query.is_record(record) or any(map(query.is_in, texts))):
            found.add((unit, number))
        if not is_ours and any(map(query.is_value, record)):
            found.add((unit, header or number))
    return found


def _rows_of_table(content: bytes) -> set[str]:
    table = table_of(content)
    columns = [column.name for column in table.schema if "string" in str(column.type) and column.name in TEXT_FIELDS]
    texts = {text for column in columns for text in _strings(table[column].to_pylist())}
    return {row for text in texts for row in hashes_of(text)}


def _texts_of(value: Any) -> Iterator[str]:
    """Texts of a document in the fields that show rows: a parameter of that value is not a row."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != "parameters":
                yield from _strings(item) if key in TEXT_FIELDS else _texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item)


def _lines_with(content: bytes, text: str) -> Iterator[int]:
    """Lines in which a text begins, within other text too, as it is or as CSV, JSON or HTML write it."""
    for spelling in _spellings(text):
        place = content.find(spelling)
        while place >= 0:
            yield content.count(b"\n", 0, place) + 1
            place = content.find(spelling, place + 1)


def _spellings(text: str) -> set[bytes]:
    as_json = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    as_html = (html.escape(text, quote=False), html.escape(text), str(markupsafe.escape(text)))
    found = set()
    for encoding in ENCODINGS:
        with suppress(UnicodeEncodeError):  # a file in that encoding cannot hold it
            found |= {each.encode(encoding) for each in (text, text.replace('"', '""'), *as_json, *as_html)}
    return found


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value of JSON or Parquet, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _contract_of(document: Any) -> str:
    return str(document.get("contract", "")).partition("/")[0] if isinstance(document, dict) else ""


def _json(content: bytes) -> Any:
    """The value, or None if it is not JSON."""
    if content[:1] in (b"{", b"["):
        with suppress(ValueError, RecursionError):
            return json.loads(content)
    return None
