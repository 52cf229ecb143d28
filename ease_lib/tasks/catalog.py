"""Build the three sets from a task's configuration: the one place that knows every kind of task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ease_lib.config.sections import AS_PUBLISHED, DRAWN_OUTPUTS, FILE_ORDER, KEEP_LEAKS, TaskConfig
from ease_lib.equality import equality_key
from ease_lib.errors import ConfigError, DataError
from ease_lib.seeding import rng
from ease_lib.tasks import table
from ease_lib.tasks.base import Exemplar, Readable, Row, TaskData, TaskSource, row_hashes
from ease_lib.tasks.columns import Columns, cell_text, joined_names, trimmed
from ease_lib.tasks.generated import linear_rule, pig_latin_variant
from ease_lib.tasks.instruction_induction import instruction_induction, published_metric
from ease_lib.tasks.labels import label_notices, split_notices
from ease_lib.tasks.noise import Score, inject_noise
from ease_lib.tasks.reasoning import REASONING_TASKS, reasoning, reasoning_columns
from ease_lib.tasks.records import TABLE_NAMES
from ease_lib.tasks.remapping import remap_labels
from ease_lib.tasks.sample import LARGEST_SAMPLE, ROWS_PER_ROW_NEEDED, Limit
from ease_lib.tasks.splits import (
    AUTOMATIC,
    EVERYTHING,
    MOST_TEST_ROWS,
    MOST_VALIDATION_ROWS,
    PAPER_POOL,
    SMALL_TABLE,
    deal,
)

GENERATED = ("lr", "lp_variant")
"""Tasks that generate as many rows as requested."""
HEAD_ROWS = 100
"""Number of rows of a large file that are checked before a run."""
LocateFile = Callable[[str], Readable]
"""Function that opens a file below `task_uri`."""
F = TypeVar("F", bound=Readable)
NO_FILES: Mapping[str, Readable] = MappingProxyType({})
ListFiles = Callable[[str], list[str]]
"""Function that lists the files in a folder of `task_uri`; "" is `task_uri` itself, which may be a file."""


def build_task(
    config: TaskConfig,
    *,
    seed: int,
    locate: LocateFile,
    list_files: ListFiles,
    metric_of: Callable[[str], Score],
    fields: Sequence[str] = (),
    apart: Mapping[str, Readable] = NO_FILES,
) -> TaskData:
    """Load the source, leave rows out, rename labels, deal the splits, corrupt the pool: in this order.

    Args:
        metric_of: a metric by its name; the task's own decides what counts as noise.
        fields: columns that the prompt names.
        apart: separate files by split.

    Raises:
        ConfigError, DataError: on parameters or data that cannot work.
    """
    source = load_source(config, seed=seed, locate=locate, list_files=list_files, fields=fields, apart=apart)
    source = without_rows(source, config.exclude_rows)
    every_row = [*source.rows, *(source.validation or ()), *(source.test or ())]
    source = replace(source, notices=(*source.notices, *label_notices(every_row)))
    source = remap_labels(source, config.label_remapping)
    data = deal(
        source,
        pool_size=config.pool_size,
        validation_size=most_validation_rows(config) if config.task in GENERATED else config.validation_size,
        test_size=most_test_rows(config) if config.task in GENERATED else config.test_size,
        seed=seed,
        in_file_order=config.split_order == FILE_ORDER,
        keep_leaks=config.leaks == KEEP_LEAKS,
    )
    metric = {"auto": data.metric, AS_PUBLISHED: published_metric(data.name)}.get(config.metric, config.metric)
    data = replace(data, notices=(*data.notices, *split_notices(data, metric_of(metric))))
    shown = _with_drawn_outputs(data.pool, seed) if config.shown_outputs == DRAWN_OUTPUTS else data.pool
    pool = inject_noise(shown, config.noise_ratio, source.noise_rule, seed, metric_of(metric))
    data = replace(data, metric=metric, pool=pool)
    return _with_own_outputs(data, config.output_column) if config.of_program and config.task == "table" else data


def _accepted(value: Any) -> list[str]:
    """The texts of a cell with an output, or with a list of them."""
    return [trimmed(cell_text(each)) for each in (value if isinstance(value, list) else [value])]


def _with_own_outputs(data: TaskData, column: str) -> TaskData:
    """Write the output of each renamed or corrupted exemplar into its column too, since a program reads that column.

    An output of another row is there what it is in that one: a number is not text.
    """
    known = {
        text: value
        for row in (*data.pool, *data.validation, *data.test)
        for value in [dict(row.fields).get(column)]
        if value is not None
        for text in _accepted(json.loads(value))[:1]
    }

    def shown(row: Exemplar) -> Exemplar:
        fields = dict(row.fields)
        if column not in fields or row.output in _accepted(json.loads(fields[column])):
            return row
        value = known.get(row.output) or json.dumps(row.output, ensure_ascii=False)
        return replace(row, fields=tuple((fields | {column: value}).items()))

    return replace(
        data,
        pool=tuple(map(shown, data.pool)),
        validation=tuple(map(shown, data.validation)),
        test=tuple(map(shown, data.test)),
    )


def _with_drawn_outputs(pool: Sequence[Exemplar], seed: int) -> tuple[Exemplar, ...]:
    """Each exemplar with one of its accepted outputs first, as the authors' code draws the one that is shown."""
    draw = rng(seed, "shown outputs")
    places = [int(draw.integers(len(row.outputs))) for row in pool]
    return tuple(
        replace(row, outputs=tuple(dict.fromkeys((row.outputs[place], *row.outputs))))
        for row, place in zip(pool, places, strict=True)
    )


