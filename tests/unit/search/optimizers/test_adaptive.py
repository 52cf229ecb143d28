"""Methods that spread answers over sequences and rows."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import threadpoolctl

from ease_lib.evaluation.rows import row_order
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.findings import share_as_good
from ease_lib.search.optimizers import adaptive
from ease_lib.search.optimizers.adaptive import FIRST_ROWS, Halving, Rungs
from ease_lib.search.optimizers.history import Candidate, History, Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.outcome import outcome_of
from ease_lib.search.surrogate.answer_model import AnswerModel

N, ROWS = 30, 120


def problem(*, answers=900, k=3, k_min=None, seed=0, classes=None):
    draw = np.random.default_rng(seed)
    return Problem(
        space=SequenceSpace(N, k, k_min),
        representation=None,
        pool=draw.normal(size=(N, 6)),
        validation=draw.normal(size=(ROWS, 6)),
        exemplars=[],
        inputs=[],
        validation_inputs=[],
        outputs=classes or [str(number) for number in range(N)],
        validation_outputs=[str(number) for number in range(ROWS)],
        seed=seed,
        answers=answers,
    )


def observed(candidate, scores):
    return Observation(
        candidate=candidate,
        score=float(np.mean(scores)),
        validation_rows=len(scores),
        rows=candidate.rows,
        scores=scores,
    )


class World:
    """True scores of sequences, and right or wrong answers drawn from them, one for each sequence and row."""

    def __init__(self, score, seed=0):
        self.score = score
        self._draw = np.random.default_rng(seed)

    def search(self, optimizer):
        history = []
        while (candidate := optimizer.ask(len(history))) is not None:
            right = self._draw.random(len(candidate.rows)) < self.score(candidate.sequence)
            observation = observed(candidate, tuple(right.astype(float).tolist()))
            optimizer.tell(observation)
            history.append(observation)
        return history


def by_chance(spread, seed=0):
    """Every sequence has a score of its own."""
    draw, own = np.random.default_rng(seed), {}
    return lambda sequence: own.setdefault(sequence, float(np.clip(draw.normal(0.45, spread), 0, 1)))


def additive(seed=0):
    worth = np.random.default_rng(seed).normal(0, 0.12, size=N)
    return lambda sequence: float(np.clip(0.45 + worth[list(sequence)].sum(), 0, 1))


def all_by_chance(seed):
    return by_chance(0.1, seed)


@cache
def searched(method, world, seed):
    """The true scores, the optimizer and its history; each search once."""
    truth = world(seed)
    optimizer = Halving(problem(seed=seed), challenged=method == "adaptive")
    return truth, optimizer, World(truth, seed).search(optimizer)


def recommended(method, world, seed):
    """The true score of what a search recommends, what it thinks of it, and how sure it is."""
    truth, optimizer, _ = searched(method, world, seed)
    best = optimizer.recommend()
    return truth(best.candidate.sequence), best.score, best.error


def true_scores(method, world, seeds=range(6)):
    """Mean true score of the recommended prompts, how far their estimates exceed it, and how often the interval holds
    it."""
    scores, thought, errors = np.transpose([recommended(method, world, seed) for seed in seeds])
    return np.mean(scores), np.mean(thought - scores), np.mean(np.abs(thought - scores) < 1.96 * errors)


def best_of_n(world, answers=900, rows=20, seeds=range(6)):
    found = []
    for seed in seeds:
        truth, draw = world(seed), np.random.default_rng(seed)
        sequences = SequenceSpace(N, 3).sample(draw, answers // rows)
        scores = [truth(tuple(sequence)) for sequence in sequences.tolist()]
        found.append(scores[int(np.argmax(draw.binomial(rows, scores)))])
    return np.mean(found)


@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
def test_where_sequences_differ_by_chance_it_beats_the_luckiest_of_n():
    luckiest = best_of_n(all_by_chance, seeds=range(40))
    assert true_scores("halving", all_by_chance, seeds=range(20))[0] > luckiest + 0.02
    assert true_scores("adaptive", all_by_chance, seeds=range(16))[0] > luckiest - 0.02


@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
def test_where_exemplars_add_up_the_model_finds_what_chance_does_not():
    assert true_scores("adaptive", additive)[0] > true_scores("halving", additive)[0] + 0.05


@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
def test_the_estimate_is_no_luckiest_score():
    """The winner of Best-of-N has a validation score 15 points too high here, on average over ten searches."""
    found = [true_scores("adaptive", world, seeds=range(8)) for world in (all_by_chance, additive)]
    assert abs(np.mean([error for _, error, _ in found])) < 0.05
    assert np.mean([inside for _, _, inside in found]) >= 0.75


@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
@pytest.mark.parametrize(("world", "seeds"), [(all_by_chance, 16), (additive, 8)])
def test_how_rare_the_winner_is_among_random_sequences_is_said_rightly_in_the_mean(world, seeds):
    space, said, true = SequenceSpace(N, 3), [], []
    for seed in range(seeds):
        truth, optimizer, observations = searched("adaptive", world, seed)
        history = History()
        for observation in observations:
            history.add(observation)
        found = outcome_of(history, optimizer, problem(seed=seed))
        said.append(share_as_good(found, space, seed))
        drawn = space.sample(np.random.default_rng(seed), 1000).tolist()
        true.append(np.mean([truth(tuple(sequence)) >= truth(found.candidate.sequence) for sequence in drawn]))
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.06)


def test_models_are_computed_on_one_thread_whatever_the_cores(monkeypatch):
    threads = []

    def spied(compute):
        def spy(*given, **named):
            threads.extend(each["num_threads"] for each in threadpoolctl.threadpool_info())
            return compute(*given, **named)

        return spy

    monkeypatch.setattr(adaptive, "fitted_model", spied(adaptive.fitted_model))
    for name in ("add", "predict", "sample"):
        monkeypatch.setattr(AnswerModel, name, spied(getattr(AnswerModel, name)))
    with threadpoolctl.threadpool_limits(2):
        optimizer = Halving(problem(answers=200), challenged=True)
        World(additive()).search(optimizer)
        optimizer.recommend()
    assert set(threads) == {1}


def test_the_first_of_all_is_without_exemplars_where_that_is_allowed():
    assert Halving(problem(k_min=0), challenged=True).ask(0).sequence == ()
    assert len(Halving(problem(), challenged=True).ask(0).sequence) == 3


def test_most_answers_go_to_few_sequences_and_the_finalists_are_confirmed_on_rows_new_to_them():
    optimizer = Halving(problem(), challenged=True)
    history = World(additive()).search(optimizer)
    rows = {}
    for observation in history:
        rows.setdefault(observation.candidate.prompt, []).extend(observation.rows)
    assert sum(map(len, rows.values())) == 900
    assert all(len(asked) == len(set(asked)) for asked in rows.values())
    top = sorted(map(len, rows.values()), reverse=True)
    assert sum(top[:10]) > 450
    confirmed = {each.candidate.prompt for each in history if each.candidate.phase == "confirmation"}
    assert optimizer.recommend().candidate.prompt in confirmed
    assert len(confirmed) <= 6


def test_a_third_of_the_rows_is_asked_for_confirmation_alone():
    history = World(additive()).search(Halving(problem(answers=3000), challenged=False))
    searched = {row for each in history if each.candidate.phase != "confirmation" for row in each.rows}
    confirmed = [each for each in history if each.candidate.phase == "confirmation"]
    assert len(searched) == 2 * ROWS // 3
    assert not searched & set(confirmed[0].rows)
    assert len({row for each in confirmed for row in each.rows} - searched) == ROWS // 3


def test_the_shorter_of_equals_wins():
    optimizer = Halving(problem(k_min=1), challenged=False)
    World(lambda sequence: 1.0).search(optimizer)
    assert len(optimizer.recommend().candidate.sequence) == 1


def test_it_ends_when_a_prompt_answers_every_row_rightly():
    optimizer = Halving(problem(answers=1500), challenged=True)
    history = World(lambda sequence: 1.0).search(optimizer)
    assert optimizer.ended() == "perfect score"
    assert sum(len(observation.rows) for observation in history) < 1500


def test_a_few_right_answers_are_not_believed_to_be_all_there_is():
    """Seven of 20 rows are for confirmation, and forty finalists answer all seven correctly."""
    few = replace(problem(answers=2000), validation_outputs=[str(row) for row in range(20)])
    optimizer = Halving(few, challenged=True)
    for number in range(40):
        prompt = (number % N, (number + 1) % N, (number + 2 + number // N) % N)
        for phase, rows in (("search", range(13)), ("confirmation", range(13, 20))):
            scores = tuple(float(row != number % 13) for row in rows)
            candidate = Candidate(sequence=prompt, phase=phase, rows=tuple(rows))
            optimizer.tell(observed(candidate, scores))
    recommended = optimizer.recommend()
    assert recommended.score - 1.96 * recommended.error < 0.85


def test_answers_of_an_earlier_search_cost_nothing_and_are_believed():
    own, good = by_chance(0.05), (3, 1, 4)
    optimizer = Halving(problem(answers=300), challenged=True)
    optimizer.recall((0, good), tuple(range(60)), (1.0,) * 60)
    history = World(lambda sequence: 0.95 if sequence == good else own(sequence)).search(optimizer)
    assert sum(len(observation.rows) for observation in history) == 300
    assert optimizer.recommend().candidate.sequence == good
    assert not {row for each in history if each.candidate.sequence == good for row in each.rows} & set(range(60))


@pytest.mark.parametrize("challenged", [True, False])
def test_what_is_known_on_every_row_of_the_search_is_not_looked_at_again(challenged):
    """All sequences of a small pool, recalled with 51 right answers of 60; the one without exemplars too."""
    small = replace(problem(answers=100), space=SequenceSpace(3, 2, 0), pool=np.eye(3), outputs=["a", "b", "c"])
    rows = row_order(small.validation_outputs, small.seed)[: 2 * ROWS // 3]
    optimizer = Halving(small, challenged=challenged)
    for length in range(3):
        for sequence in itertools.permutations(range(3), length):
            optimizer.recall((0, sequence), rows, [0.0] * 9 + [1.0] * (len(rows) - 9))
    history = World(lambda sequence: 0.5).search(optimizer)
    assert sum(len(observation.rows) for observation in history) == 100
    assert {each.candidate.phase for each in history} == {"confirmation"}
    assert optimizer.ended() == "budget"


@pytest.mark.parametrize("answers", [1, 3, 10])
def test_few_answers_are_enough_for_a_recommendation(answers):
    optimizer = Halving(problem(answers=answers), challenged=True)
    history = World(additive()).search(optimizer)
    assert sum(len(observation.rows) for observation in history) == answers
    assert optimizer.recommend() is not None
    assert optimizer.ended() == "budget"


def test_rows_that_were_refused_are_not_asked_again():
    optimizer = Halving(problem(answers=40), challenged=False)
    candidate = optimizer.ask(0)
    blank = (None,) * len(candidate.rows)
    optimizer.tell(Observation(candidate=candidate, score=0.0, validation_rows=0, rows=candidate.rows, scores=blank))
    assert optimizer.recommend() is None
    assert World(additive()).search(optimizer)


def test_finalists_whose_rows_were_all_refused_are_recommended_by_what_was_known_before():
    optimizer = Halving(problem(answers=200), challenged=False)
    world = World(additive())
    while (candidate := optimizer.ask(len(optimizer.history))) is not None:
        known = [1.0] * len(candidate.rows) if world.score(candidate.sequence) > 0.5 else [0.0] * len(candidate.rows)
        scores = tuple([None] * len(candidate.rows) if candidate.phase == "confirmation" else known)
        optimizer.tell(
            Observation(candidate=candidate, score=0.0, validation_rows=0, rows=candidate.rows, scores=scores)
        )
    recommended = optimizer.recommend()
    assert 0 <= recommended.score <= 1
    assert recommended.error > 0


def test_no_proposal_is_longer_than_the_tokens_allow():
    space = SequenceSpace(N, 3, 0, tokens=np.arange(N) * 10, most_tokens=200)
    optimizer = Halving(replace(problem(), space=space), challenged=True)
    for observation in World(additive()).search(optimizer):
        assert sum(10 * exemplar for exemplar in observation.candidate.sequence) <= 200


def test_the_schedule_halves_as_it_goes():
    schedule = Rungs(rows=3300, validation_rows=200)  # without confirmation
    looks = schedule.first_looks / FIRST_ROWS
    assert schedule.contenders(round(schedule.first_looks)) == pytest.approx(looks, rel=0.02)
    halved = schedule.first_looks * (1 + np.log(2))
    assert schedule.contenders(round(halved)) == pytest.approx(looks / 2, rel=0.02)
    assert schedule.contenders(3300) == pytest.approx(looks * FIRST_ROWS / 200, abs=1)


def test_confirmation_takes_a_fifth_of_the_requests_or_half_of_the_rows_of_each_finalist():
    assert Rungs.of(800, 200).confirmation == 160
    assert Rungs.of(3300, 100).confirmation == 150
    assert Rungs.of(3300, 100).validation_rows == 67
    assert Rungs.of(1, 1).validation_rows == 1


def test_of_very_many_validation_rows_some_are_used():
    many = replace(problem(answers=300), validation_outputs=[str(number) for number in range(30_000)])
    optimizer = Halving(many, challenged=True)
    history = World(additive()).search(optimizer)
    assert sum(len(observation.rows) for observation in history) == 300
    assert optimizer.recommend() is not None


def test_what_is_proposed_does_not_depend_on_when_the_answers_come():
    """Models are fitted when answers are told, so a search that is told all of a journal at once proposes the same."""
    world = World(additive())
    optimizer = Halving(problem(answers=400), challenged=True)
    history = world.search(optimizer)
    again = Halving(problem(answers=400), challenged=True)
    for observation in history[:-20]:
        again.tell(observation)
    for place in range(len(history) - 20, len(history)):
        assert again.ask(place) == history[place].candidate
        again.tell(history[place])
