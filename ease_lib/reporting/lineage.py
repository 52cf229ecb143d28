"""The chain from a prompt to its raw data as a tree, for terminals and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ease_lib.lineage.chain import Chain, Step
from ease_lib.lineage.record import Record
from ease_lib.lineage.summary import SHORT
from ease_lib.reporting.page import page_template


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the tree; `is_last` says of each branch on the way to it whether it is the last there."""

    is_last: tuple[bool, ...]
    text: str

    def __str__(self) -> str:
        bars = "".join("   " if last else "│  " for last in self.is_last[:-1])
        return (bars + ("└─ " if self.is_last[-1] else "├─ ") if self.is_last else "") + self.text


def tree_lines(chain: Chain) -> list[Line]:
    """The last stage, the stages behind it and the files they read; each stands once, below one that rests on it."""
    seen = {chain.head.id}

    def below(step: Step, last: tuple[bool, ...]) -> Iterator[Line]:
        yield Line(is_last=last, text=f"{step.stage}  {_described(step)}")
        reads = step.record.get("files_read", [])
        branches: list[list[Line]] = []
        for child in _behind(step, chain):
            if child.id not in seen:
                seen.add(child.id)
                branches.append(list(below(child, ())))
        branches += [[Line(is_last=(), text=_file(read))] for read in reads]
        for number, branch in enumerate(branches, 1):
            ends = number == len(branches)
            for line in branch:
                yield Line(is_last=(*last, ends, *line.is_last), text=line.text)

    return list(below(chain.head, ()))


def show_text(chain: Chain) -> str:
    """The tree with what stands beside it: other records of the run, and what cannot be followed."""
    lines = [_title(chain), "", *map(str, tree_lines(chain))]
    if chain.beside:
        lines += ["", "also of this run:"]
        lines += [f"  {step.stage}  {_described(step)}" for step in chain.beside]
    lines += [f"cannot be followed: {gap.reason}" for gap in chain.gaps]
    return "\n".join(lines)


def show_page(chain: Chain) -> str:
    """The same as an HTML page, with every record's artifacts, parameters and software."""
    stages = [
        {
            "record": step.record,
            "uri": step.uri,
            "changed": {
                name: value for name, value in step.record["parameters"].items() if name not in step.record["defaults"]
            },
            "seconds": _seconds(step.record),
        }
        for step in chain.everything
    ]
    page: str = page_template("lineage.html.j2").render(
        title=_title(chain), tree="\n".join(map(str, tree_lines(chain))), stages=stages, gaps=chain.gaps, short=SHORT
    )
    return page


def _title(chain: Chain) -> str:
    run = chain.head.record["run"]
    planned = f", made at {run['scheduled']}" if run["scheduled"] else ""
    return f"run {run['id']}{f' ({name})' if (name := run['name']) else ''}{planned}"


def _behind(step: Step, chain: Chain) -> list[Step]:
    """The stages that made the inputs of one, those nearest to the prompt first."""
    linked = {part.get("record_sha256") for part in step.record["inputs"]}
    return [other for other in chain.steps if other.sha256 in linked]


def _file(read: Record) -> str:
    return f"{read['uri']}  {read['bytes']} bytes  {read['sha256'][:SHORT]}"


def _described(step: Step) -> str:
    record = step.record
    parts: list[Any] = [f"{record['started'][:19].replace('T', ' ')}", f"{_seconds(record):.0f} s"]
    if record["state"] != "complete":
        parts.append(record["state"])
    parts += [
        f"{part['name']} {_rows(part)}{part['sha256'][:SHORT]}"
        for part in record["outputs"]
        if part["contract"] or part.get("files")
    ]
    llm = record.get("llm")
    if llm and (llm["new_answers"] or llm["cached_answers"]):
        parts.append(f"{llm['model']}: {llm['new_answers']} asked, {llm['cached_answers']} from the cache")
    return "  ".join(parts)


def _rows(part: Record) -> str:
    return f"{part['rows']} rows " if "rows" in part else ""


def _seconds(record: Record) -> float:
    if not record["ended"]:
        return 0.0
    return (datetime.fromisoformat(record["ended"]) - datetime.fromisoformat(record["started"])).total_seconds()
