r"""Tasks answered by a chain of reasoning: GSM8K, AQuA and MATH as their authors publish them, as JSON or JSON lines.

    gsm8k   question -> answer, a rationale that ends in `#### 72`               scored by its number
    aqua    question, options -> rationale and `The answer is C.`                scored by its option letter
    math    problem -> solution, which holds its result as `\boxed{...}`         scored by what the box holds

Blank lines inside a rationale are left out: a blank line ends an exemplar in the prompt, and an answer. AQuA has no
training file next to `dev` and `test` in some copies; see `table` for what happens then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ease_lib.tasks.base import Readable, Row, TaskSource
from ease_lib.tasks.columns import Columns
from ease_lib.tasks.sample import Limit
from ease_lib.tasks.table import table_source

_REMEDY = "use task=table for files with other columns"
_COLUMNS = {
    "gsm8k": Columns.parse("question", "answer", remedy=_REMEDY),
    "aqua": Columns.parse(r"{question}\nOptions:\n{options}", r"{rationale}\nThe answer is {correct}.", remedy=_REMEDY),
    "math": Columns.parse("problem", "solution", remedy=_REMEDY),
}
_METRICS = {"gsm8k": "number", "aqua": "option_letter", "math": "boxed"}
REASONING_TASKS = tuple(_METRICS)
_BLANK_LINES = re.compile(r"\n\s*\n")


def reasoning(
    task: str, files: Mapping[str, Readable], limits: Callable[[str], Limit], max_left_out: float = 1.0
) -> TaskSource:
    """The task `gsm8k`, `aqua` or `math` from its files by split, as `table.table_source` takes them.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    source = table_source(task, files, _COLUMNS[task], _METRICS[task], limits, max_left_out=max_left_out)
    return replace(
        source,
        rows=_without_blank_lines(source.rows),
        validation=source.validation and _without_blank_lines(source.validation),
        test=source.test and _without_blank_lines(source.test),
    )


def reasoning_columns(task: str) -> Columns:
    return _COLUMNS[task]


def _without_blank_lines(rows: Iterable[Row]) -> list[Row]:
    return [
        replace(row, outputs=tuple(_BLANK_LINES.sub("\n", output.strip()) for output in row.outputs)) for row in rows
    ]
