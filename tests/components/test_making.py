"""A task whose stages declare what they read and write has its component."""

import inspect
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from components.catalog import COMPONENTS
from components.making import task_component
from ease_lib.artifacts import contracts
from ease_lib.running.execution import artifact
from ease_lib.running.graph import ALL_TASKS, Stage, Task

TEXT = 'Exemplars: """quoted""", {braced}, C:\\new.'


@dataclass
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL, "Exemplar pool.", of="build_dataset.pool")
    tops: str = artifact(contracts.POOL_TOPS, "One of each shard.", of="rank_pool.tops", many=True)


@dataclass
class Outputs:
    summary: str = artifact(contracts.DATASET_SUMMARY, TEXT)
    page: str = artifact(None, "To look at.", page=True)


@pytest.fixture
def task(monkeypatch):
    module = ModuleType(
        "ease_lib.stages.count_rows", "Stage `count_rows`: count the rows\nof a pool.\n\nNo more of it."
    )
    module.Inputs, module.Outputs = Inputs, Outputs
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Task(name="count", stages=(Stage("count_rows"),), folder="counts")


def test_a_component_reads_the_folders_of_others_and_makes_its_own_and_pages_beside_it(task):
    spec = task_component(task).component_spec
    assert spec.description == "Count the rows of a pool."
    assert {name: (field.type, field.is_artifact_list) for name, field in spec.inputs.items()} == {
        "config": ("String", False),
        "data": ("system.Artifact@0.0.1", False),
        "ranking": ("system.Artifact@0.0.1", True),
    }
    kinds = {name: field.type.partition(".")[2].partition("@")[0] for name, field in spec.outputs.items()}
    assert kinds == {"counts": "Artifact", "page": "HTML"}


def test_what_lies_in_a_folder_stands_in_its_text(task):
    component = task_component(task)
    assert f"counts: count_rows/summary: {TEXT}" in component.python_func.__doc__
    assert "build_dataset/pool: Exemplar pool." in component.component_spec.inputs["data"].description


def test_kubeflow_gets_the_function_that_runs_here(task):
    component = task_component(task)
    source = inspect.getsource(component.python_func)
    assert source.startswith("def count(\n    config: str,\n    data: dsl.Input[dsl.Artifact],\n")
    assert source in "".join(component.component_spec.implementation.container.command)


def test_every_task_has_a_component_of_its_name():
    assert set(COMPONENTS) == set(ALL_TASKS)
    for name, component in COMPONENTS.items():
        assert component.name == name.replace("_", "-")
