"""The runs and comparisons below a place: what they were of, what they found, and how far they are.

Runs are found by the records of their stages (`lineage/runs/RUN/STAGE-ATTEMPT.json`), their results by where the record
of the report says that they lie; comparisons by their tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ease_lib.artifacts.result_files import PAGE
from ease_lib.artifacts.store import Store, joined, open_file, open_store, read_all
from ease_lib.artifacts.tables import table_of
from ease_lib.errors import EaseError, LineageError
from ease_lib.lineage.chain import is_record, same_place
from ease_lib.lineage.record import Record, decode

DONE, FAILED, UNFINISHED = "done", "failed", "unfinished"
"""Of a run: its last stage ended; a stage failed and none has ended since; it is running, or was killed."""
PUBLISH, REPORT = "publish", "report"
NUMBERS, RESULTS, TABLE = "numbers", "results", "comparison.parquet"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run or a comparison.

    Args:
        kind: `run` or `comparison`.
        started: ISO 8601; empty of a comparison, whose table does not say it.
        test, expected: scores of the winner; of a comparison means over its runs.
        gain: points over random exemplars, in [-1, 1], and its 95 % interval; empty where nothing was compared.
        cost_usd: 0 without prices.
        page: where its page lies; empty until there is one.
        reason: why it failed.
    """

    kind: str
    id: str
    place: str
    state: str
    started: str = ""
    task: str = ""
    method: str = ""
    model: str = ""
    test: float | None = None
    expected: float | None = None
    gain: Sequence[float] = ()
    requests: int = 0
    cost_usd: float = 0.0
    page: str = ""
    reason: str = ""


def listed(place: str) -> list[Listed]:
    """All that is below a folder or an `s3://` prefix, the newest first; comparisons last, by their place.

    Raises:
        StoreError: when the place cannot be read.
        LineageError: when there is nothing.
    """
    store = open_store(place)
    names = store.walk_names()
    found = sorted(_runs(store, names), key=lambda run: run.started, reverse=True)
    found += (_comparison(store, name) for name in names if name.rpartition("/")[2] == TABLE)
    if not found:
        raise LineageError(f"{store.uri}: there is no run and no comparison below it; name an --output-dir, or more")
    return found


def _runs(store: Store, names: Sequence[str]) -> Iterator[Listed]:
    by_run: dict[str, list[str]] = {}
    for name in names:
        folder, _, _ = name.rpartition("/")
        if is_record(name) and folder.rpartition("/")[0].endswith("runs"):
            by_run.setdefault(folder, []).append(name)
    contents = read_all(store, [name for records in by_run.values() for name in records])
    for folder, records in by_run.items():
        known = list(_decoded({name: contents[name] for name in records}, store))
        if known:
            yield _run(store.address(folder), known)


def _decoded(contents: Mapping[str, bytes | None], store: Store) -> Iterator[Record]:
    for name, content in contents.items():
        with suppress(LineageError):  # `ease lineage verify` names it
            yield decode(content or b"", store.address(name))


def _run(place: str, records: list[Record]) -> Listed:
    records = sorted(records, key=lambda record: (record["ended"] or "", record["started"]))
    by_stage = {record["stage"]: record for record in records}
    last, report = records[-1], by_stage.get(REPORT)
    is_done = PUBLISH in by_stage and by_stage[PUBLISH]["state"] == "complete"
    state = DONE if is_done else FAILED if last["state"] == "failed" else UNFINISHED
    parameters: dict[str, Any] = {}
    for record in records:
        parameters |= record["parameters"]
    llm = next((record["llm"] for record in reversed(records) if record.get("llm")), None) or {}
    of_report = {part["name"]: part["uri"] for part in report["outputs"]} if report else {}
    return Listed(
        kind="run",
        id=last["run"]["id"],
        place=place,
        state=state,
        started=min(record["started"] for record in records),
        task=str(parameters.get("task_name") or parameters.get("task", "")),
        method=str(parameters.get("method", "")),
        model=str(llm.get("model", "")),
        page=joined(of_report[RESULTS], PAGE) if RESULTS in of_report else "",
        reason=str(last["error"] or "") if state == FAILED else "",
        **_measured(_read_json(of_report[NUMBERS])) if NUMBERS in of_report else {},
    )


def _measured(report: Mapping[str, Any]) -> dict[str, Any]:
    """What `report.json` says of the winner; nothing where the file is gone."""
    if not report:
        return {}
    gain = report["gain"]
    return {
        "test": report["best"]["test_score"],
        "expected": report["best"]["estimate"],
        "gain": (gain["mean"], *gain["interval"]) if gain else (),
        "requests": report["llm"]["requests"],
        "cost_usd": report["llm"]["cost_usd"],
    }


def _read_json(uri: str) -> dict[str, Any]:
    with suppress(EaseError, ValueError):
        store, name = open_file(uri)
        return dict(json.loads(store.read(name) or b"{}"))
    return {}


def _comparison(store: Store, name: str) -> Listed:
    rows = table_of(store.read(name) or b"").to_pylist()
    folder = name.rpartition("/")[0]

    def all_of(column: str) -> str:
        return ", ".join(dict.fromkeys(str(row[column]) for row in rows))

    return Listed(
        kind="comparison",
        id=folder,
        place=store.address(folder),
        state=DONE,
        task=all_of("task"),
        method=all_of("method"),
        model=all_of("endpoint"),
        test=fmean(row["test_score"] for row in rows) if rows else None,
        expected=fmean(row["estimate"] for row in rows) if rows else None,
        requests=sum(row["llm_requests"] for row in rows),
        cost_usd=sum(row["cost_usd"] for row in rows),
        page=store.address(name.removesuffix(".parquet") + ".html"),
    )


def link_to(uri: str) -> str:
    """What a browser opens; empty for what lies in an object store."""
    path = same_place(uri)
    return "" if "://" in path else Path(path).absolute().as_uri()
