"""Read and write artifacts under their contract. A file appears whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ease_lib.artifacts.contracts import DocumentContract, TableContract
from ease_lib.artifacts.partial import partial_file
from ease_lib.artifacts.store import named_os_errors
from ease_lib.errors import ContractError
from ease_lib.tasks.base import Exemplar

STAMP = "ease_contract"


def write_table(
    path: Path,
    contract: TableContract,
    columns: Mapping[str, Sequence[Any] | pa.Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write columns as Parquet.

    Raises:
        ContractError: when they do not fit the contract.
    """
    schema = contract.schema.with_metadata({STAMP: contract.stamp, **(metadata or {})})
    try:
        table = pa.table(
            {name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema=schema
        )
    except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ContractError(f"{path.name} ({contract.stamp}): wrong columns: {error}") from error
    write_rows(path, contract, table)


def write_records(
    path: Path, contract: TableContract, records: Sequence[tuple[Any, ...]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write rows of the contract's type as Parquet, as `write_table` does."""
    columns = {name: [record[place] for record in records] for place, name in enumerate(contract.schema.names)}
    write_table(path, contract, columns, metadata)


def write_rows(path: Path, contract: TableContract, table: pa.Table) -> None:
    """Write a table that has the contract's columns and stamp already, such as some rows of one that was read."""
    _check(table, contract, path)
    with partial_file(path) as partial:
        pq.write_table(table, partial)
        os.replace(partial, path)


def read_table(path: Path, contract: TableContract) -> pa.Table:
    """Read a Parquet file written by `write_table`; the metadata is in `table.schema.metadata`.

    Raises:
        ContractError: naming file, column, expected and found.
    """
    table = _parquet(path, contract).read()
    if table.schema.names != contract.schema.names:
        raise ContractError(
            f"{path} ({contract.stamp}): expected columns {contract.schema.names}, found {table.schema.names}"
        )
    for expected in contract.schema:
        actual = table.schema.field(expected.name).type
        if actual != expected.type:
            raise ContractError(
                f"{path} ({contract.stamp}), column {expected.name}: expected {expected.type}, found {actual}"
            )
    _check(table, contract, path)
    return table


def write_document(path: Path, contract: DocumentContract, document: Mapping[str, Any]) -> None:
    """Write a JSON document, stamped."""
    stamped = {"contract": contract.stamp, **document}
    contract.check(stamped, path.name)
    write_text(path, json.dumps(stamped, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_document(path: Path, contract: DocumentContract) -> dict[str, Any]:
    """Read a JSON document written by `write_document`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ContractError(
            f"{path} ({contract.stamp}) cannot be read: {error}; run again the stage that writes it"
        ) from error
    found = document.get("contract") if isinstance(document, dict) else None
    if found != contract.stamp:
        raise ContractError(f"{path}: expected contract {contract.stamp}, found {found}")
    contract.check(document, str(path))
    return dict(document)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        StoreError: when it cannot be written.
    """
    with named_os_errors(path, "cannot be written"), partial_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)


def write_exemplars(path: Path, contract: TableContract, exemplars: Sequence[Exemplar]) -> None:
    """Write a pool, validation or test set."""
    columns: dict[str, list[Any]] = {
        "exemplar_id": [row.exemplar_id for row in exemplars],
        "input": [row.input for row in exemplars],
        "outputs": [list(row.outputs) for row in exemplars],
        "is_noisy": [row.is_noisy for row in exemplars],
        "fields": [list(row.fields) for row in exemplars],
        "origin": [row.origin for row in exemplars],
    }
    write_table(path, contract, columns)


def read_exemplars(path: Path, contract: TableContract, part: range | None = None) -> list[Exemplar]:
    """Read a pool, validation or test set.

    Args:
        part: the rows wanted; None is all.
    """
    table = read_table(path, contract)
    if part is not None:
        table = table.slice(part.start, len(part))
    return [
        Exemplar(
            row["exemplar_id"],
            row["input"],
            tuple(row["outputs"]),
            row.get("is_noisy"),
            tuple(row["fields"]),
            row["origin"],
        )
        for row in table.to_pylist()
    ]


def table_of(content: bytes) -> pa.Table:
    """The table of a whole Parquet file in memory, whatever its contract.

    Arrow is given memory of its own. A thread of Arrow that lets go of a Python object while the interpreter ends is
    ended in the middle of it, and aborts the process ("terminate called without an active exception").

    Raises:
        pa.ArrowException, OSError: when it is not such a file.
    """
    memory = pa.BufferOutputStream()
    memory.write(content)
    return pq.read_table(pa.BufferReader(memory.getvalue()))  # noqa: TID251


def count_rows(path: Path, contract: TableContract) -> int:
    """Rows of a table, without reading them."""
    return int(_parquet(path, contract).metadata.num_rows)


def iterate_inputs(path: Path, contract: TableContract) -> Iterator[str]:
    """The input texts of a pool, validation or test set, a few thousand in memory at a time."""
    for batch in _parquet(path, contract).iter_batches(columns=["input"]):
        yield from batch.column(0).to_pylist()


def _parquet(path: Path, contract: TableContract) -> pq.ParquetFile:
    """The open file, its stamp checked."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ContractError(
            f"{path} ({contract.stamp}) cannot be read: {error}; run again the stage that writes it"
        ) from error
    found = (file.schema_arrow.metadata or {}).get(STAMP.encode(), b"none").decode()
    if found != contract.stamp:
        raise ContractError(f"{path}: expected contract {contract.stamp}, found {found}")
    return file


def _check(table: pa.Table, contract: TableContract, path: Path) -> None:
    for field in contract.schema:
        if not field.nullable and table[field.name].null_count:
            raise ContractError(f"{path} ({contract.stamp}), column {field.name}: has empty values")
    for check in contract.checks:
        problem = check(table)
        if problem:
            raise ContractError(f"{path} ({contract.stamp}) {problem}")


def stamp_of(table: pa.Table) -> str:
    """Name of the contract by which EASE wrote a table; empty for any other table."""
    return str((table.schema.metadata or {}).get(STAMP.encode(), b"").decode().partition("/")[0])
