"""The compiled platform spec: every pod of every pipeline is placed, hardened and given its secrets, and no others."""

import json
import re

import pytest
import yaml
from google.protobuf import json_format
from kfp import dsl
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

import components
from ease_lib.errors import ConfigError
from pipelines.__main__ import main
from pipelines.compilation import COMPILED, FOLDER, compile_all
from pipelines.placement import MOST_SHARDS, NEEDS, SIGNING_KEYS, Placement, place

pytestmark = pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/config")
DIGEST = "@sha256:" + "a" * 64


def pods(folder):
    """(pipeline/executor, its container, its Kubernetes settings) of all compiled pipelines."""
    for name in COMPILED:
        spec, platform = yaml.safe_load_all((folder / name).read_text())
        settings = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        containers = spec["deploymentSpec"]["executors"]
        assert set(settings) == set(containers)
        for executor in containers:
            yield pytest.param(containers[executor]["container"], settings[executor], id=f"{name}/{executor}")


PODS = list(pods(FOLDER))


def seconds(duration):
    return int(duration.removesuffix("s"))


def needs_of(container):
    """The component's function is in its command."""
    return NEEDS[re.search(r"^def (\w+)\(", "".join(container["command"]), flags=re.MULTILINE).group(1)]


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_is_not_root_and_writes_to_tmp_only(container, settings):
    assert settings["securityContext"] == {"runAsUser": "10001", "runAsGroup": "0", "runAsNonRoot": True}
    mounts = {mount["mountPath"]: mount for mount in settings["emptyDirMounts"]}
    assert set(mounts) == {"/tmp", "/dev/shm"}
    assert all(mount["sizeLimit"] for mount in mounts.values())
    assert mounts["/dev/shm"]["medium"] == "Memory"


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_has_requests_limits_and_an_end(container, settings):
    resources = container["resources"]
    for bound in ("Request", "Limit"):
        assert resources[f"resourceCpu{bound}"]
        assert resources[f"resourceMemory{bound}"]
    assert int(settings["activeDeadlineSeconds"]) == needs_of(container).timeout_seconds


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_gets_the_secrets_of_its_task_and_no_others(container, settings):
    needs = needs_of(container)
    environment = {entry["envVar"] for secret in settings.get("secretAsEnv", []) for entry in secret["keyToEnv"]}
    wanted = {"EASE_LLM_API_KEY", "EASE_EMBEDDER_API_KEY", "EASE_JUDGE_API_KEY"} if needs.reaches_endpoint else set()
    wanted |= {SIGNING_KEYS[needs.signing]} if needs.signing else set()
    assert environment == wanted | {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENLINEAGE_API_KEY"}
    assert all(secret["optional"] for secret in settings.get("secretAsEnv", []))
    labels = settings["podMetadata"].get("labels", {})
    assert labels == ({"ease/reaches-endpoint": "true"} if needs.reaches_endpoint else {})


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_uses_the_proxies_and_authorities_of_its_network_where_there_are_some(container, settings):
    environment = {entry["envVar"] for each in settings["configMapAsEnv"] for entry in each["keyToEnv"]}
    assert environment >= {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "AWS_CA_BUNDLE"}
    assert all(each["optional"] for each in settings["configMapAsEnv"] + settings["configMapAsVolume"])
    assert [each["mountPath"] for each in settings["configMapAsVolume"]] == ["/etc/ease/authorities"]


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_is_told_its_run_and_image(container, settings):
    fields = {entry["name"]: entry["fieldPath"] for entry in settings["fieldPathAsEnv"]}
    assert fields["EASE_RUN_ID"] == "metadata.labels['pipeline/runid']"
    assert fields["EASE_IMAGE"] == "metadata.annotations['ease/image']"
    assert settings["podMetadata"]["annotations"]["ease/image"] == container["image"]


@pytest.mark.parametrize(("container", "settings"), PODS)
def test_a_pod_installs_nothing_and_carries_no_secret(container, settings):
    text = json.dumps([container, settings])
    assert "pip install" not in text
    assert not re.search(r"sk-[A-Za-z0-9]{8}|AKIA[A-Z0-9]{12}|Bearer [A-Za-z0-9]", text)
    assert "env" not in container
    assert re.search(r":\d+\.\d+\.\d+$|@sha256:[0-9a-f]{64}$", container["image"])
    assert settings["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("name", COMPILED)
def test_retries_wait_longer_each_time_and_user_errors_are_not_retried(name):
    spec, _ = yaml.safe_load_all((FOLDER / name).read_text())
    levels = [spec["root"]["dag"], *(c["dag"] for c in spec["components"].values() if "dag" in c)]
    tasks = {task: body for level in levels for task, body in level["tasks"].items() if "for-loop" not in task}
    for name_of_task, body in tasks.items():
        needs = NEEDS[re.sub(r"-\d+$", "", name_of_task).replace("-", "_")]
        if not needs.retries:
            assert "retryPolicy" not in body
        else:
            policy = body["retryPolicy"]
            assert policy["maxRetryCount"] == needs.retries
            assert (policy["backoffDuration"], policy["backoffFactor"]) == ("30s", 2.0)
            waits = sum(30 * 2**retry for retry in range(needs.retries))
            assert seconds(policy["backoffMaxDuration"]) >= (needs.retries + 1) * needs.timeout_seconds + waits


@pytest.mark.parametrize("days", [None, 30])
def test_a_run_may_take_as_long_as_all_tries_of_its_tasks_or_as_it_says(tmp_path, days):
    compile_all(tmp_path, Placement(run_days=days) if days else Placement())
    for name in COMPILED:
        _, platform = yaml.safe_load_all((tmp_path / name).read_text())
        allowed = platform["platforms"]["kubernetes"]["pipelineConfig"]["activeDeadlineSeconds"]
        if days:
            assert allowed == days * 24 * 3600
    tasks = ("build_dataset", "prefilter", "embed", "optimize", "evaluate")
    assert days or allowed >= sum((NEEDS[task].retries + 1) * NEEDS[task].timeout_seconds for task in tasks)


@pytest.mark.parametrize("name", COMPILED)
def test_the_files_are_what_kubeflow_reads(name):
    """Strictly: an unknown or misspelt field raises."""
    spec, platform = yaml.safe_load_all((FOLDER / name).read_text())
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    for settings in platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values():
        json_format.ParseDict(settings, kubernetes_executor_config_pb2.KubernetesExecutorConfig())
    config = platform["platforms"]["kubernetes"]["pipelineConfig"]
    kept = config["resourceTtlOnSuccess"], config["resourceTtlOnFailure"]
    assert kept == (86_400, 86_400), "what Kubeflow sets for each of them goes before what is set for both"


@pytest.mark.parametrize("prefilter", [False, True])
def test_gpus_go_to_the_tasks_that_use_one(tmp_path, prefilter):
    """`prefilter` computes on one for some prefilters only, and there may be many shards of it."""
    placement = Placement(
        gpu=True,
        shards=2,
        gpu_prefilter=prefilter,
        gpu_image=f"reg/gpu{DIGEST}",
        cpu_image=f"reg/cpu{DIGEST}",
        gpu_node_label="a=b",
    )
    compile_all(tmp_path, placement)
    with_gpu = {"embed", "optimize", *(["prefilter", "rank_shard"] if prefilter else [])}
    for pod in pods(tmp_path):
        container, settings = pod.values
        if needs_of(container) in [NEEDS[name] for name in with_gpu]:
            assert container["image"] == f"reg/gpu{DIGEST}"
            accelerator = container["resources"]["accelerator"]
            assert (accelerator["resourceType"], accelerator["resourceCount"]) == ("nvidia.com/gpu", "1")
            assert [entry["key"] for entry in settings["tolerations"]] == ["nvidia.com/gpu"]
            assert settings["nodeSelector"]["labels"] == {"a": "b"}
        else:
            assert container["image"] == f"reg/cpu{DIGEST}"
            assert "accelerator" not in container["resources"]


def test_a_gpu_for_the_prefilter_alone_is_refused():
    with pytest.raises(ConfigError, match="--gpu-prefilter adds to --gpu; give both"):
        Placement(gpu_prefilter=True)


@pytest.mark.parametrize("image", ["reg/ease", "reg:5000/ease", "reg/ease:latest", "reg/ease:main", "reg/ease:nightly"])
def test_an_image_that_may_change_is_refused(image):
    with pytest.raises(ConfigError, match="may change tomorrow"):
        Placement(cpu_image=image)


def test_a_stage_without_a_place_is_refused():
    @dsl.component(base_image="python:3.11", install_kfp_package=False)
    def unknown(): ...

    def graph():
        place(unknown())

    with pytest.raises(KeyError, match="unknown"):
        dsl.pipeline(graph)


def test_the_task_that_publishes_alone_gets_the_key_that_signs():
    assert {name: needs.signing for name, needs in NEEDS.items() if needs.signing} == {
        "build_dataset": "public-key",
        "evaluate": "private-key",
    }


def test_every_component_has_a_place():
    assert set(NEEDS) == {component.python_func.__name__ for component in components.ALL}


@pytest.mark.parametrize("workers", [0, 13])
def test_too_few_and_too_many_workers_are_refused(workers):
    with pytest.raises(ConfigError, match=f"--workers {workers} is not from 1 to 12; each takes cell after cell"):
        Placement(workers=workers)


@pytest.mark.parametrize("shards", [0, MOST_SHARDS + 1])
def test_too_few_and_too_many_shards_are_refused(shards):
    with pytest.raises(ConfigError, match=f"--shards {shards} is not from 1 to {MOST_SHARDS}"):
        Placement(shards=shards)


def test_of_too_many_shards_as_many_are_compiled_as_have_room(tmp_path, capsys):
    assert main(["compile", "--shards", "1000", "--output-dir", str(tmp_path)]) == 0
    assert "--shards 1000: a run's workflow has room for 3, which are larger; taking these" in capsys.readouterr().out
    assert "raw: '[0, 1, 2]'" in " ".join((tmp_path / "ease_pipeline.yaml").read_text().split()).replace('"', "'")
