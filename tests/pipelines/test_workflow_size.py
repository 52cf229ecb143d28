"""The workflow of a run has room, by a model of it that gives what was measured on a cluster."""

import ast
import json

import pytest

from ease_lib.config.parsing import parse_parameters, read_by
from ease_lib.errors import ConfigError
from ease_lib.running import component as running
from ease_lib.running.comparison.comparison_store import place_of
from ease_lib.running.graph import CHECK, COMPONENTS, stages_of
from ease_lib.running.stage import shown
from pipelines import placement
from pipelines.arguments import MOST_BYTES, MOST_BYTES_WITH_SHARDS, arguments_of
from pipelines.compilation import FOLDER, compile_all
from pipelines.placement import MOST_SHARDS, MOST_WORKERS, Placement
from tests.pipelines.workflow_size import (
    LIMIT,
    ONE_ARGUMENT,
    Package,
    finished_workflow,
    parts,
    pod_descriptions,
    size,
)

pytestmark = pytest.mark.rooms("pipelines", "components", "ease_lib/running", "ease_lib/config")
RECORD = "s3://mlpipeline/private/ease/store/lineage/runs/{0}/build_dataset-{0}.json".format(
    "3f0c8a52-6d1e-4b0b-9c55-0d5a7e2f9b41"
)
PARAMETERS = {
    **{"task": "table", "task_uri": "s3://mlpipeline/private/ease/data/tickets-of-the-year.parquet"},
    **{"input_columns": "text", "output_column": "team", "method": "adaptive", "prefilter": "cosine"},
    **{"llm_base_url": "http://local-llm.kubeflow:8000/v1", "llm_model": "small-1"},
    **{
        "store_uri": "s3://mlpipeline/private/ease/store",
        "publish_uri": "s3://mlpipeline/private/ease/prompts/tickets",
    },
    **{"k_min": 2, "baseline": "s3://mlpipeline/private/ease/data/baseline.yaml"},
}
"""Parameters of a run that sets many of them."""
OLD = {"contract": "exemplar_pool/3", "sha256": "a" * 64, "bytes": 12345, "schema_sha256": "b" * 64, "rows": 500}
OLD |= {"record": RECORD, "record_sha256": "c" * 64, "image": "ease-pipelines-gpu:0.4.0"}
"""An artifact's metadata as it was when the cluster was measured."""


def passed(parameters, *, complete=False):
    """Parameters that `build_dataset` passes to the later tasks."""
    found = {}
    for name in list(COMPONENTS)[1:]:
        configs = [stage.module.Config for stage in stages_of(name) if stage is not CHECK]
        found[f"for_{name}"] = read_by(configs, parameters) if complete else running._passed(name, parameters)
    return {"build-dataset": found}


def package(folder, shards=1):
    compile_all(folder, Placement(shards=shards))
    return Package((folder / "ease_pipeline.yaml").read_text())


def run_of(package, values=PARAMETERS, **options):
    """The finished workflow of a run with these parameters."""
    parameters = parse_parameters(values)
    arguments = arguments_of(values, "ease", package.spec, "the package")
    metadata = {"metadata": shown({"rows": 500}, RECORD, "c" * 64)}
    return finished_workflow(package, arguments, outputs=passed(parameters), **(metadata | options))


@pytest.fixture(scope="module")
def plain():
    return Package((FOLDER / "ease_pipeline.yaml").read_text())


def test_the_model_gives_what_was_measured_where_nothing_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "leave_out_unread", lambda spec: None)
    monkeypatch.setattr(placement, "MOST_SHARDS", 8)
    values = {"store_uri": "s3://mlpipeline/private/ease/store", "llm_base_url": "http://local-llm.kubeflow:8000/v1"}
    complete = passed(parse_parameters(values), complete=True)
    one, eight = (
        finished_workflow(package(tmp_path / str(shards), shards), values, outputs=complete, metadata=OLD)
        for shards in (1, 8)
    )
    found = parts(one)
    measured = {
        "pod-spec-patch": 520,
        "component": 46,
        "container": 37,
        "kubernetes-config": 26,
        "task": 11,
        "spec": 81,
    }
    assert {name: found[name] / 1000 for name in measured} == pytest.approx(measured, rel=0.1)
    assert size(one) / 1000 == pytest.approx(776, rel=0.1)
    assert size(eight) / 1000 == pytest.approx(1590, rel=0.1)
    assert (len(one["status"]["nodes"]), len(eight["status"]["nodes"])) == (36, 137)


def test_a_run_takes_less_than_three_fifths_of_the_room(plain):
    assert size(run_of(plain)) < 0.6 * LIMIT


