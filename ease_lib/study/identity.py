"""What a search is the same by: all that decides what is asked and how it is scored."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ease_lib.artifacts.tables import sha256_of_files
from ease_lib.black_box.asked import FIRST
from ease_lib.black_box.chain import BlackBox
from ease_lib.config.sections import ROW_METHODS, EmbeddingConfig, OptimizerConfig
from ease_lib.embedding.opening import embedder_identity
from ease_lib.evaluation.prompt import PromptTemplate
from ease_lib.optimizers.registry import BUDGET_METHODS


def judge_identity(black_box: BlackBox) -> list[Any] | None:
    """What the judge is the same by; None where no LLM judges."""
    if black_box.judge is None:
        return None
    asked = black_box.judge.asked
    return [asked.endpoint, asked.model, dict(asked.extra), asked.sampling.max_tokens]


def journal_key(
    *,
    files: Sequence[Path],
    optimizer: OptimizerConfig,
    embedding: EmbeddingConfig,
    black_box: BlackBox,
    instructions: Sequence[str],
    template: PromptTemplate,
    seed: int,
    answers: int,
) -> str:
    """Hash of the search, by which its journal is found again.

    A larger budget continues the same search, unless the method or a scaled initial design depends on it.

    Args:
        files: pool, validation set and what is said of the data.
        answers: that the search plans for; a method that chooses rows spreads them.
    """
    asked, settings = black_box.asked, dataclasses.asdict(optimizer)
    settings["initial_design"] = optimizer.scaled_design
    settings["k_min"], settings["parallel"] = optimizer.shortest, optimizer.under_way
    del settings["order_report"], settings["warm_start"]
    if optimizer.method in ROW_METHODS:
        settings["budget"] = answers
    elif optimizer.method not in BUDGET_METHODS:
        del settings["budget"]
    identity: dict[str, Any] = {
        "files": sha256_of_files(list(files)),
        "optimizer": settings,
        "embedder": [dataclasses.astuple(embedding), embedder_identity(embedding)],
        "endpoint": [asked.endpoint, asked.model, asked.api, asked.sampling.identity],
        "instructions": list(instructions),
        "template": template.identity,
        "seed": seed,
    }
    if asked.extra:
        identity["extra"] = dict(asked.extra)
    if judge := judge_identity(black_box):
        identity["judge"] = judge
    if asked.generation != FIRST:
        identity["answers"] = asked.generation
    if black_box.failures.kind == "zero":  # the others leave the same scores where nothing was refused
        identity["failures"] = "zero"
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
