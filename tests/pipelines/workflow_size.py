"""How large the Argo workflow of a finished run is, from the compiled pipeline: built as Kubeflow and Argo build it.

    object = specification (templates, and each component, implementation and Kubernetes setting as an argument)
           + nodes (for each container 6, for each iteration of a loop 12), each with its inputs and outputs

Read in Kubeflow Pipelines 2.17.0 (`backend/src/v2/compiler/argocompiler`, `backend/src/v2/driver`) and Argo 4.0.5
(`workflow/controller/operator.go`, `workflow/packer/packer.go`). What the driver finds out about a container, its
`pod-spec-patch`, is in six nodes, with every quote escaped twice. Kubeflow's `templateDefaults` put a node `Retry`
around every other one. Above `LIMIT` Argo compresses the nodes, and Kubeflow sees no task any more.

Measured on a cluster at commit 2b4b1e4, and what this model gives of the same files (KB of 1 000 bytes): a run 766 to
786 and 779, of which 520 and 540 are `pod-spec-patch`, 46 and 46 `component`, 37 and 37 `container`, 26 and 26
`kubernetes-config`, 11 and 11 `task`, 81 and 77 the specification; eight shards 1 590 and 1 727; a shard 113 and 118; a
cell of a comparison, when each had a task of its own, 68 and 70. `sizes` prints it.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

LIMIT = 1024 * 1024
"""Bytes of the object, above which Argo compresses its nodes."""
ONE_ARGUMENT = 128 * 1024
"""Bytes that Linux takes as one argument of a program, or one variable."""
RUN, UID = "ease-x7k2p", "3f0c8a52-6d1e-4b0b-9c55-0d5a7e2f9b41"
ROOT = f"s3://mlpipeline/private-artifacts/ease/v2/artifacts/ease/{UID}"
TIME = "2026-11-28T10:20:30Z"
SESSION = {
    "Provider": "s3",
    "Params": {
        **{"accessKeyKey": "accesskey", "disableSSL": "true", "endpoint": "seaweedfs.kubeflow:8333"},
        **{"forcePathStyle": "true", "fromEnv": "false", "maxRetries": "5", "region": "us-east-1"},
        **{"secretKeyKey": "secretkey", "secretName": "ease-s3"},
    },
}
SERVERS = [
    *("--ml_pipeline_server_address", "ml-pipeline.kubeflow.svc.cluster.local", "--ml_pipeline_server_port", "8887"),
    *("--mlmd_server_address", "metadata-grpc-service.kubeflow.svc.cluster.local", "--mlmd_server_port", "8080"),
]
SECURE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
RETRY = ("retry-max-count", "retry-backoff-duration", "retry-backoff-factor", "retry-backoff-max-duration")
SCRATCH = (
    "kfp-launcher",
    *(f"{name}-scratch" for name in ("gcs", "s3", "minio", "dot-local", "dot-cache", "dot-config")),
)


def go_json(value: object) -> str:
    """Encode a value like Go's encoding/json: without spaces, keys sorted, `<`, `>` and `&` as numbers."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def proto_json(value: object) -> str:
    """Encode a value like protobuf's protojson: with a space after each comma."""
    return json.dumps(value, separators=(", ", ":"), ensure_ascii=False)


def size(workflow: Mapping[str, Any]) -> int:
    """Bytes of the object, as Argo counts them."""
    return len(go_json(workflow).encode())


