"""A record for people: the Markdown that the dashboard shows next to a stage's artifacts."""

from __future__ import annotations

import re

from ease_lib.lineage.record import Record

_WORDS = re.compile(r"(?!.*www\.)(?:[^\W_]|[ .,;:()%+-])*", re.IGNORECASE)
SHORT = 12
"""Number of digits of a digest that are shown."""


def summary_page(record: Record) -> str:
    """Inputs, outputs and the decisive parameters of a record, as a page."""
    run, attempt, software = record["run"], record["attempt"], record["software"]
    lines = [
        *_found(record),
        f"## {record['stage']}: {record['state']}",
        "",
        *_table(("artifact", "rows", "bytes", "SHA-256", "made by"), _files("in", record["inputs"])),
        *_table(("artifact", "rows", "bytes", "SHA-256", ""), _files("out", record["outputs"])),
        *_table(
            ("file read", "", "bytes", "SHA-256", ""),
            [(read["uri"], "", read["bytes"], read["sha256"][:SHORT], "") for read in record.get("files_read", [])],
        ),
        *_table(("", ""), _facts(record)),
        *_table(("parameter", "value"), [*changed_parameters(record).items()]),
        f"Run {_text(run['id'])}, {record['started']} to {record['ended']}; EASE {_text(software['ease'])} "
        f"{_text(software['revision'])} {_text(software['image'])}",
        "",
        f"Record: {_text(attempt['record'] or 'the artifact lineage')}",
    ]
    return "\n".join(lines) + "\n"


def changed_parameters(record: Record) -> Record:
    """Parameters that differ from their default."""
    return {name: value for name, value in record["parameters"].items() if name not in record["defaults"]}


def _found(record: Record) -> list[str]:
    """Findings of the run, which people look for first."""
    if "found" not in record:
        return []
    heading, *sentences = map(_text, record["found"]["said"])
    scores = _table(("", "score"), list(record["found"]["scores"].items()))
    return [f"## {heading}", "", *(line for sentence in sentences for line in (sentence, "")), *scores]


def _files(direction: str, parts: list[Record]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for part in parts:
        counts = part.get("rows", ""), part["bytes"]
        rows.append((f"{direction}: {part['name']}", *counts, part["sha256"][:SHORT], part.get("record", "")))
    return rows


def _facts(record: Record) -> list[tuple[object, ...]]:
    facts: list[tuple[object, ...]] = []
    if record.get("llm"):
        llm = record["llm"]
        facts.append(("LLM", f"{llm['model']} at {llm['endpoint']}"))
        facts.append(("requests", f"{llm['new_answers']} asked, {llm['cached_answers']} from the cache"))
    if record.get("embedder"):
        facts.append(("embedder", record["embedder"]["name"]))
    if record["attempt"]["earlier"]:
        facts.append(("earlier attempts", len(record["attempt"]["earlier"])))
    return facts


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [head, tuple("---" for _ in head), *rows]
    return [*("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines), ""]


def _text(value: object) -> str:
    """Text that is safe in Markdown: all but plain words is shown as code, where nothing is markup or a link."""
    text = " ".join(str(value).split())
    if _WORDS.fullmatch(text):
        return text
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    edge = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{edge}{text.replace('|', chr(92) + '|')}{edge}{fence}"
