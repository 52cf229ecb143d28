"""The part of the Kubeflow Pipelines API that this project uses, over real HTTP, in memory.

Routes of v2beta1 and their query parameters are those of the client package `kfp-server-api`, read from its source;
every other is refused. Every request body is checked against its model classes: an unknown field, a wrong type or an
unknown enum value is answered with HTTP 400, as the real server does. References (experiment, version, parameter names
and types) are checked too. What a run shows has only the fields that the backend fills in (2.17.0, `api_converter.go`).

Three routes are in no client package, and are in the sources of 2.17.0: the older answer about a run, with its Argo
workflow (`run.proto` of v1beta1), the API server's log (`main.go`, `run_log_server.go`: it has said 200 before it looks
for one), and the dashboard's (`frontend/server/app.ts`, `handlers/pod-logs.ts`). The API server has no route of the
dashboard, which lets through v1beta1 and v2beta1 alone.

A test scripts failures and the states of a run, and reads the requests that came in.
"""

import email
import email.policy
import inspect
import json
import re
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import kfp_server_api
import yaml

from pipelines.cluster import YAML_LOADER

INT64_FIELDS = {("V2beta1RecurringRun", "max_concurrency"), ("V2beta1PeriodicSchedule", "interval_second")}
"""64-bit integers: strings in the models, and as JSON a string or a number."""
PARAMETER_TYPES = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": (int, float), "BOOLEAN": bool}
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: object = None

    def __str__(self):
        return f"{self.method} {self.path}"


@dataclass
class Script:
    """Scripted behaviour of the server in addition to its work.

    `faults` holds (method, pattern of the path, status, message, how often); `frames` the states that a run goes
    through, one further with every question; `logs` what the pods of tasks (`optimize`, `root-driver`) have printed;
    `root` where the run's artifacts lie, of which the pods' descriptions name one, `executor-logs`; `is_large` whether
    the workflow has more than 1 MiB from now on: its nodes are compressed, tasks are told as they were before, and a
    retry is refused (seen on a cluster with 2 236 KB);
    `is_dashboard` whether this is the dashboard's server; `is_after_ml_metadata` whether it is a Kubeflow without that,
    which tells of a run without its tasks (branch mlmd-removal: `RunDetails` and `ViewMode` of `run.proto`); `token`
    and `cookie` what a request must bring, if set; `login_page` a pattern of the paths that a proxy before it answers
    with a page and status 200.
    """

    faults: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    logs: dict = field(default_factory=dict)
    root: str = ""
    is_large: bool = False
    is_dashboard: bool = False
    is_after_ml_metadata: bool = False
    token: str = ""
    cookie: str = ""
    multi_user: bool = False
    most_per_page: int = 100
    login_page: str = ""
    requests: list[Request] = field(default_factory=list)

    def fail(self, method, pattern, status, message="", times=10**9):
        self.faults.append([method, re.compile(pattern), status, message, times])

    def sent(self, method="POST"):
        """Paths of the requests with this method, in order."""
        return [request.path for request in self.requests if request.method == method]


def frame(state, error="", **tasks):
    """A run's state, and its tasks': `optimize="RUNNING"`, or ("FAILED", Argo's message); of drivers by their names."""
    return state, error, {name.replace("_", "-"): value for name, value in tasks.items()}


def described_routes():
    """(method, pattern of the path, query parameters) of every route that the client package knows."""
    source = "".join(inspect.getsource(each) for each in vars(kfp_server_api.api).values() if inspect.ismodule(each))
    for function in re.split(r"\n    def (?=\w+_with_http_info)", source)[1:]:
        path, method = re.search(r"call_api\(\s*'(/apis/[^']+)', '(\w+)'", function).groups()
        yield (
            method,
            re.sub(r"\{[\w.]+\}", "[^/:]+", path),
            set(re.findall(r"query_params\.append\(\('(\w+)'", function)),
        )


DESCRIBED = [*described_routes()]


def graph(spec):
    """The pipeline of a specification, which stands beside what is for Kubernetes if there is any of that."""
    return spec.get("pipeline_spec", spec)


def checked(data, type_name, place="body"):
    """The data as a model of `kfp-server-api`, or `Refused` for what its server's parser would refuse."""
    _check(data, type_name, place)
    response = type("Response", (), {"data": json.dumps(data)})
    return kfp_server_api.ApiClient().deserialize(response, type_name)


