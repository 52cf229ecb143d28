"""Lineage of a prompt as unsigned SLSA provenance v1 in an in-toto Statement, which auditors' tools read.

Build type `urn:ease-pipelines:build-type:exemplar-search:v1`, a search for one sequence of exemplars:

externalParameters    every parameter of the run by its name in `config/sections/`, those left at their default too
internalParameters    `seed`; `defaults`: names of the parameters left at theirs; `attempts`: of each attempt at a stage
                      its id, state, pod, retry number and the records of earlier attempts at the same work
resolvedDependencies  files read, models asked, embedder, images, source; the annotation `kind` tells them apart
runDetails            builder with versions of EASE, Python and packages; run id, start and end; `byproducts` are the
                      search history, predictions, summaries, and the lineage records, which hold all the rest

README.md says what each field means. A model behind an endpoint has no digest: what its server said of itself (name and
fingerprint of what answered) is all that can be known.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from ease_lib.artifacts.contracts import TABLES
from ease_lib.artifacts.result_files import PAGE, PROMPT_TEXT
from ease_lib.errors import LineageError
from ease_lib.lineage.chain import Chain, Step
from ease_lib.lineage.exports import croissant
from ease_lib.lineage.record import Record, answered_by, distinct, resource_uri

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:ease-pipelines:build-type:exemplar-search:v1"
BUILDER = "urn:ease-pipelines:builder"
SOURCE = "ease-pipelines"
PARQUET, JSON = "application/vnd.apache.parquet", "application/json"
PROVENANCE_FILE, EVENTS_FILE = "provenance.intoto.json", "lineage.openlineage.jsonl"
CHECK, PUBLISH = "check_prerequisites", "publish"
SUBJECTS_FIRST = (PROMPT_TEXT, PAGE)
BYPRODUCTS = ("history", "predictions", "dataset_summary", "search_summary", "test_summary")
_COMMIT = re.compile(r"(?P<commit>[0-9a-f]{40})(?P<dirty>-dirty)?")
_IMAGE_DIGEST = re.compile(r"@sha256:(?P<sha256>[0-9a-f]{64})$")


def exports_of(chain: Chain) -> dict[str, bytes]:
    """SLSA provenance of the run's results, its OpenLineage events, and its data set as Croissant; by file name.

    Raises:
        LineageError: when no record of the report can be reached, which wrote the results.
    """
    from ease_lib.lineage.exports.openlineage import openlineage_lines  # takes 0.2 s

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


def provenance_statement(chain: Chain, files: Record) -> Record:
    """The Statement about these result files; equal for equal records, before and after they were published.

    Args:
        chain: that reaches from the stage that made the files (`report`) to the raw data.
        files: `{"sha256": ..., "bytes": ...}` by name.
    """
    names = sorted(files, key=lambda name: (name not in SUBJECTS_FIRST, name))
    steps = [step for step in chain.steps if step.stage != PUBLISH]
    attempts = _attempts(chain, steps)
    software = steps[0].record["software"]
    packages = dict(sorted(software["packages"].items()))
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": files[name]["sha256"]}} for name in names],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                **_parameters(steps, attempts),
                "resolvedDependencies": _dependencies(steps, attempts),
            },
            "runDetails": {
                "builder": {
                    "id": BUILDER,
                    "version": {"ease": software["ease"], "python": software["python"], **packages},
                },
                "metadata": _metadata(steps[0].record, attempts),
                "byproducts": [*_artifacts(steps), *record_resources(attempts)],
            },
        },
    }


def resource(name: str, uri: str, sha256: str, **more: Any) -> Record:
    """A file as in-toto describes it."""
    return {"name": name, "uri": resource_uri(uri), "digest": {"sha256": sha256}, **more}


def _attempts(chain: Chain, steps: list[Step]) -> list[Step]:
    """Attempts that ended at the stages behind the result, in order of their start.

    A record at "started" may be that of the stage that asks, and will change; `earlier` of later attempts names those
    that were killed.
    """
    stages = {CHECK, *(step.stage for step in steps)}
    return [step for step in chain.everything if step.stage in stages and step.record["state"] != "started"]


def _parameters(steps: list[Step], attempts: list[Step]) -> Record:
    """Parameters of the whole run, which `check_prerequisites` saw; without its record, all that the stages saw."""
    checks = [step for step in attempts if step.stage == CHECK and step.record["state"] == "complete"]
    values: Record = {}
    defaults: set[str] = set()
    for step in checks[:1] or steps:
        values = {**step.record["parameters"], **values}
        defaults.update(step.record["defaults"])
    return {
        "externalParameters": dict(sorted(values.items())),
        "internalParameters": {
            "seed": values.get("seed"),
            "defaults": sorted(defaults),
            "attempts": [
                {
                    "stage": step.stage,
                    "state": step.record["state"],
                    **{name: step.record["attempt"][name] for name in ("id", "pod", "retry", "earlier")},
                }
                for step in attempts
            ],
        },
    }


def _dependencies(steps: list[Step], attempts: list[Step]) -> list[Record]:
    in_order = sorted(steps, key=lambda step: str(step.record["started"]))
    records = [step.record for step in in_order]
    found = [
        *(_file(step.stage, file) for step in in_order for file in step.record.get("files_read", [])),
        *_models(step.record for step in attempts if step.stage != CHECK),
        *(_embedder(record["embedder"]) for record in records if record.get("embedder")),
        *(_image(record["software"]["image"]) for record in records if record["software"]["image"]),
        *(_source(record["software"]["revision"]) for record in records if record["software"]["revision"]),
    ]
    return distinct(found, partial(json.dumps, sort_keys=True))


def _file(stage: str, file: Record) -> Record:
    annotations = {"kind": "data", "stage": stage, "bytes": file["bytes"]}
    name = file["uri"].rstrip("/").rpartition("/")[2]
    return resource(name, file["uri"], file["sha256"], annotations=annotations)


def _models(records: Iterable[Record]) -> Iterator[Record]:
    """Each requested model, with those that answered; failed attempts count, because their answers are kept."""
    answers: dict[tuple[str, str, str], Counter[tuple[str, str]]] = {}
    cached: Counter[tuple[str, str, str]] = Counter()
    for llm in (record["llm"] for record in records if record.get("llm")):
        asked = llm["model"], llm["endpoint"], llm["api"]
        cached[asked] += llm["cached_answers"]
        counts = answers.setdefault(asked, Counter())
        for each in llm["answered_by"]:
            counts[each["model"], each["system_fingerprint"]] += each["answers"]
    for (model, endpoint, api), counts in sorted(answers.items()):
        at = {"kind": "model", "endpoint": endpoint, "api": api}
        told = {"answered_by": answered_by(counts), "cached_answers": cached[model, endpoint, api]}
        yield {"name": model or endpoint, "annotations": {**at, **told}}


def _embedder(embedder: Record) -> Record:
    sha256 = embedder.get("files_sha256")
    digest = {"digest": {"sha256": sha256}} if sha256 else {}
    more = {name: value for name, value in embedder.items() if name not in ("name", "files_sha256")}
    return {"name": embedder["name"], **digest, "annotations": {"kind": "embedder", **more}}


def _image(reference: str) -> Record:
    found = _IMAGE_DIGEST.search(reference)
    digest = {"digest": {"sha256": found["sha256"]}} if found else {}
    return {"name": reference, **digest, "annotations": {"kind": "image"}}


def _source(revision: str) -> Record:
    found = _COMMIT.fullmatch(revision)
    digest = {"digest": {"gitCommit": found["commit"]}} if found else {}
    dirty = {"dirty": True} if found and found["dirty"] else {}
    return {"name": SOURCE, **digest, "annotations": {"kind": "source", "revision": revision, **dirty}}


def _metadata(last: Record, attempts: list[Step]) -> Record:
    """Metadata of this run only; stages from a cache ran earlier, in another run."""
    run, ended = last["run"]["id"], last["ended"]
    own = [step.record["started"] for step in attempts if step.record["run"]["id"] == run]
    return {
        "invocationId": run,
        "startedOn": min(own, default=last["started"]),
        **({"finishedOn": ended} if ended else {}),
    }


def _artifacts(steps: list[Step]) -> Iterator[Record]:
    for contract in BYPRODUCTS:
        kind = PARQUET if contract in TABLES else JSON
        for step in reversed(steps):
            for output in step.record["outputs"]:
                if output["contract"].partition("/")[0] == contract:
                    name = f"{step.stage}/{output['name']}"
                    yield resource(name, output["uri"], output["sha256"], mediaType=kind)


def record_resources(attempts: Iterable[Step]) -> Iterator[Record]:
    """Lineage records as resources."""
    for step in attempts:
        attempt = step.record["attempt"]
        uri = attempt["record"] or attempt["copies"].get("lineage") or step.uri
        yield resource(f"records/{step.stage}-{step.id}.json", uri, step.sha256, mediaType=JSON)
