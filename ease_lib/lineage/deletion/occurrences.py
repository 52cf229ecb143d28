"""Where a file holds a row, and what is left of the file without it.

A row is named by its input text, and only a whole value is it: a cell or the cells that make it, a string of JSON, a
line of plain text, or `Input: TEXT` before `Output:` in a prompt. A word in somebody else's sentence is not. Of a
prompt that is written in another way, the sequence beside it says which rows it shows; a page of ours says so itself,
in its head. Another HTML page is never searched for rows: where it shows the text, it is listed as quoting it. Tables
of ours without texts name a row by its number, and answers by its hash.

    tables      CSV and JSON lines lose the rows that hold it, and the others stay to the byte; JSON and Parquet are
                written anew without it. Compressed (.gz) too, and in UTF-8, UTF-16 or cp1252. A spreadsheet that holds
                it is named and left: rewritten, it would lose its charts and formats
    the rest    prompts, reports and answers go whole: a prompt without one of its exemplars is another prompt
    records     of lineage, indices and journals hold digests and numbers, and are never looked into; what the message
                of a failed attempt quotes of a row stays there
"""

from __future__ import annotations

import codecs
import csv
import gzip
import html
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from zipfile import BadZipFile

import markupsafe
import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.artifacts.contracts import DOCUMENTS, TABLES
from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_FILES
from ease_lib.artifacts.tables import stamp_of, table_of
from ease_lib.black_box.client import ABOUT
from ease_lib.errors import LineageError
from ease_lib.lineage.attestation import ENVELOPE_FILE
from ease_lib.lineage.chain import COPIES, LATEST_FILE, MANIFEST_CONTRACT, VERSION_FILE, VERSIONS, is_record
from ease_lib.lineage.deletion import tombstones
from ease_lib.lineage.deletion.wanted import Wanted
from ease_lib.lineage.exports import croissant
from ease_lib.lineage.exports.slsa import EVENTS_FILE, PROVENANCE_FILE
from ease_lib.lineage.record import CONTRACT
from ease_lib.tasks.columns import cell_text
from ease_lib.tasks.records import COMPRESSED, HEAD_LINES, TABLE_NAMES, delimiter_of, spreadsheet_value

PROMPT = "prompt"
GZIP_MARK, ZIP_MARK, PARQUET_MARK = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"
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
_NAME = re.compile(r"[\w.-]+")
_PAGE_ROWS = re.compile(r'<meta name="ease-rows" content="([0-9a-f ]*)">')
_PAGE_IDS = re.compile(r'<meta name="ease-test-rows" content="([0-9 ]*)">')
"""What a page of ours says of itself (`reporting/page.py`); no text that it shows can, for these are escaped."""


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """A file that holds the row.

    Args:
        kind: how: `table`, `lines`, `document`, `prompt`, `page` or `answer`.
        rows: how many of its rows go; 0 where it goes whole.
        left: its content without them; None where it goes whole.
    """

    kind: str
    rows: int = 0
    left: bytes | None = None


def occurrence(name: str, content: bytes, wanted: Wanted) -> Occurrence | None:
    """How a file holds a row; None where it does not.

    Args:
        name: its address, for that shows what it is.

    Raises:
        LineageError: when a table cannot be read, or is a spreadsheet that holds the row.
    """
    if is_record(name) or _NO_TEXT.search(name) or name.rpartition("/")[2] in _NO_TEXT_NAMES:
        return None
    if content.startswith(GZIP_MARK) and name.lower().endswith(TABLE_NAMES):
        return _in_gzip(name, content, wanted)
    if content.startswith(ZIP_MARK) and name.lower().endswith(".xlsx"):
        return _in_spreadsheet(content, wanted)
    if content.startswith(PARQUET_MARK):
        return _in_parquet(name, content, wanted)
    if _ANSWER.match(content):
        return Occurrence(kind="answer") if answers(content, wanted) else None
    return _in_bytes(name, content, wanted)


