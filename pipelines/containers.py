"""Run the stages in containers of our images, under the restrictions that a cluster's `restricted` namespace sets.

Every container is non-root, its root file system read-only but for /tmp, without capabilities, and cannot gain rights.
Folders that the parameters name are mounted where they are on this machine; task data, instructions and embedder are
read-only. The network is the machine's, so that an endpoint or a store on 127.0.0.1 is reached.
"""

import os
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError

import docker
from docker.types import Mount
from kfp import local

from components import images
from ease_lib import keys
from ease_lib.black_box.local_llm import free_port
from ease_lib.config.parsing import changed_parameters, parse_parameters
from ease_lib.config.requirement_terms import with_measures
from ease_lib.config.sections import Parameters
from ease_lib.errors import ConfigError, ConnectionFailed
from ease_lib.evaluation.own_metric import file_of
from ease_lib.running import run_context
from pipelines.arguments import READ_ONLY_PATHS, WRITTEN_PATHS

USER, GROUP = 10001, 0
"""User and group of the images; a run by a user other than root uses that user, so that the files belong to them."""
PASSED_ON = (
    "EASE_LLM_API_KEY",
    "EASE_EMBEDDER_API_KEY",
    "EASE_JUDGE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "HF_TOKEN",
    run_context.RUN_ID,
)
PASSED_ON_PREFIX = "AWS_"
LOCAL_LLM_SECONDS = 60.0
STOP_SECONDS = 15


@dataclass(frozen=True)
class Containers:
    """The containers of one run.

    Args:
        output_dir: taken into every container, writable.
        environment: keys and the store's address; never written anywhere.
    """

    output_dir: Path
    environment: Mapping[str, str]
    label: str = field(default_factory=lambda: uuid.uuid4().hex)

    def runner(self, parameters: Parameters) -> local.DockerRunner:
        return local.DockerRunner(mounts=self._mounts(parameters), **self._restrictions())

    def stop(self) -> None:
        """End what still runs, as a pod is ended: SIGTERM, then SIGKILL."""
        client = docker.from_env()
        for container in client.containers.list(filters={"label": f"ease-run={self.label}"}):
            with suppress(docker.errors.APIError):  # it ended by itself
                container.stop(timeout=STOP_SECONDS)
        client.close()

    @contextmanager
    def local_llm(self) -> Iterator[str]:
        """The local LLM in a container of its own; its base URL."""
        client = docker.from_env()
        port = free_port()
        command = ["python", "-m", "ease_lib.black_box.local_llm", "--host", "127.0.0.1", "--port", str(port)]
        container = client.containers.run(images.LOCAL_LLM, command, detach=True, **self._restrictions())
        try:
            _wait_until_healthy(f"http://127.0.0.1:{port}/health", container)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            container.remove(force=True)
            client.close()

    def _restrictions(self) -> dict[str, Any]:
        return {
            "user": f"{_user()}:{_group()}",
            "read_only": True,
            "tmpfs": {"/tmp": ""},  # noqa: S108
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "network_mode": "host",
            "environment": dict(self.environment),
            "labels": {"ease-run": self.label},
        }

    def _mounts(self, parameters: Parameters) -> list[Mount]:
        to_read, to_write = _own_paths(parameters)
        own_files = {file_of(measure) for measure in _own_measures(parameters).values()}
        read = {path for name, path in to_read.items() if name not in ("metric", "require")} | own_files
        written = {*to_write.values(), str(self.output_dir)}
        for folder in written:
            _make_writable(Path(folder))
        return [Mount(path, path, type="bind", read_only=path in read) for path in sorted(read | written)]


def containers_for(output_dir: Path, parameters: Parameters) -> Containers:
    """Raise `ConfigError` if Docker or an image is missing."""
    try:
        client = docker.from_env()
        present = {tag for image in client.images.list() for tag in image.tags}
    except docker.errors.DockerException as error:
        raise ConfigError(
            f"--runner docker: no Docker daemon answers ({error}); start one, or omit --runner"
        ) from error
    if images.CPU not in present:
        raise ConfigError(f"--runner docker: image {images.CPU} is not on this machine; build it with `make images`")
    wanted = {*PASSED_ON, *parameters.endpoint.headers.values()}
    environment = {
        name: value for name, value in os.environ.items() if name in wanted or name.startswith(PASSED_ON_PREFIX)
    }
    signing_key, _ = keys.signing_key()
    if signing_key:
        environment[keys.SIGNING_KEY] = signing_key.decode()
    environment[run_context.IMAGE] = f"{images.CPU}@{client.images.get(images.CPU).id}"
    return Containers(output_dir, environment)


def with_absolute_paths(parameters: Parameters) -> Parameters:
    """The absolute path, because a container has another working directory."""
    read, written = _own_paths(parameters)
    return parse_parameters({**changed_parameters(parameters), **read, **written})


def _own_paths(parameters: Parameters) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters that name something of this machine to read, and a folder to write to, as absolute paths."""
    paths = {
        name: Path(str(value)).expanduser().resolve()
        for name, value in changed_parameters(parameters).items()
        if name in READ_ONLY_PATHS + WRITTEN_PATHS and "://" not in str(value)
    }
    read = {name: str(path) for name, path in paths.items() if name in READ_ONLY_PATHS and path.exists()}
    task, own = parameters.task, _own_measures(parameters)
    if task.metric in own:
        read["metric"] = own[task.metric]
    if own and task.require:
        read["require"] = with_measures(task.require, own)
    return read, {name: str(path) for name, path in paths.items() if name in WRITTEN_PATHS}


def _own_measures(parameters: Parameters) -> dict[str, str]:
    """Metric and measures that are files of this machine, with their absolute paths."""
    requirement = parameters.task.requirement
    names = {name: file_of(name) for name in (parameters.task.metric, *(requirement.measures if requirement else ()))}
    return {
        name: name.replace(file, str(Path(file).expanduser().resolve()), 1)
        for name, file in names.items()
        if file and "://" not in file and Path(file).exists()
    }


def _user() -> int:
    return os.getuid() or USER


def _group() -> int:
    return os.getgid() if os.getuid() else GROUP


def _make_writable(folder: Path) -> None:
    """Give the folder and its content to the containers' user, if this process runs as root."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER, GROUP, follow_symlinks=False)


def _wait_until_healthy(url: str, container: Any) -> None:
    deadline = time.monotonic() + LOCAL_LLM_SECONDS
    while time.monotonic() < deadline:
        with suppress(URLError, ConnectionError), urllib.request.urlopen(url, timeout=2):  # noqa: S310
            return
        time.sleep(0.2)
    raise ConnectionFailed(f"the container of {images.LOCAL_LLM} does not answer:\n{container.logs(tail=10).decode()}")
