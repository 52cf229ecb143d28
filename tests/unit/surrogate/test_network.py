"""The written-out training must equal plain autograd."""

import numpy as np
import pytest
import torch

from ease_lib.seeding import rng
from ease_lib.surrogate.network import ScoreNetwork


def autograd_predictions(network, features, scores, ridge, steps, trust=None):
    """The straightforward loop: torch.nn, torch.optim.Adam with coupled weight decay, one backward a step."""
    layers = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    x = torch.as_tensor(features, dtype=weight.dtype)
    x = (x - x.mean(dim=0)) / x.std(dim=0)
    y = torch.as_tensor(scores, dtype=weight.dtype)
    trust = torch.ones_like(y) if trust is None else torch.as_tensor(trust)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=ridge / float(trust.sum()))
    for _ in range(steps):
        adam.zero_grad()
        (trust * (model(x)[:, 0] - y).square() / trust.sum()).sum().backward()
        adam.step()
    return model(x)[:, 0].detach().numpy()


@pytest.mark.parametrize(("observations", "dimension"), [(2, 3), (40, 30), (165, 12)])
def test_training_equals_the_autograd_loop(observations, dimension):
    draw = rng(0, "test", observations)
    features, scores = draw.normal(size=(observations, dimension)), draw.random(observations)
    network = ScoreNetwork(dimension, seed=3, dtype=torch.float64)
    expected = autograd_predictions(network, features, scores, ridge=0.1, steps=200)
    network.fit(features, scores, ridge=0.1, steps=200)
    np.testing.assert_allclose(network.predict(features).numpy(), expected, rtol=1e-6, atol=1e-8)


def test_trust_weighs_the_squared_errors():
    draw = rng(0, "trust")
    features, scores, trust = draw.normal(size=(30, 5)), draw.random(30), draw.choice([0.2, 0.4, 1.0], 30)
    network = ScoreNetwork(5, seed=3, dtype=torch.float64)
    expected = autograd_predictions(network, features, scores, ridge=0.1, steps=200, trust=trust)
    network.fit(features, scores, ridge=0.1, steps=200, trust=trust)
    np.testing.assert_allclose(network.predict(features).numpy(), expected, rtol=1e-6, atol=1e-8)


def test_float32_predicts_what_float64_predicts():
    """Stated tolerance: 0.01 of a score after the full 1 000 steps."""
    draw = rng(0, "precision")
    features, scores = draw.normal(size=(60, 40)), draw.random(60)
    predictions = []
    for dtype in (torch.float32, torch.float64):
        network = ScoreNetwork(40, seed=1, dtype=dtype)
        network._flat.copy_(ScoreNetwork(40, seed=1)._flat)
        network.fit(features, scores, ridge=0.1)
        predictions.append(network.predict(features).numpy())
    np.testing.assert_allclose(predictions[0], predictions[1], atol=0.01)


def test_same_seed_same_network():
    draw = rng(0, "seeds")
    features, scores = draw.normal(size=(20, 5)), draw.random(20)
    predictions = []
    for seed in (1, 1, 2):
        network = ScoreNetwork(5, seed=seed)
        network.fit(features, scores, ridge=0.1, steps=50)
        predictions.append(network.predict(features).tolist())
    assert predictions[0] == predictions[1] != predictions[2]


def test_constant_feature_and_single_observation_give_finite_predictions():
    """The authors' code divides by 1e-30 here."""
    features = np.array([[1.0, 2.0]])
    network = ScoreNetwork(2, seed=0)
    network.fit(features, np.array([0.5]), ridge=0.1, steps=20)
    assert np.isfinite(network.predict(np.array([[1.1, 5.0]])).numpy()).all()
