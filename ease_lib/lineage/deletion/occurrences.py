"""Which files hold a row: those that a run wrote, which can be deleted whole, and any other, which is only named.

A row is named by its input text, and only a whole value is it: a cell or the cells that make it, a string of JSON, a
line of plain text, or `Input: TEXT` before `Output:` in a prompt. A word in somebody else's sentence is not.

    ours        artifacts and documents by their contract, answers, prompts and results by their name, pages by the rows
                that they name in their head. Tables without texts name a row by its number, answers by its hash
    records     of lineage, marks and journals hold digests and numbers; what the message of a failed attempt quotes of
                a row is found as a quotation
    the rest    tables with line or row, text with its line, in UTF-8, UTF-16 or cp1252, compressed (.gz) too
"""

from __future__ import annotations

import codecs
import gzip
import html
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from zipfile import BadZipFile

import markupsafe
import pyarrow as pa

from ease_lib.artifacts.contracts import DOCUMENTS, TABLES
from ease_lib.artifacts.result_files import BEST_SEQUENCE, HARMFUL, MISLABELLED, PROMPT_FILES
from ease_lib.artifacts.tables import stamp_of, table_of
from ease_lib.black_box.cache import FILE as CACHE_FILE
from ease_lib.black_box.client import ABOUT
from ease_lib.errors import DataError, LineageError
from ease_lib.lineage.attestation import ENVELOPE_FILE
from ease_lib.lineage.chain import COPIES, LATEST_FILE, MANIFEST_CONTRACT, VERSION_FILE, VERSIONS, is_record
from ease_lib.lineage.deletion import tombstones
from ease_lib.lineage.deletion.row_query import Content, RowQuery
from ease_lib.lineage.exports import croissant
from ease_lib.lineage.exports.slsa import EVENTS_FILE, PROVENANCE_FILE
from ease_lib.lineage.record import CONTRACT
from ease_lib.tasks.columns import cell_text
from ease_lib.tasks.records import COMPRESSED, TABLE_NAMES, RecordFile, spreadsheet_value

PROMPT, TABLE, DOCUMENT, PAGE, ANSWER = "prompt", "table", "document", "page", "answer"
RECORD = "record"
"""A record of lineage, a mark or a journal: digests and numbers."""
GZIP_MARK, ZIP_MARK, PARQUET_MARK = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"
CLOSED_MARKS = {
    **{ZIP_MARK: "a zip archive", b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz"},
    **{b"\x28\xb5\x2f\xfd": "compressed by zstd", b"SQLite format 3\0": "a SQLite database"},
}
"""How files begin that are not searched, with what they are."""
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "cp1252")
"""That a text is looked for in."""
_BY_NUMBER = ("predictions", "exemplar_embeddings")
"""Tables of ours that name a row by its number and hold what was made of it: its answers, its outputs, its vectors."""
TEXT_FIELDS = frozenset({"input", "outputs", "prediction", "text", "instruction"})
"""Of our own tables and documents: those that hold text of rows or models; the others hold names and parameters."""
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NO_TEXT = re.compile(
    rf"(^|/)(runs/[^/]+/[a-z_]+-{_UUID}\.json|attempts/[0-9a-f]+/{_UUID}|tombstones/[0-9a-f]{{64}}/[^/]+"
    rf"|(rows|prompts)/[0-9a-f]{{64}}/[^/]+|journals/([0-9a-f]+/)?[0-9a-f-]+(\.jsonl|/[^/]+)|searches/[0-9a-f]+/[^/]+"
    rf"|{VERSIONS}/[^/]+/({re.escape(VERSION_FILE)}|{COPIES}/[^/]+))$"
)
_NO_TEXT_NAMES = (
    *(LATEST_FILE, VERSION_FILE, PROVENANCE_FILE, EVENTS_FILE, croissant.FILE, ENVELOPE_FILE),
    "executor_output.json",
)
_RECORDS = frozenset(name.partition("/")[0] for name in (CONTRACT, MANIFEST_CONTRACT, tombstones.CONTRACT))
_ANSWER = re.compile(rb"[0-9a-f]{64}\n(?=\{)")
_HTML = ("<!doctype html", "<html")
_PAGE_ROWS = re.compile(r'<meta name="ease-rows" content="([0-9a-f ]*)">')
_PAGE_IDS = re.compile(r'<meta name="ease-test-rows" content="([0-9 ]*)">')
"""What a page of ours says of itself (`reporting/page.py`); no text that it shows can, for these are escaped."""