def without_rows(source: TaskSource, excluded: str) -> TaskSource:
    """The source without the rows whose inputs have these hashes, comma-separated, and rows with equal inputs.

    Raises:
        ConfigError: on something that is not a hash.
    """
    hashes = {entry.strip() for entry in excluded.split(",") if entry.strip()}
    wrong = sorted(entry for entry in hashes if not re.fullmatch("[0-9a-f]{64}", entry))
    if wrong:
        raise ConfigError(
            f"exclude_rows={wrong[0]} is not the SHA-256 of an input text; `ease forget --row TEXT` prints it"
        )
    if not hashes:
        return source
    found: set[str] = set()
    inputs: set[bytes] = set()
    for row in (*source.rows, *(source.validation or ()), *(source.test or ())):
        if named := row_hashes(row.input) & hashes:
            found |= named
            inputs.add(equality_key(row.input))

    def left(rows: Sequence[Row] | None) -> list[Row] | None:
        return None if rows is None else [row for row in rows if equality_key(row.input) not in inputs]

    rows, validation, test = left(source.rows) or [], left(source.validation), left(source.test)
    unmatched = [f"{name[:12]}…" for name in sorted(hashes - found)]
    notice = [f"exclude_rows: no row that was read has {', '.join(unmatched)}"] if unmatched else []
    return replace(source, rows=rows, validation=validation, test=test, notices=(*source.notices, *notice))


def load_source(
    config: TaskConfig,
    *,
    seed: int,
    locate: LocateFile,
    list_files: ListFiles,
    fields: Sequence[str] = (),
    apart: Mapping[str, Readable] = NO_FILES,
) -> TaskSource:
    """The rows of the task; for large files a sample, and for generated tasks as many as requested."""
    if fields and config.task != "table":
        raise ConfigError(
            f"prompt names {{{fields[0]}}}, and rows of task={config.task} have {{input}} and {{output}} only; write "
            "these, or use a table"
        )
    generated = PAPER_POOL if config.pool_size == AUTOMATIC else config.pool_size
    rows = generated + most_validation_rows(config) + most_test_rows(config)
    if config.task in GENERATED and config.pool_size == EVERYTHING:
        raise ConfigError(
            f"pool_size=0 takes all rows there are, but {config.task} makes as many as asked; set pool_size"
        )
    match config.task:
        case "customer_feedback":
            return customer_feedback()
        case "lr":
            return linear_rule(rows=rows, seed=seed)
        case "lp_variant":
            return pig_latin_variant(rows=rows, seed=seed)
        case "instruction_induction":
            return instruction_induction(config.task_name, locate, list_files)
        case "table" if is_hub(config):
            return table.hub_source(config.task_name, columns_of_table(config, fields), config.max_left_out)
        case "table":
            columns = columns_of_table(config, fields)
            name = config.task_name or Path(config.task_uri.rstrip("/")).stem
            files = _files(config.task_uri, locate, list_files, apart)
            return table.table_source(
                name,
                files,
                columns,
                limits=_limits(config, seed),
                encoding=config.encoding,
                max_left_out=config.max_left_out,
            )
        case "gsm8k" | "aqua" | "math":
            files = _files(config.task_uri, locate, list_files, apart)
            return reasoning(config.task, files, _limits(config, seed), config.max_left_out)
        case unknown:
            raise ConfigError(f"task={unknown} is unknown")


def is_hub(config: TaskConfig) -> bool:
    return config.task == "table" and not config.task_uri


def task_tables(
    config: TaskConfig, locate: Callable[[str], F], list_files: ListFiles, apart: Mapping[str, F]
) -> dict[str, F] | None:
    """The task's files by split, in the form for `table.table_source`; None if it has others or none."""
    return _files(config.task_uri, locate, list_files, apart) if config.task in ("table", *REASONING_TASKS) else None


def columns_of_table(config: TaskConfig, fields: Sequence[str]) -> Columns:
    """Columns of a table. Without `input_columns`, the input consists of the columns that the prompt names."""
    given = config.input_columns
    inputs = joined_names(fields) if fields and given == TaskConfig.input_columns else given
    return Columns.parse(
        inputs,
        config.output_column,
        fields=fields,
        keeps_lists=config.output_lists == "set",
        keeps_all=config.of_program,
        split=config.split_column,
        group=config.group_column,
        time=config.time_column,
    )


