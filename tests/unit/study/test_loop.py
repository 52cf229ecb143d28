from dataclasses import replace

import pytest

from ease_lib.errors import JournalError, Overloaded
from ease_lib.evaluation.objective import Evaluation, Usage
from ease_lib.optimizers.best_of_n import BestOfN
from ease_lib.study.caps import Caps
from ease_lib.study.history import History, Observation
from ease_lib.study.journal import open_journal
from ease_lib.study.loop import Racing, search
from ease_lib.testing.objectives import ordered_sum

ROWS = 20


def scored(score, *, rows=ROWS, partial=False):
    usage = Usage(requests=rows, prompt_tokens=100 * rows, completion_tokens=rows)
    return Evaluation(score=score, scores=(score,) * rows, answers=(), prompts=(), usage=usage, partial=partial)


def run(tmp_path, scores, budget, *, seed=0, **settings):
    """Best-of-N on evaluations that score as listed, by iteration; an exception in the list is raised."""

    def evaluate(proposals):
        for iteration in proposals:
            result = scores[iteration]
            if isinstance(result, Exception):
                raise result
            yield iteration, result if isinstance(result, Evaluation) else scored(result)

    with open_journal(str(tmp_path), "key") as journal:
        return search(BestOfN(ordered_sum(seed=seed).problem), evaluate, journal, budget=budget, **settings)


def test_stops_at_a_perfect_score(tmp_path):
    study = run(tmp_path, [0.2, 1.0, 0.5], budget=10)
    assert (len(study.history), study.stopped) == (2, "perfect score")


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


def test_a_journal_of_other_candidates_is_refused(tmp_path):
    with pytest.raises(Overloaded):
        run(tmp_path, [0.1, Overloaded("gone")], budget=2, parallel=2)
    with pytest.raises(JournalError, match="holds another candidate for evaluation 1"):
        run(tmp_path, [None, 0.2], budget=2, parallel=2, seed=1)


def test_times_of_the_records_add_up_to_what_the_search_took(tmp_path):
    study = run(tmp_path, [0.1, 0.2, 0.3], budget=3, parallel=3)
    assert 0 < study.usage.seconds <= study.seconds


# --- caps -------------------------------------------------------------------------------------------------------------


def test_requests_are_capped_before_the_evaluation_that_would_exceed_them(tmp_path):
    caps = Caps(requests=100, evaluation=Usage(requests=ROWS), test_requests=30)
    study = run(tmp_path, [0.1] * 10, budget=10, caps=caps)
    assert (study.usage.requests, study.stopped) == (60, "max_llm_requests=100")


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_a_batch_is_cut_to_what_the_cap_allows(tmp_path, parallel):
    caps = Caps(requests=5 * ROWS + 3, evaluation=Usage(requests=ROWS))
    study = run(tmp_path, [0.1] * 10, budget=10, parallel=parallel, caps=caps)
    assert (len(study.history), study.stopped) == (5, "max_llm_requests=103")


def test_cost_is_capped_by_what_requests_really_cost(tmp_path):
    """An evaluation costs 20 x 100 prompt tokens: 0.002 USD at 1 USD a million; the first estimate is far off."""
    caps = Caps(cost_usd=0.0121, prompt_usd=1.0, evaluation=Usage(requests=ROWS, prompt_tokens=5), test_requests=ROWS)
    study = run(tmp_path, [0.1] * 10, budget=10, caps=caps)
    assert (len(study.history), study.stopped) == (5, "max_cost_usd=0.0121")


def test_seconds_are_capped(tmp_path):
    study = run(tmp_path, [0.1] * 10, budget=10, caps=Caps(seconds=1e-9))
    assert (len(study.history), study.stopped) == (1, "max_seconds=1e-09")


def test_a_cap_below_one_evaluation_stops_before_any_request(tmp_path):
    study = run(tmp_path, [], budget=10, caps=Caps(requests=10, evaluation=Usage(requests=ROWS)))
    assert (len(study.history), study.history.incumbent) == (0, None)


def test_a_higher_cap_continues_the_search(tmp_path):
    caps = Caps(requests=2 * ROWS, evaluation=Usage(requests=ROWS))
    run(tmp_path, [0.1, 0.2], budget=4, caps=caps)
    study = run(tmp_path, [None, None, 0.3, 0.4], budget=4, caps=replace(caps, requests=0))
    assert (study.replayed, study.stopped) == (2, "budget")


def test_a_lower_cap_on_a_batch_that_was_cut_keeps_what_was_paid(tmp_path):
    with pytest.raises(Overloaded):
        run(tmp_path, [0.1, 0.2, Overloaded("gone")], budget=4, parallel=4)
    caps = Caps(requests=1, evaluation=Usage(requests=ROWS))
    study = run(tmp_path, [], budget=4, parallel=4, caps=caps)
    assert (study.history.scores.tolist(), study.stopped) == ([0.1, 0.2], "max_llm_requests=1")


# --- racing -----------------------------------------------------------------------------------------------------------


def test_races_know_the_incumbent_of_full_evaluations_only(tmp_path):
    seen = []

    def evaluate(proposals):
        for iteration, proposal in proposals.items():
            seen.append(proposal.race.incumbent)
            yield iteration, [scored(0.5), scored(0.9, rows=4, partial=True), scored(0.6)][iteration]

    with open_journal(str(tmp_path), "key") as journal:
        study = search(
            BestOfN(ordered_sum().problem), evaluate, journal, budget=3, racing=Racing(confidence=0.9, seed=0)
        )
    assert seen == [None, 0.5, 0.5]
    assert study.history.incumbent.score == 0.6


def test_a_partial_score_never_becomes_incumbent():
    candidate = BestOfN(ordered_sum().problem).ask(0)
    history = History()
    history.add(Observation(candidate=candidate, score=0.9, validation_rows=4, partial=True))
    assert history.incumbent is None
