"""The images of this checkout, built once per session where a Docker daemon answers and a base image is there."""

import os
import subprocess
from pathlib import Path

import docker
import pytest

ROOT = Path(__file__).parents[1]
BASE_IMAGE = os.environ.get("BASE_IMAGE", "python:3.11-slim-bookworm")


def build_image(name):
    """The tag of `ease-pipelines-NAME`; skips the test where it cannot be built."""
    try:
        client = docker.from_env()
        present = {tag for image in client.images.list() for tag in image.tags}
    except docker.errors.DockerException:
        pytest.skip("no Docker daemon answers: install docker.io and start dockerd to run the container tests")
    if BASE_IMAGE not in present:
        pytest.skip(
            f"the base image {BASE_IMAGE} is not on this machine: docker pull it, or name another in BASE_IMAGE"
        )
    built = subprocess.run(
        ["make", "images", f"IMAGES={name}", f"BASE_IMAGE={BASE_IMAGE}", "DOCKER_BUILD_OPTIONS=--network host"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    return next(tag for tag in built.stdout.split() if tag.startswith(f"ease-pipelines-{name}:"))
