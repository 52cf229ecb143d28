"""The authors' data by the paper's parameters: every task of their folder, from the rows that their code takes."""

import json

import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.task_data import load_data


def paper(folder, name, **changed):
    values = {
        **read_parameter_set("paper"),
        "task": "instruction_induction",
        "task_uri": str(folder),
        "task_name": name,
    }
    return parse_parameters({**values, **changed}).task


def built(folder, name, **changed):
    task = paper(folder, name, **changed)
    return load_data(task, task.data_seed(5), Sources())


def rows_of(folder, split, name):
    return list(json.loads((folder / split / f"{name}.json").read_text())["examples"].values())


def test_every_published_task_builds_at_the_papers_sizes_from_the_first_rows(real_data):
    folder = real_data / "instruction_induction"
    names = sorted(path.stem for path in (folder / "induce").glob("*.json"))
    assert len(names) >= 23
    for name in names:
        data = built(folder, name)
        sizes = {"induce": (data.pool, 100), "valid": (data.validation, 20), "execute": (data.test, 100)}
        for split, (drawn, size) in sizes.items():
            first = [row["input"] for row in rows_of(folder, split, name)[:size]]
            assert [row.input for row in drawn] == first, (name, split)


@pytest.mark.parametrize("noise", [0, 10, 50])
def test_linear_tasks_keep_the_leaks_of_the_paper_and_say_so(real_data, noise):
    """13 of the pool's inputs are among all 100 validation rows; what counts is the 20 that are drawn."""
    data = built(real_data / "instruction_induction", f"linear_4_{noise}_noisy")
    assert len(data.pool) == 100
    assert any("were kept (leaks=keep)" in notice for notice in data.notices)
    dropped = built(real_data / "instruction_induction", f"linear_4_{noise}_noisy", leaks="drop", pool_size=0)
    assert 75 <= len(dropped.pool) < 100


def test_the_output_that_an_exemplar_shows_is_one_of_those_accepted_drawn_by_seed(real_data):
    folder = real_data / "instruction_induction"
    data, first = built(folder, "rhymes_v1"), built(folder, "rhymes_v1", shown_outputs="first")
    assert [set(row.outputs) for row in data.pool] == [set(row.outputs) for row in first.pool]
    same = sum(one.output == other.output for one, other in zip(data.pool, first.pool, strict=True))
    assert same < 30, "of some fourteen accepted ones the first is rarely drawn"
    assert [row.outputs for row in data.validation] == [row.outputs for row in first.validation]


def test_repeats_have_the_same_data_whatever_their_seed(real_data):
    drawn, fixed = (parse_parameters({"task": "lr", "repeat_data": value}).task for value in ("drawn", "fixed"))
    assert [drawn.data_seed(seed) for seed in (0, 7)] == [0, 7]
    assert [fixed.data_seed(seed) for seed in (0, 7)] == [0, 0]
