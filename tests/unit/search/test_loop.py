import threading
from dataclasses import replace
from typing import ClassVar
from unittest.mock import ANY

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.budget_ledger import Budget
from ease_lib.black_box.usage import Usage
from ease_lib.errors import CapReached, Overloaded
from ease_lib.evaluation.evaluator import Evaluation
from ease_lib.notes import Notes
from ease_lib.search.journal import open_journal
from ease_lib.search.loop import search
from ease_lib.search.optimizers.baselines import BestOfN
from ease_lib.search.plan_and_caps import Plan
from tests.support.objectives import AtOnce, ordered_sum

ROWS = 20


def scored(score, *, rows=ROWS):
    usage = Usage(requests=rows, prompt_tokens=100 * rows, completion_tokens=rows)
    return Evaluation(
        score=score,
        rows=tuple(range(rows)),
        scores=(score,) * rows,
        answers=(),
        prompts=(),
        failures=(),
        kept=(),
        usage=usage,
    )


def plan_of(evaluations, **caps):
    return Plan(rows=tuple(range(ROWS)), evaluations=evaluations, evaluation=Usage(requests=ROWS), **caps)


def run(tmp_path, scores, budget, *, seed=0, optimizer=BestOfN, choose=min, caps=None, **settings):
    """A search on evaluations that score as listed, by iteration; an exception in the list is raised.

    Args:
        caps: of the plan.
    """

    def evaluate(iteration, candidate):
        result = scores[iteration]
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, Evaluation) else scored(result)

    with open_journal(open_store(str(tmp_path)), "key", Notes()) as journal:
        evaluations = AtOnce(evaluate, choose)
        plan = plan_of(budget, **(caps or {}))
        return search(optimizer(ordered_sum(seed=seed).problem), evaluations, journal, plan, **settings)


def test_stops_at_a_perfect_score(tmp_path):
    study = run(tmp_path, [0.2, 1.0, 0.5], budget=10)
    assert (len(study.history), study.stopped) == (2, "perfect score")


def test_what_was_under_way_at_a_perfect_score_is_paid_for_and_no_part_of_the_history(tmp_path):
    spending = Budget()
    scores = [0.2, 1.0, 0.5, 0.6, 0.7, 0.8]
    study = run(tmp_path, scores, budget=6, ahead=4, choose=max, caps={"budget": spending})
    assert (study.history.scores.tolist(), study.stopped) == ([0.2, 1.0], "perfect score")
    assert study.unused.requests == 2 * ROWS  # iterations 2 and 3 were scored before 0; 4 was begun and asked nothing
    assert study.usage.requests == spending.spent().requests == 4 * ROWS
    again = run(tmp_path, [], budget=6, ahead=4)
    assert (again.history, again.replayed, again.usage.requests) == (study.history, 2, study.usage.requests)


def test_evaluations_ahead_are_those_of_a_search_without_and_obey_the_cap(tmp_path):
    cap = 5 * ROWS + 3
    scores = [0.1, 0.3, 0.2, 0.4, 0.3, None, None]
    one_by_one = run(tmp_path / "one", scores, budget=7, caps={"budget": Budget(requests=cap)})
    ahead = run(tmp_path / "ahead", scores, budget=7, caps={"budget": Budget(requests=cap)}, ahead=4, choose=max)
    assert (ahead.history, ahead.stopped) == (one_by_one.history, one_by_one.stopped) == (ANY, "max_llm_requests=103")
    assert ahead.unused.requests == 0


def test_a_larger_budget_continues_and_a_smaller_one_replays_a_part(tmp_path):
    run(tmp_path, [0.2, 0.4, 0.3], budget=3)
    longer = run(tmp_path, [None, None, None, 0.6], budget=4)
    assert longer.history.scores.tolist() == [0.2, 0.4, 0.3, 0.6]
    assert (longer.replayed, longer.usage.requests) == (3, 4 * ROWS)
    assert run(tmp_path, [], budget=2).history.scores.tolist() == [0.2, 0.4]


def test_of_a_batch_that_was_cut_only_what_is_missing_is_evaluated(tmp_path):
    scores = [0.1, 0.2, 0.3, Overloaded("gone"), 0.5, 0.6, 0.7]
    with pytest.raises(Overloaded):
        run(tmp_path, scores, budget=7, parallel=5)
    evaluated = [None, None, None, 0.4, 0.5, 0.6, 0.7]
    resumed = run(tmp_path, evaluated, budget=7, parallel=5)
    quiet = run(tmp_path / "quiet", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], budget=7, parallel=5)
    assert resumed.history == quiet.history
    assert resumed.replayed == 3


class Foreign(BestOfN):
    """Proposes what no other machine would: its numbers differ in the last digit."""

    def ask(self, iteration, pending=()):
        return replace(super().ask(iteration + 1000, pending), acquisition=0.1 + iteration)


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_search_is_continued_where_another_machine_would_propose_other_candidates(tmp_path, parallel):
    """Killed in the middle of a batch: what was proposed there is evaluated here, and nothing is computed twice."""
    with pytest.raises(Overloaded):
        run(tmp_path, [0.1, Overloaded("gone")], budget=5, parallel=parallel, optimizer=Foreign)
    with open_journal(open_store(str(tmp_path)), "key", Notes()) as journal:
        proposed = dict(journal.proposed())
    assert len(proposed) == {1: 2, 3: 4}[parallel]
    study = run(tmp_path, [None, 0.2, 0.3, 0.4, 0.5], budget=5, parallel=parallel)
    candidates = [observation.candidate for observation in study.history]
    assert {iteration: candidates[iteration] for iteration in proposed} == proposed
    assert len({candidate.sequence for candidate in candidates}) == 5
    assert study.replayed == 1


