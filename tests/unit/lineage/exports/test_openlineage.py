import http.server
import json
import os
import socket
import threading
import time
import uuid
from datetime import datetime

import pytest
from openlineage.client.serde import Serde

from ease_lib.lineage.exports import openlineage
from ease_lib.lineage.exports.openlineage import emit, openlineage_events, openlineage_lines
from tests.unit.lineage.exports.lineage_records import IMAGE, LLM, PARAMETERS, RecordedRun, digest, recorded_run

HARD_CASES = {
    "in S3": {},
    "in folders": {"artifacts": "/tmp/ärtifacts #1", "root": "/tmp/lineage"},
    "no root": {"root": ""},
    "no LLM": {"llm": None},
    "run id is a UUID": {"run_id": "8aa94886-2253-4422-af91-a24fc2b9205b"},
    "scheduled": {"run": {"id": "r", "name": "nightly", "scheduled": "2026-11-21T03:00:00Z"}},
    "failed": {"state": "failed", "error": 'DataError: "naïve"\nrow 3', "outputs": []},
    "stopped": {"state": "stopped", "outputs": []},
}
KEY = "a-secret-key-of-mine"


@pytest.fixture(params=HARD_CASES.values(), ids=HARD_CASES.keys())
def events(request):
    run = recorded_run(**request.param)
    return [event for step in run.chain().everything for event in events_of(step.record)]


def events_of(record):
    """The events as JSON values."""
    return [Serde.to_dict(event) for event in openlineage_events(record)]


def test_every_event_has_what_the_specification_requires(events):
    for event in events:
        assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
        assert {"eventType", "eventTime", "producer", "run", "job", "inputs", "outputs"} <= event.keys()
        assert uuid.UUID(event["run"]["runId"])
        datasets = [*event["inputs"], *event["outputs"]]
        facets = [*event["run"]["facets"].values(), *event["job"]["facets"].values()]
        for each in (*facets, *(facet for dataset in datasets for facet in dataset["facets"].values())):
            assert each["_producer"] == "urn:ease-pipelines:openlineage"
            assert each["_schemaURL"]


def test_an_attempt_is_a_run_with_a_start_and_an_end():
    for state, last in (("complete", "COMPLETE"), ("failed", "FAIL"), ("stopped", "ABORT")):
        start, end = events_of(RecordedRun().record("embed", state=state))
        assert (start["eventType"], end["eventType"]) == ("START", last)
        assert start["run"]["runId"] == end["run"]["runId"]
        assert start["job"] == end["job"]
        assert start["eventTime"] < end["eventTime"]


def test_an_attempt_under_way_has_the_start_that_it_will_have_later():
    run = RecordedRun()
    record = run.record("optimize")
    begun = {**record, "state": "started", "ended": None, "outputs": [], "files_read": [], "llm": None}
    assert events_of(begun) == events_of(record)[:1]


def test_stages_of_a_run_have_it_as_parent_under_a_uuid():
    run = recorded_run(run_id="by hand #1")
    parents = {_end(step.record)["run"]["facets"]["parent"]["run"]["runId"] for step in run.steps}
    assert len(parents) == 1
    assert uuid.UUID(parents.pop()).version == 5


def test_a_run_id_that_is_a_uuid_stays():
    run_id = "8aa94886-2253-4422-af91-a24fc2b9205b"
    event = _end(RecordedRun(run_id=run_id).record("embed"))
    assert event["run"]["facets"]["parent"]["run"]["runId"] == run_id


def test_parameters_arrive_as_text_with_quotes_and_unicode():
    facet = _end(RecordedRun().record("embed"))["run"]["facets"]["executionParameters"]
    values = {each["key"]: each["value"] for each in facet["parameters"]}
    assert values["task"] == PARAMETERS["task"]
    assert (values["k"], values["warm_start"], values["nu"]) == ("5", "false", "0.1")


@pytest.mark.parametrize(
    ("scheduled", "expected"),
    [
        ("2026-11-21T03:00:00Z", "2026-11-21T03:00:00+00:00"),
        ("2026-11-21 03:00:00", "2026-11-21T03:00:00+00:00"),
        ("", None),
        ("{{$.pipeline_job_schedule_time_utc}}", None),
    ],
)
def test_a_scheduled_run_has_its_planned_time(scheduled, expected):
    record = RecordedRun().record("embed", run={"id": "r", "name": "", "scheduled": scheduled})
    for event in events_of(record):
        assert event["run"]["facets"].get("nominalTime", {}).get("nominalStartTime") == expected


def test_image_and_revision_are_tags():
    tags = {tag["key"]: tag["value"] for tag in _end(RecordedRun().record("embed"))["run"]["facets"]["tags"]["tags"]}
    assert tags["image"] == IMAGE
    assert "run_name" not in tags


