"""Lineage records as OpenLineage events, for catalogues that draw what fed what: a job per stage, a run per attempt.

The START event holds what was known when the attempt started, so it is the same whether it is sent then or written
later. The event at the end adds files read, outputs, error, and what the LLM answered (facet `ease_llm`, ours).

Left out: `sourceCodeLocation` requires the URL of a repository, which nothing tells us; the revision is a tag.
"""

from __future__ import annotations

import json
import operator
import re
import urllib.request
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from ease_lib.artifacts.contracts import DOCUMENTS, TABLES
from ease_lib.config.sections import S3_SCHEMES
from ease_lib.lineage.chain import Chain
from ease_lib.lineage.record import Record, distinct
from ease_lib.lineage.redaction import redacted
from ease_lib.notes import PACKAGE

PRODUCER = "urn:ease-pipelines:openlineage"
NAMESPACE, PIPELINE = "ease-pipelines", "ease"
"""Of the jobs: PIPELINE is the run as a whole, PIPELINE.STAGE one of its stages."""
EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
LLM_SCHEMA = "urn:ease-pipelines:openlineage:1-0-0:EaseLlmRunFacet"
LAST_EVENTS = {"complete": "COMPLETE", "failed": "FAIL", "stopped": "ABORT"}
TIMEOUT_SECONDS = 5.0


def openlineage_lines(chain: Chain) -> list[str]:
    """Events of all attempts that ended, in order of time, one line of JSON each."""
    ended = [step.record for step in chain.everything if step.record["state"] != "started"]
    events = [event for record in ended for event in openlineage_events(record)]
    return [_compact(event) for event in sorted(events, key=lambda event: datetime.fromisoformat(event["eventTime"]))]


def openlineage_events(record: Record) -> list[Record]:
    """START, and for an attempt that ended COMPLETE, FAIL or ABORT."""
    run_facets = _run_facets(record)
    inputs = [_dataset(part, "input") for part in record["inputs"]]
    events = [_event(record, "START", record["started"], run_facets, inputs, [])]
    if record["state"] in LAST_EVENTS:
        read = [_dataset(file, "input") for file in record.get("files_read", [])]
        outputs = [_dataset(part, "output") for part in record["outputs"]]
        facets = {**run_facets, **_end_facets(record)}
        kind = LAST_EVENTS[record["state"]]
        events.append(_event(record, kind, record["ended"], facets, [*inputs, *read], outputs))
    return events


def emit(events: Iterable[Record], url: str, key: str = "") -> str | None:
    """Send events, one request each, and stop at the first that fails: a catalogue that is away must cost no run much.

    Args:
        url: where to POST them, with path.
        key: sent as bearer token, unless empty; not to where `url` redirects.

    Returns:
        One line that says what went wrong, without secrets, or None.
    """
    for number, event in enumerate(events):
        problem = _send(event, url, key)
        if problem:
            text = f"OpenLineage events from number {number + 1} on did not reach {url}: {problem}"
            return " ".join(redacted(text, [key] if key else []).split())
    return None


def _send(event: Record, url: str, key: str) -> str | None:
    try:
        if urlsplit(url).scheme not in ("http", "https"):
            return "the URL must begin with http:// or https://"
        request = urllib.request.Request(url, data=_compact(event).encode(), method="POST")  # noqa: S310
        request.add_header("Content-Type", "application/json")
        if key:
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS):
            return None
    except HTTPError as error:
        error.close()
        return f"HTTP {error.code} {error.reason}"
    except URLError as error:
        return str(error.reason)
    except OSError as error:
        return str(error) or type(error).__name__
    except (HTTPException, ValueError) as error:
        return type(error).__name__  # its text may quote the key or a password in the URL


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST becomes a GET, which delivers nothing and looks like success."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _event(
    record: Record, kind: str, time: str, run_facets: Record, inputs: Sequence[Record], outputs: Sequence[Record]
) -> Record:
    job_type = _facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="KUBEFLOW", jobType="TASK")
    return {
        "eventType": kind,
        "eventTime": time,
        "producer": PRODUCER,
        "schemaURL": EVENT_SCHEMA,
        "run": {"runId": _uuid(record["attempt"]["id"]), "facets": run_facets},
        "job": {"namespace": NAMESPACE, "name": f"{PIPELINE}.{record['stage']}", "facets": {"jobType": job_type}},
        "inputs": distinct(inputs, _name_of),
        "outputs": distinct(outputs, _name_of),
    }


