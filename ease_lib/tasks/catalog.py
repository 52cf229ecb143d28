"""From a task's configuration to its three sets: the one place that knows every kind of task."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from ease_lib import observations
from ease_lib.config import TaskConfig
from ease_lib.errors import ConfigError
from ease_lib.tasks import table
from ease_lib.tasks.base import Row, TaskData, TaskSource, row_hash
from ease_lib.tasks.instruction_induction import instruction_induction
from ease_lib.tasks.linear_rule import linear_rule
from ease_lib.tasks.noise import Score, inject_noise
from ease_lib.tasks.pig_latin import pig_latin_variant
from ease_lib.tasks.reasoning import reasoning
from ease_lib.tasks.remapping import remap_labels
from ease_lib.tasks.splits import deal

LocateFile = Callable[[str], Path]
"""Gives the local path of a file below `task_uri`, fetching it first where it is remote."""
ListFiles = Callable[[], list[str]]
"""The names of the files at `task_uri`: several for a folder, one (its own name) for a file."""


def build_task(
    config: TaskConfig, *, seed: int, locate: LocateFile, list_files: ListFiles, metrics: Mapping[str, Score]
) -> TaskData:
    """Load the source, leave rows out, rename labels, deal the splits, corrupt the pool: in this order.

    Args:
        metrics: every metric by name; the task's own decides what counts as noise.

    Raises:
        ConfigError, DataError: on parameters or data that cannot work.
    """
    source = load_source(config, seed=seed, locate=locate, list_files=list_files)
    source = remap_labels(without_rows(source, config.exclude_rows), config.label_remapping)
    data = deal(
        source,
        pool_size=config.pool_size,
        validation_size=config.validation_size,
        test_size=config.test_size,
        seed=seed,
    )
    metric = data.metric if config.metric == "auto" else config.metric
    pool = inject_noise(data.pool, config.noise_ratio, source.noise_rule, seed, metrics[metric])
    return replace(data, metric=metric, pool=pool)


def without_rows(source: TaskSource, excluded: str) -> TaskSource:
    """The source without the rows whose inputs have these hashes, comma-separated, wherever they stand.

    Raises:
        ConfigError: on something that is no hash.
    """
    hashes = {entry.strip() for entry in excluded.split(",") if entry.strip()}
    wrong = sorted(entry for entry in hashes if not re.fullmatch("[0-9a-f]{64}", entry))
    if wrong:
        raise ConfigError(f"exclude_rows={wrong[0]} is no SHA-256 of an input text; `ease forget --row TEXT` prints it")
    if not hashes:
        return source

    def left(rows: Sequence[Row] | None) -> list[Row] | None:
        return None if rows is None else [row for row in rows if row_hash(row.input) not in hashes]

    return replace(source, rows=left(source.rows) or [], validation=left(source.validation), test=left(source.test))


def load_source(config: TaskConfig, *, seed: int, locate: LocateFile, list_files: ListFiles) -> TaskSource:
    """All rows the task offers."""
    rows = config.pool_size + config.validation_size + config.test_size
    if config.task in ("lr", "lp_variant") and not config.pool_size:
        raise ConfigError(
            f"pool_size=0 takes all rows there are, but {config.task} makes as many as asked; set pool_size"
        )
    match config.task:
        case "customer_feedback":
            return customer_feedback()
        case "lr":
            return linear_rule(slope=config.lr_slope, intercept=config.lr_intercept, rows=rows, seed=seed)
        case "lp_variant":
            return pig_latin_variant(rows=rows, seed=seed)
        case "instruction_induction":
            return instruction_induction(config.task_name, locate, config.clean_task_name)
        case "table" if not config.task_uri:
            return table.hub_source(config.task_name, table.Columns.parse(config.input_columns, config.output_column))
        case "table":
            columns = table.Columns.parse(config.input_columns, config.output_column)
            name = config.task_name or Path(config.task_uri.rstrip("/")).stem
            return table.table_source(name, _files(config.task_uri, locate, list_files), columns)
        case "gsm8k" | "aqua" | "math":
            return reasoning(config.task, _files(config.task_uri, locate, list_files))
        case unknown:
            raise ConfigError(f"task={unknown} is unknown")


def customer_feedback() -> TaskSource:
    """The shipped task: short customer feedback to be sorted by kind. See `data/README.md` for origin and licence."""
    with resources.as_file(resources.files("ease_lib.tasks") / "data" / "customer_feedback.csv") as path:
        observations.file_read(f"{observations.PACKAGE}ease_lib.tasks/data/{path.name}", path)
        rows = table.read_rows(path, table.Columns.parse("text", "kind"))
    return TaskSource(
        name="customer_feedback",
        metric="exact_match",
        rows=[Row(row.input, row.outputs, is_noisy=False) for row in rows],
    )


def _files(task_uri: str, locate: LocateFile, list_files: ListFiles) -> dict[str, Path]:
    """The one table there is, as `rows`, or those named by split."""
    names = [name for name in list_files() if name.endswith(table.SUFFIXES)]
    if len(names) == 1:
        return {"rows": locate(names[0])}
    files = {split: name for name in names if (split := table.split_of(name))}
    if not files:
        raise ConfigError(
            f"task_uri={task_uri} holds {len(names)} tables ({', '.join(sorted(names)[:5]) or 'none'}); "
            "give one file, or name them train, validation and test"
        )
    return {split: locate(name) for split, name in files.items()}
