"""One cluster's pipelines API, through kfp's client: connect, find or create, and one message for every failure.

How to authenticate is kfp's business: inside a cluster the pod's token (or the file of KF_PIPELINES_SA_TOKEN_PATH),
with `kubectl port-forward` nothing, elsewhere what the environment holds: EASE_KFP_TOKEN (a bearer token) or
KFP_COOKIES (the cookie of a browser session). A secret is never an option of the command line, where other users of
the machine see it, and never part of a message.
"""

import argparse
import contextlib
import hashlib
import io
import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml
from kfp import client as kfp_client
from kfp.client.set_volume_credentials import ServiceAccountTokenVolumeCredentials
from kfp_server_api import ApiException, V2beta1GetHealthzResponse, V2beta1Pipeline, V2beta1RecurringRun, V2beta1Run

from ease_lib import __version__
from ease_lib.errors import ConfigError, EaseError
from pipelines.workflow import Pod, Workflow

HOST_VARIABLE = "KF_PIPELINES_ENDPOINT"
TOKEN_VARIABLE = "EASE_KFP_TOKEN"  # noqa: S105 (the name of a variable)
COOKIES_VARIABLE = "KFP_COOKIES"
TOKEN_FILE_VARIABLE = "KF_PIPELINES_SA_TOKEN_PATH"  # noqa: S105 (the name of a variable)
FIRST_ANSWER_SECONDS = (5, 30)
"""Time to connect and to answer for the first request; kfp's own requests have no limit."""
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""YAML loader written in C, if installed: the other one takes a second for a compiled pipeline."""
PAGE_SIZE = 100
SHORT_HASH = 12
MOST_MESSAGE = 600
"""Number of characters shown of a server's message."""
PORT_FORWARD = "run `kubectl port-forward -n kubeflow svc/ml-pipeline-ui 8080:80` and give --host http://localhost:8080"
WORKFLOW_ROUTE = "/apis/v1beta1/runs/{run}"
DASHBOARD_LOG_ROUTE = "/k8s/pod/logs"
"""Route for logs on the dashboard's server, not on the API server (2.17: `frontend/server/app.ts`)."""
API_LOG_ROUTE = "/apis/v1alpha1/runs/{run}/nodes/{pod}/log"
"""Route for logs on the API server, which the dashboard does not pass on (2.17: `backend/src/apiserver/main.go`)."""
_LOG_FAILURE = re.compile(r'\{"error_message":.*\}\s*\Z', re.DOTALL)
"""End of an answer that the API server began with status 200 before it looked for the log."""
_NO_KUBECONFIG = "Failed to load kube config"


class ClusterError(EaseError):
    """The cluster refused a request; the message names the host, the request and the remedy."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ClusterUnavailable(ClusterError):
    """The API cannot be reached or is overloaded, which may be temporary."""


class AccessDenied(ClusterError):
    """HTTP 401 or 403, or a login page."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A compiled pipeline. Its version is named after its content, so that equal content is never uploaded twice."""

    path: Path
    pipeline: str
    version: str
    spec: Mapping[str, Any]

    @property
    def description(self) -> str:
        """Description of its form's fields, for the dashboard's summary."""
        return str(self.spec["pipelineInfo"].get("description", ""))


@dataclass(frozen=True, kw_only=True)
class UploadedVersion:
    """A pipeline version on the cluster, with the specification that it runs."""

    pipeline_id: str
    version_id: str
    name: str
    spec: Mapping[str, Any]


