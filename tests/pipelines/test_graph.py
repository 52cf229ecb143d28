"""The compiled pipeline: its form, its contracts, its images, its secrets."""

import inspect
import json
import re
from pathlib import Path

import docstring_parser
import pytest
import yaml
from kfp import components as kfp_components

import components
from components import images
from ease_lib.config.comparison import plan
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import comparison_form, declared_parameters, parse_parameters, run_form
from ease_lib.config.sections import ComparisonAxes
from ease_lib.running.graph import CHECK, COMPONENTS, STAGES, folder_of
from pipelines.arguments import form_arguments
from pipelines.comparison_pipeline import comparison_pipeline
from pipelines.compilation import FOLDER, check_compiled, compile_all
from pipelines.ease_pipeline import ease_pipeline
from pipelines.parameter_tables import PARAMS_README, params_readme
from pipelines.placement import Placement

SETS = Path(__file__).parents[1] / "benchmarks" / "sets"


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
        assert plain(inputs[name]["description"]) == parameter.help
    assert set(inputs) == {*declared_parameters(ComparisonAxes), "seed", "store_uri", "parameters"}


def test_committed_files_are_current():
    assert check_compiled() == 0


def test_compiled_pipeline_loads():
    loaded = kfp_components.load_component_from_file(str(FOLDER / "ease_pipeline.yaml"))
    assert loaded.pipeline_spec.pipeline_info.name == "ease"


def test_the_run_form_has_25_fields_with_their_help(spec):
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    assert len(inputs) == 25
    for parameter in run_form():
        assert inputs[parameter.name].get("defaultValue", "") == parameter.default
        assert plain(inputs[parameter.name]["description"]) == parameter.help
        assert f"| {parameter.name} |" in spec["pipelineInfo"]["description"]


def test_the_form_offers_the_values_of_fields_that_have_a_few(spec, comparison_spec):
    """No server of 2.17 accepts a value outside the list, so free text such as `metric` has no list."""
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    offered = {name: each["literals"] for name, each in inputs.items() if "literals" in each}
    assert offered == {name: list(declared_parameters()[name].choices) for name in ("task", "prefilter", "method")}
    assert all(inputs[name]["defaultValue"] in values for name, values in offered.items())
    assert "literals" not in json.dumps(comparison_spec)


@pytest.mark.parametrize(
    ("pipeline", "component", "fields"),
    [
        (ease_pipeline, components.build_dataset, run_form()),
        (comparison_pipeline, components.plan_comparison, comparison_form()),
    ],
)
def test_a_form_is_written_as_it_is_declared_in_the_pipeline_and_in_its_first_component(pipeline, component, fields):
    declared = [(field.name, field.type, field.default) for field in fields]
    shown = inspect.signature(pipeline.pipeline_func).parameters.values()
    assert [(field.name, field.annotation, field.default) for field in shown] == declared
    taken = inspect.signature(component.python_func).parameters
    assert [(name, taken[name].annotation, taken[name].default) for name, *_ in declared] == declared
    for function in (pipeline.pipeline_func, component.python_func):
        said = {each.arg_name: plain(each.description) for each in docstring_parser.parse(function.__doc__).params}
        assert {field.name: said[field.name] for field in fields} == {field.name: field.help for field in fields}


def plain(text):
    return " ".join(text.split())


def test_every_component_reads_what_its_stages_read_and_nothing_else(spec):
    """The edges of the pipeline, which is written by hand, are those that the stages declare."""
    tasks = spec["root"]["dag"]["tasks"]
    for component, stages in COMPONENTS.items():
        wanted = {
            (folder_of(maker.component), maker.outputs[source.partition(".")[2]])
            for stage in map(STAGES.get, stages)
            if stage is not CHECK
            for source in stage.sources.values()
            if (maker := STAGES[source.partition(".")[0]]).component != component
        }
        given = {
            (each["taskOutputArtifact"]["producerTask"], each["taskOutputArtifact"]["outputArtifactKey"])
            for each in tasks[folder_of(component)].get("inputs", {}).get("artifacts", {}).values()
        }
        assert given == wanted, component


