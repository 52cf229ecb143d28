"""The lineage of a run in the forms that other tools read, as files."""

from __future__ import annotations

import json

from ease_lib.errors import LineageError
from ease_lib.lineage.chain import Chain
from ease_lib.lineage.exports import croissant
from ease_lib.lineage.exports.openlineage import openlineage_lines
from ease_lib.lineage.exports.slsa import provenance_statement
from ease_lib.lineage.record import Record

PROVENANCE_FILE, EVENTS_FILE = "provenance.intoto.json", "lineage.openlineage.jsonl"


def exports_of(chain: Chain) -> dict[str, bytes]:
    """SLSA provenance of the run's results, its OpenLineage events, and its data set as Croissant; by file name.

    Raises:
        LineageError: when no record of the report can be reached, which wrote the results.
    """
    report = chain.step_of("report")
    if report is None:
        raise LineageError("no record of report can be reached, so there is no result to export the provenance of")
    results = next(part for part in report.record["outputs"] if part["name"] == "results")
    files = {
        PROVENANCE_FILE: _json(provenance_statement(chain, results["files"])),
        EVENTS_FILE: "".join(f"{line}\n" for line in openlineage_lines(chain)).encode(),
    }
    data = croissant.croissant(chain)
    return files if data is None else {**files, croissant.FILE: _json(data)}


def _json(content: Record) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
