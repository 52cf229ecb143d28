"""Scores that others published, beside which a comparison shows its own: `ease compare --figures FILE`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.errors import ConfigError

COLUMNS = ("task", "method", "score")
NOISE = "noise_ratio"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Published scores in [0, 1], by task, noise ratio (None: whatever ours is) and method.

    Args:
        origin: the file's name.
    """

    origin: str
    scores: Mapping[tuple[str, float | None, str], float]

    @classmethod
    def read(cls, path: str) -> Figures:
        """A CSV file with columns `task`, `method`, `score` and, where a task has several, `noise_ratio`; tasks and
        methods are called as in the comparison, labels included.

        Raises:
            ConfigError: when it is no such file; names the line.
        """
        try:
            with Path(path).open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file)
                missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
                if missing:
                    raise ConfigError(f"--figures {path} has no column {missing[0]}; give {', '.join(COLUMNS)}")
                rows = [(reader.line_num, row) for row in reader]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"--figures {path} cannot be read ({error}); give a CSV file in UTF-8") from error
        scores: dict[tuple[str, float | None, str], float] = {}
        for line, row in rows:
            at = f"--figures {path}, line {line}"
            noise = _number(row.get(NOISE) or "", at, NOISE) if row.get(NOISE) else None
            key = (row["task"] or "").strip(), noise, (row["method"] or "").strip()
            if key in scores:
                raise ConfigError(f"{at}: {key[0]}, {key[2]} stands there twice; give {NOISE} too, or remove one")
            scores[key] = _number(row["score"] or "", at, "score")
        return cls(origin=Path(path).name, scores=scores)

    def of(self, task: str, noise_ratio: float, method: str) -> float | None:
        """The published score of a cell, if there is one."""
        exact = self.scores.get((task, noise_ratio, method))
        return self.scores.get((task, None, method)) if exact is None else exact

    def note(self, cells: Iterable[Mapping[str, Any]]) -> str:
        """What stands in brackets beside the scores of these cells, and which scores belong to none of them."""
        exact = {(cell["task"], cell["noise_ratio"], cell["method"]) for cell in cells}
        there = exact | {(task, None, method) for task, _, method in exact}
        unused = [key for key in self.scores if key not in there]
        said = f"In brackets: what was published, as {self.origin} says."
        if not unused:
            return said
        belong = "belongs" if len(unused) == 1 else "belong"
        task, _, method = unused[0]
        return f"{said} {len(unused)} of its scores {belong} to no cell here, such as that of {method} on {task}."


def _number(text: str, at: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ConfigError(f"{at}: {name}={text or '(empty)'} is no number from 0 to 1; write 73.3 % as 0.733")
    return value
