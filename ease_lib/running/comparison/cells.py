"""The cells of a comparison: one run each, all stages in this process; a finished cell is never run again.

Finished cells are in `cells/` of `store_uri`, under a hash of everything that decides their result: parameters, data,
the content of a file of instructions, the embedder's files, our own code. Labels in tables are not part of it, nor is
anything that changes only the speed.

A failed cell has the reason as its result, so that it does not stop the others and the report names it; that result is
not kept. Temporary failures are first left to Kubeflow's retries.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.comparison import ANSWERS_PER_POINT, Cell
from ease_lib.config.parsing import flat_parameters, parameters_of, parse_parameters
from ease_lib.digests import key_of, sha256_of_files
from ease_lib.embedding.opening import embedder_identity
from ease_lib.errors import EaseError, JournalInUse
from ease_lib.notes import Notes
from ease_lib.prompts.instructions import read_instruction_file
from ease_lib.prompts.messages import as_text
from ease_lib.prompts.winner import blank_prompt
from ease_lib.running.graph import STAGES, modules_between
from ease_lib.running.inline import Workspace
from ease_lib.running.run import Host, Run, open_run, run_of

logger = logging.getLogger("ease")

FOLDER = "cells"
IN_USE_SECONDS = 5.0, 15.0
"""Waits before a search that another process holds is tried again."""
STILL_SECONDS = 600.0
"""Time without any change of the journal after which the cell stops waiting."""


def attempted(
    cell: Cell, at: Workspace, host: Host, *, notes: Notes | None = None, is_last: bool = True
) -> tuple[dict[str, Any], bool]:
    """Run a cell like `run_cell`; a failure becomes a result that says why, unless another attempt may cure it.

    Another comparison may have the same search: it is waited for as long as that gets on, and what it was answered is
    known then.

    Args:
        host: the process.
        notes: take what the stages meet, for the record of the cell.
        is_last: no other attempt follows.
    """
    parameters = parse_parameters(cell.parameters)
    try:
        with open_run(host, *run_of(parameters)) as run:
            length, since = -1, time.monotonic()
            while True:
                try:
                    return run_cell(cell, at, replace(run, notes=notes or Notes()))
                except JournalInUse as error:
                    if length < 0:
                        logger.warning("notice: %s waits: %s", cell.name, error)  # seen without a handler too
                    if error.length != length:
                        length, since = error.length, time.monotonic()
                    if time.monotonic() - since > STILL_SECONDS:
                        raise
                time.sleep(random.uniform(*IN_USE_SECONDS))  # of two, not both at once
    except EaseError as error:
        if error.time_may_cure and not is_last:
            raise
        failure = str(error)
    except Exception as error:  # a bug in one cell is no reason to lose the others
        logger.exception("%s", cell.name)
        failure = f"internal error: {type(error).__name__}: {error}"
    return failed(cell, failure), False


def failed(cell: Cell, reason: str) -> dict[str, Any]:
    """The result under `COMPARISON_CELL` of a cell that has none."""
    logger.info("notice: %s failed: %s", cell.name, reason)
    return {**cell.document, "seed": parse_parameters(cell.parameters).run.seed, "failure": reason}


def run_cell(cell: Cell, at: Workspace, run: Run) -> tuple[dict[str, Any], bool]:
    """The result under `COMPARISON_CELL`, and whether it existed before.

    Args:
        at: of the cell run before on the same data, whose artifacts need not be made again; or new ones.

    Raises:
        EaseError: as the stages do; the journal keeps what was answered.
    """
    parameters = parse_parameters(cell.parameters)
    at.run_if_changed(parameters, run, STAGES["build_dataset"].module)
    key = _key(cell, at, run.sources)
    name = f"{FOLDER}/{key}.json"
    if parameters.caps.max_llm_requests or parameters.caps.max_cost_usd:
        parameters = replace(parameters, continuation=replace(parameters.continuation, ledger=f"cell-{key}"))
    measured = _kept(run.store.read(name) or b"") if run.store else {}
    is_kept = bool(measured)
    if not is_kept:
        at.run_if_changed(parameters, run, *modules_between("", "optimize"))
        at.run(parameters, run, STAGES["optimize"].module, STAGES["evaluate"].module)
        measured = _measured(at)
        if run.store:
            stamped = {"contract": contracts.COMPARISON_CELL.stamp, **measured}
            run.store.write(name, json.dumps(stamped, allow_nan=False).encode())
    return {**cell.document, "seed": parameters.run.seed, "failure": "", **measured}, is_kept


def _kept(content: bytes) -> dict[str, Any]:
    """The result of a finished cell; empty if there is none or it is damaged."""
    with suppress(ValueError):
        measured = json.loads(content)
        if isinstance(measured, dict) and measured.pop("contract", None) == contracts.COMPARISON_CELL.stamp:
            return measured
    return {}


def _key(cell: Cell, at: Workspace, sources: Sources) -> str:
    parameters = parse_parameters(cell.parameters)
    instructions = parameters.instructions.instructions_uri
    without = parameters_of("place", *(() if parameters.caps.max_seconds else ("speed",)))  # a slow one gets less far
    identity = {
        "code": _code_sha256(),
        "parameters": {name: value for name, value in flat_parameters(parameters).items() if name not in without},
        "data": sha256_of_files([Path(at.pool), Path(at.validation), Path(at.test), Path(at.summary)]),
        "instructions": read_instruction_file(instructions, sources) if instructions else [],
        "embedder": embedder_identity(parameters.embedding),
    }
    return key_of(identity)


@functools.cache
def _code_sha256() -> str:
    """Digest of this package's sources, since one version number may cover several states of them."""
    package = Path(__file__).parents[2]
    return sha256_of_files(sorted(package.rglob("*.py")))


