"""What the tasks of a comparison leave for each other in `store_uri`: the plan, and the result of each cell.

comparisons/RUN/plan.json     the cells, in the order of the tables
comparisons/RUN/00012.json    the result of the cell of that number, with its address and the link to its record
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import PATIENCE_SECONDS, Store, joined, open_store
from ease_lib.config.comparison import Cell
from ease_lib.errors import StoreError
from ease_lib.running.stage import Artifact, FileIn

PLAN = "plan.json"


def place_of(store_uri: str, run_id: str) -> str:
    """Where a comparison's tasks leave what is for others, by the run's id: a retry finds it again."""
    return joined(store_uri, "comparisons", run_id)


@dataclass(frozen=True, kw_only=True)
class ComparisonStore:
    """The plan of a comparison and what its cells have left.

    Args:
        store: at the place of the comparison.
    """

    store: Store

    @classmethod
    def at(cls, place: str) -> ComparisonStore:
        """At a place that `place_of` gave; a store that is away is waited for."""
        return cls(store=open_store(place, patience_seconds=PATIENCE_SECONDS))

    def keep_plan(self, plan: Artifact) -> None:
        self.store.write(PLAN, Path(plan.path).read_bytes())

    def cells(self) -> list[Cell]:
        """
        Raises:
            StoreError: when there is no plan.
        """
        content = self.store.read(PLAN)
        if content is None:
            raise StoreError(
                f"{self.store.address(PLAN)}, the plan of this comparison, is not there; begin it again, with a "
                "store_uri that all pods see"
            )
        return cells_of(json.loads(content))

    def leave(self, number: int, result: Artifact) -> None:
        """Keep the result of a cell, which is in its artifact."""
        text = Path(result.path).read_text(encoding="utf-8")
        document = {"text": text, "uri": result.uri, "metadata": dict(result.metadata)}
        self.store.write(_name(number), json.dumps(document).encode())

    def result(self, number: int, folder: Path) -> FileIn | None:
        """What a cell has left, as its artifact was, in a file of this folder; None where it has left nothing."""
        content = self.store.read(_name(number))
        if content is None:
            return None
        document: dict[str, Any] = json.loads(content)
        path = folder / _name(number)
        path.write_text(document["text"], encoding="utf-8")
        return FileIn(str(path), document["uri"], document["metadata"])


def cells_of(plan: Mapping[str, Any]) -> list[Cell]:
    """Of a document under `COMPARISON_PLAN`."""
    return [Cell.of(document) for document in plan["cells"]]


def _name(number: int) -> str:
    return f"{number:05}.json"