def parts(workflow: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of what is in the object, by its name: `spec`, and of all nodes together each input and output."""
    found: Counter[str] = Counter(spec=size(workflow["spec"]))
    nodes = workflow["status"]["nodes"].values()
    for node in nodes:
        for side in ("inputs", "outputs"):
            for parameter in node.get(side, {}).get("parameters", ()):
                found[parameter["name"]] += size(parameter)
    found["other"] = size(workflow) - sum(found.values())
    return dict(found)


class Package:
    """A compiled pipeline.

    Args:
        text: pipeline specification and platform specification, as YAML.
    """

    def __init__(self, text: str) -> None:
        spec, *platform = yaml.safe_load_all(text)
        self.spec: dict[str, Any] = spec
        self.components: dict[str, Any] = spec["components"]
        self.containers = {
            name: executor["container"] for name, executor in spec["deploymentSpec"]["executors"].items()
        }
        kubernetes = platform[0]["platforms"]["kubernetes"] if platform else {}
        self.kubernetes: dict[str, Any] = kubernetes.get("deploymentSpec", {}).get("executors", {})


def finished_workflow(
    package: Package,
    arguments: Mapping[str, Any],
    *,
    outputs: Mapping[str, Mapping[str, Any]],
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """The object of a run that succeeded, each container at its first try.

    Args:
        arguments: the run's, where they are not at their defaults.
        outputs: parameters that tasks give, by the task's name and theirs; empty where they are not named.
        metadata: of every artifact that a task gives, beside what Kubeflow adds.
    """
    return _Building(package, arguments, outputs, metadata).workflow()


class _Building:
    def __init__(
        self,
        package: Package,
        arguments: Mapping[str, Any],
        outputs: Mapping[str, Mapping[str, Any]],
        metadata: Mapping[str, Any],
    ) -> None:
        self.package, self.outputs, self.metadata = package, outputs, metadata
        declared = package.spec["root"].get("inputDefinitions", {}).get("parameters", {})
        self.arguments = {name: each.get("defaultValue") for name, each in declared.items()} | dict(arguments)
        self.parameters: dict[str, str] = {}
        self.templates: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}

    def workflow(self) -> dict[str, Any]:
        self._driver_template("system-dag-driver")
        self._dag_spec("root", self.package.spec["root"])
        runtime = go_json({"parameterValues": self.arguments})
        driver = {
            "component": "{{workflow.parameters.components-root}}",
            "runtime-config": runtime,
            "driver-type": "ROOT_DAG",
        }
        tasks = [
            _task("root-driver", "system-dag-driver", driver),
            _task(
                "root",
                "root",
                {"parent-dag-id": "{{tasks.root-driver.outputs.parameters.execution-id}}", "condition": ""},
                depends="root-driver.Succeeded",
            ),
        ]
        self.templates["entrypoint"] = {"name": "entrypoint", "inputs": {}, "outputs": {}, "metadata": {}}
        self.templates["entrypoint"]["dag"] = {"tasks": tasks}
        with_driver = {"component": self.parameters["components-root"], **{k: driver[k] for k in list(driver)[1:]}}
        boundary = self._node(RUN, "", "entrypoint", "DAG", {})
        self._driver(f"{RUN}.root-driver", boundary, "system-dag-driver", with_driver, _dag_outputs(0))
        self._run_dag(f"{RUN}.root", boundary, "root", self.package.spec["root"], self.arguments, {})
        for template in self.templates.values():
            template.setdefault("metadata", {}).setdefault("annotations", {})["sidecar.istio.io/inject"] = "false"
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": _metadata(),
            "spec": {
                "arguments": {"parameters": [{"name": k, "value": v} for k, v in self.parameters.items()]},
                "entrypoint": "entrypoint",
                "templates": list(self.templates.values()),
                "serviceAccountName": "ease-pipeline-runner",
                "podMetadata": {
                    kind: {"pipelines.kubeflow.org/v2_component": "true"} for kind in ("annotations", "labels")
                },
                "templateDefaults": {"retryStrategy": {"limit": "2", "retryPolicy": "OnError"}},
                "ttlStrategy": {"secondsAfterSuccess": 86400, "secondsAfterFailure": 86400},
                "activeDeadlineSeconds": 1209600,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            },
            "status": {
                **{"phase": "Succeeded", "startedAt": TIME, "finishedAt": TIME, "progress": "11/11"},
                "nodes": self.nodes,
            },
        }

    # the specification, as argocompiler makes it

    def _dag_spec(self, name: str, component: Mapping[str, Any]) -> None:
        tasks: list[dict[str, Any]] = []
        for key, task in sorted(component["dag"]["tasks"].items()):
            called = task["componentRef"]["name"]
            inner = self.package.components[called]
            if "dag" in inner:
                self._dag_spec(called, inner)
            else:
                self._container_spec(called, inner)
            if "parameterIterator" in task:
                tasks.append(self._loop_spec(key, task, called))
            else:
                tasks += self._tasks(key, key, task, called, depends=_depends(task))
        self.parameters[f"components-{name}"] = go_json(component)
        self._add(name, ["parent-dag-id"], {"dag": {"tasks": tasks}})

    def _loop_spec(self, key: str, task: Mapping[str, Any], called: str) -> dict[str, Any]:
        """The loop's own template, and that of an iteration."""
        parent = {"parent-dag-id": "{{inputs.parameters.parent-dag-id}}"}
        driver = {"component": self._placeholder(called), **parent, "task": go_json(task), "task-name": key}
        iteration = {
            "parent-dag-id": "{{tasks.iteration-driver.outputs.parameters.execution-id}}",
            "iteration-index": "{{item}}",
        }
        tasks = [
            _task("iteration-driver", "system-dag-driver", driver),
            _task("iteration-iterations", f"{called}-iteration", iteration, depends="iteration-driver.Succeeded")
            | {"withSequence": {"count": "{{tasks.iteration-driver.outputs.parameters.iteration-count}}"}},
        ]
        inner = self._tasks("iteration-item", key, task, called, index="{{inputs.parameters.iteration-index}}")
        self._add(f"{called}-iteration", ["parent-dag-id", "iteration-index"], {"dag": {"tasks": inner}})
        self._add(f"{called}-{key}-iterator", ["parent-dag-id"], {"dag": {"tasks": tasks}, "parallelism": 20})
        return _task(key, f"{called}-{key}-iterator", parent, depends=_depends(task))

    def _tasks(
        self, name: str, key: str, task: Mapping[str, Any], called: str, *, depends: str = "", index: str = ""
    ) -> list[dict[str, Any]]:
        """A driver's task, and that of the container or graph that it prepares."""
        given = {"component": self._placeholder(called), "task": go_json(task)}
        given |= {"parent-dag-id": "{{inputs.parameters.parent-dag-id}}", "task-name": key}
        given |= {"iteration-index": index} if index else {}
        done = f"{name}-driver.Succeeded"
        if "dag" in self.package.components[called]:
            run = {
                "parent-dag-id": f"{{{{tasks.{name}-driver.outputs.parameters.execution-id}}}}",
                "condition": f"{{{{tasks.{name}-driver.outputs.parameters.condition}}}}",
            }
            return [
                _task(f"{name}-driver", "system-dag-driver", given, depends=depends),
                _task(name, called, run, depends=done),
            ]
        given |= {"container": f"{{{{workflow.parameters.implementations-{self._hash(called)}}}}}"}
        given |= {"kubernetes-config": f"{{{{workflow.parameters.kubernetes-{called}}}}}"}
        patch = {
            "pod-spec-patch": f"{{{{tasks.{name}-driver.outputs.parameters.pod-spec-patch}}}}",
            "cached-decision": f"{{{{tasks.{name}-driver.outputs.parameters.cached-decision}}}}",
        }
        self._driver_template("system-container-driver")
        executor = self._executor_template(task, called)
        return [
            _task(f"{name}-driver", "system-container-driver", given, depends=depends),
            _task(name, executor, patch | self._executor_settings(task, called), depends=done),
        ]

    def _container_spec(self, called: str, component: Mapping[str, Any]) -> None:
        label = component["executorLabel"]
        if label in self.package.kubernetes:
            self.parameters[f"kubernetes-{called}"] = go_json(self.package.kubernetes[label])
        self.parameters.setdefault(f"components-{self._hash(called)}", go_json(component))
        self.parameters.setdefault(f"implementations-{self._hash(called)}", go_json(self.package.containers[label]))

    def _hash(self, called: str) -> str:
        """Hash of a task's container; a graph has none and keeps its name."""
        component = self.package.components[called]
        if "dag" in component:
            return called
        return hashlib.sha256(go_json(self.package.containers[component["executorLabel"]]).encode()).hexdigest()

    def _placeholder(self, called: str) -> str:
        return f"{{{{workflow.parameters.components-{self._hash(called)}}}}}"

    def _add(self, name: str, inputs: list[str], body: dict[str, Any]) -> None:
        self.templates[name] = {
            **{"name": name, "inputs": {"parameters": [{"name": each} for each in inputs]}, "outputs": {}},
            **body,
        }

    def _driver_template(self, name: str) -> None:
        if name in self.templates:
            return
        is_dag = name == "system-dag-driver"
        inputs, outputs = _DAG_DRIVER if is_dag else _CONTAINER_DRIVER
        arguments = ["--type", "{{inputs.parameters.driver-type}}" if is_dag else "CONTAINER"]
        arguments += ["--pipeline_name", self.package.spec["pipelineInfo"]["name"], "--run_id", UID]
        arguments += [
            "--run_name",
            "{{workflow.name}}",
            "--run_display_name",
            "adaptive on customer_feedback 2026-11-28",
        ]
        arguments += ["--pipeline_job_create_time_utc", "{{workflow.creationTimestamp}}"]
        for each in inputs:
            arguments += [f"--{each.replace('-', '_')}", f"{{{{inputs.parameters.{each}}}}}"]
        for each in outputs:
            arguments += [f"--{each.replace('-', '_')}_path", f"{{{{outputs.parameters.{each}.path}}}}"]
        arguments += ["--http_proxy", "", "--https_proxy", "", "--no_proxy", "", *SERVERS]
        arguments += ["--log_level", "1", "--publish_logs", "true"]
        self._add(
            name,
            [],
            {
                "container": {
                    **{"name": "", "image": "ghcr.io/kubeflow/kfp-driver:2.17.0", "command": ["driver"]},
                    **{"args": arguments, "resources": _RESOURCES, "securityContext": SECURE | {"runAsNonRoot": True}},
                    "env": _env("metadata.name", "metadata.uid"),
                },
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "metadata": {"annotations": {"pipelines.kubeflow.org/runtime-role": "driver"}},
            },
        )
        self.templates[name]["inputs"] = {"parameters": [_declared(each, default) for each, default in inputs.items()]}
        self.templates[name]["outputs"] = {"parameters": [_valued(each, default) for each, default in outputs.items()]}

    def _executor_settings(self, task: Mapping[str, Any], called: str) -> dict[str, str]:
        """Labels and annotations of the pod, and how it is tried again, as inputs of the templates that run it."""
        settings: dict[str, str] = {}
        executor = self.package.components[called]["executorLabel"]
        given = self.package.kubernetes.get(executor, {}).get("podMetadata", {})
        for kind in ("annotation", "label"):
            entries = sorted(given.get(f"{kind}s", {}).items())
            for number, (key, value) in enumerate(entries, 1):
                end = f"-{number}" if len(entries) > 1 else ""
                settings[f"pod-metadata-{kind}-key{end}"] = key
                settings[f"pod-metadata-{kind}-val{end}"] = value
        if policy := task.get("retryPolicy"):
            values = (policy["maxRetryCount"], policy["backoffDuration"].removesuffix("s"), policy["backoffFactor"])
            settings |= dict(
                zip(RETRY, (*map(str, values), policy["backoffMaxDuration"].removesuffix("s")), strict=True)
            )
        return settings

    def _executor_name(self, task: Mapping[str, Any], called: str, kind: str) -> str:
        given = self.package.kubernetes.get(self.package.components[called]["executorLabel"], {}).get("podMetadata")
        retry = "retry-" if "retryPolicy" in task else ""
        counted = (str(len(given.get(each, {}))) for each in ("annotations", "labels")) if given else ()
        return "-".join(
            ["metadata", *counted, f"{retry}system-container-{kind}"] if given else [f"{retry}system-container-{kind}"]
        )

    def _executor_template(self, task: Mapping[str, Any], called: str) -> str:
        name, impl = (self._executor_name(task, called, kind) for kind in ("executor", "impl"))
        if name in self.templates:
            return name
        settings = list(self._executor_settings(task, called))
        passed = {each: f"{{{{inputs.parameters.{each}}}}}" for each in ("pod-spec-patch", *settings)}
        inner = _task("executor", impl, passed) | {"when": "{{inputs.parameters.cached-decision}} != true"}
        self._add(name, ["pod-spec-patch", "cached-decision", *settings], {"dag": {"tasks": [inner]}})
        mounts = [{"name": each, "mountPath": f"/{each.removesuffix('-scratch')}"} for each in SCRATCH]
        launcher = {"name": "kfp-launcher", "image": "ghcr.io/kubeflow/kfp-launcher:2.17.0", "command": ["launcher-v2"]}
        launcher |= {"args": ["--copy", "/kfp-launcher/launch", "--log_level", "1", "--publish_logs", "true"]}
        launcher |= {"volumeMounts": mounts[:1], "resources": _RESOURCES, "securityContext": SECURE}
        container = {
            "name": "",
            "image": "gcr.io/ml-pipeline/should-be-overridden-during-runtime",
            "command": ["should-be-overridden-during-runtime"],
            "volumeMounts": mounts,
            "envFrom": [{"configMapRef": {"name": "metadata-grpc-configmap", "optional": True}}],
            "env": [*_env("metadata.name", "metadata.uid"), {"name": "KFP_RETRY_INDEX", "value": "{{retries}}"}],
            "resources": {},
            "securityContext": SECURE,
        }
        body = {
            "podSpecPatch": "{{inputs.parameters.pod-spec-patch}}",
            "volumes": [{"name": each, "emptyDir": {}} for each in SCRATCH],
            "initContainers": [launcher],
            "container": container,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "metadata": {"annotations": {"pipelines.kubeflow.org/runtime-role": "launcher"}},
        }
        if "retryPolicy" in task:
            limit, wait, factor, longest = (f"{{{{inputs.parameters.{each}}}}}" for each in RETRY)
            backoff = {"duration": wait, "factor": factor, "maxDuration": longest}
            body["retryStrategy"] = {"limit": limit, "backoff": backoff}
        self._add(impl, ["pod-spec-patch", *settings], body)
        return name

    # the nodes, as Argo keeps them

    def _node(
        self,
        name: str,
        boundary: str,
        template: str,
        kind: str,
        inputs: Mapping[str, tuple[str | None, str]],
        outputs: dict[str, Any] | None = None,
    ) -> str:
        """A node and the `Retry` around it; the node's id."""
        shared: dict[str, Any] = {"templateName": template, "templateScope": f"local/{RUN}", "phase": "Succeeded"}
        shared |= {"boundaryID": boundary} if boundary else {}
        shared |= {"startedAt": TIME, "finishedAt": TIME, "progress": "1/1"}
        shared |= {"resourcesDuration": {"cpu": 1, "memory": 10}}
        if inputs:
            shared["inputs"] = {
                "parameters": [
                    {"name": each, **({"default": default} if default is not None else {}), "value": value}
                    for each, (default, value) in inputs.items()
                ]
            }
        if outputs:
            shared["outputs"] = outputs
        displayed = name.rpartition(".")[2] or name
        inner, outer = _id(f"{name}(0)"), _id(name)
        self.nodes[outer] = shared | {"id": outer, "name": name, "displayName": displayed, "type": "Retry"}
        self.nodes[outer]["children"] = [inner]
        self.nodes[inner] = shared | {"id": inner, "name": f"{name}(0)", "displayName": f"{displayed}(0)", "type": kind}
        self.nodes[inner]["nodeFlag"] = {"retried": True}
        if kind == "Pod":
            self.nodes[inner] |= {"hostNodeName": "node-1", "taskResultSynced": True}
        else:
            self.nodes[inner] |= {"children": [_id(f"{name}.first")], "outboundNodes": [_id(f"{name}.last")]}
        return inner

    def _driver(
        self, name: str, boundary: str, template: str, given: Mapping[str, str], outputs: Mapping[str, str]
    ) -> None:
        declared, produced = _DAG_DRIVER if template == "system-dag-driver" else _CONTAINER_DRIVER
        inputs = {each: (default, given.get(each, default or "")) for each, default in declared.items()}
        made = {
            "parameters": [_valued(each, default) | {"value": outputs[each]} for each, default in produced.items()],
            **_logs(name, template),
        }
        self._node(name, boundary, template, "Pod", inputs, made)

    def _run_dag(
        self,
        name: str,
        boundary: str,
        called: str,
        component: Mapping[str, Any],
        parameters: Mapping[str, Any],
        artifacts: Mapping[str, Any],
    ) -> None:
        """The nodes of a graph: its own, and those of its tasks."""
        inside = self._node(name, boundary, called, "DAG", {"parent-dag-id": (None, "1234")})
        for key, task in component["dag"]["tasks"].items():
            self._run_task(f"{name}.{key}", inside, key, task, parameters, artifacts)

    def _run_task(
        self,
        name: str,
        boundary: str,
        key: str,
        task: Mapping[str, Any],
        parameters: Mapping[str, Any],
        artifacts: Mapping[str, Any],
    ) -> None:
        called = task["componentRef"]["name"]
        values = self._values(task, parameters)
        given = {name: self._artifacts(source, artifacts) for name, source in _sources(task, "artifacts")}
        if "parameterIterator" not in task:
            self._run(name, boundary, key, task, called, values, given)
            return
        items = _items(task["parameterIterator"], values)
        inside = self._node(name, boundary, f"{called}-{key}-iterator", "DAG", {"parent-dag-id": (None, "1234")})
        driver = {
            "component": self._component(called),
            "task": go_json(task),
            "task-name": key,
            "parent-dag-id": "1234",
        }
        self._driver(f"{name}.iteration-driver", inside, "system-dag-driver", driver, _dag_outputs(len(items)))
        group = f"{name}.iteration-iterations"
        self.nodes[_id(group)] = {
            **{"id": _id(group), "name": group, "displayName": "iteration-iterations", "type": "TaskGroup"},
            **{"templateName": f"{called}-iteration", "templateScope": f"local/{RUN}", "phase": "Succeeded"},
            **{"boundaryID": inside, "startedAt": TIME, "finishedAt": TIME, "nodeFlag": {}, "progress": "1/1"},
            "children": [_id(f"{group}({number}:{number})") for number in range(len(items))],
        }
        for number, item in enumerate(items):
            inputs = {"parent-dag-id": (None, "1234"), "iteration-index": (None, str(number))}
            one = self._node(f"{group}({number}:{number})", inside, f"{called}-iteration", "DAG", inputs)
            of_item = values | {task["parameterIterator"]["itemInput"]: item}
            place = f"{group}({number}:{number})(0).iteration-item"
            self._run(place, one, key, task, called, of_item, given, index=str(number))

    def _run(
        self,
        name: str,
        boundary: str,
        key: str,
        task: Mapping[str, Any],
        called: str,
        values: Mapping[str, Any],
        artifacts: Mapping[str, Any],
        *,
        index: str = "-1",
    ) -> None:
        """A driver, and the container or graph that it prepares."""
        component = self.package.components[called]
        given = {"component": self._component(called), "task": go_json(task), "task-name": key, "parent-dag-id": "1234"}
        given |= {"iteration-index": index}
        if "dag" in component:
            self._driver(f"{name}-driver", boundary, "system-dag-driver", given, _dag_outputs(0))
            self._run_dag(name, boundary, called, component, values, artifacts)
            return
        given |= {"container": self.parameters[f"implementations-{self._hash(called)}"]}
        given |= {"kubernetes-config": self.parameters.get(f"kubernetes-{called}", "")}
        patch = self._patch(key, called, values, artifacts)
        driven = {"pod-spec-patch": patch, "cached-decision": "false", "condition": "true"}
        self._driver(f"{name}-driver", boundary, "system-container-driver", given, driven)
        settings = self._executor_settings(task, called)
        inputs: dict[str, tuple[str | None, str]] = {"pod-spec-patch": (None, patch)}
        of_dag = {each: ("0" if each in RETRY else None, value) for each, value in settings.items()}
        of_pod = {each: (None, value) for each, value in settings.items()}
        executor, impl = (self._executor_name(task, called, kind) for kind in ("executor", "impl"))
        inside = self._node(name, boundary, executor, "DAG", inputs | {"cached-decision": ("false", "false")} | of_dag)
        self._node(f"{name}.executor", inside, impl, "Pod", inputs | of_pod, _logs(name, impl))

    def _component(self, called: str) -> str:
        return self.parameters[f"components-{self._hash(called)}"]

    def _values(self, task: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs of the task."""
        values = {}
        for name, source in _sources(task, "parameters"):
            if "componentInputParameter" in source:
                values[name] = parameters.get(source["componentInputParameter"], "")
            elif "taskOutputParameter" in source:
                made = source["taskOutputParameter"]
                values[name] = self.outputs.get(made["producerTask"], {}).get(made["outputParameterKey"], "")
            else:
                values[name] = source["runtimeValue"]["constant"]
        return values

    def _artifacts(self, source: Mapping[str, Any], artifacts: Mapping[str, Any]) -> list[Any]:
        if "componentInputArtifact" in source:
            return list(artifacts[source["componentInputArtifact"]])
        made = source["taskOutputArtifact"]
        return [
            {
                "name": "1234",
                "type": {"instanceSchema": ""},
                "uri": _uri(task, made["outputArtifactKey"]),
                "metadata": {
                    **self.metadata,
                    "display_name": made["outputArtifactKey"],
                    "store_session_info": go_json(SESSION),
                },
            }
            for task in self._makers(self.package.spec["root"], made["producerTask"])
        ]

    def _makers(self, component: Mapping[str, Any], task: str) -> list[str]:
        """The task that makes an artifact; of a loop the one in it, once for each of its iterations."""
        body = component["dag"]["tasks"].get(task)
        inner = self.package.components[body["componentRef"]["name"]] if body else {}
        if "dag" not in inner:
            return [task]
        count = len(_items(body["parameterIterator"], self._values(body, self.arguments)))
        return list(inner["dag"]["tasks"])[:1] * count

    def _patch(self, key: str, called: str, values: Mapping[str, Any], artifacts: Mapping[str, Any]) -> str:
        """Additions of the driver to the pod: the launcher's command, the program, environment, volumes."""
        component = self.package.components[called]
        container = self.package.containers[component["executorLabel"]]
        made = component.get("outputDefinitions", {})
        executor_input = {
            "inputs": {
                "parameterValues": dict(values),
                "artifacts": {name: {"artifacts": given} for name, given in artifacts.items()},
            },
            "outputs": {
                "parameters": {name: {"outputFile": f"/tmp/kfp/outputs/{name}"} for name in made.get("parameters", {})},
                "artifacts": {
                    name: {"artifacts": [{"name": name, "type": each["artifactType"], "uri": _uri(key, name)}]}
                    for name, each in (made.get("artifacts", {}) | _LOGS).items()
                },
                "outputFile": _uri(key, "output_metadata.json").replace("s3://", "/s3/"),
            },
        }
        command = ["/kfp-launcher/launch", "--pipeline_name", self.package.spec["pipelineInfo"]["name"]]
        command += ["--run_id", UID, "--execution_id", "1234", "--executor_input", proto_json(executor_input)]
        command += ["--component_spec", proto_json(component), "--pod_name", "$(KFP_POD_NAME)", "--pod_uid"]
        command += ["$(KFP_POD_UID)", *SERVERS, "--publish_logs", "true", "--publish_logs", "true", "--"]
        program = [*container.get("command", []), *container.get("args", [])]
        resources = container.get("resources", {})
        main = {
            "name": "main",
            "image": container["image"],
            "command": command,
            "args": program,
            "resources": {
                kind + "s": {
                    "cpu": resources.get(f"resourceCpu{kind.title()}", ""),
                    "memory": resources.get(f"resourceMemory{kind.title()}", ""),
                }
                for kind in ("limit", "request")
            },
        }
        return go_json(self._settled(component["executorLabel"], main))

    def _settled(self, executor: str, main: dict[str, Any]) -> dict[str, Any]:
        """The template with what the platform specification says about the pod."""
        settings = self.package.kubernetes.get(executor, {})
        env: list[Any] = []
        for kind, field in (("secret", "secretKeyRef"), ("configMap", "configMapKeyRef")):
            for each in settings.get(f"{kind}AsEnv", ()):
                for entry in each["keyToEnv"]:
                    key = {"name": each[f"{kind}Name"], "key": entry[f"{kind}Key"], "optional": each["optional"]}
                    env.append({"name": entry["envVar"], "valueFrom": {field: key}})
        for each in settings.get("fieldPathAsEnv", ()):
            env.append({"name": each["name"], "valueFrom": {"fieldRef": {"fieldPath": each["fieldPath"]}}})
        volumes, mounts = [], []
        for each in settings.get("configMapAsVolume", ()):
            name = each["configMapName"]
            volumes.append({"name": name, "configMap": {"name": name, "optional": each["optional"]}})
            mounts.append({"name": name, "mountPath": each["mountPath"]})
        for each in settings.get("emptyDirMounts", ()):
            kept = {name: each[name] for name in ("medium", "sizeLimit") if name in each}
            volumes.append({"name": each["volumeName"], "emptyDir": kept})
            mounts.append({"name": each["volumeName"], "mountPath": each["mountPath"]})
        user = {
            name: int(value) if str(value).isdigit() else value
            for name, value in settings.get("securityContext", {}).items()
        }
        main |= {"env": env, "volumeMounts": mounts, "imagePullPolicy": settings.get("imagePullPolicy", "")}
        main |= {"securityContext": user | {"capabilities": {"drop": ["ALL"]}}}
        pod = {"containers": [main], "volumes": volumes}
        return pod | ({"activeDeadlineSeconds": int(settings["activeDeadlineSeconds"])} if settings else {})


_CONTAINER_DRIVER = (
    {
        **{"component": None, "task": None, "container": None, "task-name": None, "parent-dag-id": None},
        **{"iteration-index": "-1", "kubernetes-config": ""},
    },
    {"pod-spec-patch": "", "cached-decision": "false", "condition": "true"},
)
_DAG_DRIVER = (
    {
        **{"component": None, "runtime-config": "", "task": "", "task-name": ""},
        **{"parent-dag-id": "0", "iteration-index": "-1", "driver-type": "DAG"},
    },
    {"execution-id": None, "iteration-count": "0", "condition": "true"},
)
"""Inputs of the two kinds of driver with their defaults, and outputs."""
_LOGS = {"executor-logs": {"artifactType": {"schemaTitle": "system.Artifact"}}}
_RESOURCES = {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}


def _dag_outputs(iterations: int) -> dict[str, str]:
    return {"execution-id": "1234", "iteration-count": str(iterations), "condition": "true"}


def _declared(name: str, default: str | None) -> dict[str, Any]:
    return {"name": name, **({"default": default} if default is not None else {})}


def _valued(name: str, default: str | None) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"path": f"/tmp/outputs/{name}", **({"default": default} if default else {})}}