def _incumbents(scores: Sequence[float], rows: Sequence[Sequence[int]]) -> list[float]:
    """The incumbent's score after every `ANSWERS_PER_POINT` answers, however many rows an evaluation has."""
    asked = list(itertools.accumulate(len(each) for each in rows))
    points = range(ANSWERS_PER_POINT, asked[-1] + ANSWERS_PER_POINT, ANSWERS_PER_POINT)
    return [scores[min(bisect.bisect_left(asked, point), len(scores) - 1)] for point in points]


def _measured(at: Workspace) -> dict[str, Any]:
    """Scores, and costs as if the cell had been run alone: answers that other cells paid for count as requests."""
    search = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
    tested = read_document(Path(at.test_scores), contracts.TEST_SUMMARY)
    best = read_document(Path(at.best_sequence), contracts.BEST_SEQUENCE)
    history = read_table(Path(at.history), contracts.HISTORY)
    cached = search["llm"]["cached"] + tested["llm"]["cached"]
    return {
        "answered_by_function": search["answered_by_function"],
        "validation_score": history["incumbent_score"][-1].as_py(),
        "test_score": tested["best"]["score"],
        "test_interval": tested["best"]["interval"],
        "estimate": best["estimate"],
        "estimate_interval": best["estimate_interval"],
        "exemplars": best["k"],
        "instruction": best["instruction"],
        "input": [exemplar["input"] for exemplar in best["exemplars"]],
        "outputs": [exemplar["outputs"][0] for exemplar in best["exemplars"]],
        "prompt": as_text(blank_prompt(best)),
        "random_test_score": tested["random"].get("score"),
        "gain_over_random": tested["random"].get("mean"),
        "gain_over_random_interval": tested["random"].get("interval", []),
        "better_than_random": tested["random"].get("evidence", False),
        "baseline_test_score": tested["baseline"].get("score"),
        "evaluations": search["evaluations"],
        "llm_requests": search["llm"]["requests"] + tested["llm"]["requests"] + cached,
        "cached_responses": cached,
        "cost_usd": search["llm"]["cost_usd"] + tested["llm"]["cost_usd"],
        "search_seconds": search["seconds"]["search"],
        "stopped": search["stopped"],
        "incumbent_scores": _incumbents(history["incumbent_score"].to_pylist(), history["row_ids"].to_pylist()),
        "failed_rows": tested["best"]["failed_rows"],
    }
