"""The declared graph: every input comes from an earlier stage, under the contract that it was written with."""

import dataclasses

import pytest

from ease_lib.running.graph import RUN, STAGES, TASKS, maker_of, modules_between
from ease_lib.running.one_process import artifact_name


@pytest.mark.parametrize("place", range(len(RUN)), ids=[stage.name for stage in RUN])
def test_every_input_is_an_output_of_an_earlier_stage_under_the_same_contract(place):
    earlier = {stage.name: stage for stage in RUN[:place]}
    for field in dataclasses.fields(RUN[place].module.Inputs):
        stage, _, output = field.metadata["of"].partition(".")
        made = {made.name: made.metadata for made in dataclasses.fields(earlier[stage].module.Outputs)}[output]
        assert (made["contract"], made["kind"]) == (field.metadata["contract"], field.metadata["kind"])
        assert field.metadata["many"] == maker_of(field.metadata["of"]).shards


def test_what_a_task_reads_of_others_lies_in_the_folders_of_tasks_before_it():
    for place, task in enumerate(TASKS):
        assert set(task.reads) <= set(TASKS[:place])
        own = {stage.name for stage in task.stages}
        read = {source for stage in task.stages for source in stage.sources.values()}
        assert set(task.sources) == {source for source in read if source.partition(".")[0] not in own}


def test_names_in_a_component_do_not_collide():
    for task in TASKS:
        names = [*(read.folder for read in task.reads), task.folder, *task.pages]
        assert len({*names, "config", "metrics", "chain"}) == len(names) + 3


def test_every_stage_says_what_it_does_in_a_sentence():
    for stage in STAGES.values():
        assert stage.summary[0].isupper()
        assert stage.summary.endswith(".")
        assert "\n" not in stage.summary


def test_artifacts_of_a_run_have_names_of_their_own():
    outputs = [f"{stage.name}.{field.name}" for stage in RUN for field in dataclasses.fields(stage.module.Outputs)]
    assert len({artifact_name(output) for output in outputs}) == len(outputs)


def test_stages_between_two_others_are_all_but_these():
    names = [module.__name__.rpartition(".")[2] for module in modules_between("optimize", "publish")]
    assert names == ["evaluate", "report"]
    assert len(modules_between("", "")) == len(RUN)
