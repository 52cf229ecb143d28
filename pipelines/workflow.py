"""The pods of a run from its Argo workflow: names, states, and Argo's messages about failed ones.

Kubeflow's own v2beta1 API tells of tasks only: no pod, no message, no exit code (2.17: `toApiPipelineTaskDetail`), and
after ML Metadata not of tasks either, unless it is asked for them (`RunDetails` without `task_details`, branch
mlmd-removal). The workflow itself is in the older answer about a run of both (`/apis/v1beta1/runs/RUN`,
`pipeline_runtime.workflow_manifest`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

FAILED_PHASES = ("Failed", "Error")
_STATES = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "SUCCEEDED", "Skipped": "SKIPPED"}
_STATES |= dict.fromkeys(FAILED_PHASES, "FAILED")
_NAME_FORMAT = "workflows.argoproj.io/pod-name-format"
_LOG_URI = re.compile(r'"([^"\\]+/executor-logs)\\*"')
_DRIVER = "-driver"
_EXECUTOR = "executor"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of a run.

    Args:
        task: that it works for, as the dashboard names it; `root` around all tasks, `iteration` in loops.
        node: what of the task it does: `driver`, which prepares it, or empty.
        place: in the graph, the same for every try.
        name: of the pod.
        phase: Argo's: Pending, Running, Succeeded, Failed, Error, ...
        message: Argo's, with the exit code of a container that failed; or why it is not placed.
        started: time, ISO 8601.
        log_uri: where Kubeflow keeps what it has printed, once it has ended by itself; empty if that is not known.
    """

    task: str
    node: str
    place: str
    name: str
    phase: str
    message: str
    started: str
    log_uri: str = ""

    @property
    def has_failed(self) -> bool:
        return self.phase in FAILED_PHASES

    @property
    def title(self) -> str:
        return f"{self.task} ({self.node})" if self.node else self.task


class Task(NamedTuple):
    """A node that the dashboard shows: its id, name, state as Kubeflow names it, time of its start, Argo's message."""

    identity: str
    name: str
    state: str
    started: str
    message: str


class Workflow:
    """A run's Argo workflow; without nodes if it has compressed them, as large workflows do.

    Args:
        manifest: as JSON.
    """

    def __init__(self, manifest: str) -> None:
        try:
            document = json.loads(manifest)
        except ValueError:
            document = None
        self._document: dict[str, Any] = document if isinstance(document, dict) else {}
        nodes = (self._document.get("status") or {}).get("nodes") or {}
        self._nodes = sorted(nodes.values(), key=lambda node: (node.get("startedAt") or "", str(node["name"])))

    @property
    def is_compressed(self) -> bool:
        """Whether Argo has compressed its nodes; Kubeflow cannot read them, so it shows no tasks."""
        return bool((self._document.get("status") or {}).get("compressedNodes"))

    @property
    def pods(self) -> list[Pod]:
        """Pods in the order of their start."""
        return [_pod(node, self._document) for node in self._nodes if node.get("type") == "Pod"]

    def pod_of(self, task: str) -> Pod | None:
        """The last pod that does the work of a task itself; None if there is none yet."""
        return next((pod for pod in reversed(self.pods) if (pod.task, pod.node) == (task, "")), None)

    @property
    def tasks(self) -> list[Task]:
        """All nodes around pods, each once, in the order of their start."""
        found = {_place(node): node for node in self._nodes if node.get("type") != "Pod"}
        return [
            Task(
                place,
                _last(place),
                _STATES.get(node.get("phase") or "", "PENDING"),
                node.get("startedAt") or "",
                node.get("message") or "",
            )
            for place, node in found.items()
        ]


def last_failures(pods: Sequence[Pod]) -> list[Pod]:
    """The last try of each failed place in the graph, without those that another try has repaired or may repair."""
    latest = {pod.place: pod for pod in pods}
    return [pod for pod in latest.values() if pod.has_failed]


def _pod(node: Mapping[str, Any], workflow: Mapping[str, Any]) -> Pod:
    place = _place(node)
    last = _last(place.removesuffix(f".{_EXECUTOR}"))
    is_driver = last.endswith(_DRIVER)
    return Pod(
        task=last.removesuffix(_DRIVER),
        node="driver" if is_driver else "",
        place=place,
        name=_pod_name(node, workflow),
        phase=node.get("phase") or "Pending",
        message=node.get("message") or "",
        started=node.get("startedAt") or "",
        log_uri=_log_uri(node),
    )


def _log_uri(node: Mapping[str, Any]) -> str:
    """Address of the log as the driver writes it into the pod's description, with the number of the try (2.17:
    `launcher_v2.go`)."""
    given = (node.get("inputs") or {}).get("parameters") or ()
    description = "".join(str(each.get("value") or "") for each in given if each.get("name") == "pod-spec-patch")
    found = _LOG_URI.search(description)
    tried = re.search(r"\((\d+)\)$", str(node["name"]))
    return f"{found[1]}-{tried[1] if tried else 0}" if found else ""


def _place(node: Mapping[str, Any]) -> str:
    """The node's name without the numbers of tries."""
    return re.sub(r"\(\d+\)(?=\.|$)", "", str(node["name"]))


def _last(place: str) -> str:
    return place.rpartition(".")[2]


def _pod_name(node: Mapping[str, Any], workflow: Mapping[str, Any]) -> str:
    """Name of the pod as Argo makes it (4.0.5: `GeneratePodName`) and Kubeflow finds it again (2.17:
    `RetrievePodName`)."""
    of_workflow = workflow.get("metadata") or {}
    name = str(of_workflow.get("name"))
    if (of_workflow.get("annotations") or {}).get(_NAME_FORMAT) == "v1":
        return str(node["id"])
    if node["name"] == name:
        return name
    template = "" if ".inline" in str(node["name"]) else f"-{node.get('templateName')}"
    return f"{name}{template}-{str(node['id']).rpartition('-')[2]}"
