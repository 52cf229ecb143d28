"""The joint posterior of prompts and rows."""

import numpy as np
import pytest

from ease_lib.search.candidates.prompts import Prompts
from ease_lib.search.surrogate.answer_model import MEAN_VARIANCE, AnswerModel, AnswerTable
from ease_lib.search.surrogate.answers import Answers, fitted_model
from tests.unit.search.surrogate.test_answers import ROWS, K, N, components, sequences, world

LABELS = np.arange(N) % 3


def by_worth(seed=1):
    worth = np.random.default_rng(seed).normal(0, 0.1, size=N)
    return lambda sequence: float(sum(worth[list(sequence)]))


@pytest.fixture(scope="module")
def model():
    _, found, _ = world(by_worth())
    return fitted_model(components(labels=LABELS), found)


def test_the_posterior_mean_as_a_function_is_what_it_predicts(model):
    new = sequences(30, np.random.default_rng(9))
    new = [prompt for prompt in new if prompt not in model]
    np.testing.assert_allclose(model.posterior_mean()(Prompts.of(new, K)), model.predict(new)[0], atol=1e-9)


@pytest.mark.parametrize("grown", [False, True])
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(model, grown):
    if grown:
        _, found, _ = world(by_worth())
        model = fitted_model(components(labels=LABELS), found, coming=range(ROWS))
        for prompt in sequences(15, np.random.default_rng(9)):
            if prompt not in model:
                model.add(prompt, range(8), [1.0, None, 0.0, 1.0] * 2)
    draw = np.random.default_rng(5)
    drawn = np.array([model.sample(draw)[1] for _ in range(600)])
    deviation = np.sqrt(model.covariance.diagonal())
    assert np.abs(drawn.mean(axis=0) - model.mean).max() < 5 * deviation.max() / np.sqrt(600)
    assert np.median(drawn.std(axis=0) / deviation) == pytest.approx(1.0, abs=0.1)
    correlations = model.covariance / deviation / deviation[:, None]
    off = np.corrcoef(drawn.T) - correlations
    assert np.sqrt(np.mean(off**2)) < 1.5 / np.sqrt(600)
    assert np.abs(correlations - np.eye(len(deviation))).max() > 0.3


def test_drawn_functions_have_the_mean_and_the_spread_of_what_is_predicted_but_for_what_is_a_prompts_own(model):
    new = [prompt for prompt in sequences(30, np.random.default_rng(9)) if prompt not in model]
    draw = np.random.default_rng(5)
    drawn = np.array([model.sample(draw)[0](Prompts.of(new, K)) for _ in range(600)])
    mean, variance = model.predict(new)
    coded = sum(model.variances.components[name] for name in ("own", "pair", "set", "pattern"))
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * np.sqrt(variance.max() / 600)
    assert (drawn.var(axis=0) < 1.2 * variance).all()
    assert (drawn.var(axis=0) > 0.8 * (variance - 3 * coded)).all()


@pytest.mark.parametrize("labels", [None, LABELS])
def test_answers_that_are_added_one_by_one_say_what_they_say_together(labels):
    """The same variances, of which the whole is told at once and in parts; new prompts and old ones, rows refused."""
    draw = np.random.default_rng(2)
    prompts, _, true = world(by_worth(), count=60)
    answered = [
        (prompt, rows, [None if draw.random() < 0.1 else float(draw.random() < score) for _ in rows])
        for prompt, score in zip(prompts, true, strict=True)
        for rows in np.split(draw.permutation(ROWS)[:12], [5, 8])
        for rows in [rows.tolist()]
    ]
    order = sorted(range(len(answered)), key=lambda place: (place % 3, place))  # a first look at each, then more
    first, whole = Answers(), Answers()
    for place in order[:20]:
        first.add(*answered[place])
    for place in order:
        whole.add(*answered[place])
    grown = fitted_model(components(labels=labels), first, coming=range(ROWS))
    level, variances = grown._level, grown.variances
    assert len(first.prompts) < len(whole.prompts)
    for place in order[20:]:
        prompt, rows, scores = answered[place]
        grown.add(prompt, rows, scores)
    at_once = _with(whole, components(labels=labels), grown, level, variances)
    np.testing.assert_allclose(grown.mean, at_once.mean, atol=1e-8)
    np.testing.assert_allclose(grown.covariance, at_once.covariance, atol=1e-8)
    new = [prompt for prompt in sequences(40, draw) if prompt not in grown]
    for one, other in zip(grown.predict(new), at_once.predict(new), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def _with(answers, parts, like, level, variances):
    """A model of answers with the level and the variances of another one."""
    prompt, row, score = answers.table()
    prompts = answers.prompts
    assert prompts == like.prompts
    kernels = parts.kernels(*[parts.described(Prompts.of(prompts, K))] * 2)
    scales = {name: like.weight_variances[name] / variances.components[name] for name in kernels}
    table = AnswerTable.of(prompt, row, score - level, len(prompts), ROWS)
    return AnswerModel(parts, prompts, np.arange(ROWS), table, variances, scales, (level, MEAN_VARIANCE), kernels)


def test_a_model_of_very_many_rows_takes_no_square_of_them():
    """The covariance of 50 000 rows would be 20 GB."""
    found = Answers()
    found.add((0, (1, 2)), range(50_000), [1.0] * 50_000)
    found.add((0, (2, 1)), range(50_000), [0.0, 1.0] * 25_000)
    assert fitted_model(components(), found).mean == pytest.approx([1.0, 0.5], abs=0.05)
