"""The page is one file, shows what was measured, and lets nothing from outside out of its place."""

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser

import pytest

from ease_lib.evaluation.statistics import mean_interval
from ease_lib.reporting.charts import front_chart, search_curve
from ease_lib.reporting.page import cost_of_query, measured, render_page
from ease_lib.reporting.summary import ENOUGH_ANSWERS, said_of_labels, verdict
from ease_lib.tasks.base import Exemplar, row_hash

ATTACK = '<script>alert("x")</script>&<img src=x onerror=y>'


ODD = {"unused": 92, "classes": {ATTACK: [5, 1, 2]}, "notices": [ATTACK]}


def report(**changes):
    base = {
        "task": ATTACK,
        "metric": "exact_match",
        "method": "ease",
        "seed": 0,
        "answered_by_function": True,
        "resumed": True,
        "replayed_evaluations": 2,
        "evaluations": 4,
        "recalled_answers": 0,
        "budget": 5,
        "instructions": 0,
        "stopped": "perfect score",
        "best": {
            "validation_score": 1.0,
            "test_score": 0.5,
            "test_interval": [0.3, 0.7],
            "test_rows": 1,
            "exemplar_ids": [7],
            "instruction": "",
            "exemplars": [{"exemplar_id": 7, "input": ATTACK, "outputs": [ATTACK], "is_noisy": True}],
            "found_at_evaluation": 4,
            "estimate": 0.875,
            "estimate_interval": [0.75, 0.95],
            "validation_rows": 20,
        },
        "random": {
            "validation_score": 0.4,
            "validation_standard_deviation": None,
            "test_score": None,
            "share_as_good": 0.2,
            "sequences": 2,
        },
        "proposed": {"validation_score": 0.8, "sequences": 2},
        "answers": 65,
        "sequences": 3,
        "gain": {"mean": 0.1, "interval": [-0.1, 0.3], "p": 0.3, "rows": 40, "score": 0.4, "evidence": False},
        "zero_shot": {"score": 0.25, "mean": 0.25, "interval": [0.05, 0.4], "p": 0.01, "evidence": True},
        "baseline": {},
        "published": {},
        "judge": {},
        "requirement": {},
        "planned": {"requests": 300, "prompt_tokens": 9000, "completion_tokens": 900, "cost_usd": 0.5},
        "verdict": {
            "random": "no evidence",
            "zero_shot": "better",
            "baseline": "not compared",
            "text": f"No evidence of {ATTACK}.",
        },
        "order": None,
        "token_front": [
            {"tokens": 0, "exemplars": 0, "estimate": 0.3, "error": 0.1, "rows": 20},
            {"tokens": 17, "exemplars": 1, "estimate": 0.875, "error": 0.1, "rows": 20},
        ],
        "harmful_exemplars": [],
        "mislabelled_exemplars": [],
        "confirmed": 0,
        "failed_rows": {"validation": 1, "test": 1},
        "dataset": {
            "pool": 10,
            "validation": 20,
            "test": 2,
            "noisy": 1,
            "unused": 92,
            "classes": {ATTACK: [5, 1, 2]},
            "notices": [ATTACK],
        },
        "llm": {
            "endpoint": ATTACK,
            "model": ATTACK,
            "requests": 12345,
            "new_requests": 45,
            "cached": 0,
            "retries": 0,
            "cut_answers": 0,
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "cost_usd": 0.5,
        },
        "oldest_answer": "2026-10-01T07:30:00+00:00",
        "seconds": {"total": 10.0, "llm": 9.0, "search": 1.0},
        "truncated_sequences": {"sequences": 10, "truncated": 8},
        "parameters": {"task": {"task_uri": ATTACK}},
    }
    return {**base, **changes}


def harmful(**texts):
    found = {"exemplar_id": 3, "effect": -0.125, "error": 0.04, "probability": 0.97, "sequences": 5, "answers": 40}
    return {**found, "score": 0.5, "score_without": 0.7, "spoiled_rows": [31, 33], "is_noisy": True, **texts}


