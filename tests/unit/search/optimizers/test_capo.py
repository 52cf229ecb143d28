"""CAPO: an evolution of prompts that race against each other."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.optimizers.capo import CROSSOVERS, Capo, better
from ease_lib.search.optimizers.history import Observation
from tests.unit.search.optimizers.test_adaptive import N, World, additive, problem


def capo_problem(**settings):
    made = problem(k_min=0, **settings)
    return replace(made, exemplars=[f"exemplar {number}" for number in range(N)])


def searched(score, **settings):
    optimizer = Capo(capo_problem(**settings))
    return optimizer, World(score).search(optimizer)


def test_a_prompt_is_better_by_a_paired_one_sided_t_test():
    scores = np.random.default_rng(0).integers(0, 2, size=(6, 30)).astype(float)
    expected = [[ttest_rel(other, one, alternative="greater").pvalue < 0.2 for other in scores] for one in scores]
    expected = np.array(expected) & ~np.eye(6, dtype=bool)
    np.testing.assert_array_equal(better(scores, 0.2), expected)


@pytest.mark.parametrize("rows", [1, 5])
def test_where_all_differences_are_the_same_the_better_one_is(rows):
    scores = np.repeat([[0.0], [0.5], [0.5]], rows, axis=1)
    assert better(scores, 0.2).tolist() == [[False, True, True], [False] * 3, [False] * 3]


def test_it_finds_more_than_the_best_of_its_first_population():
    gains = []
    for seed in range(6):
        truth = additive(seed)
        optimizer, history = searched(truth, answers=3000, seed=seed)
        first = {each.candidate.sequence for each in history if each.candidate.phase == "initial"}
        gains.append(truth(optimizer.recommend().candidate.sequence) - max(map(truth, first)))
    assert np.mean(gains) > 0.05


def test_the_first_race_is_of_the_population_and_its_children_on_the_same_block():
    optimizer, history = searched(additive(), answers=900)
    racing = [each for each in history if each.candidate.phase == "initial"]
    size = 5
    assert len({each.candidate.prompt for each in racing}) == size + CROSSOVERS
    assert len({each.rows for each in racing[: size + CROSSOVERS]}) == 1
    assert optimizer.ended() == "budget"


def test_a_prompt_of_the_population_is_asked_no_row_again_in_a_later_race():
    _, history = searched(additive(), answers=2500)
    asked = [(each.candidate.prompt, row) for each in history for row in each.rows]
    assert len(asked) == len(set(asked)) == 2500


def test_children_have_exemplars_of_their_parents_and_at_most_one_other():
    optimizer = Capo(capo_problem())
    optimizer.ask(0)
    parents = optimizer._heat.population
    known = {exemplar for _, sequence in parents for exemplar in sequence}
    children = optimizer._heat.racing[len(parents) :]
    assert len(children) == CROSSOVERS
    assert not {*children} & {*parents}
    assert all(len({*sequence} - known) <= 1 for _, sequence in children)
    assert all(len({*sequence}) == len(sequence) <= 3 for _, sequence in children)


def test_among_equals_the_longest_leave_the_race():
    optimizer, history = searched(lambda sequence: 1.0, answers=3000)
    assert 3 in {len(each.candidate.sequence) for each in history if each.candidate.phase == "initial"}
    assert max(len(sequence) for _, sequence in optimizer._heat.population) < 3


def test_where_all_sequences_have_k_exemplars_so_have_the_children():
    made = replace(capo_problem(answers=2000), space=SequenceSpace(N, 3))
    history = World(additive()).search(Capo(made))
    assert {len(each.candidate.sequence) for each in history} == {3}


def test_no_prompt_is_longer_than_the_tokens_allow():
    space = SequenceSpace(N, 3, 0, tokens=np.arange(N) * 10, most_tokens=200)
    for observation in World(additive()).search(Capo(replace(capo_problem(), space=space))):
        assert sum(10 * exemplar for exemplar in observation.candidate.sequence) <= 200


@pytest.mark.parametrize("answers", [1, 3, 20])
def test_few_answers_are_enough_for_a_recommendation(answers):
    optimizer, history = searched(additive(), answers=answers)
    assert sum(len(observation.rows) for observation in history) == answers
    assert optimizer.recommend() is not None


def test_answers_of_an_earlier_search_are_not_asked_again():
    _, history = searched(additive(), answers=600)
    optimizer = Capo(capo_problem(answers=1200))
    for each in history:
        optimizer.recall(each.candidate.prompt, each.rows, each.scores)
    more = World(additive()).search(optimizer)
    before = {(each.candidate.prompt, row) for each in history for row in each.rows}
    assert not before & {(each.candidate.prompt, row) for each in more for row in each.rows}
    assert sum(len(each.rows) for each in more) == 1200


def test_prompts_whose_rows_were_all_refused_are_not_recommended():
    optimizer = Capo(capo_problem(answers=600))
    for iteration in range(40):
        candidate = optimizer.ask(iteration)
        scores = tuple([None if iteration % 2 else 0.0] * len(candidate.rows))
        optimizer.tell(
            Observation(candidate=candidate, score=0.0, validation_rows=0, rows=candidate.rows, scores=scores)
        )
        assert optimizer.recommend() is None or optimizer.recommend().score == 0
