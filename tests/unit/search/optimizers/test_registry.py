"""Plan of a search, from its configuration."""

import pytest

from ease_lib.config.parsing import parse_parameters
from ease_lib.search.optimizers.registry import answers_to_plan, scaled_design


@pytest.mark.parametrize(
    ("values", "rows", "affordable", "answers"),
    [
        ({}, 200, float("inf"), 165 * 20),
        ({}, 8, float("inf"), 165 * 8),
        ({"evaluation_rows": 0}, 200, float("inf"), 165 * 200),
        ({}, 200, 1000, 1000),
        ({"budget": 0, "max_llm_requests": 2000}, 200, 1500, 1500),
        ({"max_llm_requests": 100}, 200, -400, 0),
    ],
)
def test_a_search_plans_for_the_budget_or_what_the_cap_leaves_it(values, rows, affordable, answers):
    assert answers_to_plan(parse_parameters(values).optimizer, rows, affordable) == answers


@pytest.mark.parametrize(("budget", "design"), [(165, 40), (41, 40), (40, 9), (12, 2), (1, 1)])
def test_a_small_budget_has_a_smaller_initial_design(budget, design):
    assert scaled_design(parse_parameters({"budget": budget}).optimizer) == design
