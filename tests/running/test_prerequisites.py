"""Problems that would stop a run are found before it begins, and reported with a remedy."""

import http.server
import socket
import sys
import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.artifacts.store import open_store
from ease_lib.artifacts.streams import BLOCK_BYTES, RemoteFile
from ease_lib.black_box import local_llm as local
from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import ConfigError
from ease_lib.running import prerequisites, task_data
from ease_lib.running.prerequisites import with_service_for_local
from ease_lib.running.trial import with_patience
from tests.simulation.models import SIMULATED
from tests.support.runs import check, findings


@pytest.fixture
def stage_image(monkeypatch):
    """A machine without the packages of the local LLM, and without its service."""
    monkeypatch.setattr(local, "is_installed", lambda: False)
    monkeypatch.setattr(local, "SERVICE", "http://127.0.0.1:9")


@contextmanager
def healthy_service(port=0):
    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Healthy) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.usefixtures("stage_image")
@pytest.mark.parametrize(
    ("image", "remedies"),
    [
        ("cpu:1", ("Set llm_base_url to your endpoint in the form", "compile --set", "manifests/components/local-llm")),
        ("", ("`make install` brings both", "https://host/v1")),
    ],
)
def test_the_default_endpoint_where_it_is_not_is_refused_with_the_remedy_of_that_place(image, remedies, monkeypatch):
    monkeypatch.setenv("EASE_IMAGE", image)
    monkeypatch.setattr(prerequisites, "FIRST_SECONDS", 0)
    with pytest.raises(ConfigError) as refused:
        check(with_service_for_local(parse_parameters({}), Sources()))
    (problem,) = refused.value.problems
    for remedy in remedies:
        assert remedy in problem


@pytest.mark.usefixtures("stage_image")
def test_the_default_endpoint_is_the_clusters_service_of_it_where_that_answers(monkeypatch):
    with healthy_service() as url:
        monkeypatch.setattr(local, "SERVICE", url)
        endpoint = with_service_for_local(parse_parameters({}), Sources()).endpoint
        assert (endpoint.llm_base_url, endpoint.llm_api) == (f"{url}/v1", "completions")
        other = parse_parameters({"llm_base_url": SIMULATED})
        assert with_service_for_local(other, Sources()) is other


