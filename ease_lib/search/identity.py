"""Identity of a search: everything that decides what is asked and how it is scored."""

from __future__ import annotations

import dataclasses
from typing import Any

from ease_lib.config.methods import METHODS
from ease_lib.config.sections import EmbeddingConfig, OptimizerConfig
from ease_lib.digests import key_of, sha256_of_files
from ease_lib.embedding.opening import embedder_identity
from ease_lib.search.optimizers.registry import scaled_design
from ease_lib.search.task import ScoringIdentity, SearchTask


def search_key(
    task: SearchTask, scored: ScoringIdentity, optimizer: OptimizerConfig, embedding: EmbeddingConfig, *, seed: int
) -> str:
    """Hash of the search, which names its journal.

    A larger budget continues the same search, unless the method or a scaled initial design depends on it. What a cap
    leaves of the budget to a method that spreads answers is part of the journal's name instead.
    """
    settings = dataclasses.asdict(optimizer)
    settings["initial_design"] = scaled_design(optimizer)
    settings["k_min"], settings["parallel"] = optimizer.shortest, optimizer.under_way
    del settings["order_report"], settings["warm_start"], settings["ties"]
    if not optimizer.chooses_rows and not METHODS[optimizer.method].depends_on_budget:
        del settings["budget"]
    identity: dict[str, Any] = {
        "files": sha256_of_files(list(task.files)),
        "optimizer": settings,
        "embedder": [dataclasses.astuple(embedding), embedder_identity(embedding)],
        "instructions": task.instructions.texts,
        "seed": seed,
        **scored.identity,
    }
    return key_of(identity)