def _run_facets(record: Record) -> Record:
    """What is known when an attempt starts."""
    parent = {"run": {"runId": _uuid(record["run"]["id"])}, "job": {"namespace": NAMESPACE, "name": PIPELINE}}
    parameters = [
        {"key": name, "name": name, "value": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
        for name, value in record["parameters"].items()
    ]
    software = record["software"]
    facets = {
        "parent": _facet("ParentRunFacet", "1-2-0", **parent),
        "executionParameters": _facet("ExecutionParametersRunFacet", "1-0-0", parameters=parameters),
        "processing_engine": _facet("ProcessingEngineRunFacet", "1-1-1", version=software["ease"], name=NAMESPACE),
    }
    scheduled = _moment(record["run"]["scheduled"])
    if scheduled:
        facets["nominalTime"] = _facet("NominalTimeRunFacet", "1-0-1", nominalStartTime=scheduled)
    told = {"run": record["run"]["id"], "run_name": record["run"]["name"], "pod": record["attempt"]["pod"]}
    told |= {"image": software["image"], "revision": software["revision"]}
    tags = [{"key": name, "value": value, "source": NAMESPACE} for name, value in told.items() if value]
    facets["tags"] = _facet("TagsRunFacet", "1-0-0", tags=tags)
    return facets


def _end_facets(record: Record) -> Record:
    facets = {}
    if record["error"]:
        error = {"message": record["error"], "programmingLanguage": "python"}
        facets["errorMessage"] = _facet("ErrorMessageRunFacet", "1-0-1", **error)
    llm = record.get("llm")
    if llm:
        answered_by = [_in_camel_case(each, ("model", "system_fingerprint", "answers")) for each in llm["answered_by"]]
        told = _in_camel_case({**llm, "answered_by": answered_by}, _OF_LLM)
        facets["ease_llm"] = {"_producer": PRODUCER, "_schemaURL": LLM_SCHEMA, **told}
    return facets


_OF_LLM = (
    *("endpoint", "model", "api", "answered_by"),
    *("new_answers", "cached_answers", "prompt_tokens", "completion_tokens"),
)


def _in_camel_case(fields: Record, names: Iterable[str]) -> Record:
    """Of a record, these fields by the names that OpenLineage's have."""
    return {re.sub("_(.)", lambda found: found[1].upper(), name): fields[name] for name in names}


def _dataset(part: Record, direction: str) -> Record:
    """An artifact or a file that was read, named as the specification has it."""
    namespace, name = _named(part["uri"])
    contract = part.get("contract", "")
    known = contract.partition("/")[0]
    table = TABLES.get(known)
    suffix = PurePosixPath(name).suffix.lstrip(".").lower()
    found = "parquet" if table else "json" if known in DOCUMENTS else suffix
    form = {"fileFormat": found} if found else {}
    facets = {
        "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=f"sha256:{part['sha256']}"),
        "storage": _facet("StorageDatasetFacet", "1-0-1", storageLayer=namespace.partition(":")[0], **form),
    }
    if table is not None and table.stamp == contract:
        fields = [{"name": column.name, "type": str(column.type)} for column in table.schema]
        facets["schema"] = _facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    counts = {"size": part["bytes"], "fileCount": len(part.get("files", [part]))}
    if "rows" in part:
        counts["rowCount"] = part["rows"]
    kind = f"{direction.capitalize()}Statistics{direction.capitalize()}DatasetFacet"
    statistics = _facet(kind, "1-0-0" if direction == "input" else "1-0-2", **counts)
    of_direction = {f"{direction}Facets": {f"{direction}Statistics": statistics}}
    return {"namespace": namespace, "name": name, "facets": facets, **of_direction}


def _named(uri: str) -> tuple[str, str]:
    """Namespace and name; what Kubeflow calls minio:// is the same bucket as s3://."""
    if uri.startswith(PACKAGE):
        return PACKAGE.rstrip(":"), uri.removeprefix(PACKAGE)
    scheme, found, rest = uri.partition("://")
    if not found or scheme == "file":
        return "file", rest or uri
    bucket, _, key = rest.partition("/")
    return f"{'s3' if scheme in S3_SCHEMES else scheme}://{bucket}", key


def _facet(name: str, version: str, /, **fields: Any) -> Record:
    schema = f"https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": schema, **fields}


def _uuid(name: str) -> str:
    """OpenLineage wants UUIDs; Kubeflow's ids are, those of a run started by hand may be anything."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:ease-pipelines:run:{name}"))


def _moment(text: str) -> str | None:
    """The planned time, if it is one: a run without schedule may come with Kubeflow's placeholder instead."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


_name_of = operator.itemgetter("namespace", "name")


def _compact(event: Record) -> str:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)
