"""The score network m: 100 -> 100 -> 100 -> 1 with ReLU on top of the features, trained by full-batch Adam.

Inputs are standardised over the observations and rotated into the directions in which these differ: t observations span
at most t - 1 of the d directions, and of more than 100 the first 100 principal ones are kept. In all other directions
the first layer's weights are 0, as there is nothing to learn them from; gradients, and so sigma, use all d. The
directions are rotated at random, so that every coordinate has about unit variance and Adam, which treats coordinates
separately, favours none. Compared with training in all d dimensions this is 1.4 to 2 times faster and predicts unseen
sequences as well.

Forward, backward and Adam are written out on one flat parameter buffer, without an autograd graph or optimizer object.
The tests have the plain loop that the result must equal. Settings that the paper does not state are those of the
authors' code: 1 000 steps, learning rate 1e-3, weight decay ridge/t coupled into the gradient, PyTorch's default
initialisation from the same seed at every training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ease_lib.arrays import FloatArray
from ease_lib.machine import one_thread
from ease_lib.seeding import rng

HIDDEN_WIDTH = 100
HIDDEN_LAYERS = 3
MOST_DIRECTIONS = 100
TRAINING_STEPS = 1_000
LEARNING_RATE = 1e-3
FIRST_MOMENT, SECOND_MOMENT, EPSILON = 0.9, 0.999, 1e-8
"""Constants of Adam."""
LEAST_SPREAD = 1e-5
"""Directions with a smaller share of the largest one's spread count as not spanned."""


@dataclass(frozen=True)
class Backprop:
    """One forward and backward pass, kept per layer.

    `inputs[l]` (b, in_l) enters layer l, `deltas[l]` (b, out_l) is d prediction / d pre-activation of layer l, so the
    gradient of prediction x by the weights of layer l is the outer product of deltas[l][x] and inputs[l][x].
    """

    predictions: Tensor
    inputs: list[Tensor]
    deltas: list[Tensor]