def _check(value, type_name, place):
    if match := re.fullmatch(r"list\[(.*)\]", type_name):
        _expect(isinstance(value, list), place, "a list", value)
        for number, each in enumerate(value):
            _check(each, match[1], f"{place}[{number}]")
    elif match := re.fullmatch(r"dict\(str, (.*)\)", type_name):
        _expect(isinstance(value, dict), place, "an object", value)
        for name, each in value.items():
            _check(each, match[1], f"{place}.{name}")
    elif type_name in ("str", "bool", "int"):
        _expect(type(value) is {"str": str, "bool": bool, "int": int}[type_name], place, type_name, value)
    elif type_name == "datetime":
        _expect(isinstance(value, str) and "T" in value, place, "a time", value)
    elif type_name != "object":
        _check_model(value, type_name, place)


def _check_model(value, type_name, place):
    model = getattr(kfp_server_api.models, type_name)
    allowed = getattr(model, "allowable_values", None)
    if allowed:
        _expect(value in allowed, place, f"one of {allowed}", value)
        return
    _expect(isinstance(value, dict), place, type_name, value)
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for name, each in value.items():
        if name not in types:
            raise Refused(400, f'{place}: unknown field "{name}" of {type_name}')
        if (type_name, name) in INT64_FIELDS:
            _expect(re.fullmatch(r"-?\d+", str(each)), f"{place}.{name}", "an integer", each)
            value[name] = str(each)
        else:
            _check(each, types[name], f"{place}.{name}")


