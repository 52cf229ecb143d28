"""The runs and comparisons below a place: their subject, their results and their state.

Runs are found by the records of their stages (`lineage/runs/RUN/STAGE-ATTEMPT.json`) and by folders of results, which
hold `report.json` next to the record of the last stage; comparisons by their tables. What lies below the place is taken
first, so what was moved or copied is found where it is now.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from ease_lib.artifacts.result_files import PAGE, REPORT
from ease_lib.artifacts.store import Store, joined, open_file, open_store, read_all
from ease_lib.artifacts.tables import table_of
from ease_lib.errors import EaseError, LineageError
from ease_lib.lineage.chain import RECORD_FILE, is_record, same_place
from ease_lib.lineage.record import Record, decode

RUN, COMPARISON = "run", "comparison"
DONE, FAILED, CONTINUED, UNFINISHED, DAMAGED = "done", "failed", "continued", "unfinished", "damaged"
"""States of a run: its last stage ended; a stage failed; a later run took over its work; it is running or was killed;
its table or report cannot be read."""
LAST_STAGE, REPORT_STAGE = "publish", "report"
FIRST_OF_COMPARISON, LAST_OF_COMPARISON = "plan_comparison", "report_comparison"
NUMBERS, RESULTS, TABLE = "numbers", "results", "comparison.parquet"
UNREADABLE = (KeyError, TypeError, ValueError, IndexError, RecursionError, pa.ArrowException, OSError)


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run or a comparison.

    Args:
        kind: `RUN` or `COMPARISON`.
        started: ISO 8601; empty of a comparison, whose table does not say it.
        test, expected: scores of the winner; of a comparison means over its runs.
        gain: points over random exemplars, in [-1, 1], and its 95 % interval; empty if nothing was compared.
        cost_usd: 0 without prices.
        page: where its page lies; empty until there is one, and where it is gone.
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


def listed(place: str) -> list[RunEntry]:
    """All that is below a folder or an `s3://` prefix, the newest first; comparisons last, by their place.

    Raises:
        StoreError: when the place cannot be read.
        LineageError: when there is nothing.
    """
    store = open_store(place)
    if store.folder is not None and not store.folder.is_dir():
        raise LineageError(f"{place} is not a folder; name an --output-dir, a store_uri, or a folder above them")
    names = store.walk_names()
    runs = _runs(store, names)
    for result in _results(store, names):
        runs[result.id] = replace(runs.get(result.id, result), **_of_results(result))
    found = sorted(runs.values(), key=lambda run: run.started, reverse=True)
    pages = {same_place(run.page) for run in found if run.page}
    tables = [_comparison(store, name) for name in names if name.rpartition("/")[2] == TABLE]
    found += (each for each in tables if same_place(each.page) not in pages)  # others are of runs in a pipeline
    if not found:
        raise LineageError(
            f"{store.uri}: no run or comparison found there; name an --output-dir, a store_uri, or a folder above"
        )
    return found


def _runs(store: Store, names: Sequence[str]) -> dict[str, RunEntry]:
    by_folder: dict[str, list[str]] = {}
    for name in names:
        address = store.address(name)
        if is_record(address) and address.split("/")[-3] == "runs":
            by_folder.setdefault(address.rpartition("/")[0], []).append(name)
    contents = read_all(store, [name for records in by_folder.values() for name in records])
    known = {
        folder: sorted(
            _decoded({name: contents[name] for name in records}, store),
            key=lambda record: (record["ended"] or "", record["started"]),
        )
        for folder, records in by_folder.items()
    }
    newest: dict[str, str] = {}  # start of the last run that did each work
    for records in known.values():
        for record in records:
            work = record["attempt"]["work"]
            newest[work] = max(newest.get(work, ""), record["started"])
    runs = (_run(folder, records, newest) for folder, records in known.items() if records)
    return {run.id: run for run in runs}


def _decoded(contents: Mapping[str, bytes | None], store: Store) -> Iterator[Record]:
    for name, content in contents.items():
        with suppress(LineageError):  # `ease lineage verify` names it
            yield decode(content or b"", store.address(name))


def _run(place: str, records: Sequence[Record], newest: Mapping[str, str]) -> RunEntry:
    by_stage = {record["stage"]: record for record in records}
    last = max(records, key=lambda record: str(record["started"]))
    parameters: dict[str, Any] = {}
    for record in records:
        parameters |= record["parameters"]
    planned = by_stage.get(FIRST_OF_COMPARISON)
    last_stage = by_stage.get(LAST_OF_COMPARISON if planned else LAST_STAGE)
    if last_stage and last_stage["state"] == "complete":
        state = DONE
    elif last["started"] < newest[last["attempt"]["work"]]:
        state = CONTINUED
    else:
        state = FAILED if last["state"] == "failed" else UNFINISHED
    llm = next((record["llm"] for record in reversed(records) if record.get("llm")), None) or {}
    report = by_stage.get(REPORT_STAGE)
    made = {part["name"]: part["uri"] for part in report["outputs"]} if report else {}
    entry = RunEntry(
        kind=RUN,
        id=last["run"]["id"],
        place=place,
        state=state,
        started=min(record["started"] for record in records),
        task=str(parameters.get("task_name") or parameters.get("task", "")),
        method=str(parameters.get("method", "")),
        model=str(llm.get("model") or parameters.get("llm_model", "")),
        reason=str(last["error"] or "") if state == FAILED else "",
    )
    if planned:
        return _of_comparison(entry, planned, last_stage)
    if NUMBERS not in made or RESULTS not in made:
        return entry
    page = joined(made[RESULTS], PAGE)
    return replace(entry, **_measured(_read(made[NUMBERS])), page=page if _is_there(page) else "")


def _of_comparison(entry: RunEntry, planned: Record, reported: Record | None) -> RunEntry:
    """A comparison in a pipeline: from its table if that can be read, else from its plan."""
    names = ("tasks", "methods", "endpoints")
    task, method, model = (str(planned["parameters"].get(name) or "") for name in names)
    entry = replace(entry, kind=COMPARISON, task=task or entry.task, method=method, model=model or entry.model)
    made = {part["name"]: part["uri"] for part in reported["outputs"]} if reported else {}
    if RESULTS not in made:
        return entry
    with suppress(EaseError, OSError):
        found = _comparison(open_store(made[RESULTS]), TABLE)
        if found.state == DONE:
            page = found.page if _is_there(found.page) else ""
            entry = replace(found, id=entry.id, place=entry.place, started=entry.started, state=entry.state, page=page)
    return entry


def _results(store: Store, names: Sequence[str]) -> Iterator[RunEntry]:
    """Yield an entry for each folder of results."""
    there = set(names)
    for name in names:
        folder, _, file = name.rpartition("/")
        beside = f"{folder}/{REPORT}".lstrip("/")
        if file != RECORD_FILE or beside not in there:
            continue
        with suppress(LineageError):
            record = decode(store.read(name) or b"", store.address(name))
            report = store.read(beside)
            page = store.address(f"{folder}/{PAGE}".lstrip("/"))
            entry = _run(store.address(folder) if folder else store.uri, [record], {record["attempt"]["work"]: ""})
            yield replace(entry, **_named(report), **_measured(report), page=page)


def _of_results(result: RunEntry) -> dict[str, Any]:
    """Facts that a folder of results holds and the records of its run lack."""
    names = ("task", "method", "model", "test", "expected", "gain", "requests", "cost_usd", "page", "place", "state")
    return {name: value for name in names if (value := getattr(result, name)) not in ("", None, (), 0)}


def _named(report: bytes | None) -> dict[str, Any]:
    with suppress(*UNREADABLE):
        found = json.loads(report or b"")
        return {"task": str(found["task"]), "method": str(found["method"]), "model": str(found["llm"]["model"])}
    return {}


def _measured(report: bytes | None) -> dict[str, Any]:
    """Scores of the winner from `report.json`; nothing if it is gone, and a state if it cannot be read."""
    if report is None:
        return {}
    with suppress(*UNREADABLE):
        found = json.loads(report)
        gain = found["gain"]
        return {
            "test": _number(found["best"]["test_score"]),
            "expected": _number(found["best"]["estimate"]),
            "gain": tuple(map(_number, (gain["mean"], *gain["interval"]))) if gain else (),
            "requests": int(found["llm"]["requests"]),
            "cost_usd": _number(found["llm"]["cost_usd"]),
        }
    return {"state": DAMAGED}


def _number(value: Any) -> float:
    """
    Raises:
        ValueError: when it is not a number, or not a finite one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _read(uri: str) -> bytes | None:
    with suppress(EaseError, OSError):
        store, name = open_file(uri)
        return store.read(name)
    return None


