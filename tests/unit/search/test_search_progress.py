"""Progress of a search in the log and the bar."""

import logging
from types import SimpleNamespace

import pytest

from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import OptimizerConfig
from ease_lib.search import search_progress
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.search_progress import SearchProgress

ROWS = 10


def record(iteration, score=0.5):
    candidate = Candidate(sequence=(iteration,), phase="initial", instruction=0, rows=tuple(range(ROWS)))
    observation = Observation(candidate=candidate, score=score, validation_rows=ROWS, rows=candidate.rows)
    usage = Usage(requests=ROWS, prompt_tokens=1_000_000)
    return SimpleNamespace(iteration=iteration, observation=observation, usage=usage, seconds=0.1)


def followed(evaluations, *, seconds=0.0, known=(), monkeypatch, caplog):
    """The states of a search of so many evaluations, each of which takes so long, and the lines of the log."""
    now = [0.0]
    monkeypatch.setattr(search_progress.time, "monotonic", lambda: now[0])
    states, history = [], History()
    planned = SimpleNamespace(answers=evaluations * ROWS)
    settings = OptimizerConfig(method="ease", budget=evaluations)
    told = SearchProgress(object(), settings, planned, {"prompt_usd": 2.0}, states.append, known)
    with caplog.at_level(logging.INFO, logger="ease"):
        for iteration in range(len(known), evaluations):
            now[0] += seconds
            told(record(iteration, score=iteration / evaluations), history)
    return states, [line.getMessage() for line in caplog.records]


def test_a_state_says_how_much_is_done_and_what_it_cost(monkeypatch, caplog):
    states, _ = followed(4, monkeypatch=monkeypatch, caplog=caplog)
    assert [(state.answers, state.planned) for state in states] == [(10, 40), (20, 40), (30, 40), (40, 40)]
    assert [state.best for state in states] == [0.0, 0.25, 0.5, 0.75]
    assert (states[-1].requests, states[-1].cost_usd) == (40, 8.0)


def test_what_an_earlier_attempt_did_counts(monkeypatch, caplog):
    states, _ = followed(4, known=[record(0), record(1)], monkeypatch=monkeypatch, caplog=caplog)
    assert [state.answers for state in states] == [30, 40]
    assert states[-1].requests == 40


@pytest.mark.parametrize(
    ("evaluations", "seconds", "lines"), [(7, 0.0, 7), (1000, 0.0, 20), (1000, 1.0, 100), (40, 11.0, 40)]
)
def test_the_log_has_a_line_for_each_twentieth_and_for_each_ten_seconds(
    evaluations, seconds, lines, monkeypatch, caplog
):
    _, logged = followed(evaluations, seconds=seconds, monkeypatch=monkeypatch, caplog=caplog)
    assert lines <= len(logged) <= lines * 1.1
    assert logged[-1].startswith(f"evaluation {evaluations}/{evaluations} "), "the end is not left out"