def read_package(path: Path) -> Package:
    """Read a compiled pipeline.

    Raises:
        ConfigError: if the file is absent or not what `python -m pipelines compile` writes.
    """
    try:
        content = path.read_bytes()
        spec = next(yaml.load_all(content, Loader=YAML_LOADER))
        pipeline = spec["pipelineInfo"]["name"]
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; run `python -m pipelines compile`") from error
    except (yaml.YAMLError, StopIteration, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not a compiled pipeline; use a file written by `python -m pipelines compile`"
        ) from error
    digest = hashlib.sha256(content).hexdigest()[:SHORT_HASH]
    return Package(path=path, pipeline=pipeline, version=f"{__version__.replace('+', '-')}-{digest}", spec=spec)


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that talks to a cluster."""
    group = parser.add_argument_group(
        "cluster", f"A token or cookie is read from {TOKEN_VARIABLE} or {COOKIES_VARIABLE}, never from an option."
    )
    group.add_argument(
        "--host",
        default="",
        metavar="URL",
        help=f"address of the pipelines API (default: {HOST_VARIABLE}, the pod's cluster, or kubeconfig's)",
    )
    group.add_argument("--namespace", default="", metavar="NAME", help="your namespace, on a multi-user cluster")
    group.add_argument(
        "--ca-cert", default="", metavar="FILE", help="certificate authority of the API's certificate, as PEM"
    )


def connect(host: str = "", namespace: str = "", ca_cert: str = "") -> "Cluster":
    """Connect to the pipelines API and check its health.

    Raises:
        ConfigError: if there is no address, or it holds a password, or `ca_cert` is absent.
        ClusterError: if the API cannot be reached, refuses us, or is something else.
    """
    host = host or os.environ.get(HOST_VARIABLE, "")
    if "@" in host:
        raise ConfigError(f"the host holds a user or password; remove it and put a token into {TOKEN_VARIABLE}")
    if ca_cert and not Path(ca_cert).is_file():
        raise ConfigError(f"--ca-cert {ca_cert}: no such file; give the certificate authority as a PEM file")
    # it announces every retry, and the last failure is our message; kfp sets the level of its parent anew
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    cluster = Cluster(namespace, host)
    cluster.open(ca_cert)
    return cluster


class Cluster:
    """Calls of the pipelines API that this project uses. Every failure is a `ClusterError` that names the host."""

    def __init__(self, namespace: str, host: str) -> None:
        self.namespace = namespace
        self.host = host
        self._client: _Client

    def open(self, ca_cert: str) -> None:
        """Build kfp's client and check that it talks to the API; multi-user clusters need a namespace."""
        with self._asking("ask for its health"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client = _Client(
                host=self.host or None,
                existing_token=os.environ.get(TOKEN_VARIABLE) or None,
                cookies=os.environ.get(COOKIES_VARIABLE) or None,
                ssl_ca_cert=ca_cert or None,
                credentials=ServiceAccountTokenVolumeCredentials() if os.environ.get(TOKEN_FILE_VARIABLE) else None,
                on_configured=self._configured,
            )
            health = self._client.get_kfp_healthz()
        self.namespace = self.namespace or self._client.get_user_namespace()
        if health.multi_user and not self.namespace:
            raise ConfigError(f"{self.host} serves several users; pass --namespace, the namespace of your profile")

    def _configured(self, host: str) -> None:
        self.host = host

    def run_link(self, run_id: str) -> str:
        """The dashboard's page of a run; only a path when this is a pod that does not know the dashboard's address."""
        return f"{self._client.dashboard()}/#/runs/details/{run_id}"

    def experiment_id(self, name: str) -> str:
        """The experiment with this name, created if it does not exist."""
        with self._asking(f"find or create experiment {name}"):
            return self._client.create_experiment(name, namespace=self.namespace or None).experiment_id

    def find_version(self, pipeline: str, name: str) -> UploadedVersion | None:
        """The version with this name, if the cluster has it."""
        pipeline_id = self._pipeline_id(pipeline)
        if pipeline_id is None:
            return None
        with self._asking(f"list the versions of pipeline {pipeline}"):
            listed = _all_pages(
                lambda token: self._client.list_pipeline_versions(pipeline_id, page_token=token, page_size=PAGE_SIZE),
                "pipeline_versions",
            )
        found = [each for each in listed if name in (each.display_name, each.name) or each.name == f"{pipeline}-{name}"]
        if not found:
            return None
        spec = found[0].pipeline_spec or {}
        return UploadedVersion(
            pipeline_id=pipeline_id,
            version_id=found[0].pipeline_version_id,
            name=name,
            spec=spec.get("pipeline_spec", spec),  # next to it stands platform_spec, where there is one
        )

    def uploaded_version(self, package: Package) -> UploadedVersion:
        """The package's version on the cluster; uploaded, and its pipeline created, where they are not there yet."""
        found = self.find_version(package.pipeline, package.version)
        if found:
            return found
        pipeline_id = self._pipeline_id(package.pipeline) or self._created_pipeline(package)
        try:
            with self._asking(f"store version {package.version} of pipeline {package.pipeline}"):
                stored = self._client.upload_pipeline_version(
                    str(package.path),
                    pipeline_version_name=package.version,
                    pipeline_id=pipeline_id,
                    description=package.description,
                )
        except ClusterError as error:
            meanwhile = self.find_version(package.pipeline, package.version) if error.status == 409 else None
            if meanwhile is None:
                raise
            return meanwhile
        return UploadedVersion(
            pipeline_id=pipeline_id, version_id=stored.pipeline_version_id, name=package.version, spec=package.spec
        )

    def create_run(self, **request: Any) -> V2beta1Run:
        """Start a run; the arguments are those of kfp's `Client.run_pipeline`."""
        with self._asking(f"create run {request['job_name']}"):
            return self._client.run_pipeline(**request)

    def run(self, run_id: str) -> V2beta1Run:
        """Current state of the run."""
        with self._asking(f"show run {run_id}"):
            return self._client.get_run(run_id)

    def spec_of(self, run: V2beta1Run) -> Mapping[str, Any]:
        """Pipeline of a run."""
        reference = run.pipeline_version_reference
        if reference is None:
            spec = run.pipeline_spec or {}
        else:
            with self._asking(f"show version {reference.pipeline_version_id}"):
                found = self._client.get_pipeline_version(reference.pipeline_id, reference.pipeline_version_id)
            spec = found.pipeline_spec or {}
        return dict(spec.get("pipeline_spec", spec))

    def retry_run(self, run_id: str) -> None:
        """Retry the failed tasks of a run; finished tasks stay."""
        with self._asking(f"retry run {run_id}"):
            self._client.runs.run_service_retry_run(run_id)

    def workflow(self, run_id: str) -> Workflow:
        """Argo's workflow of the run; without nodes if this API does not show them."""
        with contextlib.suppress(*_NO_ANSWER, ValueError, LookupError):
            answer = json.loads(self._client.got(WORKFLOW_ROUTE.format(run=run_id)))
            return Workflow(answer["pipeline_runtime"].get("workflow_manifest") or "")
        return Workflow("")

    def log(self, run_id: str, pod: Pod) -> str | None:
        """Log of a pod of a run; None if it cannot be read: no route answers, or the pod is gone."""
        asked = {"podname": pod.name, "runid": run_id, "createdat": pod.started[:10]}
        if self.namespace:
            asked["podnamespace"] = self.namespace
        api = API_LOG_ROUTE.format(run=run_id, pod=pod.name)
        for path in (f"{DASHBOARD_LOG_ROUTE}?{urlencode(asked)}", api):
            with contextlib.suppress(*_NO_ANSWER):
                text = self._client.got(path)
                if not _LOG_FAILURE.search(text):
                    return text
        return None

    def recurring_runs(self) -> list[V2beta1RecurringRun]:
        """All recurring runs of the namespace."""
        with self._asking("list recurring runs"):
            return _all_pages(
                lambda token: self._client.list_recurring_runs(
                    page_token=token, page_size=PAGE_SIZE, namespace=self.namespace or None
                ),
                "recurring_runs",
            )

    def create_recurring_run(self, **request: Any) -> str:
        """Start a schedule and return its id; the arguments are those of kfp's `Client.create_recurring_run`."""
        with self._asking(f"create recurring run {request['job_name']}"):
            return self._client.create_recurring_run(**request).recurring_run_id

    def disable_recurring_run(self, recurring_run_id: str) -> None:
        """Stop a schedule; its past runs stay."""
        with self._asking(f"disable recurring run {recurring_run_id}"):
            self._client.disable_recurring_run(recurring_run_id)

    def _pipeline_id(self, name: str) -> str | None:
        """Find a pipeline by its name; a pipeline that is a Kubernetes object shows a title, and older servers know
        only the title."""
        with self._asking(f"find pipeline {name}"):
            listed = _all_pages(
                lambda token: self._client.list_pipelines(
                    page_token=token, page_size=PAGE_SIZE, namespace=self.namespace or None
                ),
                "pipelines",
            )
        found = [each for each in listed if each.name == name] or [each for each in listed if each.display_name == name]
        return found[0].pipeline_id if found else None

    def _created_pipeline(self, package: Package) -> str:
        """A pipeline without versions; kfp's `upload_pipeline` would add one that is named like the pipeline."""
        pipeline = V2beta1Pipeline(
            name=package.pipeline,
            display_name=package.pipeline,
            description=package.description,
            namespace=self.namespace or None,
        )
        with self._asking(f"create pipeline {package.pipeline}"):
            return self._client.pipelines.pipeline_service_create_pipeline(pipeline=pipeline).pipeline_id

    @contextlib.contextmanager
    def _asking(self, task: str) -> Iterator[None]:
        """Turn every way in which a request can fail into one `ClusterError`; kfp's own prints are dropped."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except _NotTheApi as error:
            raise AccessDenied(
                f"{self.host} answered with a web page ({error}) instead of the pipelines API: it wants a login, or "
                "the "
                f"address lacks its path (often /pipeline); {_credentials_remedy()}"
            ) from error
        except ApiException as error:
            raise self._refused(task, error) from error
        except AttributeError as error:  # kfp_server_api trips over its own TLS error, which has no body
            if not isinstance(error.__context__, ApiException):
                raise
            raise self._insecure(error.__context__.reason) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, urllib3.exceptions.SSLError):
                raise self._insecure(reason) from error
            raise ClusterUnavailable(
                f"{self.host} cannot be reached ({str(reason).rpartition(': ')[2]}); check --host or {HOST_VARIABLE}, "
                f"or {PORT_FORWARD}"
            ) from error

    def _insecure(self, reason: object) -> ClusterError:
        said = str(reason).strip().splitlines()[-1][:MOST_MESSAGE]
        return ClusterError(
            f"{self.host}: no secure connection ({said}); give --ca-cert with the authority that signed its "
            "certificate, or use http:// if it does not use TLS"
        )

    def _refused(self, task: str, error: ApiException) -> ClusterError:
        said = _server_message(error)
        if error.status == 401:
            text = f"{self.host} does not know this client (HTTP 401{said}); {_credentials_remedy()}"
            return AccessDenied(text, status=error.status)
        if error.status == 403:
            place = f"namespace {self.namespace}" if self.namespace else "this namespace"
            text = (
                f"{self.host} does not allow this client to {task} (HTTP 403{said}); ask for the right to use "
                "pipelines in "
                f"{place}, or give another --namespace"
            )
            return AccessDenied(text, status=error.status)
        kind = ClusterUnavailable if error.status in (408, 429) or error.status >= 500 else ClusterError
        return kind(f"{self.host}: the request to {task} failed (HTTP {error.status}{said})", status=error.status)


class _NotTheApi(Exception):
    """An answer that is not JSON; names its content type."""


_NO_ANSWER = (ApiException, urllib3.exceptions.HTTPError, OSError, _NotTheApi)


class _Client(kfp_client.Client):
    """kfp's client without its features for notebooks: five slow tries, a log of tracebacks, a file in the home."""

    def __init__(self, *, on_configured: Callable[[str], None], **options: Any) -> None:
        self._on_configured = on_configured
        super().__init__(**options)
        sent = self._run_api.api_client.request  # of all its services

        def answered(*given: Any, **named: Any) -> Any:
            """Refuse a page with status 200, for example a login page, which would pass for an empty answer."""
            answer = sent(*given, **named)
            kind = answer.getheader("content-type") or ""
            if "html" in kind:
                raise _NotTheApi(kind)
            return answer

        self._run_api.api_client.request = answered

    def _load_config(self, *options: Any) -> Any:
        """Load the configuration like kfp, and report its address at once, since the first request may fail."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            config = super()._load_config(*options)
        if _NO_KUBECONFIG in printed.getvalue():
            raise ConfigError(_no_address())
        self._on_configured(config.host)
        return config

    def get_kfp_healthz(self, sleep_duration: int = 0) -> V2beta1GetHealthzResponse:
        """Ask once; an answer that is not JSON comes from another server."""
        answer = self._healthz_api.healthz_service_get_healthz(_request_timeout=FIRST_ANSWER_SECONDS)
        kind = self._healthz_api.api_client.last_response.getheader("content-type") or "of no type"
        if "json" not in kind:
            raise _NotTheApi(kind)
        return answer

    def got(self, path: str) -> str:
        """The answer of a route that the API's own description leaves out."""
        answer = self._run_api.api_client.call_api(
            path, "GET", auth_settings=["Bearer"], _preload_content=False, _return_http_data_only=True
        )
        return str(answer.data.decode(errors="replace"))

    def set_user_namespace(self, namespace: str) -> None:
        """Set the namespace for this client only."""
        self._context_setting["namespace"] = namespace

    def dashboard(self) -> str:
        """Address of the dashboard, without a slash at its end."""
        return self._get_url_prefix().rstrip("/")


def _all_pages(page: Callable[[str], Any], items: str) -> list[Any]:
    collected, token = [], ""
    while True:
        answer = page(token)
        collected += getattr(answer, items) or []
        token = answer.next_page_token or ""
        if not token:
            return collected


def _server_message(error: ApiException) -> str:
    """`: ...` with what the server said, if it did, without our secrets."""
    text = error.body or error.reason or ""
    with contextlib.suppress(ValueError, AttributeError):
        answer = json.loads(text)
        text = answer.get("error_message") or answer.get("message") or answer.get("error") or text
    text = " ".join(str(text).split())
    for variable in (TOKEN_VARIABLE, COOKIES_VARIABLE):
        if os.environ.get(variable):
            text = text.replace(os.environ[variable], "(secret)")
    return f": {text[:MOST_MESSAGE]}" if text else ""


def _credentials_remedy() -> str:
    given = [name for name in (TOKEN_VARIABLE, COOKIES_VARIABLE) if os.environ.get(name)]
    if given:
        return f"renew {' and '.join(given)}, which it rejected"
    return f"set {TOKEN_VARIABLE} to a token or {COOKIES_VARIABLE} to your browser's cookie (name=value)"


def _no_address() -> str:
    return f"no cluster found: no --host, no {HOST_VARIABLE}, no pod and no kubeconfig; {PORT_FORWARD}"
