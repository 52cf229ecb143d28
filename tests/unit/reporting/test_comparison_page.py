"""The best method, and the evidence needed to name it."""

import re

import pytest

from ease_lib.evaluation.statistics import mean_and_error, paired_p_value
from ease_lib.reporting import comparison_results
from ease_lib.reporting.comparison_results import (
    differences,
    found_by_comparison,
    gaps,
    headline,
    mean_curves,
    pairs_needed,
    render_comparison_page,
    render_markdown,
    repeats_needed,
    rows_of,
    summarise_methods,
)
from ease_lib.seeding import rng
from ease_lib.tasks.base import row_hash


def cell(method, repeat, test, validation=None, task="lr", endpoint="simulated", **more):
    return {
        "task": task,
        "noise_ratio": 0.1,
        "endpoint": endpoint,
        "method": method,
        "repeat": repeat,
        "seed": repeat,
        "answered_by_function": True,
        "validation_score": test if validation is None else validation,
        "test_score": test,
        "test_interval": [test - 0.06, test + 0.06],
        "estimate": test,
        "estimate_interval": [test - 0.08, test + 0.08],
        "exemplars": 5,
        "instruction": "",
        "input": [f"{method}'s question"],
        "outputs": ["its answer"],
        "prompt": f"Input: {method}'s question\nOutput: its answer\n\nInput: {{input}}\nOutput:",
        "random_test_score": 0.2,
        "gain_over_random": 0.1,
        "gain_over_random_interval": [-0.05, 0.25],
        "better_than_random": False,
        "baseline_test_score": None,
        "evaluations": 3,
        "llm_requests": 100,
        "cached_responses": 40,
        "cost_usd": 0.6,
        "search_seconds": 1.0,
        "stopped": "budget",
        "incumbent_scores": [0.1, 0.2, test],
        "failed_rows": 0,
        "failure": "",
        **more,
    }


FAILED = {"task": "lr", "noise_ratio": 0.1, "endpoint": "simulated", "method": "b", "repeat": 1, "failure": "boom"}


def cells(**scores):
    return [cell(method, repeat, test) for method, tests in scores.items() for repeat, test in enumerate(tests)]


def test_how_often_an_expectation_held_is_said():
    held = cell("a", 0, 0.5, estimate=0.6, estimate_interval=[0.52, 0.68])
    broken = cell("a", 1, 0.5, estimate=0.61, estimate_interval=[0.53, 0.69])
    entry = summarise_methods(rows_of([held, broken]), ["a"])[0]
    assert entry["optimism"] == pytest.approx(0.105)
    assert entry["estimates_held"] == 0.5


def sentence(found, *methods):
    return headline(differences(rows_of(found), methods))


def ahead(by, repeats=8):
    """Scores that differ between repeats, and a method that is ahead of them by so much in each."""
    others = [0.1 * (repeat % 4) for repeat in range(repeats)]
    return [score + by for score in others], others


def test_a_method_is_best_only_if_it_beats_every_other_beyond_noise():
    a, b = ahead(0.3)
    assert rows_of(cells(a=a, b=b, c=b))[0].best("test_score") == ["a"]
    a[0] = a[1] = a[2] = 0.0
    assert rows_of(cells(a=a, b=b, c=b))[0].best("test_score") == ["a", "b", "c"]


def test_repeats_are_compared_in_pairs():
    """Each repeat has data of its own: b is always a little behind, however much the repeats differ."""
    a, b = ahead(0.01)
    assert rows_of(cells(a=a, b=b))[0].best("test_score") == ["a"]


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_a_few_equal_differences_prove_nothing(repeats):
    a, b = ahead(0.3, repeats)
    assert rows_of(cells(a=a, b=b))[0].best("test_score") == ["a", "b"]
    assert f"{repeats_needed(2)} repeats are needed" in render_markdown(cells(a=a, b=b))


def test_more_methods_need_more_repeats():
    a, b = ahead(0.3, 6)
    assert rows_of(cells(a=a, b=b))[0].best("test_score") == ["a"]
    many = {name: b for name in "bcdefghijkl"}
    assert rows_of(cells(a=a, **many))[0].best("test_score") == ["a", *many]
    assert [repeats_needed(methods) for methods in (2, 3, 12)] == [6, 7, 9]


def test_equal_methods_are_called_best_at_most_as_often_as_stated():
    generator = rng(0, "equal methods")
    called = 0
    for _ in range(300):
        scores = generator.normal(0.5, generator.uniform(0.01, 0.2, size=(4, 1)), size=(4, 8)).round(2)
        called += len(rows_of(cells(**dict(zip("abcd", scores.tolist(), strict=True))))[0].best("test_score")) == 1
    assert called / 300 <= 0.05


