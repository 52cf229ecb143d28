"""The lineage record of one attempt at a stage: a JSON document that carries its own digest.

Each input names the record of the stage that made it, by URI and SHA-256, so records form a chain from the prompt back
to the raw data, and a change to one of them breaks the links of those that follow. README.md has all fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.digests import sha256_of, sha256_of_file
from ease_lib.documents import Misfit, check
from ease_lib.errors import LineageError
from ease_lib.lineage.shapes import SHAPES

CONTRACT = "lineage_record/1"
Record = dict[str, Any]
Item = TypeVar("Item")


def encode(record: Record, contract: str = CONTRACT) -> bytes:
    """The record as it is written, with its own digest as last field."""
    content = {**record, "contract": contract}
    content.pop("digest", None)
    return (json.dumps({**content, "digest": digest_of(content)}, indent=1, ensure_ascii=False) + "\n").encode()


def decode(content: bytes, where: str, contract: str = CONTRACT) -> Record:
    """Read a record back.

    Raises:
        LineageError: when it is not a record, or not as it was written.
    """
    try:
        record: Record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LineageError(f"{where} is damaged: not JSON") from error
    if not isinstance(record, dict) or record.get("contract") != contract:
        raise LineageError(f"{where} is not a {contract}")
    try:
        is_same = encode(record, contract) == content
    except ValueError as error:  # half a character, or a number that JSON does not have
        raise LineageError(f"{where} is damaged: {error}") from error
    if not is_same:
        raise LineageError(f"{where} is damaged: its digest does not match its content")
    try:
        check(SHAPES[contract.partition("/")[0]], record)
    except Misfit as error:
        raise LineageError(f"{where} is damaged: {error}") from None
    return record


def now() -> str:
    """The current time in the form of records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def distinct(items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
    """Each item once, at its first place."""
    known: dict[Any, Item] = {}
    for item in items:
        known.setdefault(key(item), item)
    return list(known.values())


def answered_by(counts: Mapping[tuple[str, str], int]) -> list[Record]:
    """Models that answered and how often, from counts by model and fingerprint."""
    named = sorted(counts.items())
    return [{"model": model, "system_fingerprint": mark, "answers": count} for (model, mark), count in named]


def resource_uri(uri: str) -> str:
    """The URI of a file that a record may name by its local path."""
    return Path(uri).as_uri() if uri.startswith("/") else uri


def digest_of(content: Record) -> str:
    """SHA-256 of a JSON value in canonical form."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256_of(canonical.encode())


def described(path: Path) -> Record:
    """Digest, size and, of a table, rows and schema of a file; of a folder, of every file in it.

    What cannot be read has an empty digest: the stage that needs it says what is wrong.
    """
    if not path.is_dir():
        try:
            return {"sha256": sha256_of_file(path), "bytes": path.stat().st_size, **_table(path)}
        except OSError:
            return {"sha256": "", "bytes": 0}
    files = {
        str(file.relative_to(path)): {"sha256": sha256_of_file(file), "bytes": file.stat().st_size}
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }
    return {"sha256": digest_of_files(files), "bytes": sum(file["bytes"] for file in files.values()), "files": files}


def digest_of_files(files: Record) -> str:
    """Digest of a folder, over the names and digests of its files."""
    return digest_of({name: file["sha256"] for name, file in files.items()})


def _table(path: Path) -> Record:
    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            return {}
    try:
        parquet = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid):
        return {}
    fields = [[field.name, str(field.type), field.nullable] for field in parquet.schema_arrow]
    return {"rows": parquet.metadata.num_rows, "schema_sha256": digest_of({"fields": fields})}
