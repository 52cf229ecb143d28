"""Which method is best, and when that can be said."""

import pytest

from ease_lib.reporting.comparison import (
    gaps,
    mean_curves,
    render_comparison_page,
    render_markdown,
    rows_of,
    summarise_methods,
)
from ease_lib.reporting.statistics import mean_and_error, paired_p_value


def cell(method, repeat, test, validation=None, task="lr", endpoint="simulated", **more):
    return {
        "task": task,
        "noise_ratio": 0.1,
        "endpoint": endpoint,
        "method": method,
        "repeat": repeat,
        "seed": repeat,
        "simulated": True,
        "validation_score": test if validation is None else validation,
        "test_score": test,
        "random_test_score": 0.2,
        "evaluations": 3,
        "llm_requests": 100,
        "cached_responses": 40,
        "cost_usd": 0.6,
        "search_seconds": 1.0,
        "incumbent_scores": [0.1, 0.2, test],
        **more,
    }


def cells(**scores):
    return [cell(method, repeat, test) for method, tests in scores.items() for repeat, test in enumerate(tests)]


def test_a_method_is_best_only_if_it_beats_every_other_beyond_noise():
    row = rows_of(cells(a=[0.80, 0.81, 0.82], b=[0.50, 0.52, 0.51], c=[0.10, 0.12, 0.10]))[0]
    assert row.best("test_score") == ["a"]
    row = rows_of(cells(a=[0.80, 0.81, 0.82], b=[0.50, 0.95, 0.60], c=[0.10, 0.12, 0.10]))[0]
    assert row.best("test_score") == ["a", "b"]


def test_repeats_are_compared_in_pairs():
    """Each repeat has data of its own: b is always 0.1 behind, however much the repeats differ."""
    row = rows_of(cells(a=[0.9, 0.3, 0.6], b=[0.8, 0.21, 0.5]))[0]
    assert row.best("test_score") == ["a"]


def test_equal_scores_and_single_repeats_are_ties():
    assert rows_of(cells(a=[0.5, 0.5], b=[0.5, 0.5]))[0].best("test_score") == ["a", "b"]
    assert rows_of(cells(a=[0.9], b=[0.1]))[0].best("test_score") == ["a", "b"]


def test_p_values_and_errors_by_hand():
    assert paired_p_value([1.0, 2.0, 3.0], [0.0, 1.5, 1.0]) == pytest.approx(0.1181, abs=1e-4)  # t = 2.646, 2 d.f.
    assert paired_p_value([1.0, 1.0], [0.5, 0.5]) == 0.0
    assert mean_and_error([1.0, 2.0, 3.0]) == (2.0, pytest.approx(0.57735, abs=1e-5))
    assert mean_and_error([1.0]) == (1.0, None)


def test_methods_are_summed_up_over_rows():
    first, second = cells(a=[0.8, 0.9], b=[0.6, 0.65]), cells(a=[0.4, 0.5], b=[0.5, 0.4])
    both = [*first, *({**entry, "task": "lp"} for entry in second)]
    by_method = {entry["method"]: entry for entry in summarise_methods(rows_of(both), ["a", "b"])}
    assert by_method["b"]["lead"] == pytest.approx((0.225 + 0.0) / 2)
    assert (by_method["a"]["best_test_score"], by_method["a"]["tied_test_score"]) in ((0, 2), (1, 1))
    assert by_method["a"]["cost_usd"] == pytest.approx(1.0)  # 0.6 for 60 requests of 100


def test_curves_of_searches_that_ended_early_keep_their_last_score():
    ended = [cell("a", 0, 1.0, incumbent_scores=[1.0]), cell("a", 1, 0.5, incumbent_scores=[0.2, 0.5])]
    assert mean_curves(rows_of(ended), ["a"])["a"] == [0.6, 0.75]


def test_gaps_between_ease_and_best_of_n_per_endpoint():
    both = [
        cell(method, repeat, test, endpoint=endpoint)
        for endpoint, lead in (("knows nothing", 0.3), ("knows all", 0.0))
        for repeat in range(3)
        for method, test in (("ease", 0.5 + lead), ("best_of_n", 0.5))
    ]
    found = gaps(rows_of(both), "ease")
    assert [entry["endpoint"] for entry in found] == ["knows nothing", "knows all"]
    assert [entry["test_score"] for entry in found] == pytest.approx([0.3, 0.0])
    assert "knows nothing" in render_comparison_page(both)
    assert "ease less best_of_n" in render_markdown(both)


def test_unfinished_cells_leave_a_dash():
    text = render_markdown([cell("a", 0, 0.5), cell("b", 0, 0.6, task="lp")])
    assert "| lr | 10% | ≈ 0.500 | – |" in text or "| lr | 10% | **0.500** | – |" in text


def test_labels_from_outside_are_escaped():
    page = render_comparison_page([cell("<script>a</script>", 0, 0.5, task="<img src=x>", endpoint="a|b")])
    assert "<script>a" not in page
    assert "<img" not in page
