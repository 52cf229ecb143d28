"""Lineage records as OpenLineage events, for data catalogues: a job per stage, a run per attempt.

Events, facets and transports are those of openlineage-python. The START event holds what was known when the attempt
started, so it is the same whether it is sent then or written later. The event at the end adds files read, outputs,
error, and what the LLM answered (facet `ease_llm`, ours).

Left out: `sourceCodeLocation` requires the URL of a repository, which nothing tells us; the revision is a tag.

Importing this module takes 0.2 s, so callers do it when they need it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Dataset, InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    execution_parameters_run,
    input_statistics_input_dataset,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    set_producer,
    storage_dataset,
    tags_run,
)
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider
from requests import RequestException, Session

from ease_lib.artifacts.contracts import DOCUMENTS, TABLES
from ease_lib.config.sections import S3_SCHEMES
from ease_lib.lineage.chain import Chain
from ease_lib.lineage.record import Record, distinct
from ease_lib.lineage.redaction import redacted
from ease_lib.notes import PACKAGE

PRODUCER = "urn:ease-pipelines:openlineage"
NAMESPACE, PIPELINE = "ease-pipelines", "ease"
"""Namespace and name of the jobs: PIPELINE is the whole run, PIPELINE.STAGE one of its stages."""
LLM_SCHEMA = "urn:ease-pipelines:openlineage:1-0-0:EaseLlmRunFacet"
LAST_EVENTS = {"complete": RunState.COMPLETE, "failed": RunState.FAIL, "stopped": RunState.ABORT}
TIMEOUT_SECONDS = 5.0
set_producer(PRODUCER)


def openlineage_lines(chain: Chain) -> list[str]:
    """Events of all attempts that ended, in order of time, one line of JSON each."""
    ended = [step.record for step in chain.everything if step.record["state"] != "started"]
    events = [event for record in ended for event in openlineage_events(record)]
    events.sort(key=lambda event: datetime.fromisoformat(event.eventTime))
    return [json.dumps(Serde.to_dict(event), separators=(",", ":"), ensure_ascii=False) for event in events]


def openlineage_events(record: Record) -> list[RunEvent]:
    """START, and for an attempt that ended COMPLETE, FAIL or ABORT."""
    run_facets = _run_facets(record)
    inputs = [_input(part) for part in record["inputs"]]
    events = [_event(record, RunState.START, run_facets, inputs, [])]
    if record["state"] in LAST_EVENTS:
        read = [_input(file) for file in record.get("files_read", [])]
        outputs = [_output(part) for part in record["outputs"]]
        facets = {**run_facets, **_end_facets(record)}
        events.append(_event(record, LAST_EVENTS[record["state"]], facets, [*inputs, *read], outputs))
    return events


def emit(events: Sequence[RunEvent], url: str = "", key: str = "") -> str | None:
    """Send events, and stop at the first failure, so that an unreachable catalogue costs a run little time.

    Args:
        url: where to POST them, with path; empty sends them by what OpenLineage's own variables and files configure.
        key: sent to `url` as bearer token, unless empty; not to where that redirects.

    Returns:
        One line that says what went wrong, without secrets, or None.
    """
    if not events:
        return None
    sent = 0
    try:
        transport = _transport(url, key)
        for event in events:
            transport.emit(event)
            sent += 1
        transport.close(TIMEOUT_SECONDS)
    except Exception as error:  # a transport may raise anything, and none may fail a run
        receiver = url or "what OPENLINEAGE_ variables name"
        text = f"OpenLineage events from number {sent + 1} on did not reach {receiver}: {_reason(error)}"
        return " ".join(redacted(text, [key] if key else []).split())
    return None


def _transport(url: str, key: str) -> Transport:
    if not url:
        return OpenLineageClient().transport
    session = Session()
    session.max_redirects = 0  # a redirected POST becomes a GET, which delivers nothing and looks like success
    auth = ApiKeyTokenProvider({"api_key": key}) if key else TokenProvider({})
    config = HttpConfig(url, endpoint="", timeout=TIMEOUT_SECONDS, auth=auth, session=session, retry={"total": 0})
    return HttpTransport(config)


def _reason(error: BaseException) -> str:
    """Reason of a failure. If the text of an error may quote the key or a password in the URL, its type alone."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code} {response.reason}"
    while cause := error.__cause__ or error.__context__:
        error = cause
    is_of_network = isinstance(error, OSError) and not isinstance(error, RequestException)
    return (is_of_network and str(error)) or type(error).__name__


