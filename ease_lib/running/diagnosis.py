"""Checks of `ease doctor`: everything that `check_prerequisites` tries before a run, and the machine or pod."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ease_lib.black_box.layers import JUDGE_KEY_VARIABLE as JUDGE_KEY
from ease_lib.black_box.layers import KEY_VARIABLE as LLM_KEY
from ease_lib.config.sections import Parameters
from ease_lib.embedding.opening import KEY_VARIABLE as EMBEDDER_KEY
from ease_lib.errors import EaseError
from ease_lib.keys import OPENAI_KEY, SIGNING_KEY, SIGNING_KEY_FILE, SIGNING_PUBLIC_KEY
from ease_lib.machine import available_cores, resolve_device
from ease_lib.running.planning import planned
from ease_lib.running.prerequisites import CheckResult, findings, with_service_for_local
from ease_lib.running.run import Run
from ease_lib.running.task_data import is_small

FREE_BYTES = 2 * 10**9
"""Free space for the artifacts of a run over a large pool."""
API_SERVER = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables that every pod has."""
KUBERNETES_NAME, KUBEFLOW_API = "kubernetes.default.svc", ("ml-pipeline.kubeflow", 8888)
CONNECT_SECONDS = 5.0
CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
SIGNING_VARIABLES = (SIGNING_KEY, SIGNING_KEY_FILE, SIGNING_PUBLIC_KEY)
STORE_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")


def examine(parameters: Parameters, output_dir: Path, run: Run) -> Iterator[CheckResult]:
    """Results of the checks in the order of a run, each as soon as it is known."""
    yield _output_folder(output_dir)
    yield _device(parameters)
    yield _surroundings()
    if os.environ.get(API_SERVER[0]):
        yield from _cluster()
    for finding in findings(with_service_for_local(parameters, run.sources), run=run):
        yield finding
        if finding.what == "task data" and not finding.problems and is_small(parameters.task, run.sources):
            yield _caps(parameters, run)


def _caps(parameters: Parameters, run: Run) -> CheckResult:
    caps = parameters.caps
    named = {"max_llm_requests": caps.max_llm_requests, "max_cost_usd": caps.max_cost_usd}
    shown = ", ".join(f"{name}={value:g}" for name, value in named.items() if value)
    try:
        planned(parameters, run)
    except EaseError as error:
        return CheckResult("caps", shown, (str(error),))
    return CheckResult("caps", shown or "none")


def _output_folder(folder: Path) -> CheckResult:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        problem = f"{existing} is not a folder, or not writable; choose another with --output-dir"
        return CheckResult("output folder", str(folder), (problem,))
    free = shutil.disk_usage(existing).free
    if free < FREE_BYTES:
        problem = f"{existing} has {free / 1e9:.1f} GB free, {FREE_BYTES / 1e9:.0f} are wanted; choose another disk"
        return CheckResult("output folder", str(folder), (problem,))
    return CheckResult("output folder", f"{folder}, {free / 1e9:.0f} GB free")


def _device(parameters: Parameters) -> CheckResult:
    try:
        return CheckResult("device", f"{resolve_device(parameters.hardware.device)}, {_cores()}")
    except EaseError as error:
        return CheckResult("device", parameters.hardware.device, (str(error),))


def _cores() -> str:
    cores, shown = available_cores(), os.cpu_count() or 1
    return f"{cores} core{'s' * (cores != 1)}" + (f" of the {shown} that the machine shows" if cores < shown else "")


def _surroundings() -> CheckResult:
    """Names of the variables that are set, never their values."""
    place = "in a pod" if CLUSTER_TOKEN.exists() else "outside of a cluster"
    looked_for = {LLM_KEY, JUDGE_KEY, EMBEDDER_KEY, OPENAI_KEY, *SIGNING_VARIABLES, *STORE_VARIABLES}
    names = sorted(name for name in looked_for if os.environ.get(name))
    described = f"{place}; set: {', '.join(names) or 'no keys'}"
    try:
        tempfile.TemporaryFile().close()
    except OSError as error:
        problem = f"no temporary file can be made ({error.strerror}); mount an emptyDir at /tmp"
        return CheckResult("surroundings", described, (problem,))
    return CheckResult("surroundings", described)


def _cluster() -> Iterator[CheckResult]:
    """Check the services that Kubeflow's own containers need; they hang if a network policy hides them."""
    host, port = (os.environ.get(name, "") for name in API_SERVER)
    yield _found("name service", KUBERNETES_NAME, lambda: socket.getaddrinfo(KUBERNETES_NAME, 443))
    for what, address in (("API server", (host, int(port or 443))), ("Kubeflow's API", KUBEFLOW_API)):
        yield _found(what, ":".join(map(str, address)), partial(_connect, address))


def _connect(address: tuple[str, int]) -> None:
    socket.create_connection(address, timeout=CONNECT_SECONDS).close()


def _found(what: str, which: str, look: Callable[[], object]) -> CheckResult:
    try:
        look()
    except OSError as error:
        problem = f"{which} cannot be reached from this pod ({error}): see manifests/components/cluster-addresses"
        return CheckResult(what, which, (problem,))
    return CheckResult(what, which)