def kind_of(name: str, content: bytes) -> str:
    """What a file that a run wrote is; empty for any other file.

    Args:
        name: its address, for that shows what it is.
    """
    file = name.rpartition("/")[2]
    if is_record(name) or _NO_TEXT.search(name) or file in _NO_TEXT_NAMES:
        return RECORD
    if content.startswith(PARQUET_MARK):
        return TABLE if _stamp(content) in TABLES else ""
    if _ANSWER.match(content):
        return ANSWER
    if file in PROMPT_FILES:
        return PROMPT
    if file in (HARMFUL, MISLABELLED):
        return DOCUMENT
    if content[:1] == b"{":
        document = _json(content)
        contract = str(document.get("contract", "")).partition("/")[0] if isinstance(document, dict) else ""
        return RECORD if contract in _RECORDS else DOCUMENT if contract in DOCUMENTS else ""
    text = content.decode(errors="replace")
    return PAGE if text[:200].lstrip().lower().startswith(_HTML) and _PAGE_ROWS.search(text) else ""


def holds(kind: str, name: str, content: bytes, query: RowQuery) -> bool:
    """Whether a file of ours holds the row.

    Args:
        kind: as `kind_of` gives it.
    """
    if kind == TABLE:
        return _table_holds(name, table_of(content), query)
    if kind == ANSWER:
        return answers(content, query)
    if kind == DOCUMENT:
        return _document_holds(_json(content), query)
    text = content.decode(errors="replace")
    if kind == PROMPT:
        return query.is_in_prompt(text) or any(_positions(content, each) for each in query.quotable)
    return kind == PAGE and _page_holds(name, text, query)