def test_a_smaller_batch_takes_up_what_a_larger_one_had_proposed(tmp_path):
    with pytest.raises(Overloaded):
        run(tmp_path, [Overloaded("gone")], budget=6, parallel=4, optimizer=Foreign)
    study = run(tmp_path, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], budget=6, parallel=1)
    acquisitions = [observation.candidate.acquisition for observation in study.history]
    assert acquisitions == [0.1, 1.1, 2.1, 3.1, None, None]


def test_a_candidate_is_durable_before_it_is_evaluated(tmp_path):
    with open_journal(open_store(str(tmp_path)), "key", Notes()) as journal:
        written = []
        journal.propose, propose = lambda new: (written.append(sorted(new)), propose(new)), journal.propose

        def evaluate(iteration, candidate):
            assert any(iteration in proposed for proposed in written)
            return scored(0.1)

        search(BestOfN(ordered_sum().problem), AtOnce(evaluate), journal, plan_of(4), parallel=2)
    assert written == [[0, 1], [2], [3]]


def test_times_of_the_records_add_up_to_what_the_search_took(tmp_path):
    study = run(tmp_path, [0.1, 0.2, 0.3], budget=3, parallel=3)
    assert 0 < study.usage.seconds <= study.seconds


class InOneThread(BestOfN):
    """Notes the threads that call it; needs every score, and prepares."""

    one_threaded = True
    threads: ClassVar[set[int]] = set()

    def ask(self, iteration, pending=()):
        self.threads.add(threading.get_ident())
        return super().ask(iteration, pending)

    def tell(self, observation):
        self.threads.add(threading.get_ident())
        super().tell(observation)

    def prepare(self, iterations, pending):
        self.threads.add(threading.get_ident())


def test_an_optimizer_that_must_stay_in_one_thread_is_called_and_prepares_in_one(tmp_path):
    run(tmp_path, [0.1] * 9, budget=9, parallel=4, optimizer=InOneThread)
    assert len(InOneThread.threads) == 1
    assert threading.get_ident() not in InOneThread.threads, "while it computes, answers come"


@pytest.mark.parametrize("parallel", [1, 4])
def test_incumbents_are_the_best_scores_until_then(tmp_path, parallel):
    study = run(tmp_path, [0.2, 0.5, 0.1, 0.6, 0.6], budget=5, parallel=parallel)
    assert study.incumbents == (0.2, 0.5, 0.5, 0.6, 0.6)


# --- caps -------------------------------------------------------------------------------------------------------------


def test_requests_are_capped_before_the_evaluation_that_would_exceed_them(tmp_path):
    caps = {"budget": Budget(requests=100), "test_requests": 30}
    study = run(tmp_path, [0.1] * 10, budget=10, caps=caps)
    assert (study.usage.requests, study.stopped) == (60, "max_llm_requests=100")


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_a_batch_is_cut_to_what_the_cap_allows(tmp_path, parallel):
    caps = {"budget": Budget(requests=5 * ROWS + 3)}
    study = run(tmp_path, [0.1] * 10, budget=10, parallel=parallel, caps=caps)
    assert (len(study.history), study.stopped) == (5, "max_llm_requests=103")


def test_cost_is_capped_by_what_requests_really_cost(tmp_path):
    """An evaluation costs 20 x 100 prompt tokens: 0.002 USD at 1 USD a million; it is first thought to cost nothing."""
    spending = Budget(cost_usd=0.0121, prices={"prompt_usd": 1.0, "completion_usd": 0.0})
    study = run(tmp_path, [0.1] * 10, budget=10, caps={"budget": spending, "test_requests": ROWS})
    assert (len(study.history), study.stopped) == (5, "max_cost_usd=0.0121")


def test_seconds_are_capped(tmp_path):
    study = run(tmp_path, [0.1] * 10, budget=10, caps={"max_seconds": 1e-9})
    assert (len(study.history), study.stopped) == (1, "max_seconds=1e-09")


def test_retries_that_use_up_the_cap_end_the_search_with_what_it_has(tmp_path):
    study = run(tmp_path, [0.1, 0.3, CapReached("max_llm_requests=70"), 0.2], budget=4)
    assert (study.history.scores.tolist(), study.stopped) == ([0.1, 0.3], "max_llm_requests=70")
    again = run(tmp_path, [None, None, 0.4, 0.2], budget=4)
    assert (again.replayed, again.stopped) == (2, "budget")


def test_a_cap_below_one_evaluation_stops_before_any_request(tmp_path):
    study = run(tmp_path, [], budget=10, caps={"budget": Budget(requests=10)})
    assert (len(study.history), study.history.incumbent) == (0, None)


def test_a_higher_cap_continues_the_search(tmp_path):
    run(tmp_path, [0.1, 0.2], budget=4, caps={"budget": Budget(requests=2 * ROWS)})
    study = run(tmp_path, [None, None, 0.3, 0.4], budget=4)
    assert (study.replayed, study.stopped) == (2, "budget")


def test_a_lower_cap_on_a_batch_that_was_cut_keeps_what_was_paid(tmp_path):
    with pytest.raises(Overloaded):
        run(tmp_path, [0.1, 0.2, Overloaded("gone")], budget=4, parallel=4)
    caps = {"budget": Budget(requests=1)}
    study = run(tmp_path, [], budget=4, parallel=4, caps=caps)
    assert (study.history.scores.tolist(), study.stopped) == ([0.1, 0.2], "max_llm_requests=1")