HISTORY = [
    {
        "iteration": iteration,
        "phase": phase,
        "exemplar_ids": [7, 8 + iteration],
        "instruction_id": 0,
        "score": score,
        "incumbent_score": incumbent,
        "validation_rows": rows,
        "row_ids": list(range(10, 10 + rows)),
        "llm_requests": rows,
        "cached_responses": 0,
        "retries": 3,
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "cost_usd": 0.1234,
        "seconds": 1.5,
    }
    for iteration, (phase, score, incumbent, rows) in enumerate(
        [("initial", 0.2, 0.2, 20), ("initial", 0.6, 0.6, 20), ("search", 0.6, 0.6, 5), ("search", 1.0, 1.0, 20)]
    )
]
PREDICTIONS = [
    {"sequence": "best", "exemplar_id": 1, "prediction": ATTACK, "outputs": [ATTACK, "b"], "score": 0.0, "failure": ""},
    {"sequence": "best", "exemplar_id": 2, "prediction": "", "outputs": ["a"], "score": None, "failure": ATTACK},
    {
        "sequence": "random 1",
        "exemplar_id": 1,
        "prediction": "not shown",
        "outputs": ["a"],
        "score": 0.0,
        "failure": "",
    },
]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))


def test_text_from_outside_is_escaped_everywhere():
    page = render_page(report(), HISTORY, ATTACK, PREDICTIONS, [harmful(input=ATTACK, output=ATTACK)])
    tags = Tags()
    tags.feed(page)
    assert [tag for tag, _ in tags.seen if tag in ("script", "img")] == ["script"], "our own"
    assert page.count("&lt;script&gt;") >= 11


def test_the_page_needs_no_other_file():
    page = render_page(report(), HISTORY, "prompt", PREDICTIONS)
    tags = Tags()
    tags.feed(page)
    assert not {"src", "href"} & {name for _, attributes in tags.seen for name in attributes}
    assert not re.search(r"url\(|@import|https?:", page)


def test_what_was_measured_is_shown():
    page = render_page(report(), HISTORY, "Input: {input}", PREDICTIONS)
    for shown in (
        "a Python function",
        "No evidence of ",
        '0.875 <span class="soft">0.750 to 0.950</span>',
        "comes from 20 validation rows that gave 1.000",
        "mean of the random sequences (0.400)",
        "after 4 evaluations of 3 sequences; 65 answers to 20 validation rows",
        "is from 2026-10-01 07:30 UTC",
        "92 rows of the data are not used",
        "1 of 2 test rows were refused by the endpoint and left out: row 2",
        "The endpoint refused up to 1 validation rows of an evaluation",
        "0.500",
        "0.300 to 0.700",
        "12 345",
        "2 of them came from the journal",
        "45 of the requests were made by this attempt",
        "0.1234",
    ):
        assert shown in page
    assert "8 of 10 embedded sequences were longer" in page
    assert '<span class="noisy">' in page
    assert page.count("<circle") == 4 + 2, "evaluations, and points of the front of tokens"


