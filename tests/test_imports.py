"""Imports point one way, and the library needs neither kfp nor kubernetes."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "ease_lib"
LAYERS = {  # each topic and what of ours it may import
    "errors": set(),
    "observations": set(),
    "processes": set(),
    "seeding": set(),
    "signals": set(),
    "endpoint_failures": {"errors"},
    "config": {"errors"},
    "comparison": {"config", "errors"},
    "tasks": {"config", "errors", "observations", "seeding"},
    "prefilter": set(),
    "embeddings": {"candidates", "errors", "seeding"},
    "embedding_endpoint": {"config", "embeddings", "endpoint_failures", "errors", "signals"},
    "artifacts": {"errors", "observations", "tasks"},
    "kept_embeddings": {"artifacts", "embeddings", "observations"},
    "evaluation": {"artifacts", "endpoint_failures", "errors", "observations", "seeding", "tasks"},
    "candidates": {"seeding"},
    "device": {"errors"},
    "surrogate": {"seeding"},
    "optimizers": {"candidates", "config", "embeddings", "prefilter", "seeding", "study", "surrogate"},
    "study": {"artifacts", "candidates", "errors", "evaluation", "observations", "optimizers", "tasks"},
    "reporting": {"evaluation", "seeding"},
    "endpoints": {"config", "errors", "processes", "tasks"},
    "lineage": {"artifacts", "config", "errors", "evaluation", "observations", "reporting", "tasks"},
}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("topic", LAYERS)
def test_a_topic_imports_only_what_lies_below_it(topic):
    files = [LIBRARY / f"{topic}.py"] if (LIBRARY / f"{topic}.py").exists() else sorted((LIBRARY / topic).glob("*.py"))
    topics = {path.stem for path in LIBRARY.iterdir()} - {"__init__"}
    for path in files:
        used = {module.split(".")[1] for module in imported_modules(path) if module.startswith("ease_lib.")} & topics
        assert used <= LAYERS[topic] | {topic}, path


def test_every_topic_has_its_layer():
    above = {"stages", "cli", "testing", "__init__"}
    found = {path.stem for path in LIBRARY.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("__py")}
    assert found - above == set(LAYERS)


def test_the_library_needs_neither_kfp_nor_kubernetes():
    modules = {module.split(".")[0] for path in LIBRARY.rglob("*.py") for module in imported_modules(path)}
    assert not modules & {"kfp", "kubernetes", "components", "pipelines"}


def test_the_environment_is_read_in_stages_only():
    """But for the settings that boto3 reads from it, which tell its clients apart, and what children inherit."""
    readers = {str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if "os.environ" in path.read_text()}
    assert readers == {
        "artifacts/store.py",
        "processes.py",
        "running/doctor.py",
        "keys.py",
        "running/run_context.py",
    }