def test_an_error_is_in_the_event_of_the_failure_alone():
    start, end = events_of(RecordedRun().record("embed", state="failed", error="no “model”"))
    assert end["run"]["facets"]["errorMessage"]["message"] == "no “model”"
    assert "errorMessage" not in start["run"]["facets"]


def test_what_the_llm_answered_is_a_facet_of_ours_at_the_end():
    jsonschema = pytest.importorskip("jsonschema")
    start, end = events_of(RecordedRun().record("optimize"))
    facet = end["run"]["facets"]["ease_llm"]
    jsonschema.validate(facet, _LLM_SCHEMA)
    assert (facet["endpoint"], facet["model"]) == (LLM["endpoint"], LLM["model"])
    assert (facet["newAnswers"], facet["cachedAnswers"], facet["promptTokens"]) == (12, 3, 400)
    assert "ease_llm" not in start["run"]["facets"]
    assert "ease_llm" not in _end(RecordedRun().record("embed"))["run"]["facets"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a b/pool", ("s3://bucket", "a b/pool", "s3")),
        ("minio://bucket/key", ("s3://bucket", "key", "s3")),
        ("gs://bucket/key", ("gs://bucket", "key", "gs")),
        ("/tmp/ä/pool", ("file", "/tmp/ä/pool", "file")),
        ("package:ease_lib.tasks/x.csv", ("package", "ease_lib.tasks/x.csv", "package")),
    ],
)
def test_data_sets_are_named_as_the_specification_says(uri, expected):
    part = {"name": "x", "contract": "", "uri": uri, "sha256": digest("x"), "bytes": 1}
    (dataset,) = _end(RecordedRun().record("embed", outputs=[part]))["outputs"]
    assert (dataset["namespace"], dataset["name"], dataset["facets"]["storage"]["storageLayer"]) == expected


def test_a_table_has_its_columns_digest_and_size():
    pool = _end(RecordedRun().record("build_dataset"))["outputs"][0]
    facets = pool["facets"]
    assert [field["name"] for field in facets["schema"]["fields"]] == [
        *("exemplar_id", "input", "outputs", "fields", "origin", "is_noisy")
    ]
    assert facets["version"]["datasetVersion"] == f"sha256:{digest('s3://bucket/ease run/build_dataset/pool')}"
    assert facets["storage"]["fileFormat"] == "parquet"
    statistics = pool["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (3, 100, 1)


def test_a_table_of_another_version_has_no_columns():
    part = {"name": "p", "contract": "exemplar_pool/0", "uri": "s3://b/p", "sha256": digest("p"), "bytes": 1, "rows": 1}
    (pool,) = _end(RecordedRun().record("build_dataset", outputs=[part]))["outputs"]
    assert "schema" not in pool["facets"]


def test_a_folder_counts_its_files():
    results = _end(RecordedRun().record("report"))["outputs"][-1]
    assert results["outputFacets"]["outputStatistics"]["fileCount"] == 6


def test_what_one_stage_wrote_is_what_the_next_one_read():
    run = recorded_run()
    events = {step.stage: _end(step.record) for step in run.steps}
    outputs = {(each["namespace"], each["name"]) for event in events.values() for each in event["outputs"]}
    assert {(each["namespace"], each["name"]) for each in events["report"]["inputs"]} <= outputs


def test_raw_data_is_an_input_of_the_stage_that_read_it():
    (raw,) = _end(RecordedRun().record("build_dataset"))["inputs"]
    assert raw["name"] == "ease run/raw data/tâche.csv"
    assert raw["inputFacets"]["inputStatistics"]["size"] == 9


def test_a_file_given_twice_is_one_data_set():
    part = {"name": "a", "contract": "", "uri": "/tmp/a", "sha256": digest("a"), "bytes": 1}
    assert len(_end(RecordedRun().record("prefilter", inputs=[part, {**part, "name": "b"}]))["inputs"]) == 1


def test_lines_are_all_events_in_order_of_time_without_attempts_under_way():
    run = recorded_run()
    run.add("optimize", beside=True, state="failed", error="EndpointError")
    run.add("publish", beside=True, state="started", ended=None)
    lines = openlineage_lines(run.chain())
    events = [json.loads(line) for line in lines]
    assert len(events) == 2 * 7
    times = [datetime.fromisoformat(event["eventTime"]) for event in events]
    assert times == sorted(times)
    assert not any("\n" in line for line in lines)
    assert lines == openlineage_lines(run.chain())


def test_events_arrive_one_by_one_with_the_key(catalogue):
    events = openlineage_events(RecordedRun().record("optimize"))
    assert emit(events, catalogue.url, KEY) is None
    assert catalogue.bodies == [Serde.to_dict(event) for event in events]
    assert {headers["Authorization"] for headers in catalogue.headers} == {f"Bearer {KEY}"}
    assert {headers["Content-Type"] for headers in catalogue.headers} == {"application/json"}


def test_without_a_key_none_is_sent(catalogue):
    assert emit(openlineage_events(RecordedRun().record("embed")), catalogue.url) is None
    assert "Authorization" not in catalogue.headers[0]


def test_an_error_of_the_server_is_one_line_and_ends_the_sending(catalogue):
    catalogue.status = 500
    problem = emit(openlineage_events(RecordedRun().record("embed")), f"{catalogue.url}?token=hidden", KEY)
    assert "HTTP 500" in problem
    assert "number 1" in problem
    assert len(catalogue.bodies) == 1
    assert "\n" not in problem
    assert "hidden" not in problem


def test_a_key_that_the_server_repeats_is_not_passed_on(catalogue):
    catalogue.status, catalogue.reason = 403, f"{KEY} is unknown"
    problem = emit(openlineage_events(RecordedRun().record("embed")), catalogue.url, KEY)
    assert "HTTP 403" in problem
    assert KEY not in problem


def test_a_redirect_is_a_problem_and_takes_the_key_nowhere(catalogue):
    catalogue.status, catalogue.location = 302, catalogue.url
    assert "HTTP 302" in emit(openlineage_events(RecordedRun().record("embed")), catalogue.url, KEY)
    assert len(catalogue.headers) == 1


def test_a_refused_connection_is_a_problem():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        assert "refused" in emit(openlineage_events(RecordedRun().record("embed")), url)


def test_a_server_that_hangs_costs_one_timeout(monkeypatch):
    monkeypatch.setattr(openlineage, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.perf_counter()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert "timed out" in emit(openlineage_events(RecordedRun().record("embed")), url)
        assert time.perf_counter() - started < 2


def test_the_timeout_is_five_seconds():
    assert openlineage.TIMEOUT_SECONDS == 5


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "nowhere", "http://", "http://user:pa55word@127.0.0.1:x/", "http://[::1/"]
)
def test_a_url_that_is_none_is_a_problem_and_shows_no_password(url):
    problem = emit(openlineage_events(RecordedRun().record("embed")), url, KEY)
    assert problem
    assert "pa55word" not in problem