def test_no_script_runs_but_the_one_that_copies():
    page = render_page(report(), HISTORY, "p", PREDICTIONS)
    (script,) = re.findall(r"<script>(.*)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert page.count('class="copy" type="button" hidden') == 1, "no button that does nothing without a script"


def test_the_prompt_is_there_in_every_form_to_copy():
    forms = {"Messages": f'[{{"content": "{ATTACK}"}}]', "curl": "curl 'https://llm'"}
    page = render_page(report(), HISTORY, "the prompt", PREDICTIONS, forms=forms)
    assert re.findall(r"<summary>(Text|Messages|curl)</summary>", page) == ["Text", "Messages", "curl"]
    assert 'aria-label="Text">\nthe prompt</pre>' in page


def test_scores_are_compared_on_one_axis_with_their_intervals():
    rows = [
        {**PREDICTIONS[0], "sequence": sequence, "exemplar_id": row, "score": score}
        for sequence, scores in {
            "best": (1.0, 1.0, 0.0, 0.0),
            "random 1": (1.0, 0.0, 0.0, 0.0),
            "random 2": (0.0, 1.0, 0.0, None),
            "zero_shot": (0.0, 0.0, 0.0, 0.0),
        }.items()
        for row, score in enumerate(scores)
    ]
    lines = measured(report(), rows)
    assert [(line.name, line.score, line.is_winner) for line in lines] == [
        ("This prompt", 0.5, True),
        ("This prompt, as the search expected", 0.875, True),
        ("Exemplars picked at random", 0.25, False),
        ("No exemplars", 0.0, False),
    ]
    assert lines[2].interval == mean_interval([0.5, 0.5, 0.0, 0.0])
    page = render_page(report(), HISTORY, "p", rows)
    assert '<tr class="winner"><th scope="row">This prompt</th>' in page
    assert 'style="left: 30.0%; width: 40.0%"' in page


def test_of_mistakes_those_come_first_that_random_exemplars_make_too():
    rows = [
        {**PREDICTIONS[0], "sequence": sequence, "exemplar_id": row, "score": score}
        for sequence, scores in {"best": (0.0, 0.0, 1.0), "random 1": (1.0, 0.0, 0.0)}.items()
        for row, score in enumerate(scores)
    ]
    texts = ("an easy row", "a hard row", "a right one")
    test = {n: Exemplar(n, text, ("x",), origin=f"<t>.csv, line {n + 2}") for n, text in enumerate(texts)}
    page = render_page(report(), HISTORY, "p", rows, test=test)
    assert "&lt;t&gt;.csv, line 3" in page, "as who owns the table counts"
    assert page.index("a hard row") < page.index("an easy row")
    assert "a right one" not in page
    assert row_hash("a hard row") in page, "for those who forget it"


def test_what_a_query_costs_is_said_where_tokens_were_counted():
    page = render_page(report(), HISTORY, "p", PREDICTIONS)
    assert "A query costs about 50 tokens of prompt and 1 of answer, 6.17 USD for a thousand." in page
    kept = [{**row, "llm_requests": 0} for row in HISTORY]
    assert "A query costs" not in render_page(report(), kept, "p", PREDICTIONS), "kept answers cost nothing"
    assert cost_of_query(report(judge={"model": "j"}), HISTORY) is None, "its requests are counted with others"


def test_another_instruction_with_the_same_exemplars_is_another_prompt():
    other = [{**HISTORY[3], "instruction_id": 1, "prompt_tokens": 90_000}, *HISTORY[1:]]
    assert cost_of_query(report(), other)["prompt_tokens"] == 50


def test_the_prompt_is_copied_as_it_is():
    """HTML drops a first line that is empty, and makes one of two characters that end a line."""
    page = render_page(report(), HISTORY, "\nfirst\r\nlast", PREDICTIONS)
    assert 'aria-label="Text">\n\nfirst&#13;\nlast</pre>' in page


def test_a_winner_without_exemplars_and_answers_that_are_all_right_have_no_empty_tables():
    best = {**report()["best"], "exemplars": [], "exemplar_ids": []}
    right = [{**PREDICTIONS[0], "score": 1.0}]
    page = render_page(report(best=best), HISTORY, "p", right)
    assert "None: the prompt is only the query" in page
    assert "The last exemplar is next to the query" not in page
    assert "no choice of exemplars may help" not in page


def test_the_published_prompt_stands_among_the_scores():
    measured = {"rows": 41, "latest_score": 0.5, "latest_interval": [0.4, 0.6], "p": 0.03, "evidence": True}
    measured |= {"against": "v1", "score": 0.75, "mean": 0.25, "interval": [0.1, 0.4]}
    page = render_page(
        report(published={"latest": "v1", "refusal": "", "measured": measured, "requests": 1234}),
        HISTORY,
        "p",
        PREDICTIONS,
    )
    assert "Published now, on 41 of these rows" in page
    assert "scores +25.0 points relative to it (95 %: +10.0 to +40.0; p = 0.03) on 41 rows" in page
    assert "better beyond chance. Its answers took 1 234 requests" in page
    refused = {"latest": "v<1>", "refusal": "v<1> is the same prompt", "measured": {}, "requests": 0}
    page = render_page(report(published=refused), HISTORY, "p", PREDICTIONS)
    assert "Not compared: v&lt;1&gt; is the same prompt." in page
    assert "Published now" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_numbers_of_an_axis_are_few_and_do_not_overlap():
    for rows in (1, 7, 20, 900, 20_000):
        curve = search_curve([{**row, "validation_rows": rows} for row in HISTORY], None)
        numbers = [float(x) for x, text in re.findall(r'<text x="([\d.]+)" y="284.0"[^>]*>(\d+)</text>', curve)]
        assert 2 <= len(numbers) <= 11
        assert all(second - first > 34 for first, second in itertools.pairwise(numbers))
    near = [{"tokens": tokens, "exemplars": 1, "estimate": 0.5, "error": 0.1} for tokens in (100, 101, 500)]
    assert re.findall(r">(\d+)</text>", front_chart(near))[-2:] == ["100", "500"]


def test_the_axis_of_answers_says_what_they_cost_where_prices_are_known():
    curve = search_curve([{**row, "validation_rows": 10, "cost_usd": 0.002} for row in HISTORY], None)
    shown = dict(re.findall(r'<text x="([\d.]+)" y="284.0"[^>]*>(\d+)</text>', curve))
    costs = dict(re.findall(r'<text x="([\d.]+)" y="298.0"[^>]*>\$([\d.]+)</text>', curve))
    assert list(costs)[:-1] == list(shown)[:-1]
    assert float(list(costs)[-1]) <= 860 - 26
    assert list(costs.values()) == [f"{int(number) * 0.0002:.4f}" for number in shown.values()]
    assert f"after {10 * len(HISTORY)} answers, ${0.002 * len(HISTORY):.4f}" in curve
    assert "$" not in search_curve([{**row, "cost_usd": 0.0} for row in HISTORY], None)


def test_a_cap_that_ended_the_search_is_named():
    assert "The cap max_cost_usd=5 ended" in render_page(report(stopped="max_cost_usd=5"), HISTORY, "p", PREDICTIONS)
    assert "The cap" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_a_test_score_that_was_not_expected_is_said_to_be_so():
    best = {**report()["best"], "test_score": 0.6, "test_interval": [0.5, 0.7]}
    pages = [
        render_page(
            report(best={**best, "estimate": expected, "estimate_interval": interval}), HISTORY, "p", PREDICTIONS
        )
        for expected, interval in ((0.9, [0.88, 0.92]), (0.62, [0.5, 0.7]))
    ]
    assert "The test score is 30.0 points below what the search expected" in pages[0]
    assert "what the search expected, more" not in pages[1]


def test_few_answers_of_the_default_method_are_said_to_be_few():
    few, *others = [
        render_page(
            report(method=method, answers=answers, recalled_answers=known, stopped=why), HISTORY, "p", PREDICTIONS
        )
        for method, answers, known, why in (
            ("adaptive", 100, 0, "budget"),
            ("adaptive", ENOUGH_ANSWERS, 0, "budget"),
            ("adaptive", 100, ENOUGH_ANSWERS, "budget"),
            ("ease", 100, 0, "budget"),
            ("adaptive", 100, 0, "max_llm_requests=150"),
            ("adaptive", 100, 0, "perfect score"),
        )
    ]
    assert "After 100 answers the result may be no better than random search with the same budget" in few
    for page in others:
        assert "may be no better" not in page


def test_more_tokens_are_advised_where_many_answers_were_cut():
    few, many = (
        render_page(report(llm={**report()["llm"], "cut_answers": cut}), HISTORY, "p", PREDICTIONS)
        for cut in (100, 200)  # of 12 345
    )
    assert "100 answers were cut at the token limit." in few
    assert "200 answers were cut at the token limit: raise <code>llm_max_tokens" in many


def test_a_run_of_one_evaluation_has_a_page():
    alone = report(
        evaluations=1,
        proposed={"validation_score": None, "sequences": 0},
        gain={},
        zero_shot={},
        verdict=verdict({"random": {}, "zero_shot": {}, "baseline": {}, "best": {"rows": 1}}),
        token_front=report()["token_front"][:1],
        truncated_sequences=None,
    )
    page = render_page(alone, HISTORY[:1], "p", PREDICTIONS)
    assert "was not compared with anything" in page
    assert "No exemplars, test set" not in page
    assert "Score against tokens" not in page, "one prompt is no front"


@pytest.mark.parametrize(
    ("random", "zero_shot", "baseline", "warns"),
    [
        ("better", "better", "not compared", False),
        ("better", "no evidence", "not compared", False),
        ("better", "worse", "not compared", True),
        ("no evidence", "better", "not compared", True),
        ("better", "better", "better", False),
        ("better", "better", "no evidence", True),
    ],
)
def test_a_winner_that_is_not_better_has_a_warning_in_place_of_praise(random, zero_shot, baseline, warns):
    said = {"random": random, "zero_shot": zero_shot, "baseline": baseline, "text": "This is the verdict."}
    page = render_page(report(verdict=said), HISTORY, "p", PREDICTIONS)
    (decided,) = re.findall(
        rf'<div class="verdict{" none" if warns else ""}"><b>(.*)</b> This is the verdict.</div>', page
    )
    assert decided.startswith("Use this prompt") != warns


def test_a_sequence_that_is_evaluated_in_parts_has_the_mean_of_its_rows_so_far():
    parts = [
        {**HISTORY[0], "score": score, "validation_rows": rows} for score, rows in ((0.0, 5), (1.0, 15), (0.5, 20))
    ]
    page = render_page(report(), parts, "p", PREDICTIONS)
    for shown in ("evaluation 1: 0.000 of 5 rows", "evaluation 2: 0.750 of 20 rows", "evaluation 3: 0.625 of 40 rows"):
        assert shown in page


def test_answers_that_confirm_the_winner_are_told_from_the_search():
    confirmed = {**HISTORY[3], "phase": "confirmation"}
    page = render_page(report(confirmed=1), [*HISTORY, confirmed], "p", PREDICTIONS)
    assert "confirmation on rows new to the finalists" in page
    assert page.count('<circle class="confirmation"') == 1
    assert "confirmation on rows" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_what_the_order_of_the_exemplars_does_is_shown_where_it_was_asked():
    order = {
        **{"permutations": 6, "rows": 20, "winner": 0.9, "by_similarity": 0.8},
        **{"mean": 0.7, "lowest": 0.55, "highest": 0.95, "deviation": 0.1, "share": 0.4},
    }
    page = render_page(report(order=order), HISTORY, "p", PREDICTIONS)
    assert "6 orders of these exemplars, each on 20 validation rows, score 0.550 to 0.950, 0.700 on average" in page
    assert "40 % of the variance between the sequences" in page
    assert "Does its order matter?" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_exemplars_that_make_prompts_worse_are_shown_with_the_evidence():
    page = render_page(report(), HISTORY, "p", PREDICTIONS, [harmful(input="lights went out", output="praise")])
    for shown in ("Exemplars that make prompts worse", "lights went out", "-0.125 ± 0.040", "97 %", "31 33"):
        assert shown in page
    assert "Exemplars that make" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def with_labels(*listed, expected_wrong=9.0, without=None, **more):
    labels = {"judged": 60, "expected_wrong": expected_wrong, "told_apart": 0.92, "without": without}
    return report(labels=labels, mislabelled_exemplars=list(listed), **more)


def test_exemplars_whose_label_is_contradicted_are_shown_with_what_rows_like_them_say():
    listed = {"exemplar_id": 700, "suggested": "complaint", "probability": 0.987, "row_hash": "ab" * 32}
    found = {**listed, "input": "arrived <b>broken</b>", "output": "praise", "is_noisy": None}
    page = render_page(with_labels(listed), HISTORY, "p", PREDICTIONS, mislabelled=[found])
    assert "likely mislabelled" in page
    assert "1 of 60 exemplars are listed as mislabelled; an estimated 9 labels of the pool are wrong" in page
    assert "arrived &lt;b&gt;broken" in page
    assert '<td class="text">complaint</td><td class="n">99 %</td>' in page
    assert f"--exclude-rows {'ab' * 32}" in page
    assert row_hash("arrived <b>broken</b>") in page
    assert "The winner shows" not in page
    assert "likely mislabelled" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_a_winner_that_shows_a_mislabelled_exemplar_says_what_doing_without_would_cost():
    shown = report()["best"]["exemplars"][0]["exemplar_id"]
    listed = {"exemplar_id": shown, "suggested": "complaint", "probability": 0.9, "row_hash": "ab" * 32}
    without = {"exemplar_ids": [3], "estimate": 0.61, "margin": 0.098}
    (_, said) = said_of_labels(with_labels(listed, without=without))
    assert said.startswith(f"The winner shows 1 of them, exemplar {shown}")
    assert "without is expected to score 0.610 (± 0.098), the winner" in said
    found = [{**listed, "input": "a", "output": "b", "is_noisy": None}]
    page = render_page(with_labels(listed, without=without), HISTORY, "p", PREDICTIONS, mislabelled=found)
    assert "</span> likely mislabelled</td>" in page or "<td> likely mislabelled</td>" in page


def test_a_pool_whose_wrong_labels_cannot_be_told_says_why():
    (said,) = said_of_labels(with_labels())
    assert said.startswith(
        "No exemplar is mislabelled with enough certainty to be listed, though an estimated 9 labels of the pool"
    )
    assert "validation rows predict 92 % of each other's labels" in said
    assert said_of_labels(with_labels(expected_wrong=0.4)) == []


def test_the_page_names_every_row_that_it_shows_for_those_who_forget_one():
    repeated = {**PREDICTIONS[0], "prediction": "praise\n\nInput: lost parcel\nOutput: x", "outputs": ["question"]}
    harmful_row = harmful(input="lights went out", output="complaint")
    page = render_page(report(), HISTORY, "p", [repeated, *PREDICTIONS[1:]], [harmful_row])
    (named,) = re.findall(r'<meta name="ease-rows" content="([0-9a-f ]*)">', page)
    shown = (ATTACK, "lost parcel", repeated["prediction"], "question", "lights went out", "complaint")
    assert {row_hash(text) for text in shown} <= set(named.split())
    assert row_hash("not shown") not in named


def test_the_page_names_the_fields_of_the_prompt_for_the_query():
    page = render_page(report(), HISTORY, "prompt", PREDICTIONS, marks=["{subject}", "{body}"])
    assert "Replace <code>{subject}</code>, <code>{body}</code>." in page
