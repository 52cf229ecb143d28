"""Checks of the images without building them."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted(ROOT.glob("images/*/Dockerfile"))
LOCKS = sorted(ROOT.glob("images/*.lock"))


def pins(path):
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^ \\\n]+)", path.read_text(), flags=re.MULTILINE))


def test_there_is_an_image_for_the_stages_and_one_for_the_local_llm():
    assert [path.parent.name for path in DOCKERFILES] == ["local-llm", "stages"]


@pytest.mark.parametrize(("image", "torch"), [("cpu", "cpu"), ("gpu", "cuda")])
def test_the_stages_have_an_image_for_each_build_of_torch(image, torch):
    planned = subprocess.run(
        ["make", "--dry-run", "images", f"IMAGES={image}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (
        f'{image}) file=stages; arguments="--build-arg TORCH={torch} --build-arg NAME=ease-pipelines-{image}"'
        in planned.stdout
    )
    assert (ROOT / f"images/torch-{torch}.lock").is_file()


def test_hadolint_finds_nothing():
    executable = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    found = subprocess.run([executable, *DOCKERFILES], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_an_image_runs_without_rights_and_needs_no_newer_builder(path):
    text = path.read_text()
    assert "USER 10001:0" in text
    assert "HOME=/tmp" in text
    assert "PYTHONSAFEPATH=1" in text
    assert "RUN --mount" not in text  # the classic builder and buildah would refuse or ignore it
    assert text.count("FROM ${BASE_IMAGE}") == 2
    for left_out in ("tests", "pipelines", "components"):
        assert not re.search(rf"^COPY .*\b{left_out}\b", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_locked_package_has_hashes(path):
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    assert all("--hash=sha256:" in entry for entry in entries if not entry.startswith("#"))


def test_locks_of_the_images_hold_what_is_tested():
    tested = {name.lower().replace("_", "-"): version for name, version in pins(ROOT / "requirements.lock").items()}
    for path in LOCKS:
        for name, version in pins(path).items():
            if name in tested:
                assert version.removesuffix("+cpu") == tested[name], f"{path.name}: {name}; run images/lock"


def test_everything_that_the_library_needs_is_locked():
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'^    "([a-z0-9-]+)",', text.split("[project.optional-dependencies]")[0], flags=re.MULTILINE)
    assert set(needed) <= set(pins(ROOT / "images/runtime.lock")) | set(pins(ROOT / "images/torch-cpu.lock"))
