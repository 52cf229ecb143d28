"""Settings of each component in a cluster: image, resources, secrets, retries, pod security; all in one place.

The pipelines pass every task through `place`; on a laptop the same calls are ignored. What the pod of a component needs
is in `NEEDS`; settings of the cluster is an option of `python -m pipelines compile` and is in `Placement`.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from kfp import dsl, kubernetes

from components import images
from ease_lib.config.parsing import run_form
from ease_lib.errors import ConfigError
from ease_lib.keys import SIGNING_KEY, SIGNING_PUBLIC_KEY
from ease_lib.lineage.attestation import SECRET as SIGNING_SECRET
from ease_lib.running import run_context
from pipelines.form_description import offer_choices
from pipelines.unread import leave_out_unread

HOUR, DAY = 3600, 24 * 3600
RETRIES = 3
RETRY_WAIT_SECONDS, RETRY_FACTOR = 30, 2


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of a component's pod.

    Args:
        cpu, memory: requested and at most; what is requested leaves room on a cluster of 2 cores and 8 GiB.
        scratch: size of /tmp.
        reaches_endpoint: gets the keys, and the way out to the endpoint of the LLM or of the embedder.
        signing: the entry of the Secret `ease-signing` that it gets: `private-key` where something is signed,
            `public-key` where it is looked whether that will be possible.
        on_gpu: runs on a GPU when the pipeline is compiled with `--gpu`.
        ranks: computes on a GPU for one of the prefilters only, which a run chooses: needs `--gpu-prefilter` too.
        retries: further tries of Kubeflow's where the pod was lost.
    """

    cpu: tuple[str, str] = ("250m", "1")
    memory: tuple[str, str] = ("1Gi", "2Gi")
    scratch: str = "1Gi"
    timeout_seconds: int = HOUR
    reaches_endpoint: bool = True
    signing: str = ""
    on_gpu: bool = False
    ranks: bool = False
    retries: int = RETRIES


_EMBEDS: dict[str, Any] = {"cpu": ("500m", "4"), "memory": ("1Gi", "8Gi"), "scratch": "4Gi", "on_gpu": True}
NEEDS = {
    "build_dataset": Needs(cpu=("250m", "2"), memory=("1Gi", "4Gi"), scratch="4Gi", signing="public-key"),
    "rank_shard": Needs(**_EMBEDS, ranks=True),
    "prefilter": Needs(**_EMBEDS, ranks=True),
    "embed": Needs(**_EMBEDS, timeout_seconds=3 * HOUR),
    "optimize": Needs(**_EMBEDS, timeout_seconds=48 * HOUR),
    "evaluate": Needs(signing="private-key", timeout_seconds=25 * HOUR),
    "plan_comparison": Needs(retries=0, timeout_seconds=900),
    "run_cells": Needs(cpu=("500m", "2"), memory=("1Gi", "4Gi"), scratch="4Gi", timeout_seconds=14 * DAY),
    "report_comparison": Needs(reaches_endpoint=False),
}
"""Resources by component. Each component costs Kubeflow two pods and about twenty seconds, whatever it does."""

USER, GROUP = 10001, 0
KEPT_SECONDS = DAY
"""Time for which the pods of a run stay after its end. Kubeflow deletes its workflow after a day anyway, and after an
hour where success and failure have no time of their own. Artifacts and records lie in the object store and stay."""