def names_its_rows_elsewhere(name: str) -> str:
    """Of a prompt, in whatever way it is written: the file beside it that says which rows it shows; else empty."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{BEST_SEQUENCE}" if file in PROMPT_FILES else ""


def answers(entry: bytes, wanted: Wanted) -> bool:
    """Whether a cached answer, as an object holds it, is about the row or repeats it."""
    completion = _json(entry.partition(b"\n")[2])
    if not isinstance(completion, dict):
        return False
    is_about = str(completion.get("account", "")).endswith(f"{ABOUT}{wanted.row}")
    return is_about or wanted.is_in(str(completion.get("text", "")))


def quotes(content: bytes, text: str) -> bool:
    """Whether a file shows a text anywhere, within other text too, as it is or as JSON or HTML write it."""
    if content.startswith(PARQUET_MARK):
        return any(text in value for value in _strings(_texts_of(_parquet(content))))
    as_json = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    as_html = (html.escape(text, quote=False), html.escape(text), str(markupsafe.escape(text)))
    return any(spelling.encode() in content for spelling in (text, *as_json, *as_html))


def _in_gzip(name: str, content: bytes, wanted: Wanted) -> Occurrence | None:
    """What is inside it, compressed anew."""
    try:
        inside = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise LineageError(f"no gzip that can be read: {error}") from error
    found = occurrence(name[: -len(COMPRESSED)], inside, wanted)
    if found and found.left is not None:
        return replace(found, left=gzip.compress(found.left, mtime=0))
    return found


def _in_spreadsheet(content: bytes, wanted: Wanted) -> Occurrence | None:
    """Nowhere, or an error that says where."""
    import openpyxl  # see `records`

    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        rows = [f"row {number} of {sheet.title!r}" for sheet in book.worksheets for number in _rows_in(sheet, wanted)]
    except (BadZipFile, KeyError, ValueError) as error:
        raise LineageError(f"no spreadsheet that can be read: {error}") from error
    if rows:
        raise LineageError(f"it holds the row, in {', '.join(rows)}: spreadsheets are not rewritten, remove it by hand")
    return None


def _rows_in(sheet: Any, wanted: Wanted) -> Iterator[int]:
    header: list[str] = []
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = [None if cell is None else spreadsheet_value(cell) for cell in row]
        texts = ["" if cell is None else cell_text(cell) for cell in cells]
        header = header or [text.strip() for text in texts if any(texts)]
        if any(map(wanted.is_value, filter(None, texts))) or wanted.is_record(dict(zip(header, cells, strict=False))):
            yield number


def _in_bytes(name: str, content: bytes, wanted: Wanted) -> Occurrence | None:
    """Of a text: UTF-8, or what its byte order mark says; a table that is neither is read as cp1252."""
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    others = ("cp1252", "latin-1") if name.lower().endswith(TABLE_NAMES) else ()
    for encoding in (marks.get(content[:2], "utf-8"), *others):
        with suppress(UnicodeDecodeError):
            found = _in_text(name, content.decode(encoding), wanted)
            if found and found.left is not None:
                return replace(found, left=found.left.decode().encode(encoding))
            return found
    return None


def _in_text(name: str, text: str, wanted: Wanted) -> Occurrence | None:
    if text[:200].lstrip("\ufeff \n\r\t").lower().startswith(("<!doctype html", "<html")):
        named, numbered = _PAGE_ROWS.search(text), _PAGE_IDS.search(text)
        ids = {str(number) for number in wanted.ids_at(name)}
        is_named = named is not None and wanted.row in named[1].split()
        is_numbered = numbered is not None and bool(ids & set(numbered[1].split()))
        return Occurrence(kind="page") if is_named or is_numbered else None
    if name.rpartition("/")[2] in PROMPT_FILES:  # without one of its lines it would be another prompt
        shows = wanted.is_in_prompt(text) or any(quotes(text.encode(), each) for each in wanted.quotable)
        return Occurrence(kind=PROMPT) if shows else None
    suffix = name.rpartition(".")[2].lower()
    if suffix in ("csv", "tsv"):
        return _in_csv(text, wanted, "\t" if suffix == "tsv" else "")
    begin = text.lstrip("\ufeff \n\r\t")[:1]
    document = _json(text) if begin in ("{", "[", '"') else None
    if document is not None:
        return _in_document(text, document, wanted)
    if suffix in ("jsonl", "ndjson") or begin == "{":
        return _in_lines(text, lambda line: _is_or_has(_json(line), wanted))
    if wanted.is_in_prompt(text):
        return Occurrence(kind=PROMPT)
    return None if "\nOutput:" in text else _in_lines(text, wanted.is_value)


def _json(text: str | bytes) -> Any:
    """The value, or None where it is no JSON."""
    try:
        return json.loads(text.lstrip("\ufeff") if isinstance(text, str) else text)
    except (ValueError, RecursionError):
        return None


def _in_lines(text: str, is_wanted: Callable[[str], bool]) -> Occurrence | None:
    """A file of one value a line."""
    lines = list(io.StringIO(text, newline=""))
    kept = [line for line in lines if not line.strip() or not is_wanted(line.lstrip("\ufeff"))]
    return _table("lines", len(lines) - len(kept), "".join(kept).encode())


def _table(kind: str, rows: int, left: bytes) -> Occurrence | None:
    return Occurrence(kind=kind, rows=rows, left=left) if rows else None


def _in_csv(text: str, wanted: Wanted, delimiter: str) -> Occurrence | None:
    """Records lose nothing but those that have the row as a cell; quotes and line ends of the others stay.

    Args:
        delimiter: empty takes what the first lines show, as tasks do.
    """
    lines = list(io.StringIO(text, newline=""))
    if lines and not delimiter:
        delimiter = delimiter_of(lines[:HEAD_LINES])
    reader = csv.reader((line.lstrip("\ufeff") for line in lines), delimiter=delimiter or ",")
    kept: list[str] = []
    header: list[str] = []
    begin = removed = 0
    try:
        for cells in reader:
            record, begin = lines[begin : reader.line_num], reader.line_num
            is_header = not kept and not removed and all(_NAME.fullmatch(cell) for cell in cells)
            header = header or cells
            is_wanted = any(map(wanted.is_value, cells)) or wanted.is_record(dict(zip(header, cells, strict=False)))
            if not is_header and is_wanted:
                removed += 1
            else:
                kept += record
    except csv.Error:
        return _in_lines(text, wanted.is_value)
    return _table("table", removed, "".join(kept).encode())


def _in_parquet(name: str, content: bytes, wanted: Wanted) -> Occurrence | None:
    """Rows that have it in a column of text, whatever lists or structs it stands in, or that are of its number."""
    table = _parquet(content)
    kept = [True] * table.num_rows
    for values in _texts_of(table):
        kept = [keep and not _is_in_record(value, wanted) for keep, value in zip(kept, values, strict=True)]
    if wanted.columns and stamp_of(table) not in TABLES:
        kept = [keep and not wanted.is_record(record) for keep, record in zip(kept, table.to_pylist(), strict=True)]
    ids = wanted.ids_at(name) if stamp_of(table) in _BY_NUMBER else ()
    if ids:
        kept = [keep and number not in ids for keep, number in zip(kept, table["exemplar_id"].to_pylist(), strict=True)]
    if all(kept):
        return None
    left = io.BytesIO()
    pq.write_table(table.filter(pa.array(kept)), left)
    return _table("table", kept.count(False), left.getvalue())


def _parquet(content: bytes) -> pa.Table:
    try:
        return table_of(content)
    except (OSError, pa.ArrowException) as error:
        raise LineageError(f"no Parquet that can be read: {error}") from error


def _texts_of(table: pa.Table) -> Iterator[list[Any]]:
    """The columns that may hold text of rows, one after another."""
    for number, column in enumerate(table.schema):
        if "string" in str(column.type) and (stamp_of(table) not in TABLES or column.name in TEXT_FIELDS):
            yield table.column(number).to_pylist()


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value of JSON or Parquet, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple | Iterator):
        for item in value:
            yield from _strings(item)


def _is_in_record(value: Any, wanted: Wanted) -> bool:
    """Whether a value of JSON or Parquet is or has the row, as a key too."""
    return any(wanted.is_in(text) for text in _strings(value))


def _is_or_has(value: Any, wanted: Wanted) -> bool:
    return wanted.is_record(value) or _is_in_record(value, wanted)


def _in_document(text: str, document: Any, wanted: Wanted) -> Occurrence | None:
    contract = str(document.get("contract", "")).partition("/")[0] if isinstance(document, dict) else ""
    if contract in _RECORDS:
        return None
    if contract in DOCUMENTS:
        return Occurrence(kind="document") if _is_in_fields(document, wanted) else None
    if not _is_in_record(document, wanted) and not _has_record(document, wanted):
        return None
    left, rows = _pruned(document, wanted)
    if left is _GONE or not left:
        return Occurrence(kind="document")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    written = json.dumps(left, ensure_ascii=False, indent=2)
    return _table("table" if isinstance(left, list) else "document", rows, f"{mark}{written}\n".encode())


def _is_in_fields(value: Any, wanted: Wanted) -> bool:
    """Whether a document of ours shows the row where it shows rows at all: a parameter of that value is no row."""
    if isinstance(value, dict):
        return any(
            (key in TEXT_FIELDS and _is_in_record(item, wanted)) or _is_in_fields(item, wanted)
            for key, item in value.items()
            if key != "parameters"
        )
    return isinstance(value, list) and any(_is_in_fields(item, wanted) for item in value)


def _has_record(value: Any, wanted: Wanted) -> bool:
    """Whether a list of a document has a record whose cells make the row."""
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return wanted.is_record(value) or any(_has_record(item, wanted) for item in inner)


_GONE = object()
"""Stands for a value that nothing is left of."""


def _pruned(value: Any, wanted: Wanted) -> tuple[Any, int]:
    """A JSON value without the smallest records that hold the row, and how many there were."""
    if isinstance(value, str) or _is_chat(value):
        return (_GONE, 1) if _is_in_record(value, wanted) else (value, 0)
    if isinstance(value, dict):
        return _pruned_object(value, wanted)
    if isinstance(value, list):
        pruned = [_pruned(item, wanted) for item in value]
        return [left for left, _ in pruned if left is not _GONE], sum(rows for _, rows in pruned)
    return value, 0


def _pruned_object(value: dict[str, Any], wanted: Wanted) -> tuple[Any, int]:
    """A record that has the row itself goes; an object that holds records loses them."""
    if wanted.is_record(value) or any(_is_own(item) and _is_in_record(item, wanted) for item in value.values()):
        return _GONE, 1
    pruned = {key: (_GONE, 1) if wanted.is_value(key) else _pruned(item, wanted) for key, item in value.items()}
    return {key: left for key, (left, _) in pruned.items() if left is not _GONE}, sum(n for _, n in pruned.values())


def _is_own(item: Any) -> bool:
    """Whether a field of a record is part of it: text, accepted outputs, a conversation."""
    is_output = isinstance(item, list) and len(item) < 2 and all(isinstance(each, str) for each in item)
    return is_output or isinstance(item, str) or _is_chat(item)


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "role" in m for m in value)