def _task(name: str, template: str, given: Mapping[str, str], *, depends: str = "") -> dict[str, Any]:
    parameters = [{"name": each, "value": value} for each, value in given.items()]
    task = {"name": name, "template": template, "arguments": {"parameters": parameters}}
    return task | ({"depends": depends} if depends else {})


def _depends(task: Mapping[str, Any]) -> str:
    return " && ".join(f"{each}.Succeeded" for each in task.get("dependentTasks", ()))


def _sources(task: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    yield from task.get("inputs", {}).get(kind, {}).items()


def _items(iterator: Mapping[str, Any], values: Mapping[str, Any]) -> list[Any]:
    """Items of a loop: named in the pipeline, or the output of a task."""
    items = iterator["items"]
    found = items["raw"] if "raw" in items else values[items["inputParameter"]]
    return list(json.loads(found) if isinstance(found, str) else found)


def _uri(task: str, name: str) -> str:
    return f"{ROOT}/{task}/{UID}/{name}"


def _id(name: str) -> str:
    return f"{RUN}-{int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10**10:010}"


def _env(*fields: str) -> list[Any]:
    return [
        {"name": f"KFP_POD_{each.rpartition('.')[2].upper()}", "valueFrom": {"fieldRef": {"fieldPath": each}}}
        for each in fields
    ]


def _logs(name: str, template: str) -> dict[str, Any]:
    key = f"private-artifacts/kubeflow/{RUN}/2026/11/28/{RUN}-{template}-1234567890/main.log"
    return {"artifacts": [{"name": "main-logs", "s3": {"key": key}}], "exitCode": "0"}


def _metadata() -> dict[str, Any]:
    labels = {"pipeline/persistedFinalState": "true", "pipeline/runid": UID, "workflows.argoproj.io/completed": "true"}
    return {"name": RUN, "namespace": "kubeflow", "uid": UID, "creationTimestamp": TIME, "labels": labels}


def pod_descriptions(workflow: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of what each pod is told of itself, in one variable: its template without inputs, but with their values.

    Above `ONE_ARGUMENT` Argo wants a ConfigMap for it, which Kubeflow gives it no right to: the run is FAILED at once.
    """
    templates = {template["name"]: template for template in workflow["spec"]["templates"]}
    pods = (node for node in workflow["status"]["nodes"].values() if node["type"] == "Pod")
    found = {}
    for pod in pods:
        template = {name: each for name, each in templates[pod["templateName"]].items() if name != "inputs"}
        values = [parameter["value"] for parameter in pod["inputs"]["parameters"]]
        found[pod["name"]] = size(template) + size({"values": values})
    return found


def sizes(package: Path) -> None:
    """Print what a run of a compiled pipeline costs with nothing but its defaults."""
    workflow = finished_workflow(Package(package.read_text(encoding="utf-8")), {}, outputs={}, metadata={})
    print(f"{size(workflow):>9,} bytes, {len(workflow['status']['nodes'])} nodes")
    for name, count in sorted(parts(workflow).items(), key=lambda part: -part[1]):
        print(f"{count:>9,} {name}")


if __name__ == "__main__":
    sizes(Path(sys.argv[1]))