def _event(
    record: Record,
    kind: RunState,
    run_facets: dict[str, Any],
    inputs: Sequence[InputDataset],
    outputs: Sequence[OutputDataset],
) -> RunEvent:
    job_type = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="KUBEFLOW", jobType="TASK")
    return RunEvent(
        eventType=kind,
        eventTime=record["started"] if kind is RunState.START else record["ended"],
        producer=PRODUCER,
        run=Run(_uuid(record["attempt"]["id"]), facets=run_facets),
        job=Job(NAMESPACE, f"{PIPELINE}.{record['stage']}", facets={"jobType": job_type}),
        inputs=distinct(inputs, _name_of),
        outputs=distinct(outputs, _name_of),
    )


def _run_facets(record: Record) -> dict[str, Any]:
    """Facets that are known when an attempt starts."""
    parameters = [
        execution_parameters_run.ExecutionParameter(
            key=name, name=name, value=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        for name, value in record["parameters"].items()
    ]
    software = record["software"]
    facets: dict[str, Any] = {
        "parent": parent_run.ParentRunFacet(
            run=parent_run.Run(_uuid(record["run"]["id"])), job=parent_run.Job(NAMESPACE, PIPELINE)
        ),
        "executionParameters": execution_parameters_run.ExecutionParametersRunFacet(parameters=parameters),
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(version=software["ease"], name=NAMESPACE),
    }
    scheduled = _moment(record["run"]["scheduled"])
    if scheduled:
        facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(nominalStartTime=scheduled)
    told = {"run": record["run"]["id"], "run_name": record["run"]["name"], "pod": record["attempt"]["pod"]}
    told |= {"image": software["image"], "revision": software["revision"]}
    tags = [
        tags_run.TagsRunFacetFields(key=name, value=value, source=NAMESPACE) for name, value in told.items() if value
    ]
    return {**facets, "tags": tags_run.TagsRunFacet(tags=tags)}


def _end_facets(record: Record) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if record["error"]:
        message = record["error"]
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="python")
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
    """The named fields of a record, renamed as OpenLineage has them."""
    return {re.sub("_(.)", lambda found: found[1].upper(), name): fields[name] for name in names}


def _input(part: Record) -> InputDataset:
    """An artifact or a file that was read."""
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(**_counts(part))
    return InputDataset(*_named(part["uri"]), facets=_facets(part), inputFacets={"inputStatistics": statistics})


def _output(part: Record) -> OutputDataset:
    """An artifact that was written."""
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(**_counts(part))
    return OutputDataset(*_named(part["uri"]), facets=_facets(part), outputFacets={"outputStatistics": statistics})


def _counts(part: Record) -> dict[str, Any]:
    rows = {"rowCount": part["rows"]} if "rows" in part else {}
    return {"size": part["bytes"], "fileCount": len(part.get("files", [part])), **rows}


def _facets(part: Record) -> dict[str, Any]:
    namespace, name = _named(part["uri"])
    contract = part.get("contract", "")
    known = contract.partition("/")[0]
    table = TABLES.get(known)
    suffix = PurePosixPath(name).suffix.lstrip(".").lower()
    form = "parquet" if table else "json" if known in DOCUMENTS else suffix
    version = f"sha256:{part['sha256']}"
    facets: dict[str, Any] = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version),
        "storage": storage_dataset.StorageDatasetFacet(
            storageLayer=namespace.partition(":")[0], fileFormat=form or None
        ),
    }
    if table is not None and table.stamp == contract:
        columns = [
            schema_dataset.SchemaDatasetFacetFields(name=each.name, type=str(each.type)) for each in table.schema
        ]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=columns)
    return facets


def _named(uri: str) -> tuple[str, str]:
    """Namespace and name as in the specification; Kubeflow's minio:// is the same bucket as s3://."""
    if uri.startswith(PACKAGE):
        return PACKAGE.rstrip(":"), uri.removeprefix(PACKAGE)
    scheme, found, rest = uri.partition("://")
    if not found or scheme == "file":
        return "file", rest or uri
    bucket, _, key = rest.partition("/")
    return f"{'s3' if scheme in S3_SCHEMES else scheme}://{bucket}", key


def _uuid(name: str) -> str:
    """The id as a UUID, as OpenLineage requires; Kubeflow's ids are UUIDs, others may be anything."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:ease-pipelines:run:{name}"))


def _moment(text: str) -> str | None:
    """The planned time, if there is one; a run without a schedule may have Kubeflow's placeholder instead."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _name_of(dataset: Dataset) -> tuple[str, str]:
    return dataset.namespace, dataset.name