def check_heads(config: TaskConfig, files: Mapping[str, Readable], fields: Sequence[str]) -> None:
    """Check the first rows of each file of a task, and the number of rows if the files state it.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    columns = reasoning_columns(config.task) if config.task in REASONING_TASKS else columns_of_table(config, fields)
    counts = [table.check_head(file, columns, HEAD_ROWS, config.encoding) for file in files.values()]
    if None not in counts:
        _check_count(config, ", ".join(file.name for file in files.values()), sum(filter(None, counts)))


def check_hub_task(config: TaskConfig, fields: Sequence[str]) -> None:
    """Ask the hub whether the data set exists, with these columns and enough rows; nothing is downloaded.

    Raises:
        ConfigError, DataError: as `table.hub_source`.
    """
    columns = columns_of_table(config, fields)
    count = table.check_hub(config.task_name, columns)
    if count is not None:
        _check_count(config, config.task_name, count)


def most_validation_rows(config: TaskConfig) -> int:
    """Maximum number of rows in the validation set."""
    return MOST_VALIDATION_ROWS if config.validation_size == AUTOMATIC else config.validation_size


def most_test_rows(config: TaskConfig) -> int:
    """Maximum number of rows in the test set."""
    return MOST_TEST_ROWS if config.test_size == AUTOMATIC else config.test_size


def least_sizes(config: TaskConfig) -> tuple[int, int]:
    """Minimum numbers of rows in validation and test set, from the parameters and the included data alone.

    Raises:
        ConfigError, DataError: if the rows that are shipped are too few.
    """
    if config.task == "customer_feedback":
        source = without_rows(customer_feedback(), config.exclude_rows)
        data = deal(
            source,
            pool_size=config.pool_size,
            validation_size=config.validation_size,
            test_size=config.test_size,
            seed=0,
        )
        return len(data.validation), len(data.test)
    known = config.task in GENERATED
    validation = most_validation_rows(config) if known or config.validation_size != AUTOMATIC else 1
    return validation, most_test_rows(config) if known or config.test_size != AUTOMATIC else 1


def _check_count(config: TaskConfig, name: str, rows: int) -> None:
    sizes = {name: max(getattr(config, name), 1) for name in ("pool_size", "validation_size", "test_size")}
    if rows < sum(sizes.values()):
        wanted = ", ".join(f"{size}={count}" for size, count in sizes.items()).replace(", test", " and test")
        raise DataError(f"{name}: {rows} rows are fewer than {wanted} together; lower a size")


def _limits(config: TaskConfig, seed: int) -> Callable[[str], Limit]:
    """Limit on the rows kept of a split's file; none if the pool takes all rows, except for the test set."""
    pool = SMALL_TABLE if config.pool_size == AUTOMATIC else config.pool_size
    needed = pool + most_validation_rows(config) + most_test_rows(config)
    most = max(LARGEST_SAMPLE, ROWS_PER_ROW_NEEDED * needed)

    def limit(split: str) -> Limit:
        return Limit(seed=seed, rows=None if config.pool_size == EVERYTHING and split != "test" else most)

    return limit


SHIPPED = "ease_lib.tasks/data/customer_feedback.csv"
"""The file of the shipped task: package, and path in it."""


def shipped_file(config: TaskConfig) -> Traversable | None:
    """The file of a task that the package carries; None of any other."""
    return _shipped() if config.task == "customer_feedback" else None


def _shipped() -> Traversable:
    package, _, path = SHIPPED.partition("/")
    return resources.files(package).joinpath(path)


def customer_feedback() -> TaskSource:
    """The shipped task: short customer feedback to be sorted by kind. See `data/README.md` for origin and licence."""
    with resources.as_file(_shipped()) as path:
        rows = table.read_rows(path, Columns.parse("text", "kind"))
    return TaskSource(
        name="customer_feedback",
        metric="exact_match",
        rows=[replace(row, is_noisy=False) for row in rows],
    )


def _files(task_uri: str, locate: Callable[[str], F], list_files: ListFiles, apart: Mapping[str, F]) -> dict[str, F]:
    """The single table as `rows`, or the tables named by split; in addition, the separate ones."""
    names = [name for name in list_files("") if name.lower().endswith(TABLE_NAMES)]
    if len(names) == 1:
        return {table.ROWS: locate(names[0]), **apart}
    files = {split: name for name in names if (split := table.split_of(name))}
    if not files:
        raise ConfigError(
            f"task_uri={task_uri} holds {len(names)} tables ({', '.join(sorted(names)[:5]) or 'none'}); "
            "give one file, or name them train, validation and test"
        )
    twice = next((split for split in apart if split in files), None)
    if twice:
        raise ConfigError(f"{twice}_uri is set, and task_uri={task_uri} holds {files[twice]}; remove one of them")
    return {**{split: locate(name) for split, name in files.items()}, **apart}
