"""The declared stages: every input comes from an earlier one."""

import dataclasses

import pytest

from ease_lib.running.graph import CHECK, COMPONENTS, RUN, STAGES, address, modules_between
from ease_lib.running.inline import outputs_of_run


@pytest.mark.parametrize("place", range(len(RUN)), ids=[stage.name for stage in RUN])
def test_every_input_is_an_output_of_an_earlier_stage(place):
    earlier = {stage.name: stage for stage in RUN[:place]}
    for field in dataclasses.fields(RUN[place].module.Inputs):
        stage, _, output = field.metadata["of"].partition(".")
        assert output in {made.name for made in dataclasses.fields(earlier[stage].module.Outputs)}


def test_stages_stand_in_the_order_of_their_components():
    assert [stage.name for stage in (CHECK, *RUN)] == [name for names in COMPONENTS.values() for name in names]


def test_artifacts_of_a_run_have_names_and_places_of_their_own():
    outputs = [f"{stage.name}.{field.name}" for stage in RUN for field in dataclasses.fields(stage.module.Outputs)]
    assert sorted(outputs_of_run().values()) == sorted(outputs)
    places = [address(output) for output in outputs] + [
        f"{stage.component}/{stage.record}" for stage in STAGES.values()
    ]
    assert len(set(places)) == len(places)


def test_stages_between_two_others_are_all_but_these():
    names = [module.__name__.rpartition(".")[2] for module in modules_between("optimize", "publish")]
    assert names == ["evaluate", "gate", "report"]
    assert len(modules_between("", "")) == len(RUN)