def test_equal_scores_and_single_repeats_are_ties():
    assert rows_of(cells(a=[0.5, 0.5], b=[0.5, 0.5]))[0].best("test_score") == ["a", "b"]
    assert rows_of(cells(a=[0.9], b=[0.1]))[0].best("test_score") == ["a", "b"]


def test_errors_by_hand():
    assert mean_and_error([1.0, 2.0, 3.0]) == (2.0, pytest.approx(0.57735, abs=1e-5))
    assert mean_and_error([1.0]) == (1.0, None)


def test_of_a_single_task_the_repeats_are_the_pairs():
    a, b = ahead(0.3, 6)
    (found,) = differences(rows_of(cells(a=a, b=b)), ["a", "b"])
    assert (found.mean, found.error) == (pytest.approx(0.3), pytest.approx(0, abs=1e-9))
    assert (found.p, found.over, found.needed) == (pytest.approx(2 / 64), "repeats", None)
    assert "Methods over 1 task**" in render_markdown(cells(a=a, b=b))


def test_methods_are_summed_up_over_tasks():
    first, second = cells(a=[0.8, 0.9], b=[0.6, 0.65]), cells(a=[0.4, 0.5], b=[0.5, 0.4])
    both = [*first, *({**entry, "task": "lp"} for entry in second)]
    (found,) = differences(rows_of(both), ["a", "b"])
    assert (found.method, found.over, found.mean) == ("a", "tasks", pytest.approx((0.225 + 0.0) / 2))
    by_method = {entry["method"]: entry for entry in summarise_methods(rows_of(both), ["a", "b"])}
    assert (by_method["a"]["best_test_score"], by_method["a"]["tied_test_score"]) in ((0, 2), (1, 1))
    assert by_method["a"]["cost_usd"] == pytest.approx(1.0)  # 0.6 for 60 requests of 100


def test_the_papers_count_of_best_tasks_random_exemplars_and_lengths_stand_beside_our_test():
    """Tab. 1 counts where no mean is higher, ties too."""
    first, second = cells(a=[0.8, 0.9], b=[0.6, 0.65]), cells(a=[0.4, 0.5], b=[0.5, 0.4])
    both = [*first, *({**entry, "task": "lp", "exemplars": 2, "random_test_score": 0.4} for entry in second)]
    summary = {entry["method"]: entry for entry in summarise_methods(rows_of(both), ["a", "b"])}
    assert [summary[method]["highest_test_score"] for method in "ab"] == [2, 1]
    assert summary["a"]["exemplars"] == 3.5
    page, markdown = render_comparison_page(both), render_markdown(both)
    assert "| lr | 10% | ≈ 0.850 ± 0.050 | ≈ 0.625 ± 0.025 | 0.200 |" in markdown
    assert "| Method | best | tied | highest mean | test score |" in markdown
    assert page.count(">random exemplars</th>") == 1
    assert '<td class="n">0.400</td>' in page


def test_curves_of_searches_that_ended_early_keep_their_last_score():
    ended = [cell("a", 0, 1.0, incumbent_scores=[1.0]), cell("a", 1, 0.5, incumbent_scores=[0.2, 0.5])]
    assert mean_curves(rows_of(ended), ["a"])["a"].means == [0.6, 0.75]


def test_the_interval_of_a_curve_is_of_what_is_the_methods_own():
    """Two repeats that differ by 0.5, and methods that differ by 0.1 in both: all that varies is theirs in common."""
    found = [
        cell(method, repeat, 0.5, incumbent_scores=[0.2 + 0.5 * repeat + ahead, 0.3 + 0.5 * repeat + ahead])
        for method, ahead in (("a", 0.1), ("b", 0.0))
        for repeat in range(2)
    ]
    curves = mean_curves(rows_of(found), ["a", "b"])
    assert curves["a"].means == pytest.approx([0.55, 0.65])
    assert curves["a"].reach == pytest.approx([0, 0], abs=1e-9)
    found[0] = {**found[0], "incumbent_scores": [0.3, 0.6]}
    assert mean_curves(rows_of(found), ["a", "b"])["a"].reach[1] > 0.1
    assert not mean_curves(rows_of(found[1:]), ["a", "b"])["a"].reach, "a run is missing"


