"""Imports point one way, and the library needs neither kfp nor kubernetes."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "ease_lib"
LAYERS = (  # a room imports from the rows above its own only, so there are no circles
    {"arrays", "digests", "equality", "errors", "seeding", "signals", "words"},
    {"documents", "keys", "notes", "progress", "urls"},
    {"machine"},
    {"config"},
    {"tasks"},
    {"artifacts"},
    {"prompts"},
    {"black_box"},
    {"embedding"},
    {"evaluation"},
    {"search"},
    {"lineage"},
    {"reporting"},
    {"result"},
    {"running"},
    {"stages"},  # which `running/graph.py` knows by name and loads when they are wanted
    {"cli", "program", "trials"},
    {"dspy"},
)


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def files_of(room):
    return [LIBRARY / f"{room}.py"] if (LIBRARY / f"{room}.py").exists() else sorted((LIBRARY / room).rglob("*.py"))


@pytest.mark.parametrize("row", range(len(LAYERS)))
def test_a_room_imports_only_what_lies_below_it(row):
    below, rooms = set().union(*LAYERS[:row]), set().union(*LAYERS)
    for room in LAYERS[row]:
        for path in files_of(room):
            used = {module.split(".")[1] for module in imported_modules(path) if module.startswith("ease_lib.")}
            assert (used & rooms) - {room} <= below, path


def test_every_room_has_its_layer():
    found = {path.stem for path in LIBRARY.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("__")}
    assert found == set().union(*LAYERS)


def test_components_know_the_library_and_pipelines_know_both():
    root = LIBRARY.parent
    for folder, others in (("components", {"pipelines"}), ("pipelines", set())):
        for path in (root / folder).glob("*.py"):
            assert not {module.split(".")[0] for module in imported_modules(path)} & (others | {"tests"}), path


def test_the_library_needs_neither_kfp_nor_kubernetes():
    modules = {module.split(".")[0] for path in LIBRARY.rglob("*.py") for module in imported_modules(path)}
    assert not modules & {"kfp", "kubernetes", "components", "pipelines"}


def test_the_environment_is_read_in_stages_only():
    """But for what boto3 reads there, which tells its clients apart, whom TLS trusts, what children get, colours."""
    readers = {
        str(path.relative_to(LIBRARY))
        for path in LIBRARY.rglob("*.py")
        if "os.environ" in path.read_text() and path.parent.name != "templates"  # code for the programs of others
    }
    assert readers == {
        "artifacts/store.py",
        "black_box/transport.py",
        "cli/__main__.py",
        "machine.py",
        "running/diagnosis.py",
        "keys.py",
        "running/run_context.py",
    }