def test_most_shards_have_room_with_the_longest_parameters_and_one_more_has_not(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "MOST_SHARDS", MOST_SHARDS + 1)
    most, more = (package(tmp_path / str(shards), shards) for shards in (MOST_SHARDS, MOST_SHARDS + 1))
    longest = PARAMETERS | {"baseline": "x" * (MOST_BYTES_WITH_SHARDS - 1_100)}
    assert size(run_of(most, longest)) < 0.96 * LIMIT, "a pod that was tried again is one more node"
    assert size(run_of(more, longest)) > LIMIT
    with pytest.raises(ConfigError, match="may have 4,000"):
        run_of(most, PARAMETERS | {"baseline": "x" * MOST_BYTES_WITH_SHARDS})


@pytest.mark.parametrize(("workers", "share"), [(8, 0.6), (MOST_WORKERS, 0.8)])
def test_a_comparison_takes_room_for_its_workers_however_many_cells_it_has(tmp_path, workers, share):
    """The rest is for further tries of them: such a pod is one more node with a `pod-spec-patch`."""
    compile_all(tmp_path, Placement(workers=workers))
    package = Package((tmp_path / "comparison_pipeline.yaml").read_text())
    place = place_of(PARAMETERS["store_uri"], "3f0c8a52-6d1e-4b0b-9c55-0d5a7e2f9b41")
    metadata = shown({}, RECORD.replace("build_dataset", "plan_comparison"), "c" * 64)
    shared = {"store_uri": PARAMETERS["store_uri"], "parameters": json.dumps(PARAMETERS), "methods": "ease, capo, ot"}
    workflow = finished_workflow(package, shared, outputs={"plan-comparison": {"Output": place}}, metadata=metadata)
    assert size(workflow) < share * LIMIT
    assert len(workflow["status"]["nodes"]) == 6 + 6 * (workers + 2)


def test_the_longest_parameters_that_submit_takes_have_room_and_fit_into_an_argument(plain):
    """A baseline is read by `evaluate` besides the first task; longer by a tenth it is refused."""
    workflow = run_of(plain, PARAMETERS | {"baseline": "x" * int(0.9 * MOST_BYTES)})
    with pytest.raises(ConfigError, match=r"parameters have 2\d,\d{3} bytes .* may have 20,000"):
        run_of(plain, PARAMETERS | {"baseline": "x" * MOST_BYTES})
    assert size(workflow) < LIMIT
    assert max(pod_descriptions(workflow).values()) < ONE_ARGUMENT


@pytest.mark.parametrize(("name", "expected"), [("baseline", 1), ("openlineage_url", 4)])
def test_a_kilobyte_of_advanced_costs_nine_and_six_more_for_each_later_task_that_reads_it(plain, name, expected):
    readers = sum(name in each for each in passed(parse_parameters(PARAMETERS | {name: "x"}))["build-dataset"].values())
    one, two = (size(run_of(plain, PARAMETERS | {name: "x" * length})) for length in (1000, 2000))
    assert (two - one) / 1000 == pytest.approx(9 + 6 * readers, rel=0.01)
    assert readers == expected


def test_what_ended_a_run_without_a_word_does_not_fit_into_an_argument(plain):
    """140 KB of `advanced`: FAILED at once, without an error and without a task."""
    workflow = finished_workflow(plain, {"advanced": "x" * 140_000}, outputs={}, metadata={})
    assert max(pod_descriptions(workflow).values()) > ONE_ARGUMENT


def test_a_task_that_stands_in_the_graph_by_itself_is_six_nodes_and_an_iteration_twelve(tmp_path, plain):
    assert len(run_of(plain)["status"]["nodes"]) == 6 + 5 * 6
    assert len(run_of(package(tmp_path, 3))["status"]["nodes"]) == 6 + 5 * 6 + 5 + 3 * 12


def test_nothing_that_a_program_does_is_left_out(tmp_path, monkeypatch):
    """Programs differ from the components' own by docstrings and layout only."""
    short = package(tmp_path / "short").containers
    monkeypatch.setattr(placement, "leave_out_unread", lambda spec: None)
    for name, container in package(tmp_path / "long").containers.items():
        *shell, program = container["command"]
        tree = ast.parse(program)
        (function,) = (each for each in tree.body if isinstance(each, ast.FunctionDef))
        del function.body[0]
        assert ast.dump(ast.parse(short[name]["command"][-1])) == ast.dump(tree)
        assert [each.split() for each in short[name]["command"][:-1]] == [each.split() for each in shell]