def test_as_many_pairs_are_named_as_show_the_difference_in_four_of_five_comparisons():
    mean, deviation = 0.05, 0.1
    pairs = pairs_needed(mean, deviation, 2)
    generator = rng(0, "pairs needed")
    drawn = generator.normal(mean, deviation, size=(400, pairs))
    shown = [paired_p_value(list(one), [0.0] * pairs) < 0.05 for one in drawn]
    assert 0.7 < sum(shown) / 400 < 0.9
    assert pairs_needed(0.5, 0.01, 3) == repeats_needed(3), "fewer can show nothing"
    assert pairs_needed(-0.1, 0.1, 2) is None


def test_a_difference_that_is_not_shown_says_what_would_show_it():
    found = cells(a=[0.5, 0.6, 0.7], b=[0.45, 0.58, 0.62])
    (difference,) = differences(rows_of(found), ["b", "a"])
    assert difference.method == "a"
    assert not difference.is_shown
    assert f"about {difference.needed} repeats would show it" in render_comparison_page(found)
    assert f"about {difference.needed} repeats |" in render_markdown(found)


def test_no_interval_says_what_the_exact_test_cannot():
    """Two equal differences have no spread, and prove nothing."""
    a, b = ahead(0.3, 2)
    (difference,) = differences(rows_of(cells(a=a, b=b)), ["a", "b"])
    assert difference.interval is None
    assert "there are too few repeats for intervals" in render_comparison_page(cells(a=a, b=b))
    a, b = ahead(0.3, 6)
    a[0] += 0.1
    (difference,) = differences(rows_of(cells(a=a, b=b)), ["a", "b"])
    assert 0 < difference.interval[0] < difference.mean < difference.interval[1]


def test_a_score_leads_to_its_prompts():
    page = render_comparison_page(cells(a=[0.5, 0.6], b=[0.4, 0.5]))
    assert page.count('href="#prompts-0-1"') == 2, "of test and validation score"
    assert page.count('id="prompts-0-1"') == 1
    assert "Repeat 2: test score 0.500" in page
    assert "Input: b&#39;s question" in page
    assert row_hash("b's question") in re.search('name="ease-rows" content="([^"]*)"', page)[1].split()


def test_beyond_a_limit_a_page_shows_no_more_prompts(monkeypatch):
    monkeypatch.setattr(comparison_results, "MOST_CHARACTERS", 200)
    page = render_comparison_page(cells(a=[0.5, 0.6], b=[0.4, 0.5]))
    assert 'href="#prompts-0-0"' in page
    assert "prompts-0-1" not in page


def test_a_run_that_a_cap_ended_is_marked_where_its_score_stands():
    found = [*cells(a=[0.5, 0.6], b=[0.4]), cell("b", 1, 0.6, stopped="max_llm_requests=500")]
    assert "0.500 ± 0.100 (1 capped)" in render_comparison_page(found)
    assert "(1 capped)" in render_markdown(found)


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
    assert "ease minus best_of_n" in render_markdown(both)


def test_unfinished_cells_leave_a_dash():
    text = render_markdown([cell("a", 0, 0.5), cell("b", 0, 0.6, task="lp")])
    assert "| lr | 10% | ≈ 0.500 | – |" in text or "| lr | 10% | **0.500** | – |" in text


def test_labels_from_outside_are_escaped():
    page = render_comparison_page([cell("<script>a</script>", 0, 0.5, task="<img src=x>", endpoint="a|b")])
    assert "<script>a" not in page
    assert "<img" not in page


def test_runs_that_failed_and_rows_that_were_refused_are_named():
    failed = {**FAILED, "failure": "no <b>credit</b> | left"}
    both = [*cells(a=[0.5, 0.6]), cell("b", 0, 0.4, failed_rows=3), failed]
    text, page = render_markdown(both), render_comparison_page(both)
    assert "- lr, noise 10%, b, repeat 2: no <b>credit</b> \\| left" in text
    assert "refused 3 test rows in total" in text
    assert "1 run failed and is missing below: lr, noise 10%, b, repeat 2 (no &lt;b&gt;credit" in page
    assert "refused 3 test rows in total" in page


def test_a_method_whose_runs_all_failed_on_one_row_has_no_curve_there():
    shown = [*cells(ease=[0.5, 0.6], best_of_n=[0.4, 0.5]), cell("ease", 0, 0.7, task="other")]
    failed = cell("best_of_n", 0, 0.0, task="other", failure="the endpoint was away")
    page = render_comparison_page([*shown, failed])
    assert page.count("<svg") == 3, "of all rows, and of each"
    assert "the endpoint was away" in page


