"""Stage `build_dataset`: from the task's source to exemplar pool, validation set and test set."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import Store, open_store
from ease_lib.artifacts.tables import write_document, write_exemplars
from ease_lib.config import RunConfig, TaskConfig
from ease_lib.evaluation.metrics import METRICS
from ease_lib.stages.execution import StageReport, artifact, logger, output_path
from ease_lib.tasks.catalog import build_task
from ease_lib.tasks.table import SUFFIXES


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """None: the source is named by parameters."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    validation: str = artifact(contracts.VALIDATION_SET)
    test: str = artifact(contracts.TEST_SET)
    summary: str = artifact(contracts.DATASET_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config:
    task: TaskConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Load, relabel, split and corrupt as the parameters say.

    Raises:
        DataError, StoreError, ConfigError: naming file, row, column and remedy.
    """
    with tempfile.TemporaryDirectory() as folder:
        store, names = task_files(config.task.task_uri)
        data = build_task(
            config.task,
            seed=config.run.seed,
            locate=lambda name: store.fetch(name, Path(folder)),
            list_files=lambda: names or store.list_names(),
            metrics=METRICS,
        )
    write_exemplars(output_path(outputs.pool), contracts.EXEMPLAR_POOL, data.pool)
    write_exemplars(output_path(outputs.validation), contracts.VALIDATION_SET, data.validation)
    write_exemplars(output_path(outputs.test), contracts.TEST_SET, data.test)
    marks = [row.is_noisy for row in data.pool]
    noisy = None if None in marks else sum(map(bool, marks))
    summary = {
        "task": data.name,
        "metric": data.metric,
        "pool": len(data.pool),
        "validation": len(data.validation),
        "test": len(data.test),
        "noisy": noisy,
        "notices": list(data.notices),
    }
    write_document(output_path(outputs.summary), contracts.DATASET_SUMMARY, summary)
    logger.info(
        "%s: %d exemplars (%s), %d validation rows, %d test rows",
        data.name,
        len(data.pool),
        "noise unknown" if noisy is None else f"{noisy} noisy",
        len(data.validation),
        len(data.test),
    )
    for notice in data.notices:
        logger.info("notice: %s", notice)
    return StageReport(metrics={"pool": len(data.pool), "validation": len(data.validation), "test": len(data.test)})


def task_files(task_uri: str) -> tuple[Store, list[str]]:
    """The folder of the task's data, and the one file in it when `task_uri` names a file; else no names."""
    if task_uri.endswith(SUFFIXES):
        folder, _, name = task_uri.rpartition("/")
        return open_store(folder or "."), [name]
    return open_store(task_uri or "."), []
