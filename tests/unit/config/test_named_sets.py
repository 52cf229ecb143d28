"""Parameter sets, by name and by path."""

import pytest

from ease_lib.config.named_sets import read_parameter_set
from ease_lib.errors import ConfigError


def test_a_set_may_build_on_another_and_wins_over_it(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("params: paper\nk: 3\n")
    assert read_parameter_set(str(own)) == {**read_parameter_set("paper"), "k": 3}


def test_a_set_may_build_on_one_that_builds_on_another(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("params: paper-table-2\nk: 3\n")
    found = read_parameter_set(str(own))
    assert (found["k"], found["budget"], len(found["tasks"])) == (3, 165, 24)


def test_a_set_names_another_from_its_own_folder(tmp_path):
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets/below.yaml").write_text("k: 3\n")
    (tmp_path / "sets/own.yaml").write_text("params: below.yaml\nbudget: 9\n")
    assert read_parameter_set(str(tmp_path / "sets/own.yaml")) == {"k": 3, "budget": 9}


def test_a_set_that_builds_on_itself_is_refused(tmp_path):
    own, other = tmp_path / "own.yaml", tmp_path / "other.yaml"
    own.write_text(f"params: {other}\n")
    for below in (own, other):
        other.write_text(f"params: {below}\n")
        with pytest.raises(ConfigError, match=r"builds on .*; name another set there"):
            read_parameter_set(str(own))


def test_a_set_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match=r"use one of demo, paper, paper-ablations, .*, or the path of a YAML file"):
        read_parameter_set("papers")