def test_the_search_gets_no_test_set(spec):
    assert "test" not in spec["components"]["comp-optimize"]["inputDefinitions"]["artifacts"]


def test_artifacts_have_the_types_by_which_the_dashboard_shows_them(spec):
    kinds = {
        (name.removeprefix("comp-"), output): declared["artifactType"]["schemaTitle"].removeprefix("system.")
        for name, body in spec["components"].items()
        for output, declared in body.get("outputDefinitions", {}).get("artifacts", {}).items()
    }
    assert {place for place, kind in kinds.items() if kind == "Dataset"} == {
        *(("build-dataset", name) for name in ("pool", "validation", "test")),
        ("prefilter", "kept"),
        *(("embed", name) for name in ("embeddings", "instructions")),
        ("optimize", "history"),
        ("evaluate", "predictions"),
    }
    assert {place: kind for place, kind in kinds.items() if kind not in ("Dataset", "Artifact")} == {
        ("evaluate", "metrics"): "Metrics",
        ("evaluate", "confusion"): "ClassificationMetrics",
        ("evaluate", "page"): "HTML",
        ("evaluate", "verdict"): "Markdown",
    }
    assert {component for component, output in kinds if output == "lineage"} == set(map(folder_of, COMPONENTS))


def layers(spec):
    """(name of a layer, its tasks, their components) of a compiled pipeline: what the dashboard shows at once."""
    components = spec["components"]
    found = {"root": spec["root"]["dag"], **{name: body["dag"] for name, body in components.items() if "dag" in body}}
    for name, dag in found.items():
        yield name, dag["tasks"], [components[task["componentRef"]["name"]] for task in dag["tasks"].values()]


MOST_NODES = 26
"""Largest number of nodes in one layer: more do not fit on a screen."""


def test_no_layer_of_the_graph_has_more_nodes_than_a_screen_holds(spec, comparison_spec):
    for name, tasks, used in (*layers(spec), *layers(comparison_spec)):
        artifacts = [one for body in used for one in body.get("outputDefinitions", {}).get("artifacts", {})]
        assert len(tasks) + len(artifacts) <= MOST_NODES, (name, sorted(tasks), sorted(artifacts))


def pods(spec, passes=1):
    """A driver for each layer and each pass of a loop, a driver and an executor for each task that is not a layer."""
    count = 0
    for name, _, used in layers(spec):
        tasks = sum(2 for body in used if "executorLabel" in body)
        count += passes * (1 + tasks) if "for-loop" in name else 1 + tasks
    return count + ("for-loop" in " ".join(name for name, *_ in layers(spec)))


def test_a_plain_run_is_eleven_pods(spec):
    assert pods(spec) == 11


def test_shards_are_in_a_graph_that_is_compiled_for_them_alone(spec, tmp_path):
    compile_all(tmp_path, Placement(shards=3))
    sharded = next(yaml.safe_load_all((tmp_path / "ease_pipeline.yaml").read_text()))
    assert pods(sharded, passes=3) == 12 + 3 * 3
    (loop,) = (name for name in sharded["root"]["dag"]["tasks"] if name.startswith("for-loop"))
    assert json.loads(sharded["root"]["dag"]["tasks"][loop]["parameterIterator"]["items"]["raw"]) == [0, 1, 2]
    rankings = sharded["root"]["dag"]["tasks"]["prefilter"]["inputs"]["artifacts"]["rankings"]["taskOutputArtifact"]
    assert rankings["producerTask"] == loop
    assert "rankings" not in spec["root"]["dag"]["tasks"]["prefilter"]["inputs"]["artifacts"]


def test_every_component_gets_its_own_parameters_as_a_struct(spec):
    tasks = spec["root"]["dag"]["tasks"]
    for component in list(COMPONENTS)[1:]:
        source = tasks[folder_of(component)]["inputs"]["parameters"]["parameters"]["taskOutputParameter"]
        assert (source["producerTask"], source["outputParameterKey"]) == ("build-dataset", f"for_{component}")
        inputs = spec["components"][f"comp-{folder_of(component)}"]["inputDefinitions"]["parameters"]
        assert inputs["parameters"]["parameterType"] == "STRUCT"


