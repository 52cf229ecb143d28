"""The kernel form of NeuralUCB must equal the explicit covariance of all parameters."""

import numpy as np
import pytest
import torch

from ease_lib.search.surrogate.network import ScoreNetwork
from ease_lib.search.surrogate.neural_ucb import Acquisition, gradient_products, squared_gradient_norms
from ease_lib.seeding import rng
from tests.straightforward import explicit_gradients, plain_acquisition


@pytest.fixture
def trained(device):
    draw = rng(0, "ucb")
    observed, candidates = draw.normal(size=(12, 4)), draw.normal(size=(9, 4))
    network = ScoreNetwork(4, seed=0, hidden_width=8, dtype=torch.float64, device=device)
    network.fit(observed, draw.random(12), ridge=0.1, steps=100)
    return network, observed, candidates


def test_gradient_products_equal_explicit_gradients(trained):
    network, observed, candidates = trained
    left, right = explicit_gradients(network, observed), explicit_gradients(network, candidates)
    products = gradient_products(network.backprop(observed), network.backprop(candidates))
    np.testing.assert_allclose(products.cpu().numpy(), (left @ right.T).cpu().numpy(), rtol=1e-10)
    norms = squared_gradient_norms(network.backprop(candidates))
    np.testing.assert_allclose(norms.cpu().numpy(), right.square().sum(dim=1).cpu().numpy(), rtol=1e-10)


@pytest.mark.parametrize("ridge", [0.01, 0.1, 10.0])
def test_acquisition_equals_the_explicit_covariance(trained, ridge):
    network, observed, candidates = trained
    seen, new = explicit_gradients(network, observed), explicit_gradients(network, candidates)
    covariance = ridge * torch.eye(seen.shape[1], dtype=torch.float64, device=seen.device) + seen.T @ seen
    variance = ridge * (new * torch.linalg.solve(covariance, new.T).T).sum(dim=1)
    expected = network.predict(candidates) + 0.5 * variance.sqrt()
    values = Acquisition(network, observed, nu=0.5, ridge=ridge)(candidates)
    np.testing.assert_allclose(values, expected.cpu().numpy(), rtol=1e-6)


def test_observed_points_are_less_uncertain_than_new_ones(trained):
    network, observed, _ = trained
    far = observed + 10
    bonus = [
        Acquisition(network, observed, nu=1.0, ridge=0.1)(x) - network.predict(x).cpu().numpy() for x in (observed, far)
    ]
    assert bonus[0].max() < bonus[1].min()


def test_acquisition_equals_a_gradient_per_sample(trained):
    network, observed, candidates = trained
    expected = plain_acquisition(network, observed, candidates, nu=0.5, ridge=0.1)
    values = Acquisition(network, observed, nu=0.5, ridge=0.1)(candidates)
    np.testing.assert_allclose(values, expected.cpu().numpy(), rtol=1e-6)


def test_every_tensor_is_made_on_the_device_asked_for():
    """A tensor without a stated device would be created on another default device and not meet the rest."""
    draw = rng(0, "device")
    features, scores = draw.normal(size=(20, 5)), draw.random(20)
    values = []
    for default in ("cpu", "meta"):
        with torch.device(default):
            network = ScoreNetwork(5, seed=0, device="cpu")
            network.fit(features, scores, ridge=0.1, steps=20)
            values.append(Acquisition(network, features, nu=0.1, ridge=0.1)(features).tolist())
    assert values[0] == values[1]
