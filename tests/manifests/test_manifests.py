"""Objects that `kubectl apply -k` sends: valid, pods hardened, no secret in git, no dangling reference."""

import argparse
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ease_lib import __version__
from ease_lib.cli import doctor
from pipelines.placement import (
    IMAGE_ANNOTATION,
    LLM_SECRET,
    OBJECT_STORE_CONFIG,
    OBJECT_STORE_SECRET,
    OBJECT_STORE_SETTINGS,
)

MANIFESTS = Path(__file__).parents[2] / "manifests"
BUILDS = ("base", "overlays/local", "overlays/production")
COMPONENTS = sorted(path.name for path in (MANIFESTS / "components").iterdir())
KUBERNETES = "1.36"
OLDER = {"admissionregistration.k8s.io/v1beta1": "1.34"}
"""Versions of Kubernetes that still serve these."""
CLUSTER_SCOPED = ("Namespace", "Profile", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
CUSTOM_FIELDS = {  # of objects that Kubernetes itself does not know
    "ExternalSecret": {"refreshInterval", "secretStoreRef", "target", "data"},
    "Profile": {"owner", "plugins", "resourceQuotaSpec"},
    "Pipeline": {"displayName", "description", "tags"},
    "PipelineVersion": {
        *("pipelineName", "displayName", "description", "versionName", "codeSourceURL", "pipelineSpec"),
        *("platformSpec", "pipelineSpecURI", "tags"),
    },
}
NEEDED_EGRESS = {"to-name-service", "to-kubeflow", "to-api-server"}


def built(folder):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine: install it to check the manifests")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def overlay(folder, kustomization):
    """Objects that a user's own overlay next to ours would build."""
    own = folder / "manifests" / "overlays" / "own"
    if not own.exists():
        shutil.copytree(MANIFESTS, folder / "manifests")
        own.mkdir()
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(own)


def in_its_namespace(*names):
    """The base with components, for a namespace of our own."""
    return {"resources": ["../../base"], "components": [f"../../components/{name}" for name in names]}


def beside_kubeflow(*names):
    """Render the local overlay with these components before and behind its own."""
    ours = yaml.safe_load((MANIFESTS / "overlays/local/kustomization.yaml").read_text())
    before, behind = ([f"../../components/{name}"] for name in names)
    return {**ours, "components": list(dict.fromkeys([*before, *ours["components"], *behind]))}


def with_component(name, folder):
    return overlay(folder, in_its_namespace(name))


@pytest.fixture(scope="module", params=[*BUILDS, *COMPONENTS])
def objects(request, tmp_path_factory):
    if request.param in BUILDS:
        return built(MANIFESTS / request.param)
    return with_component(request.param, tmp_path_factory.mktemp("overlay"))


def pods_of(objects):
    return [item["spec"]["template"]["spec"] for item in objects if item["kind"] == "Deployment"]


def named(objects, kind):
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def test_every_object_is_valid(objects):
    for item in objects:
        if item["kind"] in CUSTOM_FIELDS:
            assert set(item["spec"]) <= CUSTOM_FIELDS[item["kind"]]
        else:
            kubernetes_validate.validate(item, OLDER.get(item["apiVersion"], KUBERNETES), strict=True)


def test_every_object_is_in_the_one_namespace_or_in_none(objects):
    assert {item["metadata"].get("namespace") for item in objects if item["kind"] in CLUSTER_SCOPED} <= {None}
    namespaces = {item["metadata"].get("namespace") for item in objects if item["kind"] not in CLUSTER_SCOPED}
    assert namespaces in ({"ease"}, {"kubeflow"})


def test_names_are_unique(objects):
    names = [(item["kind"], item["metadata"]["name"]) for item in objects]
    assert len(names) == len(set(names))


def assert_restricted(pod):
    """The restricted standard, with a read-only root."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any("hostPath" in volume for volume in pod["volumes"])
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_pods_meet_the_restricted_standard_with_a_read_only_root(objects):
    for pod in pods_of(objects):
        assert_restricted(pod)


def test_the_doctor_runs_with_the_rights_of_a_stage_against_the_store_that_stages_use():
    (pod,) = yaml.safe_load_all((MANIFESTS / "doctor.yaml").read_text())
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    assert_restricted(pod["spec"])
    (container,) = pod["spec"]["containers"]
    assert container["image"] == f"ease-pipelines-cpu:{__version__}"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
    assert container["command"] == ["ease", "doctor"]
    command_line = argparse.ArgumentParser()
    doctor.add_options(command_line)
    command_line.parse_args(container["args"])


def test_pods_have_probes_resources_and_fixed_images(objects):
    for pod in pods_of(objects):
        for container in pod["containers"]:
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]) & set(container["resources"]["limits"])
            assert re.search(r":v?\d+\.\d+\.\d+$|@sha256:[0-9a-f]{64}$", container["image"])
            if container["image"].startswith("ease-"):
                assert container["image"].endswith(f":{__version__}")


def test_services_find_their_pods(objects):
    labels = [item["spec"]["template"]["metadata"]["labels"] for item in objects if item["kind"] == "Deployment"]
    for service in named(objects, "Service").values():
        selector = service["spec"]["selector"].items()
        assert any(selector <= label.items() for label in labels)


def test_no_secret_stands_in_git(objects):
    assert not named(objects, "Secret")
    assert not re.search(r"sk-[A-Za-z0-9]{8}|AKIA[A-Z0-9]{12}|minio123", json.dumps(objects))


def test_roles_name_what_they_may_read_and_have_an_account(objects):
    for role in named(objects, "Role").values():
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            if {"secrets", "configmaps"} & set(rule["resources"]):
                assert rule["resourceNames"]
                assert rule["verbs"] == ["get"]
    for binding in named(objects, "RoleBinding").values():
        assert binding["roleRef"]["name"] in named(objects, "Role")
        assert all(subject["name"] in named(objects, "ServiceAccount") for subject in binding["subjects"])
        assert {subject["namespace"] for subject in binding["subjects"]} == {binding["metadata"]["namespace"]}


def test_a_namespace_of_our_own_lets_nothing_in_and_out_only_what_a_run_needs(objects):
    policies = named(objects, "NetworkPolicy")
    if "default-deny" in policies:
        assert policies["default-deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        assert set(policies) >= NEEDED_EGRESS
        assert all(policies[name]["spec"]["podSelector"] == {} for name in NEEDED_EGRESS)
        assert named(objects, "LimitRange"), "with a quota, Argo's containers need defaults"
    else:  # elsewhere a policy for our stages' way out would cut off everything else of theirs
        stages = [item for item in policies.values() if "ease/reaches-endpoint" in str(item["spec"]["podSelector"])]
        assert not stages
        assert not named(objects, "ResourceQuota")


def test_a_namespace_enforces_the_restricted_standard(objects):
    for namespace in named(objects, "Namespace").values():
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_settings_have_the_names_that_the_stages_read(objects):
    assert set(named(objects, "ConfigMap")[OBJECT_STORE_CONFIG]["data"]) == set(OBJECT_STORE_SETTINGS)
    wanted = {LLM_SECRET, OBJECT_STORE_SECRET}
    for name, external in named(objects, "ExternalSecret").items():
        assert name == external["spec"]["target"]["name"]
        assert name in wanted


@pytest.mark.parametrize("component", [None, "external-object-store", "multi-user-dashboard"])
def test_the_object_stores_settings_agree(component, tmp_path):
    objects = with_component(component, tmp_path) if component else built(MANIFESTS / "base")
    store, launcher = (named(objects, "ConfigMap")[name]["data"] for name in (OBJECT_STORE_CONFIG, "kfp-launcher"))
    ((scheme, providers),) = yaml.safe_load(launcher["providers"]).items()
    assert launcher["defaultPipelineRoot"].startswith(f"{scheme}://")
    provider = providers["default"]
    scheme = "http" if provider["disableSSL"] else "https"
    assert store["endpoint"] == f"{scheme}://{provider['endpoint']}"
    assert store["region"] == provider["region"]
    assert "/private-artifacts/ease/" in launcher["defaultPipelineRoot"]


def ways_out(objects, labels):
    """(peers, ports) that the policies open for a pod with these labels; no peers is everywhere."""
    for policy in named(objects, "NetworkPolicy").values():
        selected = policy["spec"]["podSelector"].get("matchLabels", {})
        for rule in policy["spec"].get("egress", []) if selected.items() <= labels.items() else ():
            yield rule.get("to", []), {port["port"] for port in rule["ports"]}


def test_every_pod_of_a_run_reaches_the_object_store_in_the_cluster():
    kubeflow = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kubeflow"}}}
    ways = list(ways_out(built(MANIFESTS / "base"), {}))
    assert any(kubeflow in peers and 8333 in ports for peers, ports in ways)


def test_every_pod_of_a_run_reaches_an_object_store_outside_and_nothing_else_there(tmp_path):
    objects = with_component("external-object-store", tmp_path)
    without = list(ways_out(built(MANIFESTS / "base"), {}))
    (added,) = [way for way in ways_out(objects, {}) if way not in without]
    assert added == ([{"ipBlock": {"cidr": "203.0.113.0/24"}}], {443})
    assert all(peers for peers, _ in ways_out(objects, {})), "a pod that asks no endpoint has no way to everywhere"


def test_the_quota_counts_pods_that_are_not_finished():
    """Finished ones stay for a day, 23 of each run: the fifth run would be refused."""
    hard = named(built(MANIFESTS / "base"), "ResourceQuota")["ease"]["spec"]["hard"]
    assert int(hard["pods"]) > 23
    assert not any(name.startswith("count/") for name in hard)


def test_a_name_prefix_renames_the_pipeline_that_a_version_refers_to(tmp_path):
    kustomization = {"namePrefix": "team-", "components": ["../../components/native-pipelines"]}
    objects = overlay(tmp_path, kustomization)
    for version in named(objects, "PipelineVersion").values():
        assert version["spec"]["pipelineName"] in named(objects, "Pipeline")


ONE_OF_EACH = [name for name in COMPONENTS if name != "read-only-root-beta"]


@pytest.mark.rooms("manifests", "pipelines")
@pytest.mark.parametrize("first", ONE_OF_EACH)
@pytest.mark.parametrize(
    ("placed", "namespace", "unfit"),
    [(in_its_namespace, "ease", ()), (beside_kubeflow, "kubeflow", ("profile",))],  # a profile owns another namespace
)
def test_any_two_components_fit_in_any_order(placed, namespace, unfit, first, tmp_path):
    for second in ONE_OF_EACH:
        is_seen = placed is in_its_namespace and second < first  # there nothing is done to those before alone
        if first == second or is_seen or {first, second} & set(unfit):
            continue
        objects = overlay(tmp_path, placed(first, second))
        found = {item["metadata"].get("namespace") for item in objects if item["kind"] not in CLUSTER_SCOPED}
        assert found == {namespace}, second
        names = [(item["kind"], item["metadata"]["name"]) for item in objects]
        assert len(names) == len(set(names)), second
        policies, maps = named(objects, "NetworkPolicy"), named(objects, "ConfigMap")
        assert not any(name.startswith("to-") for name in policies) or namespace == "ease", second
        for deployment in (item for item in objects if item["kind"] == "Deployment"):
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            if labels["app.kubernetes.io/component"] == "vllm":  # it fetches weights
                ports = set(itertools.chain.from_iterable(ports for _, ports in ways_out(objects, labels)))
                assert ports >= {53, 443}, second
        if "external-object-store" in (first, second):
            assert "s3.yours.example.com" in maps["kfp-launcher"]["data"]["providers"], second
            assert maps["ease-object-store"]["data"]["endpoint"] == "https://s3.yours.example.com", second
            assert namespace == "kubeflow" or "to-external-object-store" in policies, second
        if "cluster-addresses" in (first, second):
            assert namespace == "kubeflow" or "to-cluster-addresses" in policies, second


def test_the_read_only_root_is_for_our_stages_wherever_they_run(tmp_path):
    policies = named(with_component("read-only-root", tmp_path), "MutatingAdmissionPolicy")
    (condition,) = policies["ease-read-only-root"]["spec"]["matchConditions"]
    assert f'annotations["{IMAGE_ANNOTATION}"]' in condition["expression"]


def test_kubeflow_makes_what_its_pods_need_in_the_namespace():
    """Kubeflow's controller looks for this label (`sync.py` of the profile controller)."""
    labels = named(built(MANIFESTS / "base"), "Namespace")["ease"]["metadata"]["labels"]
    assert labels["pipelines.kubeflow.org/enabled"] == "true"