def test_a_key_that_cannot_be_a_header_is_a_problem_and_not_shown(catalogue):
    problem = emit(openlineage_events(RecordedRun().record("embed")), catalogue.url, "two\nlines")
    assert problem
    assert "lines" not in problem


def test_without_an_address_openlineages_own_variables_say_where_events_go(catalogue, monkeypatch, tmp_path):
    """Any of its transports counts, and the address and key of its simple variables."""
    events = openlineage_events(RecordedRun().record("embed"))
    monkeypatch.setattr(os, "environ", {**os.environ, "OPENLINEAGE_URL": catalogue.url.removesuffix("/api/v1/lineage")})
    monkeypatch.setitem(os.environ, "OPENLINEAGE_API_KEY", KEY)
    assert emit(events) is None
    assert catalogue.bodies == [Serde.to_dict(event) for event in events]
    assert {headers["Authorization"] for headers in catalogue.headers} == {f"Bearer {KEY}"}
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {tmp_path / 'events'}, append: true}}")
    monkeypatch.setattr(os, "environ", {"OPENLINEAGE_CONFIG": str(config)})
    assert emit(events) is None
    written = (tmp_path / "events.log" if (tmp_path / "events.log").exists() else tmp_path / "events").read_text()
    assert [json.loads(line) for line in written.splitlines()] == [Serde.to_dict(event) for event in events]


def test_a_transport_that_does_not_exist_is_a_problem(monkeypatch):
    monkeypatch.setattr(os, "environ", {"OPENLINEAGE__TRANSPORT__TYPE": "pigeon"})
    assert "what OPENLINEAGE_ variables name" in emit(openlineage_events(RecordedRun().record("embed")))


def test_nothing_to_send_is_no_problem():
    assert emit([], "nowhere") is None


class _Catalogue(http.server.ThreadingHTTPServer):
    """Takes events, and answers with `status`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/api/v1/lineage"
        self.status, self.reason, self.location = 201, None, None
        self.headers, self.bodies = [], []


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.headers.append(dict(self.headers))
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status, self.server.reason)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def catalogue():
    with _Catalogue() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


_LLM_SCHEMA = {
    "type": "object",
    "required": ["_producer", "_schemaURL", "endpoint", "model", "api", "answeredBy"],
    "properties": {
        **{name: {"type": "string"} for name in ("_producer", "_schemaURL", "endpoint", "model", "api")},
        **{
            name: {"type": "integer", "minimum": 0}
            for name in ("newAnswers", "cachedAnswers", "promptTokens", "completionTokens")
        },
        "answeredBy": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["model", "systemFingerprint", "answers"],
                "properties": {
                    "model": {"type": "string"},
                    "systemFingerprint": {"type": "string"},
                    "answers": {"type": "integer", "minimum": 1},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def _end(record):
    return events_of(record)[-1]