class ScoreNetwork:
    """Predicts the validation score of a sequence from its representation.

    Args:
        dimension: features of one sequence.
        seed: of the initial weights.
        device: `cpu` or `cuda`; the same seed starts from the same weights on both.
        hidden_width, dtype: as they are for searches (the authors' code computes in float64); tests take small float64
            networks.
    """

    def __init__(
        self,
        dimension: int,
        *,
        seed: int,
        device: str = "cpu",
        hidden_width: int = HIDDEN_WIDTH,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._seed = seed
        self._hidden_width = hidden_width
        self._dtype = dtype
        self._device = torch.device(device)
        self.layers = Layers(dimension, hidden_width, dtype, self._device)
        self.layers.initialise(seed)
        self._mean = torch.zeros(dimension, dtype=dtype, device=self._device)
        self._scale = torch.ones(dimension, dtype=dtype, device=self._device)

    def fit(
        self,
        features: FloatArray,
        scores: FloatArray,
        *,
        ridge: float,
        steps: int = TRAINING_STEPS,
    ) -> None:
        """Train on all observations.

        Args:
            features: (t, d); scores: (t,) in [0, 1].
            ridge: lambda; the weight decay is lambda / t.
        """
        raw = self._tensor(features)
        self._mean = raw.mean(dim=0)
        spread = raw.std(dim=0) if len(raw) > 1 else torch.zeros_like(self._mean)
        self._scale = torch.where(spread > 1e-12, spread, torch.ones_like(spread))  # a constant feature says nothing
        directions, unit = spanned_directions(self.standardise(features).double().cpu().numpy())
        self._scale /= unit
        turned = self._tensor(directions)
        y = self._tensor(scores)
        trained = Layers(turned.shape[1], self._hidden_width, self._dtype, self._device)
        trained.initialise(self._seed)
        with one_thread(), torch.inference_mode():
            _train(trained, self.standardise(features) @ turned, y, ridge, steps)
        for own, learned in zip(self.layers.weights[1:], trained.weights[1:], strict=True):
            own.copy_(learned)
        for own, learned in zip(self.layers.biases, trained.biases, strict=True):
            own.copy_(learned)
        torch.mm(trained.weights[0], turned.T, out=self.layers.weights[0])

    def predict(self, features: FloatArray) -> Tensor:
        """(b,) predicted scores."""
        return self.layers.forward(self.standardise(features))[-1][:, 0]

    def backprop(self, features: FloatArray) -> Backprop:
        """Predictions with the parts of their gradients that `neural_ucb` needs."""
        activations = self.layers.forward(self.standardise(features))
        delta = torch.ones_like(activations[-1])
        deltas = [delta]
        for layer in reversed(range(1, len(self.layers.weights))):
            delta = (delta @ self.layers.weights[layer]) * (activations[layer] > 0)
            deltas.append(delta)
        return Backprop(activations[-1][:, 0], activations[:-1], deltas[::-1])

    def standardise(self, features: FloatArray) -> Tensor:
        return (self._tensor(features) - self._mean) / self._scale

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(values, dtype=self._dtype, device=self._device)


class Layers:
    """The weights and biases of a network, as views of one flat buffer."""

    def __init__(self, dimension: int, hidden_width: int, dtype: torch.dtype, device: torch.device) -> None:
        widths = [dimension, *[hidden_width] * HIDDEN_LAYERS, 1]
        self.shapes = list(zip(widths[1:], widths[:-1], strict=True))
        self.flat = torch.zeros(sum(out * (into + 1) for out, into in self.shapes), dtype=dtype, device=device)
        self.weights, self.biases = self.views(self.flat)

    def initialise(self, seed: int) -> None:
        """PyTorch's default for linear layers; the same draws in every precision and on every device."""
        generator = torch.Generator("cpu").manual_seed(seed % 2**63)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            limit = 1 / math.sqrt(weight.shape[1])
            for part in (weight, bias):
                drawn = torch.empty(part.shape, dtype=torch.float64, device="cpu")
                part.copy_(drawn.uniform_(-limit, limit, generator=generator))

    def views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """A flat buffer seen as one weight matrix and one bias vector per layer."""
        weights, biases, start = [], [], 0
        for out, into in self.shapes:
            weights.append(flat[start : start + out * into].view(out, into))
            biases.append(flat[start + out * into : start + out * (into + 1)])
            start += out * (into + 1)
        return weights, biases

    def forward(self, x: Tensor) -> list[Tensor]:
        """Input, hidden activations and output."""
        activations = [x]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            activations.append(torch.addmm(bias, activations[-1], weight.T).relu_())
        activations.append(torch.addmm(self.biases[-1], activations[-1], self.weights[-1].T))
        return activations


def spanned_directions(standardised: FloatArray) -> tuple[FloatArray, float]:
    """(d, r) orthonormal directions in which the rows differ, turned at random, and the unit of coordinates along them.

    In that unit a coordinate has variance 1 on average.
    """
    _, spreads, directions = np.linalg.svd(standardised, full_matrices=False)
    count = max(1, min(MOST_DIRECTIONS, int((spreads > LEAST_SPREAD * spreads[0]).sum())))
    kept = directions[:count]
    kept = kept * np.sign(kept[np.arange(count), np.abs(kept).argmax(axis=1)])[:, None]  # signs of an SVD are arbitrary
    turn, _ = np.linalg.qr(rng(0, "surrogate", "turn").normal(size=(count, count)))
    variance = np.square(spreads[:count]).sum() / max(1, len(standardised) - 1) / count
    return kept.T @ turn, 1 / math.sqrt(variance) if variance else 1.0


def _train(layers: Layers, x: Tensor, y: Tensor, ridge: float, steps: int) -> None:
    """Adam on the mean of squared errors; every buffer is made once."""
    last = len(layers.weights) - 1
    gradient, first, second, scratch = (torch.zeros_like(layers.flat) for _ in range(4))
    weight_gradients, bias_gradients = layers.views(gradient)
    transposed = [weight.T for weight in layers.weights]
    activations = [x, *(torch.empty(len(x), out, dtype=x.dtype, device=x.device) for out, _ in layers.shapes)]
    deltas = [torch.empty_like(activation) for activation in activations[1:]]
    y, pull, decay = y[:, None], 2 / len(y), ridge / len(y)
    for step in range(1, steps + 1):
        for layer, bias in enumerate(layers.biases):
            torch.addmm(bias, activations[layer], transposed[layer], out=activations[layer + 1])
            if layer < last:
                activations[layer + 1].relu_()
        torch.sub(activations[-1], y, out=deltas[-1]).mul_(pull)
        for layer in range(last, -1, -1):
            torch.mm(deltas[layer].T, activations[layer], out=weight_gradients[layer])
            torch.sum(deltas[layer], dim=0, out=bias_gradients[layer])
            if layer:
                delta = torch.mm(deltas[layer], layers.weights[layer], out=deltas[layer - 1])
                torch.ops.aten.threshold_backward.grad_input(delta, activations[layer], 0.0, grad_input=delta)
        gradient.add_(layers.flat, alpha=decay)
        first.lerp_(gradient, 1 - FIRST_MOMENT)
        second.mul_(SECOND_MOMENT).addcmul_(gradient, gradient, value=1 - SECOND_MOMENT)
        torch.sqrt(second, out=scratch).mul_((1 - SECOND_MOMENT**step) ** -0.5).add_(EPSILON)
        layers.flat.addcdiv_(first, scratch, value=-LEARNING_RATE / (1 - FIRST_MOMENT**step))
