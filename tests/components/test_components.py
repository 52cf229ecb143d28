"""The components: plain functions that say what goes in and out, and that do their stages."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import docstring_parser
import pyarrow.parquet as pq
import pytest

import components
from components import images
from ease_lib.errors import EXIT_ERROR
from ease_lib.lineage.chain import follow
from ease_lib.lineage.verification import verify
from ease_lib.running.component import CheckedParameters
from ease_lib.running.graph import COMPONENTS
from ease_lib.running.stage import LocalArtifact
from pipelines.component_files import component_yaml
from tests.recorded_run import SMALL
from tests.simulation.models import SIMULATED

ALL = pytest.mark.parametrize("component", components.ALL, ids=lambda component: component.name)


@ALL
def test_a_component_says_what_each_input_and_output_is(component):
    said = docstring_parser.parse(component.python_func.__doc__)
    parameters = inspect.signature(component.python_func).parameters
    assert [each.arg_name for each in said.params] == list(parameters)
    assert all(each.description for each in said.params)
    returns = inspect.signature(component.python_func).return_annotation
    assert (said.returns is not None) == (returns is not None)


@ALL
def test_a_component_is_the_function_that_stands_in_its_file(component):
    name = component.python_func.__name__
    file = Path(inspect.getsourcefile(component.python_func))
    assert file == Path(components.__file__).parent / name / "component.py"
    assert f"def {name}(" in file.read_text()


def test_nothing_is_executed_from_text():
    root = Path(components.__file__).parents[1]
    files = [file for folder in ("components", "pipelines", "ease_lib") for file in (root / folder).rglob("*.py")]
    assert [file for file in files if "linecache" in file.read_text() or "__signature__" in file.read_text()] == []
    assert [file for file in files if "exec(" in file.read_text() and file.name != "own_metric.py"] == []


def test_the_components_of_a_run_are_those_of_the_declared_stages():
    assert [component.python_func.__name__ for component in components.RUN] == list(COMPONENTS)


def test_a_component_for_a_cluster_names_its_image():
    text = component_yaml(components.optimize, "registry/ease@sha256:" + "a" * 64)
    assert "image: registry/ease@sha256:" in text
    assert images.CPU not in text


class Kubeflow:
    """Keeps the artifacts of components, and their metadata as JSON does; calls their functions as it would."""

    def __init__(self, folder, **form):
        self.folder = folder
        self.form = {"store_uri": str(folder / "store"), **form}
        self.metadata = {}

    def artifact(self, component, name):
        at = f"{component}/{name}"
        return LocalArtifact(str(self.folder / at), json.loads(self.metadata.get(at, "{}")))

    def run(self, component, inputs, **values):
        outputs = {name: self.artifact(component.name, name) for name in artifacts_of(component)}
        made = component.python_func(**values, **inputs, **outputs)
        self.metadata.update({f"{component.name}/{name}": json.dumps(each.metadata) for name, each in outputs.items()})
        return made

    def begin(self):
        form, more = dict(self.form), {}
        for name in list(form):
            if name not in inspect.signature(components.build_dataset.python_func).parameters:
                more[name] = form.pop(name)
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(components.build_dataset.python_func).parameters.items()
            if parameter.default is not parameter.empty
        }
        return self.run(components.build_dataset, {}, **{**defaults, **form, "advanced": json.dumps(more)})

    def data(self):
        return {name: self.artifact("build-dataset", name) for name in ("pool", "validation")}


def artifacts_of(component):
    return [name for name, each in component.component_spec.outputs.items() if not name.startswith("for_")]


def doubled(passed):
    """The struct as kfp.local carries it."""
    return {name: float(value) if type(value) is int else value for name, value in passed.items()}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    run = Kubeflow(tmp_path_factory.mktemp("run"), **{**SMALL, "store_uri": ""})
    run.passed = run.begin()
    return run


def test_the_first_component_hands_each_later_one_the_parameters_that_it_reads(begun):
    assert begun.passed._fields == CheckedParameters._fields
    assert begun.passed.for_prefilter["retained"] == SMALL["retained"]
    assert "retained" not in begun.passed.for_optimize
    assert begun.passed.for_optimize["budget"] == SMALL["budget"]
    assert "publish_uri" not in begun.passed.for_evaluate, "it is at its default"
    for values in begun.passed:
        assert json.loads(json.dumps(values)) == values
        assert len(values) < 70


def test_the_prefilter_ranks_by_itself_what_shards_would_rank(begun):
    begun.run(components.prefilter, begun.data(), parameters=doubled(begun.passed.for_prefilter))
    alone = Path(begun.artifact("prefilter", "kept").path).read_bytes()
    rankings = []
    for shard in range(2):
        own = {name: LocalArtifact(str(begun.folder / f"shard-{shard}" / name)) for name in ("ranking", "lineage")}
        fields = {name: begun.form.get(name, default) for name, default in (("seed", 0), ("store_uri", ""))}
        components.rank_shard.python_func(
            shard=shard, shards=2, prefilter="bm25", retained=15, embedder="bundled-minilm", advanced="nu: 1.0",
            **fields, **begun.data(), **own,
        )  # fmt: skip
        rankings.append(own["ranking"])
    begun.run(
        components.prefilter, begun.data() | {"rankings": rankings}, parameters=doubled(begun.passed.for_prefilter)
    )
    assert Path(begun.artifact("prefilter", "kept").path).read_bytes() == alone
    chain = follow(f"{begun.folder}/prefilter/lineage")
    assert sorted(step.stage for step in chain.steps) == ["build_dataset", "prefilter", "rank_pool", "rank_pool"]
    assert verify(chain).problems == ()


def test_the_dashboard_shows_of_an_artifact_its_rows_and_record_which_says_the_rest(begun):
    shown = json.loads(begun.metadata["build-dataset/pool"])
    assert set(shown) == {"rows", "record", "record_sha256"}
    assert all(isinstance(value, str | int | float) for value in shown.values())


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"advanced": "nonsense: 1"}, "unknown parameter nonsense"),
        ({"k": 0}, "k=0 is below 1"),
        ({"advanced": "{"}, "advanced is not valid YAML"),
        ({"task_uri": 'a "b"\\c.csv', "task": "table"}, 'a "b"\\c.csv: no such file'),
    ],
)
def test_a_form_that_cannot_work_ends_the_first_component_with_what_is_wrong(tmp_path, capsys, form, message):
    defaults = inspect.signature(components.build_dataset.python_func).parameters
    values = {name: each.default for name, each in defaults.items() if each.default is not each.empty}
    outputs = {name: LocalArtifact(str(tmp_path / name)) for name in artifacts_of(components.build_dataset)}
    with pytest.raises(SystemExit) as ended:
        components.build_dataset.python_func(**{**values, **form}, **outputs)
    assert ended.value.code == EXIT_ERROR
    assert message in capsys.readouterr().err


def test_a_failed_stage_leaves_those_before_it_and_its_record(begun, tmp_path, capsys):
    (tmp_path / "instructions.json").write_text('{"not": "a list"}')
    parameters = {**begun.passed.for_embed, "instructions_uri": str(tmp_path / "instructions.json")}
    outputs = {name: LocalArtifact(str(tmp_path / name)) for name in ("instructions", "embeddings", "lineage")}
    with pytest.raises(SystemExit):
        components.embed.python_func(parameters={**parameters, "lineage_uri": str(tmp_path)}, **begun.data(), **outputs)
    assert "[ease] error: " in capsys.readouterr().err
    (record,) = (json.loads(file.read_text()) for file in tmp_path.glob("runs/*/*.json"))
    assert (record["stage"], record["state"]) == ("propose_instructions", "failed")


STRANGER = """
import sys
from kfp import components, dsl, local

