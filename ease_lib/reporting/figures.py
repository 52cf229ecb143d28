"""Published scores that a comparison shows next to its own; the paper's are included.

`paper_figures.csv` has every figure of the tables of Wu et al., "Prompt Optimization with EASE?" (NeurIPS 2024, arXiv
2405.16122), as their authors published them: facts, which need no licence. Each row has its `table`; `split` is
`validation` (the paper's main figures: the best score on 20 validation rows) or `test` (its appendix, 100 rows), and
for 20 rows, which no comparison shows, another thing that was measured. Task and method are called as in our sets
(`--params paper-table-1`, ...), where there is one; score and standard error are of three trials. The LLM was
gpt-3.5-turbo-1106 but where table or method names another.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from typing import Any

from ease_lib.artifacts.store import open_file
from ease_lib.errors import ConfigError, EaseError

COLUMNS = ("task", "method", "score")
NOISE, SPLIT, ERROR = "noise_ratio", "split", "standard_error"
TEST, VALIDATION = "test", "validation"
PAPER, ARXIV = "paper_figures.csv", "arXiv 2405.16122"
SMALLEST = 0.05
"""Largest difference that is never marked: one row of the 20 behind the paper's main figures."""
ROUNDING = 0.001
"""Largest error of a published difference: scores and errors have three digits."""
ERRORS = 2.0
"""Number of standard errors above which a difference is marked."""