@pytest.mark.parametrize("workers", [1, 8, 12])
def test_a_comparison_has_as_many_workers_as_it_was_compiled_for_and_a_report_behind_them(tmp_path, workers):
    compile_all(tmp_path, Placement(workers=workers))
    spec = next(yaml.safe_load_all((tmp_path / "comparison_pipeline.yaml").read_text()))
    tasks = spec["root"]["dag"]["tasks"]
    running = {name: task for name, task in tasks.items() if name.startswith("run-cells")}
    assert len(tasks) == workers + 2
    numbers = [task["inputs"]["parameters"]["worker"]["runtimeValue"]["constant"] for task in running.values()]
    assert sorted(numbers) == list(range(workers)), "by its number a worker that is tried again finds its cell"
    assert set(tasks["report-comparison"]["dependentTasks"]) == {"plan-comparison", *running}
    assert pods(spec) == 1 + 2 * (workers + 2)


def test_defaults_of_an_installation_are_those_of_its_form(tmp_path):
    compile_all(tmp_path, values={"budget": 60, "task": "lr", "order_report": 2})
    spec = next(yaml.safe_load_all((tmp_path / "ease_pipeline.yaml").read_text()))
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    assert (inputs["budget"]["defaultValue"], inputs["task"]["defaultValue"]) == (60.0, "lr")
    assert json.loads(inputs["advanced"]["defaultValue"]) == {"order_report": 2}


def test_no_stage_is_taken_from_kubeflows_step_cache(spec):
    """Kubeflow's key holds the ids of the input artifacts, which every run makes anew, so it would never hit."""
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
    arguments = form_arguments(parse_parameters({"k": 3, "k_min": 2}))
    assert arguments == {"k": 3, "advanced": '{"k_min": 2}'}


@pytest.mark.parametrize("name", ["demo", "smoke", "paper"])
def test_named_parameter_sets_are_valid(name):
    assert parse_parameters(read_parameter_set(name))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        (str(SETS / "knowledge.yaml"), 2 * 2 * 5 * 3),
        (str(SETS / "claims.yaml"), 24 * 11 * 3),
        (str(SETS / "claims-requests.yaml"), 24 * 9 * 3),
        (str(SETS / "claims-components.yaml"), 8 * 4 * 2),
        (str(SETS / "claims-nu.yaml"), 3 * 8 * 2),
        (str(SETS / "claims-budget.yaml"), 4 * 5 * 3),
        (str(SETS / "claims-pools.yaml"), 4 * 2 * 3),
        (str(SETS / "claims-k.yaml"), 4 * 3 * 3),
        (str(SETS / "claims-range-of-k.yaml"), 4 * 2 * 3),
        ("paper-table-1", 24 * 10 * 3),
        ("paper-table-2", 4 * 6 * 10 * 3),
        ("paper-table-3", 23 * 2 * 3),
        ("paper-components", 24 * 4 * 3),
        ("paper-nu", 6 * 8 * 3),
        ("paper-ablations", 4 * 7 * 3),
        ("paper-large-pools", 8 * 2 * 3),
        ("paper-k", 2 * 3 * 3),
        ("paper-range-of-k", 6 * 2 * 3),
        ("paper-reasoning", 3 * 3 * 3),
        ("paper-tempera", 5 * 3 * 3),
        ("paper-llama", 4 * 3 * 3),
    ],
)
def test_named_comparisons_are_valid(name, cells):
    values = read_parameter_set(name)
    folder = {} if "task_uri" in str(values.get("tasks")) else {"task_uri": "folder"}
    assert len(plan({**folder, **values})) == cells


def test_readme_lists_every_parameter_as_declared():
    """`python -m pipelines params --write` makes it current."""
    assert params_readme() == PARAMS_README.read_text()