def shows_sequence_of(name: str) -> str:
    """Of a prompt, in whatever way it is written: the file beside it that says which rows it shows; else empty."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{BEST_SEQUENCE}" if file in PROMPT_FILES else ""


def answers(entry: bytes, query: RowQuery) -> bool:
    """Whether a cached answer, as an object holds it, is about the row or repeats it."""
    completion = _json(entry.partition(b"\n")[2])
    if not isinstance(completion, dict):
        return False
    is_about = str(completion.get("account", "")).endswith(f"{ABOUT}{query.row}")
    return is_about or query.is_in(str(completion.get("text", "")))


def places_in(name: str, content: bytes, query: RowQuery) -> list[str]:
    """Where a file shows the row, as `line 12` or `row 3`: as a value, unless it is ours, or within other text.

    Raises:
        LineageError: when it cannot be searched.
    """
    if content.startswith(GZIP_MARK):
        try:
            return places_in(name.removesuffix(COMPRESSED), gzip.decompress(content), query)
        except (OSError, EOFError, zlib.error) as error:
            raise LineageError(f"cannot be read as gzip: {error}") from error
    if content.startswith(PARQUET_MARK):
        return _rows_of_parquet(name, content, query)
    if content.startswith(ZIP_MARK) and name.lower().endswith(".xlsx"):
        return _rows_of_spreadsheet(content, query)
    closed = next((what for mark, what in CLOSED_MARKS.items() if content.startswith(mark)), "")
    if closed and not name.endswith(CACHE_FILE):
        raise LineageError(f"{closed}, which is not searched")
    found = {("line", line) for each in query.quotable for line in _positions(content, each)}
    if not kind_of(name, content):
        lines = enumerate(_text(content).splitlines(), 1)
        found |= {("line", number) for number, line in lines if query.is_value(line)}
        found |= {place for place in _records_with(name, content, query) if place[0] == "line" or not found}
    return [f"{unit} {number}" for unit, number in sorted(found)]


def _table_holds(name: str, table: pa.Table, query: RowQuery) -> bool:
    columns = [column.name for column in table.schema if "string" in str(column.type) and column.name in TEXT_FIELDS]
    if any(_is_in_value(table[column].to_pylist(), query) for column in columns):
        return True
    ids = query.ids_at(name) if stamp_of(table) in _BY_NUMBER else frozenset()
    return bool(ids and ids.intersection(table["exemplar_id"].to_pylist()))


def _document_holds(value: Any, query: RowQuery) -> bool:
    """Whether a document of ours shows the row where it shows rows at all: a parameter of that value is not a row."""
    if isinstance(value, dict):
        return any(
            (key in TEXT_FIELDS and _is_in_value(item, query)) or _document_holds(item, query)
            for key, item in value.items()
            if key != "parameters"
        )
    return isinstance(value, list) and any(_document_holds(item, query) for item in value)


def _page_holds(name: str, text: str, query: RowQuery) -> bool:
    named, numbered = _PAGE_ROWS.search(text), _PAGE_IDS.search(text)
    ids = {str(number) for number in query.ids_at(name)}
    is_numbered = numbered is not None and bool(ids & set(numbered[1].split()))
    return is_numbered or (named is not None and query.row in named[1].split())


def _rows_of_parquet(name: str, content: bytes, query: RowQuery) -> list[str]:
    try:
        table = table_of(content)
    except (OSError, pa.ArrowException) as error:
        raise LineageError(f"cannot be read as Parquet: {error}") from error
    is_ours = bool(kind_of(name, content))
    return [
        f"row {number}"
        for number, record in enumerate(table.to_pylist(), 1)
        if _quotes(record, query) or (not is_ours and _is_or_has(record, query))
    ]


def _rows_of_spreadsheet(content: bytes, query: RowQuery) -> list[str]:
    """Of all sheets."""
    import openpyxl  # see `records`

    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        return [f"row {number} of {sheet.title!r}" for sheet in book.worksheets for number in _rows_of(sheet, query)]
    except (BadZipFile, KeyError, ValueError) as error:
        raise LineageError(f"cannot be read as spreadsheet: {error}") from error


def _rows_of(sheet: Any, query: RowQuery) -> Iterator[int]:
    header: list[str] = []
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = [None if cell is None else spreadsheet_value(cell) for cell in row]
        texts = ["" if cell is None else cell_text(cell) for cell in cells]
        header = header or [text.strip() for text in texts if any(texts)]
        record = dict(zip(header, cells, strict=False))
        if query.is_record(record) or _is_in_value(texts, query) or _quotes(texts, query):
            yield number


def _records_with(name: str, content: bytes, query: RowQuery) -> set[tuple[str, int]]:
    """Unit and number of the records of which the row is a value or the cells make it; none of what is not a table."""
    found = set()
    header = 1 if ".csv" in name.lower() or ".tsv" in name.lower() else 0
    readings = [[column for _, column in each.input if column is not None] for each in query.columns] or [[]]
    for needed in readings if name.lower().endswith(TABLE_NAMES) else ():
        for encoding in ("", "cp1252", "latin-1"):
            with suppress(DataError):
                for (unit, number, _), record in RecordFile(Content(name, content), needed, encoding).records():
                    if _is_in_value(list(record), query):  # without a header the first line names the columns
                        found.add((unit, header or number))
                    if query.is_record(record) or _is_in_value(list(record.values()), query):
                        found.add((unit, number))
                break
    return found


def _text(content: bytes) -> str:
    """In UTF-8, or what the byte order mark says; what is neither is read byte by byte."""
    marks = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    for encoding in (marks.get(content[:2], "utf-8-sig"), "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return content.decode("latin-1")


def _positions(content: bytes, row: str) -> set[int]:
    """Lines at which the bytes of a file show a row, within other text too, as it is or as JSON or HTML write it."""
    found = set()
    for spelling in _spellings(row):
        place = content.find(spelling)
        while place >= 0:
            found.add(content.count(b"\n", 0, place) + 1)
            place = content.find(spelling, place + 1)
    return found


def _spellings(row: str) -> set[bytes]:
    as_json = (json.dumps(row)[1:-1], json.dumps(row, ensure_ascii=False)[1:-1])
    as_html = (html.escape(row, quote=False), html.escape(row), str(markupsafe.escape(row)))
    found = set()
    for encoding in ENCODINGS:
        with suppress(UnicodeEncodeError):  # what cannot be written so does not stand there so
            found |= {each.encode(encoding) for each in (row, row.replace('"', '""'), *as_json, *as_html)}
    return found


def _quotes(value: Any, query: RowQuery) -> bool:
    return any(row in text for text in _strings(value) for row in query.quotable)


def _is_or_has(value: Any, query: RowQuery) -> bool:
    return query.is_record(value) or _is_in_value(value, query)


def _is_in_value(value: Any, query: RowQuery) -> bool:
    """Whether a value of JSON or Parquet is or has the row, as a key too."""
    return any(query.is_in(text) for text in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value of JSON or Parquet, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _json(content: bytes) -> Any:
    """The value, or None where it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _stamp(content: bytes) -> str:
    try:
        return stamp_of(table_of(content))
    except (OSError, pa.ArrowException):
        return ""
