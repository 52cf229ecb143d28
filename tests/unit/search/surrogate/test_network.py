"""The written-out training must equal plain autograd."""

import numpy as np
import pytest
import torch

from ease_lib.search.surrogate.network import ScoreNetwork, spanned_directions
from ease_lib.seeding import rng
from tests.straightforward import autograd_training, in_spanned_directions, standardised


def autograd_predictions(features, scores, *, steps):
    x = in_spanned_directions(standardised(features))
    return autograd_training(x, scores, seed=3, ridge=0.1, steps=steps)(x)[:, 0].detach().numpy()


@pytest.mark.parametrize(("observations", "dimension"), [(2, 3), (40, 30), (165, 12), (30, 200), (150, 400)])
def test_training_equals_the_autograd_loop(observations, dimension, device):
    draw = rng(0, "test", observations)
    features, scores = draw.normal(size=(observations, dimension)), draw.random(observations)
    network = ScoreNetwork(dimension, seed=3, dtype=torch.float64, device=device)
    expected = autograd_predictions(features, scores, steps=200)
    network.fit(features, scores, ridge=0.1, steps=200)
    np.testing.assert_allclose(network.predict(features).cpu().numpy(), expected, rtol=1e-6, atol=1e-8)


def test_float32_predicts_what_float64_predicts(device):
    """Stated tolerance: 0.02 of a score on unseen rows after the full 1 000 steps."""
    draw = rng(0, "precision")
    features, scores, unseen = draw.normal(size=(60, 40)), draw.random(60), draw.normal(size=(200, 40))
    predictions = []
    for dtype in (torch.float32, torch.float64):
        network = ScoreNetwork(40, seed=1, dtype=dtype, device=device)
        network.fit(features, scores, ridge=0.1)
        predictions.append(network.predict(unseen).cpu().numpy())
    np.testing.assert_allclose(predictions[0], predictions[1], atol=0.02)


def test_same_seed_same_network(device):
    draw = rng(0, "seeds")
    features, scores = draw.normal(size=(20, 5)), draw.random(20)
    predictions = []
    for seed in (1, 1, 2):
        network = ScoreNetwork(5, seed=seed, device=device)
        network.fit(features, scores, ridge=0.1, steps=50)
        predictions.append(network.predict(features).tolist())
    assert predictions[0] == predictions[1] != predictions[2]


def test_constant_feature_and_single_observation_give_finite_predictions():
    """The authors' code divides by 1e-30 here."""
    features = np.array([[1.0, 2.0]])
    network = ScoreNetwork(2, seed=0)
    network.fit(features, np.array([0.5]), ridge=0.1, steps=20)
    assert np.isfinite(network.predict(np.array([[1.1, 5.0]])).numpy()).all()


def test_directions_are_orthonormal_span_the_rows_and_have_unit_variance_on_average():
    draw = rng(0, "directions")
    rows = draw.normal(size=(30, 200))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    directions, unit = spanned_directions(rows)
    assert directions.shape == (200, 29)
    np.testing.assert_allclose(directions.T @ directions, np.eye(29), atol=1e-10)
    np.testing.assert_allclose(rows @ directions @ directions.T, rows, atol=1e-10)
    variances = (rows @ directions * unit).var(axis=0, ddof=1)
    assert variances.mean() == pytest.approx(1)
    assert 0.3 < variances.min() < variances.max() < 3


def test_what_no_observation_shows_changes_no_prediction():
    """Weights of directions without data are 0; sigma alone sees how far out a candidate is."""
    draw = rng(0, "unseen")
    features = np.pad(draw.normal(size=(20, 5)), ((0, 0), (0, 3)))
    network = ScoreNetwork(8, seed=0)
    network.fit(features, draw.random(20), ridge=0.1, steps=50)
    far = features.copy()
    far[:, 5:] += 10
    np.testing.assert_allclose(network.predict(far).numpy(), network.predict(features).numpy(), atol=1e-6)
