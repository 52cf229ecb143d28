"""A stage that declares what it reads and writes has its component."""

import inspect
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from components.catalog import COMPONENTS
from components.making import stage_component
from ease_lib.artifacts import contracts
from ease_lib.running.execution import artifact
from ease_lib.running.graph import STAGES, Stage

TEXT = 'Exemplars: """quoted""", {braced}, C:\\new.'


@dataclass
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL, TEXT, of="build_dataset.pool")
    tops: str = artifact(contracts.POOL_TOPS, "One of each shard.", of="rank_pool.tops", many=True)


@dataclass
class Outputs:
    summary: str = artifact(contracts.DATASET_SUMMARY, "What was counted.")
    page: str = artifact(None, "To look at.", page=True)


@pytest.fixture
def stage(monkeypatch):
    module = ModuleType(
        "ease_lib.stages.count_rows", "Stage `count_rows`: count the rows\nof a pool.\n\nNo more of it."
    )
    module.Inputs, module.Outputs = Inputs, Outputs
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Stage(name="count_rows")


def test_inputs_and_outputs_have_their_kinds_and_texts(stage):
    spec = stage_component(stage).component_spec
    assert spec.description == "Count the rows of a pool."
    assert {name: (field.type, field.is_artifact_list) for name, field in spec.inputs.items()} == {
        "config": ("String", False),
        "pool": ("system.Dataset@0.0.1", False),
        "tops": ("system.Dataset@0.0.1", True),
    }
    assert spec.inputs["pool"].description == TEXT
    kinds = {name: field.type.partition(".")[2].partition("@")[0] for name, field in spec.outputs.items()}
    assert kinds == {
        "summary": "Artifact",
        "page": "HTML",
        "metrics": "Metrics",
        "lineage": "Artifact",
        "chain": "Markdown",
    }


def test_kubeflow_gets_the_function_that_runs_here(stage):
    component = stage_component(stage)
    source = inspect.getsource(component.python_func)
    assert source.startswith("def count_rows(\n    config: str,\n    pool: dsl.Input[dsl.Dataset],\n")
    assert source in "".join(component.component_spec.implementation.container.command)


def test_every_stage_has_a_component_of_its_name():
    assert set(COMPONENTS) == set(STAGES)
    for name, component in COMPONENTS.items():
        assert component.name == name.replace("_", "-")
