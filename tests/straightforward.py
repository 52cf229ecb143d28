"""The search step as one would write it down first: fast paths must equal it, benchmarks compare with it."""

import numpy as np
import torch

from ease_lib.search.candidates.optimal_transport import TIE_DECIMALS, transport_cost
from ease_lib.search.surrogate.network import LEARNING_RATE, TRAINING_STEPS, Layers, spanned_directions


def plain_shortlist(sequences, cost, size):
    """Solve optimal transport for every sequence, keep the cheapest; positions and all costs."""
    costs = np.round([transport_cost(cost[np.sort(row)]) for row in sequences], TIE_DECIMALS)
    return np.argsort(costs, kind="stable")[:size], costs


def standardised(features, dtype=torch.float64):
    x = torch.as_tensor(features, dtype=dtype)
    return (x - x.mean(dim=0)) / x.std(dim=0)


def in_spanned_directions(x):
    """The inputs that `ScoreNetwork` trains on."""
    directions, unit = spanned_directions(x.double().numpy())
    return x @ torch.as_tensor(directions, dtype=x.dtype) * unit


def autograd_training(x, scores, *, seed, ridge, steps=TRAINING_STEPS):
    """torch.nn, torch.optim.Adam with coupled weight decay, one backward a step; the trained module.

    Args:
        x: (t, d) tensor of inputs, standardised.
    """
    start = Layers(x.shape[1], 100, x.dtype, x.device)
    start.initialise(seed)
    layers = []
    for weight, bias in zip(start.weights, start.biases, strict=True):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    y = torch.as_tensor(scores, dtype=x.dtype)
    adam = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=ridge / len(y))
    for _ in range(steps):
        adam.zero_grad()
        (model(x)[:, 0] - y).square().mean().backward()
        adam.step()
    return model


def explicit_gradients(network, features):
    """(b, P) one autograd gradient per row, by all parameters of a `ScoreNetwork`."""
    flat = network.layers.flat.clone().requires_grad_()
    weights, biases = network.layers.views(flat)
    rows = []
    for row in network.standardise(features):
        hidden = row
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = torch.relu(weight @ hidden + bias)
        (gradient,) = torch.autograd.grad((weights[-1] @ hidden + biases[-1]).sum(), flat)
        rows.append(gradient)
    return torch.stack(rows)


def plain_acquisition(network, observed, candidates, *, nu, ridge):
    """NeuralUCB with a gradient per sample: all of them are formed and kept."""
    seen, new = explicit_gradients(network, observed), explicit_gradients(network, candidates)
    kernel = seen @ seen.T + ridge * torch.eye(len(seen), dtype=seen.dtype, device=seen.device)
    cross = seen @ new.T
    variance = new.square().sum(dim=1) - (cross * torch.linalg.solve(kernel, cross)).sum(dim=0)
    return network.predict(candidates) + nu * variance.clamp_min(0).sqrt()
