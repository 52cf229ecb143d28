"""Proposals, and the order in which scores are told; `test_loop.py` and `test_trials.py` have what drives it."""

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.usage import Usage
from ease_lib.notes import Notes
from ease_lib.search.ask_tell import AskTell
from ease_lib.search.journal import MemoryJournal, open_journal
from ease_lib.search.optimizers.baselines import BestOfN
from ease_lib.search.optimizers.history import Observation
from ease_lib.search.plan_and_caps import Plan
from tests.support.objectives import ordered_sum

ROWS = (0, 1)


def asked_of(journal=None, *, evaluations=6, **settings):
    plan = Plan(rows=ROWS, evaluations=evaluations, evaluation=Usage(requests=len(ROWS)))
    return AskTell(BestOfN(ordered_sum().problem), journal or MemoryJournal(), plan, **settings)


def scored(asked, iteration, score):
    candidate = asked.under_way[iteration]
    observation = Observation(candidate=candidate, score=score, validation_rows=2, rows=ROWS, scores=(score, score))
    asked.score(iteration, observation, Usage(requests=len(ROWS)))


def test_as_many_are_asked_for_as_may_be_under_way():
    asked = asked_of(parallel=3)
    assert list(asked.ask()) == [0, 1, 2]
    assert list(asked.ask()) == []
    assert {candidate.rows for candidate in asked.under_way.values()} == {ROWS}


def test_without_a_bound_as_many_as_somebody_wants():
    asked = asked_of(parallel=None)
    assert list(asked.ask(2)) == [0, 1]
    assert list(asked.ask(1)) == [2]
    assert list(asked.ask(9)) == [3, 4, 5], "of six evaluations"
    assert asked.ended == "", "some are under way"


def test_scores_are_told_in_the_order_of_asking():
    asked = asked_of(parallel=None)
    asked.ask(3)
    scored(asked, 2, 0.3)
    asked.settle()
    assert (len(asked.history), asked.is_waiting) == (0, True)
    scored(asked, 0, 0.1)
    asked.settle()
    assert [record.iteration for record in asked.records] == [0]
    scored(asked, 1, 0.2)
    asked.settle()
    assert asked.history.scores.tolist() == [0.1, 0.2, 0.3]


def test_when_it_is_cut_what_lies_between_is_left_out():
    asked = asked_of(parallel=None)
    asked.ask(3)
    scored(asked, 2, 0.3)
    scored(asked, 0, 0.1)
    asked.cut()
    assert [record.iteration for record in asked.records] == [0, 2]
    assert asked.incumbents == [0.1, 0.3]


def test_it_ends_when_nothing_is_left_to_ask_and_at_a_perfect_score_at_once():
    asked = asked_of(parallel=None, evaluations=1)
    asked.ask()
    scored(asked, 0, 0.5)
    asked.settle()
    assert asked.ask() == {}
    assert asked.ended == "budget"
    perfect = asked_of(parallel=None)
    perfect.ask(2)
    scored(perfect, 0, 1.0)
    perfect.settle()
    assert (perfect.ended, perfect.ask(1)) == ("perfect score", {})


def test_what_a_journal_holds_is_told_before_anything_is_asked_for(tmp_path):
    with open_journal(open_store(str(tmp_path)), "key", Notes()) as journal:
        asked = asked_of(journal, parallel=None)
        asked.ask(2)
        scored(asked, 1, 0.2)
        asked.close()
    with open_journal(open_store(str(tmp_path)), "key", Notes()) as journal:
        again = asked_of(journal, parallel=None)
        assert again.ask(0) == {}
        assert list(again.ask(1)) == [0], "it was proposed and not scored"
        scored(again, 0, 0.1)
        again.settle()
        assert (again.history.scores.tolist(), again.close().requests) == ([0.1, 0.2], 0)


def test_what_was_scored_and_never_told_is_paid_for():
    asked = asked_of(parallel=None)
    asked.ask(2)
    scored(asked, 1, 0.2)
    assert asked.close(Usage(requests=1)).requests == 1 + len(ROWS)
