"""The same pipeline in real containers, under the restrictions of a cluster."""

import json
import os
import subprocess
import sys
import time

import docker
import pyarrow.parquet as pq
import pytest

from ease_lib.config.parsing import parse_parameters
from ease_lib.lineage.chain import follow
from ease_lib.lineage.verification import verify_place
from pipelines.containers import Containers, with_absolute_paths
from tests.support.faulty_endpoint import faulty_endpoint

QUICK = (
    *("--params", "smoke", "--pool-size", "30", "--validation-size", "8", "--test-size", "10", "--budget", "7"),
    *("--method", "ease", "--initial-design", "5", "--sampled-candidates", "300", "--shortlist-size", "30"),
)
BYTE_EQUAL = (
    *(f"build-dataset/{name}" for name in ("pool", "validation", "test")),
    *("prefilter/kept", "embed/embeddings"),
    *("optimize/best_sequence", "evaluate/predictions"),
)


def ease_run(*options):
    return subprocess.Popen(
        [sys.executable, "-m", "ease_lib.cli", "run", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, output + errors
    return output


def history(folder):
    columns = pq.read_table(folder / "history.parquet").to_pydict()
    return {name: values for name, values in columns.items() if "seconds" not in name and "request" not in name}


def test_every_file_that_the_task_names_is_taken_into_the_containers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {name: f"{name}.csv" for name in ("task_uri", "validation_uri", "test_uri")}
    for file in files.values():
        (tmp_path / file).touch()
    absolute = with_absolute_paths(parse_parameters({"task": "table", **files}))
    assert [getattr(absolute.task, name) for name in files] == [str(tmp_path / file) for file in files.values()]
    mounted = {mount["Source"]: mount["ReadOnly"] for mount in Containers(tmp_path / "out", {})._mounts(absolute)}
    assert mounted == {**{str(tmp_path / file): True for file in files.values()}, str(tmp_path / "out"): False}


def test_the_image_holds_what_a_stage_needs_and_nothing_more(cpu_image):
    """The image runs without network and rights, with a read-only root file system."""
    output = docker.from_env().containers.run(
        cpu_image,
        ["python", "/opt/smoke.py"],
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": ""},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        remove=True,
    )
    assert "uid 10001, gid 0" in output.decode()


@pytest.fixture(scope="module")
def options():
    """Options of a short run whose endpoint is slow enough to be interrupted."""
    with faulty_endpoint(lambda prompt: "praise" if len(prompt) % 3 else "question", latency_seconds=0.5) as server:
        yield (*QUICK, "--llm-base-url", server.base_url)


@pytest.fixture(scope="module")
def in_processes(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    finished(ease_run(*options, "--runner", "process", "--output-dir", folder))
    return folder


def test_containers_on_an_object_store_killed_half_way_write_what_processes_on_files_write(
    cpu_image, options, in_processes, tmp_path, s3_prefix
):
    """`s3_prefix` puts the store's address and keys into the environment, from where they reach the containers."""
    options = (*options, "--runner", "docker", "--output-dir", tmp_path, "--store-uri", s3_prefix)
    killed = ease_run(*options)
    for line in killed.stdout:
        if line.startswith("evaluation 3/7"):
            break
    (container,) = docker.from_env().containers.list(filters={"label": "ease-run"})
    container.kill()
    killed.communicate(timeout=60)
    assert killed.returncode != 0
    output = finished(ease_run(*options))
    assert "continuing:" in output
    assert "Winning prompt" in output
    for name in BYTE_EQUAL:
        ours, theirs = (max(folder.glob(f"pipeline/*/{name}")) for folder in (tmp_path, in_processes))
        assert ours.read_bytes() == theirs.read_bytes(), name
    assert history(tmp_path) == history(in_processes)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["llm"]["new_requests"] < report["llm"]["requests"]
    assert not (tmp_path / "store").exists()
    assert verify_place(str(tmp_path)).problems == ()
    software = follow(str(tmp_path)).head.record["software"]
    assert software["image"].startswith("ease-pipelines-cpu:")
    assert "@sha256:" in software["image"]


KILL = """
import os, signal
from pathlib import Path
others = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit() and folder.name != str(os.getpid())]
stages = [int(folder.name) for folder in others if b"executor_main" in (folder / "cmdline").read_bytes()]
os.kill(max(stages), signal.SIGKILL)
"""
"""The stage's own process is the youngest of those that Kubeflow's executor became."""


def test_a_process_that_is_killed_inside_its_container_is_begun_again_and_asks_nothing_twice(
    cpu_image, options, in_processes, tmp_path
):
    process = ease_run(*options, "--runner", "docker", "--output-dir", tmp_path)
    for line in process.stdout:
        if line.startswith("evaluation 3/7"):
            break
    (container,) = docker.from_env().containers.list(filters={"label": "ease-run"})
    assert container.exec_run(["python", "-c", KILL]).exit_code == 0
    output = finished(process)
    assert "the stage's process was killed by SIGKILL; it continues in 5 s (1 of 3 times)" in output
    assert "continuing: " in output
    assert history(tmp_path) == history(in_processes)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["llm"]["requests"] == json.loads((in_processes / "report.json").read_text())["llm"]["requests"]


def test_stopping_the_run_stops_its_container(cpu_image, options, tmp_path):
    process = ease_run(*options, "--runner", "docker", "--output-dir", tmp_path)
    for line in process.stdout:
        if line.startswith("check_prerequisites: started"):
            break
    process.terminate()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while left := docker.from_env().containers.list(filters={"label": "ease-run"}):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.2)


def test_without_a_daemon_the_remedy_is_named(tmp_path):
    missing = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    command = [sys.executable, "-m", "ease_lib.cli", "run", *QUICK, "--runner", "docker", "--output-dir", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=missing, check=False)
    assert ended.returncode == 2
    assert "--runner docker: no Docker daemon answers" in ended.stderr
