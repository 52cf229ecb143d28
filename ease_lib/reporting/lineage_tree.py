"""The chain from a prompt to its raw data as a tree, for terminals and as a page; two runs side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import starmap, zip_longest
from typing import Any

from ease_lib.lineage.chain import Chain, Step
from ease_lib.lineage.difference import Difference, paragraphs_of
from ease_lib.lineage.record import Record
from ease_lib.lineage.record_summary import SHORT, changed_parameters
from ease_lib.reporting.page import page_template
from ease_lib.tasks.base import row_hash

ALIKE = 0.6
"""Share of equal words from which two lines are compared word by word."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the tree; `is_last` holds for each branch above it whether it is the last one."""

    is_last: tuple[bool, ...]
    text: str

    def __str__(self) -> str:
        bars = "".join("   " if last else "│  " for last in self.is_last[:-1])
        return (bars + ("└─ " if self.is_last[-1] else "├─ ") if self.is_last else "") + self.text


def tree_lines(chain: Chain) -> list[Line]:
    """The last stage, the stages behind it and the files they read; each appears once, below one that depends on it."""
    seen = {chain.head.id}

    def below(step: Step, last: tuple[bool, ...]) -> Iterator[Line]:
        yield Line(is_last=last, text=f"{step.stage}  {_described(step)}")
        linked = {part.get("record_sha256") for part in step.record["inputs"]}
        branches: list[list[Line]] = []
        for child in chain.steps:  # those nearest to the prompt first
            if child.sha256 in linked and child.id not in seen:
                seen.add(child.id)
                branches.append(list(below(child, ())))
        for read in step.record.get("files_read", []):
            text = f"{read['uri']}  {read['bytes']} bytes  {read['sha256'][:SHORT]}"
            branches.append([Line(is_last=(), text=text)])
        for number, branch in enumerate(branches, 1):
            ends = number == len(branches)
            for line in branch:
                yield Line(is_last=(*last, ends, *line.is_last), text=line.text)

    return list(below(chain.head, ()))


def show_text(chain: Chain) -> str:
    """The tree, followed by other records of the run and by gaps."""
    lines = [_title(chain), "", *map(str, tree_lines(chain))]
    if chain.beside:
        lines += ["", "also of this run:"]
        lines += [f"  {step.stage}  {_described(step)}" for step in chain.beside]
    lines += [f"cannot be followed: {gap.reason}" for gap in chain.gaps]
    return "\n".join(lines)


def show_page(chain: Chain) -> str:
    """The tree as an HTML page, with every record's artifacts, parameters and software."""
    stages = [
        {"record": step.record, "changed": changed_parameters(step.record), "seconds": _seconds(step.record)}
        for step in chain.everything
    ]
    tree = "\n".join(map(str, tree_lines(chain)))
    template = page_template("lineage.html.j2")
    return template.render(title=_title(chain), tree=tree, stages=stages, gaps=chain.gaps, short=SHORT)


def difference_page(one: Chain, other: Chain, found: Difference) -> str:
    """Two runs side by side, with what differs between their prompts marked."""
    prompts = [prompt or "" for prompt in found.prompts]
    return page_template("difference.html.j2").render(
        titles=(_title(one), _title(other)),
        found=found,
        paragraphs=list(_side_by_side(*prompts)),
        rows=sorted({row_hash(text) for text in found.texts if text.strip()}),
    )


Marked = list[tuple[bool, str]]
"""Parts of a line, each with whether it occurs in this line only."""


def _side_by_side(before: str, after: str) -> Iterator[list[tuple[Marked | None, Marked | None]]]:
    """Paragraphs of two prompts side by side, by their lines; None for a missing one."""
    for one, other in paragraphs_of(before, after):
        pairs = list(zip_longest(one or (), other or ()))
        yield [([(False, a)], [(False, b)]) for a, b in pairs] if one == other else list(starmap(_marked, pairs))


def _marked(one: str | None, other: str | None) -> tuple[Marked | None, Marked | None]:
    """Two lines compared by words if most are equal, else as a whole."""
    before, after = (re.findall(r"\s+|\w+|[^\w\s]", line or "") for line in (one, other))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if one is None or other is None or matcher.ratio() < ALIKE:
        return None if one is None else [(True, one)], None if other is None else [(True, other)]
    left: Marked = []
    right: Marked = []
    for kind, a, b, c, d in matcher.get_opcodes():
        for side, words in ((left, before[a:b]), (right, after[c:d])):
            if words:
                side.append((kind != "equal", "".join(words)))
    return left, right


def _title(chain: Chain) -> str:
    run = chain.head.record["run"]
    planned = f", made at {run['scheduled']}" if run["scheduled"] else ""
    return f"run {run['id']}{f' ({name})' if (name := run['name']) else ''}{planned}"


def _described(step: Step) -> str:
    record = step.record
    parts: list[Any] = [f"{record['started'][:19].replace('T', ' ')}", f"{_seconds(record):.0f} s"]
    if record["state"] != "complete":
        parts.append(record["state"])
    for part in record["outputs"]:
        if part["contract"] or part.get("files"):
            rows = f"{part['rows']} rows " if "rows" in part else ""
            parts.append(f"{part['name']} {rows}{part['sha256'][:SHORT]}")
    llm = record.get("llm")
    if llm and (llm["new_answers"] or llm["cached_answers"]):
        parts.append(f"{llm['model']}: {llm['new_answers']} asked, {llm['cached_answers']} from the cache")
    return "  ".join(parts)


def _seconds(record: Record) -> float:
    if not record["ended"]:
        return 0.0
    return (datetime.fromisoformat(record["ended"]) - datetime.fromisoformat(record["started"])).total_seconds()
