"""The data of a task, from the places in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ease_lib.artifacts.functions import LoadedFunction
from ease_lib.artifacts.sources import FileTree, Sources
from ease_lib.artifacts.store import Store
from ease_lib.artifacts.streams import DataFile
from ease_lib.config.sections import TaskConfig
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError, DataError, StoreError
from ease_lib.evaluation.judge import read_rubric
from ease_lib.evaluation.own_metric import load_metric
from ease_lib.notes import PACKAGE
from ease_lib.prompts.baseline import read_baseline
from ease_lib.prompts.template import read_template
from ease_lib.tasks.base import TaskData
from ease_lib.tasks.catalog import (
    SHIPPED,
    build_task,
    check_heads,
    check_hub_task,
    is_hub,
    most_test_rows,
    most_validation_rows,
    shipped_file,
    task_tables,
)
from ease_lib.tasks.records import TABLE_NAMES
from ease_lib.tasks.table import split_of

READ_WHOLE_BYTES = 16 * 2**20
"""Size up to which all data is checked before a run, which takes a second or two."""
SPREADSHEET_TIMES = 10
"""Factor by which a spreadsheet, compressed and with objects as cells, is slower to read than text of its size."""
MOST_GENERATED = 10_000
"""Largest number of rows that a task generates."""


def check_data(task: TaskConfig, sources: Sources, own_metric: LoadedFunction | None = None) -> TaskData | None:
    """Check the task's data like a run: all of it if that is quick, else its first rows.

    Returns:
        The data, where all of it was looked at.

    Raises:
        DataError, StoreError, ConfigError: as `load_data`.
    """
    if is_hub(task):
        check_hub_task(task, columns_of(task, sources))
    elif is_small(task, sources):
        return load_data(task, 0, sources, own_metric)
    elif task.task_uri:
        check_heads(task, _tables(task, sources) or {}, columns_of(task, sources))
    return None


def is_small(task: TaskConfig, sources: Sources) -> bool:
    """Whether all of the data can be checked before a run begins."""
    if is_hub(task):
        return False
    if not task.task_uri:
        return max(task.pool_size, 0) + most_validation_rows(task) + most_test_rows(task) <= MOST_GENERATED
    tables = _tables(task, sources)
    return tables is None or sum(map(_bytes_to_read, tables.values())) <= READ_WHOLE_BYTES


def _tables(task: TaskConfig, sources: Sources) -> dict[str, DataFile] | None:
    locate, list_files = _files_of(task, sources)
    return task_tables(task, locate, list_files, files_apart(task, sources))


def _files_of(task: TaskConfig, sources: Sources) -> tuple[Callable[[str], DataFile], Callable[[str], list[str]]]:
    """The task's files by name, and the names of those in a folder of `task_uri`; a tree of MATH is a file per
    split."""
    store, names = task_files(task.task_uri, sources)
    trees = file_trees(store) if task.task == "math" and not names else {}

    def locate(name: str) -> DataFile:
        return trees[name] if name in trees else store.data_file(name)

    def list_files(folder: str) -> list[str]:
        found = store.find_names(folder) if folder else names or list(trees) or store.find_names()
        if not found and not folder:
            raise StoreError(f"{store.uri}: no such folder, or no files in it; check task_uri")
        return found

    return locate, list_files


def _bytes_to_read(file: DataFile) -> int:
    return file.size * (SPREADSHEET_TIMES if file.suffix.lower() == ".xlsx" else 1)


def columns_of(task: TaskConfig, sources: Sources) -> tuple[str, ...]:
    """Columns of the rows that the prompt, the baseline or the judge's rubric names."""
    baseline = read_baseline(task.baseline, sources)
    rubric = read_rubric(task.judge_rubric, sources) if task.is_judged else None
    named = [each.columns for each in (read_template(task.prompt, sources), baseline, rubric) if each]
    return tuple(dict.fromkeys(column for columns in named for column in columns))


def load_data(task: TaskConfig, seed: int, sources: Sources, own_metric: LoadedFunction | None = None) -> TaskData:
    """The three sets; files are read in place, record by record, and noted as inputs.

    Args:
        own_metric: the caller's function that scores, where `metric` names one.
    """
    found, list_files = _files_of(task, sources)
    apart = files_apart(task, sources)
    files: dict[str, DataFile] = {}

    def locate(name: str) -> DataFile:
        return files.setdefault(name, found(name))

    data = build_task(
        task,
        seed=task.data_seed(seed),
        locate=locate,
        list_files=list_files,
        metric_of=lambda name: load_metric(name, sources, own=own_metric).score,
        fields=columns_of(task, sources),
        apart=apart,
    )
    for file in (*files.values(), *apart.values()):
        sources.note(file)
    if shipped := shipped_file(task):
        content = shipped.read_bytes()
        sources.notes.file(f"{PACKAGE}{SHIPPED}", sha256_of(content), len(content))
    return data


def file_trees(store: Store) -> dict[str, FileTree]:
    """Folder trees with one JSON file per record, below folders named by split, by table; none for other tasks."""
    if any(name.lower().endswith(TABLE_NAMES) for name in store.find_names()):
        return {}
    names: dict[str, list[str]] = {}
    for name in store.walk_names():
        folder, _, rest = name.partition("/")
        if rest.lower().endswith(".json") and split_of(folder):
            names.setdefault(folder, []).append(name)
    return {f"{folder}.jsonl": FileTree(store, folder, found) for folder, found in names.items()}


def files_apart(task: TaskConfig, sources: Sources) -> dict[str, DataFile]:
    """Files named for one split alone, by split.

    Raises:
        ConfigError: on what is not a single table.
        StoreError: on a file that is not there.
    """
    found: dict[str, DataFile] = {}
    for split, uri in (("validation", task.validation_uri), ("test", task.test_uri)):
        if uri:
            store, names = task_files(uri, sources)
            if not names:
                raise ConfigError(
                    f"{split}_uri={uri} is not a table; name one file that ends in {', '.join(TABLE_NAMES)}"
                )
            found[split] = store.data_file(names[0])
    return found


def task_files(task_uri: str, sources: Sources) -> tuple[Store, list[str]]:
    """The folder of the task's data, and the one file in it when `task_uri` names a file; else no names.

    Raises:
        DataError: on a file that is not a table.
    """
    is_table = task_uri.lower().endswith(TABLE_NAMES)
    if not is_table and task_uri and Path(task_uri).is_file():
        raise DataError(f"{task_uri}: unknown kind of table; use one of {', '.join(TABLE_NAMES)}")
    if is_table:
        folder, _, name = task_uri.rpartition("/")
        return sources.store(folder or "."), [name]
    return sources.store(task_uri or "."), []
