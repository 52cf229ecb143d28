"""Explanation of a prompt in plain words, from the rows to the iteration that found it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ease_lib.artifacts.tables import table_of
from ease_lib.errors import LineageError
from ease_lib.lineage.chain import Chain, Step
from ease_lib.lineage.record import Record
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.mean_scores import MeanScores, prompt_of

SHOWN = 60
"""Characters of an exemplar's input that name it in a sentence."""


def explain(chain: Chain) -> str:
    """Sentences about data, changes to it, prefilter, search, test and publication.

    Raises:
        LineageError: when an artifact that this rests on is gone.
    """
    return "\n\n".join(
        paragraph for part in (_data, _changes, _prefilter, _search, _test, _publication) for paragraph in part(chain)
    )


def _data(chain: Chain) -> Iterator[str]:
    build, summary = _step(chain, "build_dataset"), _document(chain, "build_dataset", "summary")
    reads = ", ".join(read["uri"] for read in build.record.get("files_read", []))
    sources = reads or f"task {summary['task']}, which is generated from the seed"
    yield (
        f"Data. The task is {summary['task']}, from {sources}. With seed {build.record['parameters']['seed']} it was "
        f"split into a pool of {summary['pool']} exemplars, {summary['validation']} validation rows that guide the "
        f"search, and {summary['test']} test rows used only for the final score."
    )
    if summary["notices"]:
        yield "Notices about the data: " + " ".join(summary["notices"])


def _changes(chain: Chain) -> Iterator[str]:
    parameters = _step(chain, "build_dataset").record["parameters"]
    summary = _document(chain, "build_dataset", "summary")
    noise, renaming = parameters["noise_ratio"], parameters["label_remapping"]
    changes = []
    if noise:
        changes.append(f"the outputs of {summary['noisy']} pool rows were corrupted on purpose (noise_ratio {noise})")
    if renaming:
        changes.append(f"labels were renamed by {renaming}, in pool, validation and test set alike")
    text = "; ".join(changes) or "None: no noise was added and no label renamed"
    yield f"Changes. {text[0].upper()}{text[1:]}."


def _prefilter(chain: Chain) -> Iterator[str]:
    step = _step(chain, "prefilter")
    before = next(part["rows"] for part in step.record["inputs"] if part["name"] == "pool")
    after = next(part["rows"] for part in step.record["outputs"] if part["name"] == "kept")
    name = step.record["parameters"]["prefilter"]
    if after == before:
        yield f"Prefilter. {name}: all {before} exemplars went on."
        return
    ids = {row["exemplar_id"] for row in _table(chain, "prefilter", "kept")}
    dropped = [row for row in _table(chain, "build_dataset", "pool") if row["exemplar_id"] not in ids]
    shown = f", among them {_quoted(dropped[0])}{_origin(dropped[0])}" if dropped else ""
    yield (
        f"Prefilter. {name} kept the {after} of {before} exemplars that rank first for the validation rows and "
        f"dropped {before - after}{shown}."
    )


def _search(chain: Chain) -> Iterator[str]:
    best, summary = (_document(chain, "optimize", name) for name in ("best_sequence", "search"))
    history = _table(chain, "optimize", "history")
    asked = _entries(history)
    attempts = len(_step(chain, "optimize").record["attempt"]["earlier"])
    continued = f" It continued {attempts} earlier {'attempt' if attempts == 1 else 'attempts'}." if attempts else ""
    yield (
        f"Search. {summary['method']} asked {best['llm_model']} at {best['llm_endpoint']} "
        f"{sum(len(row['row_ids']) for row in history)} questions about {len(asked)} sequences of up to {best['k']} "
        f"exemplars and stopped for this reason: {summary['stopped']}.{continued}"
    )
    yield _winner(best, asked, asked.pop(prompt_of(best), None))
    pool = {row["exemplar_id"]: row for row in _table(chain, "prefilter", "kept")}
    lines = [
        f"  {number}. row {entry['exemplar_id']}{_origin(entry)}: {_quoted(entry)}"
        + (" (corrupted on purpose)" if pool[entry["exemplar_id"]]["is_noisy"] else "")
        for number, entry in enumerate(best["exemplars"], 1)
    ]
    yield "\n".join(["Its exemplars, in order:", *lines])


class _TriedSequence(NamedTuple):
    """A sequence of the history: its first evaluation, and its mean score over all rows that it was asked."""

    first: Mapping[str, Any]
    score: float
    rows: int


def _entries(history: Sequence[Mapping[str, Any]]) -> dict[Prompt, _TriedSequence]:
    """The sequences of a history by instruction and exemplars, in order."""
    scores = MeanScores()
    entries: dict[Prompt, _TriedSequence] = {}
    for row in history:
        prompt = prompt_of(row)
        mean, rows = scores.add(prompt, row["score"], row["validation_rows"])
        entries[prompt] = _TriedSequence(entries[prompt].first if prompt in entries else row, mean, rows)
    return entries


def _winner(best: Mapping[str, Any], others: Mapping[Prompt, _TriedSequence], winner: _TriedSequence | None) -> str:
    """The winner and the best other one that was asked at least half as many rows."""
    low, high = best["estimate_interval"]
    expected = f"expected to score {best['estimate']:.3f} on new rows (95 %: {low:.3f} to {high:.3f})"
    if winner is None:
        return f"The winner was known from an earlier search, and is {expected}."
    text = (
        f"The winner is evaluation {winner.first['iteration'] + 1} ({winner.first['phase']}), with a mean score "
        f"of {winner.score:.3f} over the {winner.rows} validation rows that it was asked, and {expected}"
    )
    rivals = [entry for entry in others.values() if entry.rows >= winner.rows / 2]
    if not rivals:
        return f"{text}."
    runner_up = max(rivals, key=lambda entry: (entry.score, -entry.first["iteration"]))
    ids = ", ".join(map(str, runner_up.first["exemplar_ids"]))
    return (
        f"{text}; the runner-up is evaluation {runner_up.first['iteration'] + 1} ({runner_up.first['phase']}) with "
        f"{runner_up.score:.3f} over {runner_up.rows} rows, exemplars {ids}."
    )


def _test(chain: Chain) -> Iterator[str]:
    if chain.step_of("evaluate") is not None:
        summary = _document(chain, "evaluate", "test_scores")
        best, random = summary["best"], summary["random"].get("score")
        beside = f"; random exemplars scored {random:.3f}" if random is not None else ""
        yield f"Test. On {best['rows']} rows that played no part in the choice it scored {best['score']:.3f}{beside}."


def _publication(chain: Chain) -> Iterator[str]:
    step = chain.step_of("publish")
    if step is not None and step.record["state"] == "complete":
        published = _document(chain, "publish", "publication")
        yield f"Publication. {published['state']}: {published['reason']}."


def _step(chain: Chain, stage: str) -> Step:
    step = chain.step_of(stage)
    if step is None:
        raise LineageError(f"no record of {stage} can be reached; `ease lineage verify` shows why")
    return step


def _document(chain: Chain, stage: str, name: str) -> Record:
    return dict(json.loads(chain.output(_step(chain, stage), name)))


def _table(chain: Chain, stage: str, name: str) -> list[dict[str, Any]]:
    return list(table_of(chain.output(_step(chain, stage), name)).to_pylist())


def _origin(row: dict[str, Any]) -> str:
    return f" ({row['origin']})" if row.get("origin") else ""


def _quoted(row: dict[str, Any]) -> str:
    text = row["input"].replace("\n", " ")
    return f"“{text[:SHOWN]}{'…' if len(text) > SHOWN else ''}” → {row['outputs'][0]}"
