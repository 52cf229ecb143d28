"""Marks of what was removed on request, for verification to say so: `tombstones/ROW/TIME.json` in a lineage root."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ease_lib.artifacts.store import open_store
from ease_lib.lineage.problems import FORGOTTEN, MISSING, Problem
from ease_lib.lineage.record import Record
from ease_lib.lineage.trail import Trail

FOLDER = "tombstones"
CONTRACT = "tombstone/1"


@dataclass(frozen=True, kw_only=True)
class Tombstones:
    """What was removed or rewritten on request: by URI the row, and the digest of what was left (None: nothing)."""

    left: Mapping[str, tuple[str, str | None]]

    @classmethod
    def of(cls, trail: Trail) -> Tombstones:
        """Those in the roots that the records of a trail lie in."""
        links = {step.record["attempt"]["record"].rpartition("/runs/")[0] for step in trail.everything}
        found: list[Record] = []
        for root in sorted(links - {""}):
            store = open_store(f"{trail.place.store_of(root).uri.rstrip('/')}/{FOLDER}")
            found += [json.loads(store.read(name) or b"{}") for name in store.walk_names()]
        left = {
            touched["uri"]: (tombstone["row"], touched["after_sha256"])
            for tombstone in sorted(found, key=lambda tombstone: str(tombstone["when"]))
            for touched in tombstone["removed"]
        }
        return cls(left=left)

    def explained(self, problem: Problem) -> Problem:
        """The problem as a removal on request, if what is there is what the removal left."""
        row, after = self.left.get(problem.uri) or self.left.get(problem.uri.partition("#")[0], ("", None))
        if not row or (problem.what != MISSING and problem.found_sha256 != after):
            return problem
        return replace(problem, what=FORGOTTEN, why=f"row {row[:12]}")


def write_tombstone(root_uri: str, row: str, removed: list[Record], *, when: str, reason: str) -> str:
    """Leave a tombstone; its name in the root."""
    name = f"{FOLDER}/{row}/{when.replace(':', '')}.json"
    content = {"contract": CONTRACT, "row": row, "when": when, "reason": reason, "removed": removed}
    open_store(root_uri).write(name, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return name