LLM_SECRET = "ease-llm"  # noqa: S105
LLM_KEYS = {
    "api-key": "EASE_LLM_API_KEY",
    "embedder-api-key": "EASE_EMBEDDER_API_KEY",
    "judge-api-key": "EASE_JUDGE_API_KEY",
}
OBJECT_STORE_SECRET = "ease-s3"  # noqa: S105
OBJECT_STORE_KEYS = {"accesskey": "AWS_ACCESS_KEY_ID", "secretkey": "AWS_SECRET_ACCESS_KEY"}
CATALOGUE_SECRET = "ease-openlineage"  # noqa: S105
CATALOGUE_KEYS = {"api-key": "OPENLINEAGE_API_KEY"}
SIGNING_KEYS = {"private-key": SIGNING_KEY, "public-key": SIGNING_PUBLIC_KEY}
OBJECT_STORE_CONFIG = "ease-object-store"
OBJECT_STORE_SETTINGS = {"endpoint": "AWS_ENDPOINT_URL_S3", "region": "AWS_REGION"}
NETWORK_CONFIG = "ease-network"
NETWORK_SETTINGS = {
    "https-proxy": "HTTPS_PROXY",
    "http-proxy": "HTTP_PROXY",
    "no-proxy": "NO_PROXY",
    "ca-file": "SSL_CERT_FILE",
    "object-store-ca-file": "AWS_CA_BUNDLE",
}
AUTHORITIES, AUTHORITIES_FOLDER = "ease-authorities", "/etc/ease/authorities"
"""Custom certificate authorities, as files of a ConfigMap; `NETWORK_SETTINGS` says which of them to trust."""
MOST_SHARDS = 3
"""Largest number of shards: with more, the workflow of a run would exceed 1 MiB and Kubeflow would lose sight of its
tasks (`tests/pipelines/test_workflow_size.py`)."""
MOST_WORKERS = 12
"""Largest number of workers in a comparison, for the same reason."""
MOST_DAYS = 3650
IMAGE_ANNOTATION = "ease/image"
RUN_FIELDS = {
    run_context.RUN_ID: "metadata.labels['pipeline/runid']",
    run_context.IMAGE: f"metadata.annotations['{IMAGE_ANNOTATION}']",
}
"""Label by Kubeflow and annotation by EASE on a pod, which tell a stage its run and image."""
ENDPOINT_LABEL = "ease/reaches-endpoint"
"""Label of pods that may reach the endpoint; the network policy selects by it."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Settings that differ between clusters.

    Args:
        cpu_image, gpu_image: with registry and, best, digest.
        shards: parts of a large pool that `rank_shard` ranks side by side; with 1 `prefilter` ranks it itself.
        workers: of a comparison, which share its cells.
        gpu: give the components that use one in every run a GPU.
        gpu_prefilter: one for `prefilter` and each `rank_shard` too, which compute on it with `prefilter=cosine` only.
        gpu_resource: the device plugin's name of a GPU; also the taint that is tolerated.
        gpu_node_label: `label=value` of the nodes to take.
        run_days: after so many days a run is ended, from its first start on, retries or not: a pod that finds no node
            would wait for ever. The default leaves each task of a run all of its tries; a comparison may need more.
        on_cluster: have Kubeflow try again a task whose pod was lost, and ask it for the run's name and time. On one
            machine the user sees what failed and starts it again, and `kfp.local` knows no schedules.
    """

    cpu_image: str = images.CPU
    gpu_image: str = images.GPU
    shards: int = 1
    workers: int = 8
    gpu: bool = False
    gpu_prefilter: bool = False
    gpu_resource: str = "nvidia.com/gpu"
    gpu_node_label: str = ""
    run_days: int = 14
    on_cluster: bool = True

    def __post_init__(self) -> None:
        problems = [
            f"image {image} may change tomorrow; use a version as tag or, better, a digest (@sha256:...)"
            for image in (self.cpu_image, self.gpu_image)
            if not _is_immutable(image)
        ]
        if self.gpu_node_label and not all(self.gpu_node_label.partition("=")):
            problems.append(f"--gpu-node-label {self.gpu_node_label} is not label=value")
        if self.gpu_prefilter and not self.gpu:
            problems.append("--gpu-prefilter adds to --gpu; give both")
        if not 1 <= self.shards <= MOST_SHARDS:
            problems.append(f"--shards {self.shards} is not from 1 to {MOST_SHARDS}")
        if not 1 <= self.workers <= MOST_WORKERS:
            problems.append(f"--workers {self.workers} is not from 1 to {MOST_WORKERS}; each takes cell after cell")
        if not 1 <= self.run_days <= MOST_DAYS:
            problems.append(f"--run-days {self.run_days} is not from 1 to {MOST_DAYS}")
        if problems:
            raise ConfigError(*problems)

    def gives_gpu(self, needs: Needs) -> bool:
        return self.gpu and needs.on_gpu and (self.gpu_prefilter or not needs.ranks)