def _is_there(uri: str) -> bool:
    """Return whether the URI exists, without reading it."""
    with suppress(EaseError, OSError):
        store, name = open_file(uri)
        return name in store.find_names()
    return False


def _comparison(store: Store, name: str) -> RunEntry:
    folder = name.rpartition("/")[0]
    entry = RunEntry(kind=COMPARISON, id=folder, place=store.address(folder) if folder else store.uri, state=DAMAGED)
    with suppress(*UNREADABLE):
        rows = table_of(store.read(name) or b"").to_pylist()
        tasks, methods, endpoints = (
            ", ".join(dict.fromkeys(str(row[column]) for row in rows)) for column in ("task", "method", "endpoint")
        )
        return replace(
            entry,
            state=DONE,
            task=tasks,
            method=methods,
            model=endpoints,
            test=fmean(_number(row["test_score"]) for row in rows) if rows else None,
            expected=fmean(_number(row["estimate"]) for row in rows) if rows else None,
            requests=sum(row["llm_requests"] for row in rows),
            cost_usd=sum(_number(row["cost_usd"]) for row in rows),
            page=store.address(name.removesuffix(".parquet") + ".html"),
        )
    return entry


def link_to(uri: str) -> str:
    """Link that a browser opens; empty for a place in an object store."""
    path = same_place(uri)
    return "" if "://" in path else Path(path).absolute().as_uri()
