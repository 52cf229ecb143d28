"""The surrogate of single answers."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from ease_lib.search.surrogate import answers as module
from ease_lib.search.surrogate.answers import Answers, fitted_model
from ease_lib.search.surrogate.components import Components

N, K, ROWS = 20, 3, 40


def components(**settings):
    return Components(k=K, pool=np.random.default_rng(0).normal(size=(N, 8)), **settings)


def sequences(count, generator):
    return list(
        dict.fromkeys(
            (0, tuple(generator.permutation(N)[: generator.integers(0, K + 1)].tolist())) for _ in range(count)
        )
    )


def world(effect, *, asked=12, count=80, noise=0.2, seed=0, row_spread=0.15):
    """Answers to random sequences, scored by `effect(sequence)` plus the row's own and noise; and the true scores."""
    draw = np.random.default_rng(seed)
    prompts, found = sequences(count, draw), Answers()
    easiness = draw.normal(0, row_spread, size=ROWS)
    true = np.array([0.5 + effect(sequence) for _, sequence in prompts])
    for prompt, score in zip(prompts, true, strict=True):
        rows = draw.permutation(ROWS)[:asked].tolist()
        found.add(prompt, rows, (score + easiness[rows] + draw.normal(0, noise, size=asked)).tolist())
    return prompts, found, true


def test_it_predicts_sequences_that_it_has_not_seen_where_exemplars_add_up():
    found_ranks = []
    for seed in range(4):
        worth = np.random.default_rng(seed).normal(0, 0.1, size=N)
        effect = lambda sequence: float(sum(worth[list(sequence)]))  # noqa: B023, E731
        _, found, _ = world(effect, seed=seed)
        new = sequences(60, np.random.default_rng(9))
        predicted, _ = fitted_model(components(), found).predict(new)
        found_ranks.append(spearmanr(predicted, [effect(sequence) for _, sequence in new]).statistic)
    assert np.mean(found_ranks) > 0.8


def test_where_sequences_differ_by_chance_alone_it_says_so():
    """The rest is a mean shrunk to the population's, and new sequences are all alike to it."""
    chance = np.random.default_rng(2)
    own = {}
    effect = lambda sequence: own.setdefault(sequence, float(chance.normal(0, 0.15)))  # noqa: E731
    _, found, true = world(effect, asked=20, count=120)
    model = fitted_model(components(), found)
    alone = model.variances.components["own"] + model.variances.components["set"]  # hardly any set comes in two orders
    assert alone > 0.6 * model.variances.sequences
    assert spearmanr(model.mean, true).statistic > 0.8
    new = sequences(60, np.random.default_rng(9))
    assert model.predict(new)[0].std() < 0.5 * model.mean.std()


def test_it_finds_the_variances_of_rows_and_noise():
    _, found, _ = world(lambda sequence: 0.0, noise=0.3, row_spread=0.2, asked=20)
    variances = fitted_model(components(), found).variances
    assert variances.noise**0.5 == pytest.approx(0.3, rel=0.15)
    assert variances.rows**0.5 == pytest.approx(0.2, rel=0.4)


def test_easy_rows_do_not_make_a_sequence_good():
    found = Answers()
    draw = np.random.default_rng(3)
    for number in range(30):  # the first of them are asked the easy half of the rows only
        rows = (draw.permutation(ROWS // 2) + (0 if number < 15 else ROWS // 2)).tolist()
        found.add(
            (0, (number % N, (number + 1 + number // N) % N)), rows, [0.9 if row < ROWS // 2 else 0.3 for row in rows]
        )
    shared = [(0, (0, 5)), (0, (7, 3))]
    for prompt in shared:
        found.add(prompt, list(range(ROWS)), [0.9 if row < ROWS // 2 else 0.3 for row in range(ROWS)])
    model = fitted_model(components(), found)
    assert np.ptp(model.mean) < 0.3 < 0.6


def test_intervals_cover():
    worth = np.random.default_rng(4).normal(0, 0.08, size=N)
    inside = []
    for seed in range(6):
        own = np.random.default_rng(100 + seed)
        effect = lambda sequence: float(sum(worth[list(sequence)])) + float(own.normal(0, 0.05))  # noqa: B023, E731
        _, found, true = world(effect, seed=seed)
        model = fitted_model(components(), found)
        error = np.sqrt(model.covariance.diagonal())
        inside += (np.abs(model.mean - true) < 1.96 * error).tolist()
    assert 0.88 < np.mean(inside) <= 1.0


def test_a_harmful_exemplar_has_the_lowest_effect():
    _, found, _ = world(lambda sequence: -0.3 * (7 in sequence))
    effects = fitted_model(components(), found).posterior_mean().exemplar_effects
    assert int(np.argmin(effects)) == 7


def test_instructions_are_told_apart():
    found, draw = Answers(), np.random.default_rng(6)
    for number in range(40):
        given, first = number % 2, 10 * (number // N)
        found.add(
            (given, (number % N,)),
            list(range(first, first + 10)),
            (0.3 + 0.4 * given + draw.normal(0, 0.1, size=10)).tolist(),
        )
    mean, _ = fitted_model(components(instructions=2), found).predict([(0, (1, 2)), (1, (1, 2))])
    assert mean[1] - mean[0] == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("scores", [[1.0], [0.0] * 5, [1.0] * 5, [None, 0.5]])
def test_few_or_equal_answers_give_numbers(scores):
    found = Answers()
    found.add((0, (1, 2)), list(range(len(scores))), scores)
    model = fitted_model(components(), found)
    assert np.isfinite(model.mean).all()
    assert (model.covariance.diagonal() > 0).all()


def test_a_row_that_was_refused_is_asked_but_no_answer():
    found = Answers()
    found.add((0, ()), [3, 4], [None, 1.0])
    assert found.asked((0, ())) == [3, 4]
    assert len(found) == 1
    assert found.sums == [1.0]


def test_an_answer_counts_once():
    found = Answers()
    found.add((0, (1, 2)), [3, 4], [1.0, None])
    with pytest.raises(ValueError, match="evaluated twice on the same row"):
        found.add((0, (1, 2)), [5, 4], [1.0, 1.0])
    with pytest.raises(ValueError, match="evaluated twice on the same row"):
        found.add((0, (2, 1)), [5, 5], [1.0, 1.0])
    assert len(found) == 1


def test_of_many_sequences_the_promising_ones_are_kept_however_old_and_some_of_the_others(monkeypatch):
    monkeypatch.setattr(module, "MOST_SEQUENCES", 8)
    found = Answers()
    for number in range(N):
        found.add((0, (number,)), [0, 1], [1.0, 1.0] if number < 5 else [0.0, 0.5])
    prompts = fitted_model(components(), found, always=[(0, (11,))]).prompts
    assert len(prompts) == 8
    assert {(0, (number,)) for number in (0, 1, 2, 3, 4, 11)} < set(prompts)
