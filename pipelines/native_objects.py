"""The compiled pipelines as Kubernetes objects, for a Kubeflow that keeps its pipelines there (native API mode).

A PipelineVersion cannot be changed, so its name holds the hash of its content: what is compiled anew is a new version.
"""

from pathlib import Path
from typing import Any

import yaml

from ease_lib import __version__
from pipelines.cluster import read_package

API = "pipelines.kubeflow.org/v2beta1"
NAMESPACE = "ease"


def native_objects(compiled: Path, commit: str = "", code_url: str = "") -> str:
    """A Pipeline and a PipelineVersion of every compiled file, as one YAML text.

    Args:
        commit, code_url: of the source; put into the tags and into `codeSourceURL` when given.
    """
    documents: list[dict[str, Any]] = []
    for path in sorted(compiled.glob("*.yaml")):
        spec, platform = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        info, package = spec["pipelineInfo"], read_package(path)
        name = info["name"]
        documents += [
            {
                "apiVersion": API,
                "kind": "Pipeline",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"displayName": info["displayName"], "description": info.get("description", "")},
            },
            {
                "apiVersion": API,
                "kind": "PipelineVersion",
                "metadata": {"name": f"{name}-{package.version}", "namespace": NAMESPACE},
                "spec": {
                    "pipelineName": name,
                    "displayName": package.version,
                    "tags": {"version": __version__, **({"commit": commit} if commit else {})},
                    **({"codeSourceURL": code_url} if code_url else {}),
                    "pipelineSpec": spec,
                    "platformSpec": platform,
                },
            },
        ]
    return yaml.safe_dump_all(documents, sort_keys=False, width=120)