build_dataset, embed, optimize = (
    components.load_component_from_file(f"components/{name}/component.yaml")
    for name in ("build_dataset", "embed", "optimize")
)

@dsl.pipeline(name="stranger")
def stranger(budget: int = 4, llm: str = ""):
    data = build_dataset(task="lr", pool_size=12, validation_size=4, test_size=4, llm_base_url=llm)
    pool, validation = data.outputs["pool"], data.outputs["validation"]
    embedded = embed(parameters={}, pool=pool, validation=validation)
    optimize(
        parameters={"method": "best_of_n", "budget": budget, "k": 3, "llm_base_url": llm},
        pool=pool, validation=validation, summary=data.outputs["summary"],
        instructions=embedded.outputs["instructions"], embeddings=embedded.outputs["embeddings"],
    )

local.init(local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[1], raise_on_error=True)
stranger(llm=sys.argv[2])
"""


@pytest.mark.rooms("components", "pipelines")
def test_a_stranger_loads_our_components_from_their_files(tmp_path):
    """His numbers arrive as text, and what he does not give has its default."""
    finished = subprocess.run(
        [sys.executable, "-c", STRANGER, str(tmp_path), SIMULATED],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=Path(components.__file__).parents[1],
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (history,) = tmp_path.glob("*/optimize/history")
    assert pq.read_table(history).num_rows == 4
