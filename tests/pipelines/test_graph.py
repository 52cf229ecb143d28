"""The compiled pipeline: its form, its contracts, its images, its secrets."""

import inspect
import json
import re

import pytest
import yaml
from kfp import components as kfp_components

from components import images
from ease_lib.comparison import plan
from ease_lib.config.parsing import declared_parameters, parse_parameters
from ease_lib.config.sections import ComparisonAxes
from ease_lib.running.graph import LOOPED, TASKS, maker_of
from pipelines import parameter_sets
from pipelines.__main__ import FOLDER, PARAMS_README, check_compiled, params_readme
from pipelines.arguments import form_arguments
from pipelines.ease_pipeline import ease_pipeline


@pytest.fixture(scope="module")
def spec():
    return next(yaml.safe_load_all((FOLDER / "ease_pipeline.yaml").read_text()))


@pytest.fixture(scope="module")
def comparison_spec():
    return next(yaml.safe_load_all((FOLDER / "comparison_pipeline.yaml").read_text()))


def test_the_form_of_the_comparison_has_its_axes_with_their_help(comparison_spec):
    inputs = comparison_spec["root"]["inputDefinitions"]["parameters"]
    for name, parameter in declared_parameters(ComparisonAxes).items():
        assert inputs[name].get("defaultValue", "") == parameter.default
        assert inputs[name]["description"] == parameter.help
    assert set(inputs) == {*declared_parameters(ComparisonAxes), "seed", "store_uri", "parameters"}


def test_committed_files_are_current():
    assert check_compiled() == 0


def test_compiled_pipeline_loads():
    loaded = kfp_components.load_component_from_file(str(FOLDER / "ease_pipeline.yaml"))
    assert loaded.pipeline_spec.pipeline_info.name == "ease"


def test_run_form_is_what_is_declared_in_order_with_help(spec):
    fields = [parameter for parameter in declared_parameters().values() if parameter.form]
    signature = inspect.signature(ease_pipeline.pipeline_func).parameters
    assert list(signature) == [parameter.name for parameter in fields] + ["advanced"]
    assert len(signature) <= 25
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    for parameter in fields:
        assert signature[parameter.name].annotation is parameter.type
        assert inputs[parameter.name].get("defaultValue", "") == parameter.default
        assert inputs[parameter.name]["description"] == parameter.help


def edges(spec):
    """(task, its input, producing task, its output) of every folder, into the loop over shards and out of it too."""
    tasks = spec["root"]["dag"]["tasks"]
    (loop,) = (name for name in tasks if name.startswith("for-loop"))
    inside = spec["components"][f"comp-{loop}"]["dag"]
    for name, task in tasks.items():
        for field, source in task.get("inputs", {}).get("artifacts", {}).items():
            given = source["taskOutputArtifact"]
            producer, output = given["producerTask"], given["outputArtifactKey"]
            if producer == loop:
                (selected,) = inside["outputs"]["artifacts"][output]["artifactSelectors"]
                producer, output = selected["producerSubtask"], selected["outputArtifactKey"]
            if name != loop:
                yield name, field, producer, output
    for name, task in inside["tasks"].items():
        for field, source in task["inputs"]["artifacts"].items():
            outer = tasks[loop]["inputs"]["artifacts"][source["componentInputArtifact"]]["taskOutputArtifact"]
            yield name, field, outer["producerTask"], outer["outputArtifactKey"]


def test_every_task_gets_the_folders_in_which_lies_what_its_stages_read(spec):
    """That each artifact is read under the contract it was written with: tests/running/test_graph.py."""
    wanted = {
        (task.command, maker.folder, maker.command, maker.folder)
        for task in TASKS
        for stage in task.stages
        for source in stage.sources.values()
        if (maker := maker_of(source)) is not task
    }
    assert sorted(edges(spec)) == sorted(wanted)


def layers(spec):
    """(name of a layer, its tasks, their components) of a compiled pipeline: what the dashboard shows at once."""
    components = spec["components"]
    found = {"root": spec["root"]["dag"], **{name: body["dag"] for name, body in components.items() if "dag" in body}}
    for name, dag in found.items():
        yield name, dag["tasks"], [components[task["componentRef"]["name"]] for task in dag["tasks"].values()]