def _is_immutable(image: str) -> bool:
    """A digest, or a tag that is a version."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@sha256:" in image or tag[:1].isdigit() or (tag[:1] == "v" and tag[1:2].isdigit())


_placement: ContextVar[Placement] = ContextVar("placement", default=Placement())  # noqa: B039  (it is frozen)


def placement() -> Placement:
    """Placement for which the pipeline is being compiled."""
    return _placement.get()


def placed(pipeline: Any, wanted: Placement) -> Any:
    """The same pipeline, traced with these options."""
    info = pipeline.pipeline_spec.pipeline_info
    token = _placement.set(wanted)
    try:
        traced = dsl.pipeline(
            name=info.name,
            display_name=info.display_name,
            description=info.description,
            pipeline_config=lifetime(wanted),
        )(pipeline.pipeline_func)
    finally:
        _placement.reset(token)
    leave_out_unread(traced.pipeline_spec)
    offer_choices(traced.pipeline_spec, run_form())
    return traced


def lifetime(placement: Placement) -> dsl.PipelineConfig:
    """Set the maximum duration of a run, and the time for which it stays in the cluster."""
    return dsl.PipelineConfig(
        ttl_seconds_after_success=KEPT_SECONDS,
        ttl_seconds_after_failure=KEPT_SECONDS,
        active_deadline_seconds=placement.run_days * DAY,
    )


def place(*tasks: dsl.PipelineTask) -> None:
    """Set everything that Kubernetes must know about these tasks."""
    for task in tasks:
        _place(task, NEEDS[task.component_spec.name.replace("-", "_")], _placement.get())


def _place(task: dsl.PipelineTask, needs: Needs, placement: Placement) -> None:
    task.set_caching_options(False)  # its key holds the ids of the inputs, which are new in every run
    task.set_cpu_request(needs.cpu[0]).set_cpu_limit(needs.cpu[1])
    task.set_memory_request(needs.memory[0]).set_memory_limit(needs.memory[1])
    if needs.retries and placement.on_cluster:
        waits = [RETRY_WAIT_SECONDS * RETRY_FACTOR**retry for retry in range(needs.retries)]
        # Argo takes it for a deadline of all tries together, from the start of the first (`maxDuration`)
        together = (needs.retries + 1) * needs.timeout_seconds + sum(waits)
        task.set_retry(
            needs.retries,
            backoff_duration=f"{RETRY_WAIT_SECONDS}s",
            backoff_factor=RETRY_FACTOR,
            backoff_max_duration=f"{together}s",
        )
    if placement.gives_gpu(needs):
        _on_gpu(task, placement)
    elif placement.cpu_image != images.CPU:
        task.set_container_image(placement.cpu_image)
    _harden(task, needs)
    _pass_secrets(task, needs)
    _pass_network(task)
    _tell_run(task, needs, placement)


def told_by_kubeflow() -> dict[str, str]:
    """Placeholders that Kubeflow replaces by the run's creation time and its name."""
    on_cluster = _placement.get().on_cluster
    return {
        "scheduled": dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER if on_cluster else "",
        "run_name": dsl.PIPELINE_JOB_NAME_PLACEHOLDER if on_cluster else "",
    }


def _on_gpu(task: dsl.PipelineTask, placement: Placement) -> None:
    task.set_container_image(placement.gpu_image)
    task.set_accelerator_type(placement.gpu_resource).set_accelerator_limit(1)
    kubernetes.add_toleration(task, key=placement.gpu_resource, operator="Exists", effect="NoSchedule")
    if placement.gpu_node_label:
        label, _, value = placement.gpu_node_label.partition("=")
        kubernetes.add_node_selector(task, label_key=label, label_value=value)


def _harden(task: dsl.PipelineTask, needs: Needs) -> None:
    """Set what the pod standard `restricted` requires beyond KFP's settings, and the folders for a stage's files."""
    kubernetes.set_security_context(task, run_as_user=USER, run_as_group=GROUP, run_as_non_root=True)
    kubernetes.empty_dir_mount(task, volume_name="tmp", mount_path="/tmp", size_limit=needs.scratch)  # noqa: S108
    kubernetes.empty_dir_mount(task, volume_name="shm", mount_path="/dev/shm", medium="Memory", size_limit="1Gi")  # noqa: S108
    kubernetes.set_image_pull_policy(task, "IfNotPresent")
    kubernetes.set_timeout(task, needs.timeout_seconds)
    # a search continues where it was, but moving it for the sake of an emptier node only costs time
    kubernetes.add_pod_annotation(task, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false")


def _pass_secrets(task: dsl.PipelineTask, needs: Needs) -> None:
    """Keys from named Secrets into the environment; absent ones are left out: a local LLM needs none."""
    if needs.reaches_endpoint:
        kubernetes.add_pod_label(task, ENDPOINT_LABEL, "true")
        kubernetes.use_secret_as_env(task, LLM_SECRET, LLM_KEYS, optional=True)
    # every task writes lineage records; most read or write more
    kubernetes.use_secret_as_env(task, OBJECT_STORE_SECRET, OBJECT_STORE_KEYS, optional=True)
    kubernetes.use_secret_as_env(task, CATALOGUE_SECRET, CATALOGUE_KEYS, optional=True)
    if needs.signing:
        entry = {needs.signing: SIGNING_KEYS[needs.signing]}
        kubernetes.use_secret_as_env(task, SIGNING_SECRET, entry, optional=True)
    kubernetes.use_config_map_as_env(task, OBJECT_STORE_CONFIG, OBJECT_STORE_SETTINGS, optional=True)


def _pass_network(task: dsl.PipelineTask) -> None:
    """Proxies and authorities of the cluster's network, if these ConfigMaps exist."""
    kubernetes.use_config_map_as_env(task, NETWORK_CONFIG, NETWORK_SETTINGS, optional=True)
    kubernetes.use_config_map_as_volume(task, AUTHORITIES, AUTHORITIES_FOLDER, optional=True)


def _tell_run(task: dsl.PipelineTask, needs: Needs, placement: Placement) -> None:
    """Tell a stage where it runs, for its record; through the pod, not through parameters, which a user chooses."""
    image = placement.gpu_image if placement.gives_gpu(needs) else placement.cpu_image
    kubernetes.add_pod_annotation(task, IMAGE_ANNOTATION, image)
    for variable, field_path in RUN_FIELDS.items():
        kubernetes.use_field_path_as_env(task, env_name=variable, field_path=field_path)
