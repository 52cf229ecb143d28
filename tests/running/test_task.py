"""A task does its stages one after another; what they make lies in its folder, recorded as if each were alone."""

import json
from pathlib import Path

import pytest

from ease_lib.config.parsing import parse_parameters
from ease_lib.errors import EXIT_ERROR
from ease_lib.lineage.chain import follow
from ease_lib.lineage.verification import verify
from ease_lib.running.execution import LocalArtifact
from ease_lib.running.graph import ALL_TASKS, TASKS
from ease_lib.running.task import execute_task, part_of, perform_task, task_parameters
from tests.recorded_run import SMALL


class Kubeflow:
    """Keeps nothing of a task but its files and, as JSON, the metadata of its artifacts."""

    def __init__(self, folder, **values):
        self.folder = folder
        self.parameters = parse_parameters({**SMALL, "method": "best_of_n", "instructions": 2, **values})
        self.metadata = {}

    def artifact(self, name):
        return LocalArtifact(str(self.folder / name), json.loads(self.metadata.get(name, "{}")))

    def arguments(self, task):
        read = {each.folder: self.artifact(each.folder) for each in task.reads}
        read |= {each.folder: [read[each.folder]] for each in task.reads if each.shards}
        return read | {name: self.artifact(name) for name in task.pages}

    def perform(self, task):
        made = self.artifact(task.folder)
        report = perform_task(task, task_parameters(task, self.parameters), made, self.arguments(task))
        self.metadata[task.folder] = json.dumps(made.metadata)
        return report


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = Kubeflow(tmp_path_factory.mktemp("run"))
    run.metrics = {task.name: run.perform(task).metrics for task in TASKS}
    return run


def test_a_part_has_an_address_and_metadata_of_its_own(tmp_path):
    folder = LocalArtifact(str(tmp_path / "data"), {"build_dataset.pool.rows": 8.0, "build_dataset.pool2.rows": 9.0})
    pool = part_of(folder, "build_dataset.pool")
    assert (pool.path, pool.uri) == (f"{tmp_path}/data/build_dataset/pool", f"{tmp_path}/data/build_dataset/pool")
    assert pool.metadata == {"rows": 8.0}
    assert part_of(folder, "build_dataset.test").metadata == {}


def test_the_records_of_all_stages_are_linked_within_a_task_and_between_tasks(finished):
    chain = follow(f"{finished.folder}/result/publish/lineage")
    stages = [stage.name for task in TASKS for stage in task.stages]
    assert sorted(step.stage for step in chain.steps) == sorted(stages)
    assert chain.gaps == []
    assert verify(chain).problems == ()


def test_the_dashboard_shows_of_every_part_what_it_would_show_of_an_artifact(finished):
    shown = json.loads(finished.metadata["prepared"])
    names = ("contract", "sha256", "bytes", "rows", "record_sha256")
    assert {f"prefilter.kept.{name}" for name in names} <= set(shown)
    assert {f"embed.embeddings.{name}" for name in names} <= set(shown)
    assert shown["prefilter.kept.rows"] == SMALL["retained"]
    assert all(isinstance(value, str | int | float) for value in shown.values())


def test_the_last_task_has_the_numbers_of_all_its_stages(finished):
    assert {"test_score", "expected_score", "gain_over_random", "is_latest"} <= set(finished.metrics["conclude"])


def test_a_task_that_is_done_again_in_its_folder_makes_the_same(finished):
    task = ALL_TASKS["prepare"]
    files = [finished.folder / f"prepared/{name}" for name in ("prefilter/kept", "embed/embeddings")]
    before = [file.read_bytes() for file in files]
    finished.perform(task)
    assert [file.read_bytes() for file in files] == before


def test_what_a_stage_of_a_task_reports_as_wrong_ends_the_task_and_its_record_says_so(finished, tmp_path, capsys):
    task = ALL_TASKS["prepare"]
    (tmp_path / "instructions.txt").write_bytes(b"\xff\xfe\x00")
    broken = Kubeflow(
        finished.folder,
        **{"instructions": 0, "instructions_uri": str(tmp_path / "instructions.txt"), "lineage_uri": str(tmp_path)},
    )
    broken.metadata = finished.metadata
    made = LocalArtifact(str(tmp_path / "prepared"))
    with pytest.raises(SystemExit) as ended:
        execute_task(task.name, task_parameters(task, broken.parameters), made, **broken.arguments(task))
    assert ended.value.code == EXIT_ERROR
    assert "[ease] error: " in capsys.readouterr().err
    assert Path(tmp_path / "prepared/prefilter/kept").exists()
    states = {}
    for file in tmp_path.glob("runs/*/*.json"):
        record = json.loads(file.read_text())
        states[record["stage"]] = record["state"]
    assert states == {"prefilter": "complete", "propose_instructions": "failed"}
