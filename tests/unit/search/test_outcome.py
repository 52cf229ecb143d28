"""Outcome of a search, and findings from its answers."""

import numpy as np
import pytest

from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.findings import (
    harmful_exemplars,
    order_report,
    permutations_of,
    rows_for_orders,
    share_as_good,
    token_front,
)
from ease_lib.search.optimizers.adaptive import Halving
from ease_lib.search.optimizers.baselines import BestOfN
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.outcome import outcome_of
from ease_lib.search.surrogate import answers
from tests.unit.search.optimizers.test_adaptive import N, World, additive, by_chance, problem

ROWS = 30


def searched(score, *, sequences=80, seed=0, lengths=(3,), rows=range(ROWS)):
    """Random sequences, asked the same rows each, as Best-of-N does."""
    draw, history = np.random.default_rng(seed), History()
    while len(history) < sequences:
        sequence = tuple(draw.permutation(N)[: draw.choice(lengths)].tolist())
        if (0, sequence) in history.seen:
            continue
        scores = tuple((draw.random(len(rows)) < score(sequence)).astype(float).tolist())
        history.add(
            Observation(
                candidate=Candidate(sequence=sequence, phase="initial"),
                score=float(np.mean(scores)),
                validation_rows=len(rows),
                rows=tuple(rows),
                scores=scores,
            )
        )
    return history


def outcome(history):
    return outcome_of(history, BestOfN(problem()), problem())


def test_the_luckiest_of_equals_is_not_thought_to_be_better():
    found = [outcome(searched(lambda sequence: 0.4, seed=seed)) for seed in range(6)]
    assert np.mean([each.score for each in found]) > 0.58
    assert np.mean([each.estimate for each in found]) < 0.46
    assert sum(each.interval[0] < 0.4 < each.interval[1] for each in found) >= 4


def test_a_winner_that_is_better_is_thought_to_be():
    found = outcome(searched(lambda sequence: 0.8 if 5 in sequence else 0.2))
    assert 5 in found.candidate.sequence
    assert found.estimate > 0.65


def test_of_more_sequences_than_a_model_takes_an_early_winner_is_found_and_thought_no_better_than_it_is(monkeypatch):
    """The sequences that the model is fitted to are chosen by score, and must not look better for that."""
    monkeypatch.setattr(answers, "MOST_SEQUENCES", 100)
    equals, found = [], []
    for seed in range(6):
        equals.append(outcome(searched(lambda sequence: 0.4, sequences=200, seed=seed)))
        first = searched(lambda sequence: 0.9, sequences=1, seed=seed)
        for observation in searched(lambda sequence: 0.4, sequences=200, seed=100 + seed):
            first.add(observation)
        found.append(outcome(first).candidate == first.observations[0].candidate)
    assert all(found)
    assert np.mean([each.score for each in equals]) > 0.6
    assert np.mean([each.estimate for each in equals]) < 0.46


def test_nothing_evaluated_has_no_outcome():
    assert outcome(History()) is None


def test_the_outcome_of_one_evaluation_has_an_interval():
    found = outcome(searched(lambda sequence: 0.5, sequences=1))
    assert 0 <= found.interval[0] < found.estimate < found.interval[1] <= 1


def test_twenty_wrong_answers_do_not_prove_a_score_of_nothing():
    low, high = outcome(searched(lambda sequence: 0.0, sequences=1)).interval
    assert low == 0
    assert 0.05 < high < 0.3


def true_share(score, winner, seed):
    drawn = SequenceSpace(N, 3).sample(np.random.default_rng(seed), 2000)
    return np.mean([score(tuple(sequence)) >= score(winner) for sequence in drawn.tolist()])


@pytest.mark.parametrize("world", [by_chance(0.1), additive()], ids=["by chance", "additive"])
def test_how_rare_a_winner_is_is_said_rightly_in_the_mean(world):
    """Best-of-N is tested here; the default method in `optimizers/test_adaptive.py`."""
    said, true = [], []
    for seed in range(8):
        found = outcome(searched(world, seed=seed))
        said.append(share_as_good(found, SequenceSpace(N, 3), seed))
        true.append(true_share(world, found.candidate.sequence, seed))
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.1)


def test_a_winner_far_above_the_rest_is_rare():
    found = outcome(searched(lambda sequence: 0.9 if 5 in sequence and 7 in sequence else 0.2, sequences=150))
    assert {5, 7} <= set(found.candidate.sequence)
    assert share_as_good(found, SequenceSpace(N, 3), 0) < 0.05


@pytest.mark.parametrize("rows", [20, ROWS])
def test_orders_are_scored_on_rows_that_did_not_choose_the_winner(rows):
    history = searched(lambda sequence: 0.5, sequences=30, rows=range(rows))
    asked = rows_for_orders(outcome(history), history, problem(), most=100)
    assert len(asked) == min(100, 120 - rows)
    assert not {*asked} & {*range(rows)}