@pytest.mark.usefixtures("stage_image")
def test_a_pod_whose_way_out_is_opened_after_its_start_waits_for_it(monkeypatch, tmp_path):
    """Network policies reach a pod a moment late: until then every connection is refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    monkeypatch.setenv("EASE_IMAGE", "cpu:1")
    monkeypatch.setattr(local, "SERVICE", f"http://127.0.0.1:{port}")
    opened = threading.Timer(1.5, lambda: ready.append(stack.enter_context(healthy_service(port))))
    ready = []
    with ExitStack() as stack:
        opened.start()
        endpoint = with_service_for_local(parse_parameters({}), Sources()).endpoint
        opened.join()
    assert endpoint.llm_base_url == f"{ready[0]}/v1"


def test_the_first_answers_may_take_longer_in_a_pod(monkeypatch):
    endpoint = parse_parameters({"llm_base_url": "http://127.0.0.1:9/v1"}).endpoint
    for seconds in (prerequisites.TRIAL_DEADLINE_SECONDS, prerequisites.FIRST_SECONDS):
        assert with_patience(endpoint, prerequisites._patience(5.0)).llm_deadline_seconds == seconds
        monkeypatch.setenv("EASE_IMAGE", "cpu:1")


def test_the_default_endpoint_stays_where_its_packages_are():
    parameters = parse_parameters({})
    assert with_service_for_local(parameters, Sources()) is parameters


TABLE = {"task": "table", "input_columns": "text", "output_column": "label", "llm_base_url": SIMULATED}


def problems_of(**values):
    found = findings(parse_parameters({**TABLE, **values}))
    return [problem for finding in found for problem in finding.problems]


def large(path, row, header="text,label"):
    """A CSV file above what is tried as a whole."""
    path.write_text(f"{header}\n" + row * (task_data.READ_WHOLE_BYTES // len(row) + 1))
    return str(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,kind\na,b\n", "no column 'label'"),
        ("text,label\na,b\n", "has 1 rows with 1 different inputs"),
        ("text,label\n" + "a,b\n" * 300 + "a,b,c\n", "line 302 (record 301): 3 cells for 2 columns"),
        ("text,label\n" + ",b\n" * 300, "none of its 300 rows can be used: column 'text' is empty"),
        ("text,label\n" + "Café,b\n" * 300, "is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_small_data_is_tried_as_a_whole(tmp_path, content, problem):
    (tmp_path / "t.csv").write_bytes(content.encode("cp1252"))
    (found,) = problems_of(task_uri=str(tmp_path / "t.csv"))
    assert problem in found


def test_of_large_data_the_head_is_looked_at(tmp_path):
    path = tmp_path / "t.csv"
    assert problems_of(task_uri=large(path, "a text,a label\n")) == []
    for header, row, problem in (
        ("text,kind", "a,b\n", "line 2 (record 1): no column 'label'"),
        ("text,label", "a,b,c\n", "line 2 (record 1): 3 cells for 2 columns"),
    ):
        (found,) = problems_of(task_uri=large(path, row, header))
        assert problem in found


def test_of_a_large_object_only_its_beginning_is_transferred(s3, s3_prefix, tmp_path, monkeypatch):
    large(tmp_path / "t.csv", "a text,a label\n" * 100)
    open_store(s3_prefix).write("t.csv", (tmp_path / "t.csv").read_bytes())
    read, parts = RemoteFile._part, []

    def counted(self, start, end):
        parts.append(end - start)
        return read(self, start, end)

    monkeypatch.setattr(RemoteFile, "_part", counted)
    assert problems_of(task_uri=f"{s3_prefix}/t.csv") == []
    assert 0 < sum(parts) <= BLOCK_BYTES


def test_a_parquet_file_says_how_many_rows_it_has(s3, s3_prefix, tmp_path, monkeypatch):
    monkeypatch.setattr(task_data, "READ_WHOLE_BYTES", 0)
    pq.write_table(pa.table({"text": ["a"] * 50, "label": ["b"] * 50}), tmp_path / "t.parquet")
    open_store(s3_prefix).write("t.parquet", (tmp_path / "t.parquet").read_bytes())
    for uri in (str(tmp_path / "t.parquet"), f"{s3_prefix}/t.parquet"):
        (found,) = problems_of(task_uri=uri, pool_size=40, validation_size=10, test_size=1, k=2)
        assert "t.parquet: 50 rows are fewer than pool_size=40, validation_size=10 and test_size=1 together" in found
        assert problems_of(task_uri=uri, pool_size=39, validation_size=10, test_size=1, k=2) == []


@pytest.mark.parametrize("name", ["t.xls", "t.txt"])
def test_a_file_that_is_no_table_is_called_so(tmp_path, name):
    (tmp_path / name).write_text("text,label\na,b\n")
    (found,) = problems_of(task_uri=str(tmp_path / name))
    assert f"{name}: unknown kind of table; use one of .csv, .tsv," in found


@pytest.fixture
def hub(monkeypatch):
    """The client of a hub with one data set of 30 rows."""

    def builder(path, configuration):
        if path != "there":
            raise FileNotFoundError(f"no data set {path}")
        splits = {"train": SimpleNamespace(num_examples=20), "test": SimpleNamespace(num_examples=10)}
        return SimpleNamespace(info=SimpleNamespace(features={"text": 0, "label": 0}, splits=splits))

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset_builder=builder))


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"task_name": "absent"}, "cannot load hub data set absent: no data set absent; check the name"),
        ({"task_name": "there", "output_column": "kind"}, "there: no column 'kind'; there are ['label', 'text']"),
        ({"task_name": "there", "test_size": 30}, "there: 30 rows are fewer than pool_size=10"),
        ({"task_name": "there", "test_size": 2}, None),
    ],
)
def test_a_hub_data_set_is_asked_for_before_the_run(values, problem):
    found = problems_of(**{"pool_size": 10, "validation_size": 3, "k": 2, **values})
    assert (problem is None and not found) or problem in found[0]


def test_semicolons_need_no_setting(tmp_path):
    rows = "".join(f"text {number};kind {number % 2}\n" for number in range(250))
    (tmp_path / "t.csv").write_text("text;label\n" + rows)
    assert problems_of(task_uri=str(tmp_path / "t.csv")) == []
