"""Marks of what was removed on request, for verification to say so: `tombstones/ROW/TIME.json` in a lineage root."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ease_lib.artifacts.store import Store, open_store
from ease_lib.lineage.problems import FORGOTTEN, Problem
from ease_lib.lineage.record import Record
from ease_lib.lineage.trail import Trail

FOLDER = "tombstones"
CONTRACT = "tombstone/1"


@dataclass(frozen=True, kw_only=True)
class Tombstones:
    """What was removed or rewritten on request, by URI: the row that was forgotten."""

    row_of: Mapping[str, str]

    @classmethod
    def of(cls, trail: Trail) -> Tombstones:
        """Those in the roots that the records of a trail lie in."""
        links = {step.record["attempt"]["record"].rpartition("/runs/")[0] for step in trail.everything}
        found: dict[str, str] = {}
        for root in sorted(links - {""}):
            for tombstone in read_tombstones(trail.place.store_of(root)):
                found.update(dict.fromkeys((touched["uri"] for touched in tombstone["removed"]), tombstone["row"]))
        return cls(row_of=found)

    def explained(self, problem: Problem) -> Problem:
        """The problem as a removal on request, if it is one."""
        row = self.row_of.get(problem.uri) or self.row_of.get(problem.uri.partition("#")[0])
        return replace(problem, what=FORGOTTEN, why=f"row {row[:12]}") if row else problem


def read_tombstones(root: Store) -> list[Record]:
    names = [name for name in root.walk_names() if name.startswith(f"{FOLDER}/")] if root.uri else []
    return [json.loads(root.read(name) or b"{}") for name in names]


def write_tombstone(root_uri: str, row: str, removed: list[Record], *, when: str, reason: str) -> str:
    """Leave a tombstone; its name in the root."""
    name = f"{FOLDER}/{row}/{when.replace(':', '')}.json"
    content = {"contract": CONTRACT, "row": row, "when": when, "reason": reason, "removed": removed}
    open_store(root_uri).write(name, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return name
