"""The pods of a run, as its Argo workflow has them: names, states, and what Argo says of those that failed.

Kubeflow's own v2beta1 API tells of tasks only: no pod, no message, no exit code (2.17: `toApiPipelineTaskDetail`). The
workflow itself stands in the older answer about a run (`/apis/v1beta1/runs/RUN`, `pipeline_runtime.workflow_manifest`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAILED_PHASES = ("Failed", "Error")
_NAME_FORMAT = "workflows.argoproj.io/pod-name-format"
_DRIVER = "-driver"
_EXECUTOR = "executor"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of a run.

    Args:
        task: that it works for, as the dashboard names it; `root` around all tasks.
        node: what of the task it does: `driver`, which prepares it, or empty.
        place: in the graph, the same for every try.
        name: of the pod.
        phase: Argo's: Pending, Running, Succeeded, Failed, Error, ...
        message: Argo's, with the exit code of a container that failed; or why it is not placed.
        started: time, ISO 8601.
    """

    task: str
    node: str
    place: str
    name: str
    phase: str
    message: str
    started: str

    @property
    def has_failed(self) -> bool:
        return self.phase in FAILED_PHASES

    @property
    def title(self) -> str:
        return f"{self.task} ({self.node})" if self.node else self.task


def pods_of(manifest: str) -> list[Pod]:
    """The pods of a workflow in the order of their start; none of one whose nodes are kept elsewhere, as of a huge one.

    Args:
        manifest: the workflow as JSON.
    """
    try:
        workflow = json.loads(manifest)
    except ValueError:
        return []
    nodes = (workflow.get("status") or {}).get("nodes") or {}
    found = [_pod(node, workflow) for node in nodes.values() if node.get("type") == "Pod"]
    return sorted(found, key=lambda pod: (pod.started, pod.name))


def last_failures(pods: Sequence[Pod]) -> list[Pod]:
    """The last try of each place in the graph that has failed; what another try has mended, or mends, is left out."""
    latest = {pod.place: pod for pod in pods}
    return [pod for pod in latest.values() if pod.has_failed]


def _pod(node: Mapping[str, Any], workflow: Mapping[str, Any]) -> Pod:
    parts = [re.sub(r"\(\d+\)$", "", part) for part in str(node["name"]).split(".")]
    last = next((part for part in reversed(parts) if part != _EXECUTOR), parts[-1])
    is_driver = last.endswith(_DRIVER)
    return Pod(
        task=last.removesuffix(_DRIVER),
        node="driver" if is_driver else "",
        place=".".join(parts),
        name=_pod_name(node, workflow),
        phase=node.get("phase") or "Pending",
        message=node.get("message") or "",
        started=node.get("startedAt") or "",
    )


def _pod_name(node: Mapping[str, Any], workflow: Mapping[str, Any]) -> str:
    """As Argo makes it (4.0.5: `GeneratePodName`) and Kubeflow finds it again (2.17: `RetrievePodName`)."""
    of_workflow = workflow.get("metadata") or {}
    name = str(of_workflow.get("name"))
    if (of_workflow.get("annotations") or {}).get(_NAME_FORMAT) == "v1":
        return str(node["id"])
    if node["name"] == name:
        return name
    template = "" if ".inline" in str(node["name"]) else f"-{node.get('templateName')}"
    return f"{name}{template}-{str(node['id']).rpartition('-')[2]}"
