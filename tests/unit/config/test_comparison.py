"""The axes of a comparison and its cells."""

import pytest

from ease_lib.config.comparison import plan
from ease_lib.config.parsing import declared_parameters
from ease_lib.errors import ConfigError
from tests.simulation.models import SIMULATED

SMALL = {"budget": 10, "initial_design": 5}


def labels(cells, name):
    return list(dict.fromkeys(getattr(cell, name) for cell in cells))


def test_by_default_all_methods_are_compared_on_the_runs_own_task_three_times():
    cells = plan({"task": "lr", "llm_base_url": SIMULATED, **SMALL})
    assert labels(cells, "method") == list(declared_parameters()["method"].choices)
    assert labels(cells, "task") == ["lr"]
    assert labels(cells, "endpoint") == [SIMULATED]
    assert labels(cells, "repeat") == [0, 1, 2]
    assert len(cells) == 3 * len(declared_parameters()["method"].choices)


def test_every_repeat_has_a_seed_of_its_own_and_methods_share_it():
    cells = plan({"methods": "ease, best_of_n", "seed": 7, "repeats": 2, **SMALL})
    assert [cell.parameters["seed"] for cell in cells] == [7, 7, 8, 8]


def test_entries_are_names_or_mappings_in_texts_as_in_lists():
    text = plan({"methods": "ease, {method: ease, nu: 1}, {method: ease, shortlist: none, label: no OT}", **SMALL})
    listed = plan({"methods": ["ease", {"method": "ease", "nu": 1}, {"method": "ease", "shortlist": "none", "label": "no OT"}], **SMALL})  # fmt: skip  # noqa: E501
    assert text == listed
    assert labels(text, "method") == ["ease", "ease, nu=1", "no OT"]
    assert text[1].parameters["nu"] == 1


def test_tasks_come_by_kind_by_kind_and_name_or_with_parameters():
    tasks = "lr, instruction_induction:sum_v1, {task: table, task_uri: a.csv, noise_ratios: [0, 0.5]}"
    cells = plan(
        {"tasks": tasks, "task_uri": "folder", "methods": "ease", "noise_ratios": "0.1", "repeats": 1, **SMALL}
    )
    assert [(cell.task, cell.noise_ratio) for cell in cells] == [
        ("lr", 0.1),
        ("sum_v1", 0.1),
        ("table, task_uri=a.csv", 0.0),
        ("table, task_uri=a.csv", 0.5),
    ]
    assert cells[1].parameters["task_name"] == "sum_v1"
    assert cells[1].parameters["task_uri"] == "folder"


def test_endpoints_are_called_by_their_model_or_label():
    endpoints = f"{SIMULATED}, {{llm_base_url: {SIMULATED}, llm_model: knows half}}"
    cells = plan({"endpoints": endpoints, "methods": "ease", **SMALL})
    assert labels(cells, "endpoint") == [SIMULATED, "knows half"]


def test_a_model_that_a_set_names_is_that_of_a_url_alone():
    shared = {"llm_model": "large-1", "methods": "ease", **SMALL}
    assert labels(plan({**shared, "llm_base_url": "https://llm.example.org/v1"}), "endpoint") == ["large-1"]
    assert labels(plan({**shared, "llm_base_url": SIMULATED}), "endpoint") == [SIMULATED]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"methods": "ease, ease"}, "methods has ease twice; give one of them a different label"),
        (
            {"methods": "ease, greedy"},
            "customer_feedback, greedy: method=greedy is not one of adaptive, halving, capo, ease",
        ),
        ({"methods": "{method: ease"}, "is not a list; write a, b or {name: value}"),
        ({"repeats": 0}, "repeats=0 is not a whole number of at least 1"),
        ({"methods": "ease", "noise_ratios": "2"}, "noise_ratio=2 is above 1, the most allowed"),
        ({"methods": "{method: ease, colour: 1}"}, "unknown parameter colour"),
        ({"methods": []}, "methods is an empty list"),
    ],
)
def test_what_cannot_work_is_named(values, message):
    with pytest.raises(ConfigError, match=message):
        plan({**SMALL, **values})


def test_all_problems_are_listed_once():
    with pytest.raises(ConfigError) as raised:
        plan({"methods": "{method: cosine, k: 12}, {method: ease, k: 200, pool_size: 100}", "repeats": 3})
    assert len(raised.value.problems) == 2


def test_what_one_method_reads_is_given_to_it_alone_and_what_none_reads_is_said(caplog):
    with caplog.at_level("INFO", "ease"):
        first, second = plan({"methods": "ease, best_of_n", "nu": 0.5, "retained": 9, "repeats": 1})
    assert first.parameters["nu"] == 0.5
    assert "nu" not in second.parameters
    assert (
        "retained has an effect only with prefilter=cosine or bm25, which no run of this comparison has" in caplog.text
    )
    with pytest.raises(ConfigError, match="nu has no effect with method="):
        plan({"methods": "{method: best_of_n, nu: 1}", "repeats": 1})