Key = tuple[str, float | None, str, str]
"""Task, noise ratio (None: whatever ours is), method, split."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A published score in [0, 1], and its standard error where that is known."""

    score: float
    error: float | None = None

    def is_beyond(self, score: float, error: float | None) -> bool:
        """Whether our score is further away than both errors allow; False if one of the errors is not known."""
        if self.error is None or error is None:
            return False
        return abs(self.score - score) > max(SMALLEST, ERRORS * math.hypot(self.error, error)) + ROUNDING

    def __str__(self) -> str:
        return f"{self.score:.3f}" if self.error is None else f"{self.score:.3f} ± {self.error:.3f}"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Published scores.

    Args:
        origin: what says so, for readers.
    """

    origin: str
    scores: Mapping[Key, Figure]

    @classmethod
    def read(cls, named: str) -> Figures:
        """A CSV file, local or s3://, or tables of the paper, with commas between them: `Tab. 2, Tab. 2 test`.

        A file has the columns `task`, `method`, `score` and, if one likes, `noise_ratio`, `split` (`test`, the default,
        or `validation`) and `standard_error`; tasks and methods are called as in the comparison, labels included.

        Raises:
            ConfigError: when it is neither; names the line, or the tables there are.
        """
        if is_file(named):
            return _of_file(named)
        return _of_paper([table.strip() for table in named.split(",") if table.strip()])

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Figures:
        """Read figures from what `document` returned."""
        rows = document["scores"]
        return cls(
            origin=document["origin"],
            scores={
                (task, noise, method, split): Figure(score=score, error=error)
                for task, noise, method, split, score, error in rows
            },
        )

    @property
    def document(self) -> dict[str, Any]:
        """The figures as a plan carries them."""
        return {"origin": self.origin, "scores": [[*key, each.score, each.error] for key, each in self.scores.items()]}

    def find(self, task: str, noise_ratio: float, method: str, split: str) -> Figure | None:
        """The published score of a cell, if there is one."""
        exact = self.scores.get((task, noise_ratio, method, split))
        return self.scores.get((task, None, method, split)) if exact is None else exact

    def note(self, shown: Iterable[tuple[str, float, str]], split: str) -> str:
        """Explanation of the figures in brackets next to scores on a split, and of published ones that are not shown.

        Args:
            shown: task, noise ratio and method of each score.
        """
        exact = set(shown)
        there = exact | {(task, None, method) for task, _, method in exact}
        of_split = {key: each for key, each in self.scores.items() if key[3] == split}
        unused = [key for key in of_split if key[:3] not in there]
        said = ""
        if len(unused) < len(of_split):
            said = f"In brackets: what was published ({self.origin}), with the LLM and the parameters used there."
            if any(each.error is not None for each in of_split.values()):
                said += (
                    f" ≠ marks one of our scores that differs by more than {100 * SMALLEST:.0f} points and more than "
                    f"{ERRORS:.0f} standard errors of the difference; both errors must be known."
                )
        if not unused or (said and ARXIV in self.origin):  # of tables one takes what one likes
            return said
        belong = "belongs" if len(unused) == 1 else "belong"
        task, noise, method, _ = unused[0]
        at = "" if noise is None else f" at {noise:.0%} noise"
        scores = f"{len(unused)} of the {split} scores in {self.origin} {belong}"
        return f"{said} {scores} to nothing here, such as that of {method} on {task}{at}.".strip()


def is_file(named: str) -> bool:
    """Whether figures are named by a file, on this machine or in a bucket."""
    return named.lower().endswith(".csv")


def _of_paper(tables: Sequence[str]) -> Figures:
    text = resources.files("ease_lib.reporting").joinpath(PAPER).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    known = list(dict.fromkeys(row["table"] for row in rows if row[SPLIT] in (TEST, VALIDATION)))
    unknown = [table for table in tables if table not in known]
    if unknown or not tables:
        named = f"figures={', '.join(unknown)} is neither a file.csv nor a table of the paper"
        raise ConfigError(f"{named}; give, with commas between them: {', '.join(known)}")
    scores: dict[Key, Figure] = {}
    for row in rows:
        if row["table"] in tables and row[SPLIT] in (TEST, VALIDATION):
            error = float(row[ERROR]) if row[ERROR] else None
            figure = Figure(score=float(row["score"]), error=error)
            key = row["task"], 0.0, row["method"], row[SPLIT]  # its ratio is in the task's name
            if scores.setdefault(key, figure) != figure:
                raise ConfigError(
                    f"figures={', '.join(tables)} has two scores of {key[2]} on {key[0]}: {scores[key]} and {figure}; "
                    "leave one of the tables out"
                )
    return Figures(origin=f"{', '.join(tables)} of {ARXIV}", scores=scores)


def _of_file(path: str) -> Figures:
    try:
        store, name = open_file(path)
        content = store.read(name)
        if content is None:
            raise ConfigError(f"figures={path} cannot be read (no such file); give a CSV file in UTF-8")
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        _check_columns(path, reader.fieldnames)
        missing = [column for column in COLUMNS if column not in reader.fieldnames]
        if missing:
            raise ConfigError(
                f"figures={path} has no column {missing[0]}; give {', '.join(COLUMNS)}, with commas between them"
            )
        rows = [(reader.line_num, row) for row in reader]
        if not rows:
            raise ConfigError(f"figures={path} holds no score; give a line for each task and method")
    except ConfigError:
        raise
    except EaseError as problem:
        raise ConfigError(f"figures={path} cannot be read: {problem}") from problem
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise ConfigError(f"figures={path} cannot be read ({problem}); give a CSV file in UTF-8") from problem
    scores: dict[Key, Figure] = {}
    for line, row in rows:
        at = f"figures={path}, line {line}"
        if None in row:
            raise ConfigError(
                f"{at} has more cells than the first line; quote cells that hold a comma, and write 0.733"
            )
        noise = _number(row[NOISE], at, NOISE) if row.get(NOISE) else None
        split = (row.get(SPLIT) or TEST).strip()
        if split not in (TEST, VALIDATION):
            raise ConfigError(f"{at}: {SPLIT}={split} is neither {TEST} nor {VALIDATION}")
        key = (row["task"] or "").strip(), noise, (row["method"] or "").strip(), split
        if key in scores:
            raise ConfigError(f"{at}: {key[0]}, {key[2]} is there twice; give {NOISE} too, or remove one")
        error = _number(row[ERROR], at, ERROR) if row.get(ERROR) else None
        scores[key] = Figure(score=_number(row["score"] or "", at, "score"), error=error)
    return Figures(origin=path.rpartition("/")[2], scores=scores)


def _check_columns(path: str, columns: Sequence[str]) -> None:
    """
    Raises:
        ConfigError: if a column is there twice, or looks like one whose name is mistyped.
    """
    read = {*COLUMNS, NOISE, SPLIT, ERROR}
    for column in columns:
        if columns.count(column) > 1:
            raise ConfigError(f"figures={path} has the column {column} twice; remove one")
        meant = [] if column in read else get_close_matches(column, read - {*columns}, 1, 0.7)
        if meant:
            raise ConfigError(f"figures={path} has a column {column}; did you mean {meant[0]}?")


def _number(text: str, at: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ConfigError(f"{at}: {name}={text or '(empty)'} is not a number from 0 to 1; write 73.3 % as 0.733")
    return value
