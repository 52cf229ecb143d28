"""The vectors of a run, as the stages behind `embed` read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ease_lib.arrays import FloatArray
from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_table
from ease_lib.errors import ContractError


@dataclass(frozen=True, kw_only=True)
class ExemplarEmbeddings:
    """The vectors of a run, rows in the order of pool, validation set and instructions, unit length.

    `instructions` has no rows when there is only the empty one, `pool_inputs` and `validation_inputs` have none where
    outputs are not classes.
    """

    embedder: str
    pool: FloatArray
    pool_outputs: FloatArray
    validation: FloatArray
    instructions: FloatArray
    pool_inputs: FloatArray
    validation_inputs: FloatArray


def read_embeddings(
    path: Path, pool_ids: list[int], validation_ids: list[int], instructions: int
) -> ExemplarEmbeddings:
    """Read the vectors in the order of these ids, and of so many instructions.

    Raises:
        ContractError: when the file was made from another pool, validation set or file of instructions.
    """
    table = read_table(path, contracts.EXEMPLAR_EMBEDDINGS)
    vectors = np.stack(table["vector"].to_numpy())
    keys = zip(table["split"].to_pylist(), table["part"].to_pylist(), table["exemplar_id"].to_pylist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}

    def select(split: str, part: str, ids: list[int]) -> FloatArray:
        try:
            return vectors[[row_of[split, part, exemplar_id] for exemplar_id in ids]]
        except KeyError as error:
            raise ContractError(
                f"{path}: no {part} vector of {split} row {error.args[0][2]}; embed this {split} again"
            ) from error

    has_inputs = "input" in table["part"].to_pylist()
    return ExemplarEmbeddings(
        embedder=(table.schema.metadata or {}).get(b"embedder", b"").decode(),
        pool=select("pool", "exemplar", pool_ids),
        pool_outputs=select("pool", "output", pool_ids),
        validation=select("validation", "exemplar", validation_ids),
        instructions=select("instructions", "instruction", list(range(instructions if instructions > 1 else 0))),
        pool_inputs=select("pool", "input", pool_ids if has_inputs else []),
        validation_inputs=select("validation", "input", validation_ids if has_inputs else []),
    )
