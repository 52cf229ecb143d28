"""The choices against brute force on every set of a small pool."""

import itertools

import numpy as np
import ot
import pytest

from ease_lib.search.optimizers.subset import choose_by_dpp, choose_by_mmd, choose_by_ot, dpp_values, squared_mmd
from tests.support.objectives import ordered_sum


@pytest.fixture(params=range(3))
def problem(request):
    return ordered_sum(n=8, k=3, seed=request.param).problem


@pytest.fixture
def every_set(problem):
    return np.array(list(itertools.combinations(range(problem.space.n), problem.space.k)))


def test_dpp_takes_the_relevant_and_diverse_set(problem, every_set):
    def value(chosen):
        vectors = problem.pool[list(chosen)].astype(np.float64)
        relevance = sum(np.mean([vector @ row for row in problem.validation]) for vector in vectors)
        return relevance / 0.05 + np.log(np.linalg.det(vectors @ vectors.T) + 1e-10)

    values = [value(chosen) for chosen in every_set]
    np.testing.assert_allclose(dpp_values(every_set, problem), values, rtol=1e-9)
    assert choose_by_dpp(every_set, problem) == np.argmax(values)


def test_mmd_takes_the_set_whose_mean_is_nearest(problem, every_set):
    def value(chosen):
        cross = [(problem.pool[list(chosen)].astype(float) @ problem.validation.T.astype(float)).mean()]
        within = (problem.pool[list(chosen)].astype(float) @ problem.pool[list(chosen)].T.astype(float)).mean()
        return within - 2 * cross[0] + (problem.validation.astype(float) @ problem.validation.T.astype(float)).mean()

    values = [value(chosen) for chosen in every_set]
    np.testing.assert_allclose(squared_mmd(every_set, problem), values, rtol=1e-6, atol=1e-9)
    assert choose_by_mmd(every_set, problem) == np.argmin(values)


def test_ot_takes_the_set_that_is_cheapest_to_transport(problem, every_set):
    costs = [ot.emd2([], [], problem.cost[list(chosen)].astype(float)) for chosen in every_set]
    assert costs[choose_by_ot(every_set, problem)] == pytest.approx(min(costs))


def test_equal_exemplars_are_bad_and_break_nothing(problem):
    problem.pool[1] = problem.pool[0]
    values = dpp_values(np.array([[0, 1, 2], [0, 3, 2]]), problem)
    assert np.isfinite(values).all()
