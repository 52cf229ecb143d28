"""The page is one file, shows what was measured, and lets nothing from outside out of its place."""

import re
from html.parser import HTMLParser

from ease_lib.reporting.page import confusion, render_page

ATTACK = '<script>alert("x")</script>&<img src=x onerror=y>'


ODD = {"unused": 92, "classes": {ATTACK: [5, 1, 2]}, "notices": [ATTACK]}


def report(**changes):
    base = {
        "task": ATTACK,
        "metric": "exact_match",
        "method": "ease",
        "seed": 0,
        "simulated": True,
        "resumed": True,
        "replayed_evaluations": 2,
        "evaluations": 4,
        "partial_evaluations": 1,
        "requests_saved_by_racing": 15,
        "budget": 5,
        "instructions": 0,
        "stopped": "perfect score",
        "best": {
            "validation_score": 1.0,
            "test_score": 0.5,
            "test_interval": [0.3, 0.7],
            "test_rows": 1,
            "exemplar_ids": [7],
            "exemplars": [{"exemplar_id": 7, "input": ATTACK, "outputs": [ATTACK], "is_noisy": True}],
            "found_at_evaluation": 4,
        },
        "random": {
            "validation_score": 0.4,
            "validation_standard_deviation": None,
            "test_score": None,
            "test_scores": [],
            "sequences": 2,
        },
        "proposed": {"validation_score": 0.8, "sequences": 2},
        "gain": {"mean": 0.1, "interval": [-0.1, 0.3], "evidence": False, "sequences": 9},
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


HISTORY = [
    {
        "iteration": iteration,
        "phase": phase,
        "exemplar_ids": [7, 8],
        "score": score,
        "incumbent_score": incumbent,
        "validation_rows": rows,
        "is_partial": rows < 20,
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
    page = render_page(report(), HISTORY, ATTACK, PREDICTIONS)
    tags = Tags()
    tags.feed(page)
    assert not [tag for tag, _ in tags.seen if tag in ("script", "img")]
    assert page.count("&lt;script&gt;") >= 8


def test_the_page_needs_no_other_file():
    page = render_page(report(), HISTORY, "prompt", PREDICTIONS)
    tags = Tags()
    tags.feed(page)
    assert not {"src", "href"} & {name for _, attributes in tags.seen for name in attributes}
    assert not re.search(r"url\(|@import|https?:", page)


def test_what_was_measured_is_shown():
    page = render_page(report(), HISTORY, "Input: {input}", PREDICTIONS)
    for shown in (
        "Simulated",
        "There is no evidence",
        "mean of 9 random sequences",
        "was given at 2026-10-01 07:30 UTC",
        "92 rows of the data are not used",
        "1 of 2 test rows were refused by the endpoint and left out: row 2",
        "Up to 1 validation rows of an evaluation were refused",
        "0.500",
        "0.300 to 0.700",
        "12 345",
        "2 of them came from the journal",
        "45 of the requests were made by this attempt",
        "Racing stopped 1 of them early",
        "saved 15 requests",
        "0.1234",
    ):
        assert shown in page
    assert "8 of 10 embedded sequences were longer" in page
    assert '<span class="noisy">' in page
    assert page.count("<circle") == 4
    assert page.count('class="search partial"') == 1


def test_a_cap_that_ended_the_search_is_named():
    assert "The cap max_cost_usd=5 ended" in render_page(report(stopped="max_cost_usd=5"), HISTORY, "p", PREDICTIONS)
    assert "The cap" not in render_page(report(), HISTORY, "p", PREDICTIONS)


def test_a_run_of_one_evaluation_has_a_page():
    alone = report(
        evaluations=1, proposed={"validation_score": None, "sequences": 0}, gain={}, truncated_sequences=None
    )
    assert "no random sequence to compare" in render_page(alone, HISTORY[:1], "p", PREDICTIONS)


def test_confusion_counts_labels_and_other_answers():
    rows = [("a", "a"), ("a", "B."), ("b", "b"), ("b", "whatever"), ("b", "b")]
    counts = confusion([{"outputs": [expected], "prediction": answer} for expected, answer in rows])
    assert counts == {"columns": ["a", "b", "(other)"], "rows": [("a", [1, 1, 0]), ("b", [0, 2, 1])]}
    assert confusion([{"outputs": [str(n)], "prediction": "x"} for n in range(5)]) is None