def _expect(condition, place, wanted, found):
    if not condition:
        raise Refused(400, f"{place}: expected {wanted}, found {found!r}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body, a write of its own, would wait 40 ms for an acknowledgement
    server: "KfpApiServer"

    def do_GET(self):
        self._answer("GET")

    def do_POST(self):
        self._answer("POST")

    def log_message(self, *_):
        pass

    def _answer(self, method):
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        request = Request(method, url.path, query, dict(self.headers), raw)
        script = self.server.script
        with self.server.lock:
            script.requests.append(request)
            try:
                if script.login_page and re.search(script.login_page, url.path):
                    self._reply(200, "<html>log in</html>", "text/html")
                    return
                self._admit(request)
                content = self.server.route(request)
                if isinstance(content, str):
                    self._reply(200, content, "text/plain")
                    return
                sanitized = kfp_server_api.ApiClient().sanitize_for_serialization(content)
                self._reply(200, json.dumps(sanitized))
            except Refused as refused:
                self._reply(refused.status, json.dumps({"error": str(refused), "message": str(refused), "code": 3}))
            except Exception as error:  # a mistake of this file: the test should see it, not a lost connection
                self._reply(500, json.dumps({"message": f"test server: {error!r}"}))

    def _admit(self, request):
        script = self.server.script
        for fault in script.faults:
            method, pattern, status, message, times = fault
            if times and method == request.method and pattern.search(request.path):
                fault[4] -= 1
                raise Refused(status, message or f"scripted {status}")
        if script.token and self.headers.get("Authorization") != f"Bearer {script.token}":
            raise Refused(401, f"no valid token: {self.headers.get('Authorization')}")
        if script.cookie and self.headers.get("Cookie") != script.cookie:
            raise Refused(401, f"no valid session: {self.headers.get('Cookie')}")

    def _reply(self, status, text, kind="application/json"):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class KfpApiServer(ThreadingHTTPServer):
    """`url` is for `--host`; `script` for failures and for what was asked; the lists hold what was created."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.script = Script()
        self.experiments, self.pipelines, self.versions = [], [], []
        self.runs, self.recurring_runs = [], []
        self._created = 0
        self._workflow = {}
        self._details = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def route(self, request):
        for method, pattern, handle in self._undescribed_routes():
            match = re.fullmatch(pattern, request.path)
            if match and method == request.method:
                return handle(request, *match.groups())
        known = [
            query
            for method, pattern, query in DESCRIBED
            if method == request.method and re.fullmatch(pattern, request.path)
        ]
        if not known or not set(request.query) <= known[0]:
            raise Refused(404, f"no Kubeflow has {request}?{'&'.join(request.query)}")
        path = request.path.removeprefix("/apis/v2beta1/")
        for method, pattern, handle in self._routes():
            match = re.fullmatch(pattern, path)
            if match and method == request.method:
                if method == "POST" and path != "pipelines/upload_version":
                    request.body = json.loads(request.body) if request.body else None
                return handle(request, *match.groups())
        raise Refused(404, f"this server does not know {request}")

    def _undescribed_routes(self):
        shared = [("GET", "/apis/v1beta1/runs/([^/:]+)", self._get_workflow)]
        if self.script.is_dashboard:
            return [*shared, ("GET", "/k8s/pod/logs", self._dashboard_log)]
        return [*shared, ("GET", "/apis/v1alpha1/runs/([^/]+)/nodes/([^/]+)/log", self._api_log)]

    def _routes(self):
        return [
            ("GET", "healthz", self._healthz),
            ("GET", "experiments", self._list_experiments),
            ("POST", "experiments", self._create_experiment),
            ("GET", "pipelines", self._list_pipelines),
            ("POST", "pipelines", self._create_pipeline),
            ("POST", "pipelines/upload_version", self._upload_version),
            ("GET", "pipelines/([^/]+)/versions", self._list_versions),
            ("POST", "runs", self._create_run),
            ("GET", "runs/([^/:]+)", self._get_run),
            ("POST", "runs/([^/:]+):retry", self._retry_run),
            ("GET", "pipelines/([^/]+)/versions/([^/]+)", self._get_version),
            ("GET", "recurringruns", self._list_recurring_runs),
            ("POST", "recurringruns", self._create_recurring_run),
            ("POST", "recurringruns/([^/:]+):(disable|enable)", self._set_mode),
        ]

    def _healthz(self, _):
        return {"multi_user": self.script.multi_user}

    def _list_experiments(self, request):
        return self._page(request, "experiments", self.experiments)

    def _create_experiment(self, request):
        experiment = checked(request.body, "V2beta1Experiment")
        self._need(experiment.display_name, "display_name")
        self._no_second(self.experiments, experiment.display_name)
        return self._stored(self.experiments, experiment, "experiment_id", "exp")

    def _list_pipelines(self, request):
        return self._page(request, "pipelines", self.pipelines)

    def _create_pipeline(self, request):
        pipeline = checked(request.body, "V2beta1Pipeline")
        self._need(pipeline.name, "name")
        self._no_second(self.pipelines, pipeline.display_name)
        return self._stored(self.pipelines, pipeline, "pipeline_id", "pipe")

    def _list_versions(self, request, pipeline_id):
        return self._page(
            request, "pipeline_versions", [each for each in self.versions if each.pipeline_id == pipeline_id]
        )

    def _upload_version(self, request):
        pipeline_id, name = request.query.get("pipelineid"), request.query.get("name")
        self._known(self.pipelines, "pipeline_id", pipeline_id)
        self._no_second([each for each in self.versions if each.pipeline_id == pipeline_id], name)
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        parts = list(email.message_from_bytes(head + request.body, policy=email.policy.HTTP).iter_parts())
        if [part.get_param("name", header="Content-Disposition") for part in parts] != ["uploadfile"]:
            raise Refused(400, "expected one file, uploadfile")
        spec, *platform = yaml.load_all(parts[0].get_payload(decode=True), Loader=YAML_LOADER)
        if platform:
            spec = {"pipeline_spec": spec, "platform_spec": platform[0]}
        version = {"pipeline_id": pipeline_id, "display_name": name, "name": name, "pipeline_spec": spec}
        return self._stored(self.versions, checked(version, "V2beta1PipelineVersion"), "pipeline_version_id", "ver")

    def _create_run(self, request):
        run = checked(request.body, "V2beta1Run")
        self._check_run(run)
        run.state = "PENDING"
        return self._stored(self.runs, run, "run_id", "run")

    def _get_run(self, _, run_id):
        run = self._known(self.runs, "run_id", run_id)
        frames = self.script.frames
        if frames:
            state, error, tasks = frames.pop(0) if len(frames) > 1 else frames[0]
            if self.script.is_large:
                status = {"compressedNodes": "H4sIAAAA"}
                self._workflow = {"metadata": {"name": WORKFLOW}, "status": status}
            else:
                self._workflow = _workflow(tasks, self.script.root)
                self._details = _details(self._workflow)
            told = [] if self.script.is_after_ml_metadata else self._details
            run.state, run.run_details = state, kfp_server_api.V2beta1RunDetails(task_details=told or None)
            run.error = kfp_server_api.GoogleRpcStatus(code=2, message=error) if error else None
            run.finished_at = run.created_at + timedelta(seconds=125) if state in ("SUCCEEDED", "FAILED") else None
        return run

    def _retry_run(self, _, run_id):
        run = self._known(self.runs, "run_id", run_id)
        if run.state not in ("FAILED", "CANCELED"):
            raise Refused(409, "Workflow must be Failed/Error to retry")  # as Argo's own check says it
        if self.script.is_large:
            raise Refused(500, "rpc error: trying to send message larger than max (2257017 vs. 2097152)")
        return {}

    def _get_workflow(self, _, run_id):
        run = self._known(self.runs, "run_id", run_id)
        manifest = {"workflow_manifest": json.dumps(self._workflow)} if self._workflow else {}
        return {"run": {"id": run_id, "name": run.display_name}, "pipeline_runtime": manifest}

    def _api_log(self, _, run_id, pod):
        self._known(self.runs, "run_id", run_id)
        if (log := self._printed(pod)) is None:
            return json.dumps({"error_message": f"Failed to read logs for run {run_id}", "error_details": "..."})
        return log

    def _dashboard_log(self, request):
        if not request.query.get("podname"):
            raise Refused(400, "podname argument is required")
        if self.script.multi_user and not request.query.get("podnamespace"):
            raise Refused(422, "podnamespace argument is required")
        if (log := self._printed(request.query["podname"])) is None:
            raise Refused(500, "Could not get main container logs: S3Error: The specified key does not exist.")
        return log

    def _printed(self, pod):
        for name, log in self.script.logs.items():
            if _pod_name(name) == pod:
                return log
        return None

    def _get_version(self, _, pipeline_id, version_id):
        return self._known(self.versions, "pipeline_version_id", version_id)

    def _list_recurring_runs(self, request):
        return self._page(request, "recurring_runs", self.recurring_runs)

    def _create_recurring_run(self, request):
        recurring = checked(request.body, "V2beta1RecurringRun")
        self._check_run(recurring)
        self._need(recurring.trigger and recurring.trigger.cron_schedule, "trigger.cron_schedule")
        if len(recurring.trigger.cron_schedule.cron.split()) != 6:
            raise Refused(400, f"cron {recurring.trigger.cron_schedule.cron} has not six fields")
        if not 1 <= int(recurring.max_concurrency) <= 10:
            raise Refused(400, f"max_concurrency {recurring.max_concurrency} is not from 1 to 10")
        recurring.status = "ENABLED" if recurring.mode == "ENABLE" else "DISABLED"
        return self._stored(self.recurring_runs, recurring, "recurring_run_id", "rec")

    def _set_mode(self, _, recurring_run_id, action):
        found = self._known(self.recurring_runs, "recurring_run_id", recurring_run_id)
        found.mode, found.status = action.upper(), f"{action.upper()}D"
        return {}

    def _check_run(self, run):
        self._need(run.display_name, "display_name")
        self._known(self.experiments, "experiment_id", run.experiment_id)
        if bool(run.pipeline_spec) == bool(run.pipeline_version_reference):
            raise Refused(400, "give either pipeline_spec or pipeline_version_reference")
        spec = run.pipeline_spec
        if run.pipeline_version_reference:
            reference = run.pipeline_version_reference
            spec = self._known(self.versions, "pipeline_version_id", reference.pipeline_version_id).pipeline_spec
        fields = graph(spec)["root"]["inputDefinitions"]["parameters"]
        for name, value in (run.runtime_config.parameters or {}).items():
            if name not in fields:
                raise Refused(400, f"the pipeline has no parameter {name}")
            kind = PARAMETER_TYPES[fields[name]["parameterType"]]
            _expect(isinstance(value, kind) and not isinstance(value, bool), name, kind, value)

    def _page(self, request, name, items):
        if self.script.multi_user and "versions" not in name and not request.query.get("namespace"):
            raise Refused(400, "a namespace is required in multi-user mode")
        if "filter" in request.query:
            (predicate,) = json.loads(request.query["filter"])["predicates"]
            if predicate.keys() != {"operation", "key", "stringValue"} or predicate["operation"] not in ("EQUALS", 1):
                raise Refused(400, f"this server cannot filter by {predicate}")
            items = [each for each in items if getattr(each, predicate["key"]) == predicate["stringValue"]]
        start = int(request.query.get("page_token") or 0)
        size = min(int(request.query.get("page_size") or 20), self.script.most_per_page)
        more = start + size < len(items)
        answer = getattr(kfp_server_api, f"V2beta1List{name.title().replace('_', '')}Response")
        return answer(**{name: items[start : start + size], "next_page_token": str(start + size) if more else ""})

    def _stored(self, store, item, identity, prefix):
        self._created += 1
        setattr(item, identity, f"{prefix}-{self._created}")
        item.created_at = EPOCH + timedelta(minutes=self._created)
        store.append(item)
        return item

    def _known(self, store, identity, wanted):
        for item in store:
            if getattr(item, identity) == wanted:
                return item
        raise Refused(404, f"{identity} {wanted} not found")

    def _no_second(self, store, name):
        if any(each.display_name == name for each in store):
            raise Refused(409, f"{name} exists already")

    def _need(self, value, name):
        if not value:
            raise Refused(400, f"{name} is empty")


WORKFLOW = "ease-x7k2p"
IMPLEMENTATION, DRIVER = "metadata-2-1-retry-system-container-impl", "system-container-driver"
"""Templates of Argo, as Kubeflow names them (2.17.0, `container.go`) where a pod has two annotations and a label."""
PHASES = {"RUNNING": "Running", "PENDING": "Pending", "SUCCEEDED": "Succeeded", "FAILED": "Failed"}


def _node_id(name):
    return f"{WORKFLOW}-{zlib.crc32(name.encode())}"  # Argo takes another hash, which nobody recomputes


def _place(task):
    """Name and template of the node whose pod works for a task, or is a driver."""
    if task.endswith("-driver"):
        return f"{WORKFLOW}.{'' if task == 'root-driver' else 'root.'}{task}", DRIVER
    return f"{WORKFLOW}.root.{task}.executor(0)", IMPLEMENTATION


def _pod_name(task):
    name, template = _place(task)
    return f"{WORKFLOW}-{template}-{_node_id(name).rpartition('-')[2]}"


def _workflow(tasks, root=""):
    """The Argo workflow of a run: a root, and for each task its driver, itself, its executor and that one's pod.

    Args:
        root: of the run's artifacts; empty where no pod describes them.
    """
    nodes = {}

    def add(name, kind, state, children=(), message="", template="", seconds=0):
        display = name.rpartition(".")[2]
        started = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        nodes[_node_id(name)] = {
            **{"id": _node_id(name), "name": name, "displayName": display, "type": kind, "phase": PHASES[state]},
            **{"startedAt": started, "templateName": template, "children": [_node_id(child) for child in children]},
            **({"message": message} if message else {}),
        }

    states = {name: (value, "") if isinstance(value, str) else value for name, value in tasks.items()}
    around = "FAILED" if "FAILED" in {state for state, _ in states.values()} else "RUNNING"
    add(WORKFLOW, "DAG", around)
    state, message = states.pop("root-driver", ("SUCCEEDED", ""))
    add(f"{WORKFLOW}.root-driver", "Pod", state, message=message, template=DRIVER)
    if state == "SUCCEEDED":
        add(f"{WORKFLOW}.root", "DAG", around)
    for number, (name, (state, message)) in enumerate(states.items(), 1):
        place, template = _place(name)
        if template == DRIVER:
            add(place, "Pod", state, message=message, template=DRIVER, seconds=number)
            continue
        task = f"{WORKFLOW}.root.{name}"
        if f"{name}-driver" not in states:
            add(_place(f"{name}-driver")[0], "Pod", "SUCCEEDED", [task], template=DRIVER, seconds=number)
        add(task, "DAG", state, [f"{task}.executor"], seconds=number)
        add(f"{task}.executor", "Retry", state, [place], seconds=number)
        add(place, "Pod", state, message=message, template=template, seconds=number)
        if root:
            nodes[_node_id(place)]["inputs"] = {"parameters": [{"name": "pod-spec-patch", "value": _patch(root, name)}]}
    return {"metadata": {"name": WORKFLOW}, "status": {"nodes": nodes}}


def _patch(root, task):
    """A pod's description as the driver makes it: the launcher's arguments, of which one is JSON in JSON."""
    logs = {"artifacts": [{"name": "executor-logs", "type": {}, "uri": f"{root}/{task}/1/executor-logs"}]}
    executor = json.dumps({"outputs": {"artifacts": {"executor-logs": logs}}})
    return json.dumps({"containers": [{"command": ["/kfp-launcher/launch", "--executor_input", executor]}]})


def _details(workflow):
    """The nodes as v2beta1 shows them: without their own ids, their messages, and which is whose."""
    child = kfp_server_api.PipelineTaskDetailChildTask
    states = {phase: state for state, phase in PHASES.items()}
    return [
        kfp_server_api.V2beta1PipelineTaskDetail(
            task_id=str(uuid.uuid5(uuid.NAMESPACE_OID, node["id"])),
            display_name=node["displayName"],
            create_time=datetime.fromisoformat(node["startedAt"]),
            start_time=datetime.fromisoformat(node["startedAt"]),
            state=states[node["phase"]],
            child_tasks=[child(pod_name=identity) for identity in node["children"]],
        )
        for node in workflow["status"]["nodes"].values()
    ]


@contextmanager
def kfp_api_server() -> Iterator[KfpApiServer]:
    """Serve on a free loopback port."""
    server = KfpApiServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