@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
def test_rows_of_the_confirmation_score_orders_where_all_others_chose_the_winner():
    """The world is pure chance: the third of the rows that is kept from the choice shows it, the other answers do
    not."""
    kept, own = [], []
    for seed in range(10):
        history = History()
        for observation in World(lambda sequence: 0.45, seed).search(Halving(problem(seed=seed), challenged=False)):
            history.add(observation)
        best = outcome_of(history, told(history, seed), problem(seed=seed))
        scores = {
            row: score
            for each in history
            if each.candidate.prompt == best.candidate.prompt
            for row, score in zip(each.rows, each.scores, strict=True)
        }
        confirmed = [row for row in rows_for_orders(best, history, problem(seed=seed), most=120) if row in scores]
        kept.append(np.mean([scores[row] for row in confirmed]))
        own.append(np.mean(list(scores.values())))
    assert np.mean(own) > 0.52
    assert np.mean(kept) < np.mean(own) - 0.02


def told(history, seed):
    optimizer = Halving(problem(seed=seed), challenged=False)
    for observation in history:
        optimizer.tell(observation)
    return optimizer


def test_an_exemplar_that_spoils_prompts_is_named_with_its_evidence():
    history = searched(lambda sequence: 0.1 if 7 in sequence else 0.7, sequences=150)
    ids = [100 + position for position in range(N)]
    first, *others = harmful_exemplars(outcome(history), ids, [1000 + row for row in range(ROWS)], seed=0)
    assert first["exemplar_id"] == 107
    assert first["probability"] > 0.99
    assert first["effect"] < -0.2
    assert first["score"] < 0.25 < 0.6 < first["score_without"]
    assert first["spoiled_rows"]
    assert all(1000 <= row < 1000 + ROWS for row in first["spoiled_rows"])
    assert all(each["probability"] <= first["probability"] for each in others)


def test_the_front_has_only_prompts_that_are_better_than_all_shorter_ones():
    history = searched(lambda sequence: 0.2 + 0.2 * len(sequence), lengths=(1, 2, 3))
    front = token_front(outcome(history), lambda prompt: 10 * len(prompt[1]))
    assert [point["exemplars"] for point in front] == [1, 2, 3]
    assert [point["tokens"] for point in front] == [10, 20, 30]
    estimates = [point["estimate"] for point in front]
    assert estimates == sorted(estimates)
    assert front[-1]["estimate"] == pytest.approx(0.8, abs=0.12)


def test_permutations_are_of_the_same_exemplars_and_all_different():
    found = permutations_of((4, 9, 2), problem(), 5)
    assert next(iter(found)) == "winner"
    assert len(found) == len(set(found.values())) == 6
    assert {tuple(sorted(order)) for order in found.values()} == {(2, 4, 9)}


def test_two_exemplars_have_two_orders():
    assert len(permutations_of((4, 9), problem(), 20)) == 2


def test_long_sequences_are_permuted_at_random():
    assert len(permutations_of(tuple(range(12)), problem(), 6)) == 7


def test_order_that_matters_is_told_from_luck():
    draw = np.random.default_rng(0)

    def table(spread):
        true = np.clip(0.5 + draw.normal(0, spread, size=12), 0, 1)
        names = ["winner", "by similarity", *(f"random {number}" for number in range(10))]
        return {
            name: (draw.random(200) < score).astype(float).tolist() for name, score in zip(names, true, strict=True)
        }

    matters, luck = order_report(table(0.15), 0.03), order_report(table(0.0), 0.03)
    assert matters["deviation"] == pytest.approx(0.15, abs=0.06)
    assert matters["share"] > 2 * luck["share"]
    assert luck["deviation"] < 0.04
    assert luck["share"] < 0.1
    assert matters["lowest"] <= matters["by_similarity"] <= matters["highest"]


def test_of_prompts_that_are_as_good_one_without_what_is_to_be_avoided_wins():
    def score(sequence):
        return 1.0 if 5 in sequence or 6 in sequence else 0.0

    history = searched(score)
    usual = outcome(history)
    avoided = [5] if 5 in usual.candidate.sequence else [6]
    found = outcome_of(history, BestOfN(problem()), problem(), avoided=avoided)
    assert set(avoided).isdisjoint(found.candidate.sequence)
    assert (found.score, found.without) == (usual.score, None)


def test_a_winner_that_shows_what_is_to_be_avoided_is_told_with_the_best_that_does_not():
    history = searched(lambda sequence: 0.9 if 5 in sequence else 0.3)
    found = outcome_of(history, BestOfN(problem()), problem(), avoided=[5])
    assert 5 in found.candidate.sequence
    assert 5 not in found.without.candidate.sequence
    assert found.without.estimate < 0.5 < found.estimate
    everything = outcome_of(history, BestOfN(problem()), problem(), avoided=range(N))
    assert everything.without is None