def test_the_sentence_names_who_is_beaten_and_against_whom_there_is_no_evidence():
    a, b = ahead(0.3)
    near = [score - 0.002 * (repeat % 2) for repeat, score in enumerate(a)]
    found = cells(b=b, a=a, near=near)
    assert sentence(found, "b", "a", "near") == (
        "Take a: better than b (+30.0 ± 0.0 points); not shown to be better than near (+0.1 ± 0.0 points)."
    )
    assert "Take a: better than b" in render_comparison_page(found)
    assert "**Take a: better than b" in render_markdown(found)


def test_where_the_first_method_failed_in_a_row_the_page_is_made_all_the_same():
    shown = [cell(method, repeat, 0.5, task="other") for method in ("b", "c") for repeat in range(2)]
    both = [*cells(a=[0.5, 0.6], b=[0.4, 0.5], c=[0.4, 0.5]), *shown]
    page = render_comparison_page([*both, {**FAILED, "task": "other", "method": "a"}])
    assert "boom" in page
    assert page.count("<polygon") == 0, "no intervals where runs are missing"


def test_a_failed_run_is_named_with_its_endpoint_where_there_are_several():
    found = [*cells(a=[0.5, 0.6]), cell("a", 0, 0.5, endpoint="large"), {**FAILED, "endpoint": "large"}]
    assert "lr, noise 10%, b at large, repeat 2: boom" in render_markdown(found)
    assert "minus best_of_n" not in render_markdown(found), "no table without a row"


def test_a_repeat_that_failed_for_all_is_missing_for_all():
    found = [*cells(a=[0.5], b=[0.4]), FAILED, {**FAILED, "method": "a"}]
    assert "0.500 (1 of 2)" in render_comparison_page(found)


def test_methods_are_ranked_by_the_rows_that_all_of_them_have():
    """b is better on all eight rows that both have; a alone has two easy ones."""
    found = [cell("a", 0, 0.5, task=f"t{n}") for n in range(8)] + [cell("b", 0, 0.55, task=f"t{n}") for n in range(8)]
    found += [cell("a", 0, 1.0, task="easy", llm_requests=10_000)]
    assert sentence(found, "a", "b") == "Take b: better than a (+5.0 ± 0.0 points)."


def test_requests_are_compared_on_the_rows_that_both_have():
    found = [cell("a", 0, 0.6), cell("b", 0, 0.5), cell("a", 0, 0.6, task="dear", llm_requests=10_000)]
    assert "times the requests" not in sentence(found, "a", "b")


def test_where_means_are_equal_none_is_called_the_highest():
    said = sentence(cells(a=[0.5, 0.6], b=[0.5, 0.6]), "a", "b")
    assert said.startswith("No method is significantly better: no mean is higher than that of a;")


def test_one_method_that_has_finished_runs_is_not_one_that_was_compared():
    both = [*cells(a=[0.5, 0.6]), FAILED]
    assert found_by_comparison(both)["said"] == [
        "Only a has finished runs.",
        "1 of 3 runs failed and are missing here.",
    ]
    assert found_by_comparison(cells(a=[0.5]))["said"] == ["There is one method."]


def test_the_caption_says_of_intervals_what_the_rows_show():
    few = [cell("a", 0, 0.9, task=f"t{n}") for n in range(8)] + [
        cell("b", 0, 0.5 + n / 50, task=f"t{n}") for n in range(8)
    ]
    page = render_comparison_page([*few, cell("c", 0, 0.89, task="t0")])
    assert "too few" not in page
    assert "if there are enough" in page


def test_where_no_method_is_shown_to_be_better_the_sentence_says_so():
    assert sentence(cells(a=[0.5, 0.6], b=[0.4, 0.7]), "a", "b").startswith("No method is significantly better")
    assert not sentence(cells(a=[0.5]), "a")


def test_the_sentence_says_where_requests_are_not_equal():
    a, b = ahead(0.3)
    found = [cell("a", repeat, score, llm_requests=300) for repeat, score in enumerate(a)]
    found += [cell("b", repeat, score, llm_requests=100) for repeat, score in enumerate(b)]
    assert "b (+30.0 ± 0.0 points, with 0.3 times the requests)" in sentence(found, "a", "b")


def test_a_mean_over_fewer_repeats_says_so():
    page = render_comparison_page(cells(a=[0.5, 0.6, 0.7], b=[0.4, 0.5]))
    assert "0.450 ± 0.050 (2 of 3)" in page
    assert "0.600 ± 0.058<" in page
