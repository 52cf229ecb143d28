"""Worlds whose true scores are known."""

import numpy as np
import pytest

from ease_lib.search.candidates.prompts import Prompts
from tests.worlds.named import NAMES, world
from tests.worlds.search import search
from tests.worlds.summed import MOST, answers_of, recorded_names, recording


@pytest.mark.parametrize("name", NAMES)
def test_the_best_sequence_is_far_above_the_best_single_exemplar(name):
    """Otherwise it would tell no method from another."""
    drawn = [world(name, seed) for seed in range(3)]
    assert np.mean([each.best - each.best_single for each in drawn]) > 0.1
    assert all(0 <= each.random_score < each.best <= MOST for each in drawn)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_right_as_often_as_the_score_says(name):
    drawn = world(name, 1)
    space = drawn.problem(0, 100).space
    prompts = Prompts(space.sample(np.random.default_rng(0), 300), np.zeros(300, np.int64)).tuples()
    rows = range(len(drawn.validation))
    answered = np.array([drawn.answers(prompt, rows) for prompt in prompts])
    scores = drawn.scores(Prompts.of(prompts, drawn.k))
    assert answered.mean() == pytest.approx(scores.mean(), abs=0.06)  # of these rows, not of all there could be
    assert np.corrcoef(answered.mean(axis=1), scores)[0, 1] > 0.6


def test_a_seed_is_a_world_and_a_prompt_is_always_answered_the_same():
    one, same, other = world("mixed", 3), world("mixed", 3), world("mixed", 4)
    prompt, rows = (0, (4, 7, 1)), range(50)
    assert one.answers(prompt, rows) == same.answers(prompt, rows)
    assert one.answers(prompt, rows) == tuple(one.answers(prompt, [row])[0] for row in rows)
    assert one.score(prompt) == same.score(prompt) != other.score(prompt)
    assert one.score((0, (4, 1, 7))) != one.score(prompt)


@pytest.mark.parametrize("name", recorded_names())
def test_a_recorded_world_answers_about_as_the_llm_did(name):
    """The sequences that were asked most, over draws of the world."""
    recorded = recording(name)
    answered = [
        (prompt, np.mean(scores)) for prompt, rows, scores in answers_of(recorded).by_prompt() if len(rows) >= 32
    ]
    draws = [world(name, seed) for seed in range(8)]
    simulated = [np.mean([draw.score(prompt) for draw in draws]) for prompt, _ in answered]
    truly = [score for _, score in answered]
    assert len(answered) > 50
    assert np.corrcoef(simulated, truly)[0, 1] > 0.8
    assert np.mean(simulated) == pytest.approx(np.mean(truly), abs=0.1)


def test_in_lessons_an_exemplar_is_worth_what_stands_before_it():
    drawn = world("lessons", 0)
    pairs = [(one, two) for one in range(drawn.n) for two in range(drawn.n) if one != two]
    fit = [drawn.score((0, pair)) for pair in pairs if drawn.closes[pair[0]] == drawn.opens[pair[1]]]
    unfit = [drawn.score((0, pair)) for pair in pairs if drawn.closes[pair[0]] != drawn.opens[pair[1]]]
    assert np.mean(fit) - np.mean(unfit) > 0.03
    assert drawn.mastery([]).tolist() == [0.0] * 4
    assert drawn.score((0, ())) == pytest.approx(0.03)


@pytest.mark.parametrize("method", ["best_of_n", "capo", "adaptive"])
def test_a_search_finds_more_than_a_random_sequence(method):
    gains = [
        search(world("mixed", seed), method, 300, seed).score - world("mixed", seed).random_score for seed in (1, 2, 3)
    ]
    assert np.mean(gains) > 0


def test_evaluations_under_way_at_once_are_as_the_loop_has_them():
    """One after another, or in groups of four while four others are evaluated: other searches, equally many answers."""
    drawn = world("mixed", 0)
    assert search(drawn, "adaptive", 200, 0, parallel=1) != search(drawn, "adaptive", 200, 0)
    assert search(drawn, "adaptive", 200, 0).score == search(drawn, "adaptive", 200, 0, parallel=8).score
