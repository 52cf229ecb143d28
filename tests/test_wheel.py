"""The library from its wheel, in an environment and a folder that know no checkout of it."""

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faulty_endpoint import MODEL, faulty_endpoint

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
ROWS = "text,team\n" + "".join(
    f"parcel {number} is late,shipping\ninvoice {number} is wrong,billing\n" for number in range(30)
)
QUICK = (
    *("--task", "table", "--task-uri", "tickets.csv", "--input-columns", "text", "--output-column", "team"),
    *("--pool-size", "20", "--validation-size", "6", "--test-size", "6", "--budget", "4"),
    *("--k", "2", "--llm-model", MODEL),
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A Python that has the wheel, and the packages of this one without what is installed from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a build in the checkout would take in what an earlier one left there
    shutil.copytree(ROOT / "ease_lib", source / "ease_lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run([*pip, *built], check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    packages = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], check=True, capture_output=True, text=True
    )
    lines = "\n".join(site.getsitepackages())  # a line names a folder, whose own .pth files are not read
    Path(packages.stdout.strip(), "dependencies.pth").write_text(lines, encoding="utf-8")
    (folder / "work").mkdir()
    (folder / "work/tickets.csv").write_text(ROWS, encoding="utf-8")
    return folder


def ease(environment, *arguments):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished = subprocess.run(
        [str(environment / "venv/bin/ease"), *arguments],
        cwd=environment / "work",
        env=variables,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert finished.returncode == 0, f"{arguments}: {finished.stdout[-2000:]}{finished.stderr[-3000:]}"
    return finished.stdout


@pytest.fixture(scope="module")
def endpoint():
    with faulty_endpoint(
        lambda prompt: "shipping" if prompt.rpartition("Input: ")[2].startswith("parcel") else "billing"
    ) as server:
        yield ("--llm-base-url", server.base_url)


def test_the_wheel_is_what_is_imported(environment):
    python, asked = environment / "venv/bin/python", "import ease_lib; print(ease_lib.__file__)"
    found = subprocess.run([python, "-c", asked], cwd=environment / "work", check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(environment))


def test_a_run_and_all_that_is_done_with_it(environment, endpoint):
    """All commands, but not those that need the pipeline of the checkout: processes, containers, clusters."""
    assert "requests" in ease(environment, "plan", *QUICK, *endpoint)
    ease(environment, "doctor", *QUICK, *endpoint)
    assert "LLM requests" in ease(environment, "run", *QUICK, *endpoint, "--output-dir", "runs/tickets")
    for question in ("show", "explain", "verify"):
        assert ease(environment, "lineage", question, "runs/tickets")
    assert "exports/openai/prompt.json" in ease(environment, "export", "runs/tickets", "--to", "openai")
    assert ease(environment, "forget", "--row", "parcel 1 is late", "--in", "runs/tickets")


def test_methods_are_compared(environment, endpoint):
    methods = ("--methods", "best_of_n, zero_shot", "--repeats", "2", "--output-dir", "runs/which")
    assert "best_of_n" in ease(environment, "compare", *QUICK, *endpoint, *methods)


def test_the_parameter_sets_are_in_it(environment):
    assert "requests" in ease(environment, "plan", "--params", "demo", "--llm-base-url", "http://127.0.0.1:9/v1")