def test_no_layer_of_the_graph_has_more_nodes_than_a_screen_holds(spec, comparison_spec):
    for name, tasks, used in (*layers(spec), *layers(comparison_spec)):
        artifacts = [one for body in used for one in body.get("outputDefinitions", {}).get("artifacts", {})]
        assert len(tasks) + len(artifacts) <= 20, (name, sorted(tasks), sorted(artifacts))


def test_a_plain_run_is_thirteen_pods(spec):
    """A driver for each layer and each pass of a loop, a driver and an executor for each task that is not a layer."""
    pods = 0
    for name, _, used in layers(spec):
        passes = 1 + ("for-loop" in name)  # one shard
        pods += passes + sum(2 for body in used if "executorLabel" in body)
    assert pods == 13


def test_one_task_has_the_numbers_by_which_runs_are_compared(spec):
    kinds = [
        (name, output, declared["artifactType"]["schemaTitle"])
        for name, body in spec["components"].items()
        for output, declared in body.get("outputDefinitions", {}).get("artifacts", {}).items()
    ]
    assert [kind[:2] for kind in kinds if kind[2] == "system.Metrics"] == [("comp-conclude", "metrics")]
    assert [kind[:2] for kind in kinds if kind[2] == "system.HTML"] == [("comp-conclude", "page")]


def test_every_task_gets_its_own_parameters(spec):
    tasks = spec["root"]["dag"]["tasks"]
    for name in {task.command for task in TASKS} - {"begin", "rank-pool"}:
        source = tasks[name]["inputs"]["parameters"]["config"]["taskOutputParameter"]
        assert (source["producerTask"], source["outputParameterKey"]) == ("begin", name.replace("-", "_"))
    loop = tasks["for-loop-1"]
    (channel,) = loop["inputs"]["parameters"]
    source = loop["inputs"]["parameters"][channel]["taskOutputParameter"]
    assert (source["producerTask"], source["outputParameterKey"]) == ("begin", LOOPED)
    assert loop["parameterIterator"]["items"]["inputParameter"] == channel


def test_no_stage_is_taken_from_kubeflows_step_cache(spec):
    """Its key holds the ids of the input artifacts, which every run makes anew, so it would never hit."""
    dags = [spec["root"]["dag"], *(body["dag"] for body in spec["components"].values() if "dag" in body)]
    tasks = {name: task for dag in dags for name, task in dag["tasks"].items()}
    assert [name for name, task in tasks.items() if task.get("cachingOptions", {}).get("enableCache")] == []


def test_containers_install_nothing_and_have_pinned_images(spec, comparison_spec):
    executors = [
        *spec["deploymentSpec"]["executors"].values(),
        *comparison_spec["deploymentSpec"]["executors"].values(),
    ]
    for executor in executors:
        container = executor["container"]
        assert container["image"] == images.CPU
        assert not container["image"].endswith(":latest")
        assert "pip install" not in json.dumps(container)


def test_no_secret_is_a_parameter():
    names = " ".join(declared_parameters())
    assert not re.search(r"key|token(?!s)|secret|password", names)


def test_changed_parameters_travel_by_form_or_advanced():
    arguments = form_arguments(parse_parameters({"k": 3, "nu": 0.5}))
    assert arguments == {"k": 3, "advanced": '{"nu": 0.5}'}


@pytest.mark.parametrize("name", ["demo", "smoke", "paper"])
def test_named_parameter_sets_are_valid(name):
    assert parse_parameters(parameter_sets.read_parameter_set(name))


@pytest.mark.parametrize(
    ("name", "cells"),
    [("paper-tables", 18 * 3 * 14), ("knowledge", 2 * 2 * 5 * 3), ("equal-requests", 10 * 4 * 5)],
)
def test_named_comparisons_are_valid(name, cells):
    assert len(plan({"task_uri": "folder", **parameter_sets.read_parameter_set(name)})) == cells


def test_readme_lists_every_parameter_as_declared():
    """`python -m pipelines params --write` makes it current."""
    assert params_readme() == PARAMS_README.read_text()
