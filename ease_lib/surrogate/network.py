"""The score network m: d -> 100 -> 100 -> 100 -> 1 with ReLU, trained by full-batch Adam on the squared error.

Forward and backward are written out on one flat parameter buffer, which a fused Adam updates in one pass: no autograd
graph. The plain autograd loop that it must equal stands in the tests. Settings are the authors' code's, where the
paper is silent: 1 000 steps, learning rate 1e-3, weight decay ridge/t coupled into the gradient, inputs standardised
over the observations, PyTorch's default initialisation from the same seed at every training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.floating]

HIDDEN_WIDTH = 100
HIDDEN_LAYERS = 3
TRAINING_STEPS = 1_000
LEARNING_RATE = 1e-3


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
        hidden_width, dtype: as they are for searches; tests take small float64 networks.
    """

    def __init__(
        self, dimension: int, *, seed: int, hidden_width: int = HIDDEN_WIDTH, dtype: torch.dtype = torch.float32
    ) -> None:
        widths = [dimension, *[hidden_width] * HIDDEN_LAYERS, 1]
        self.shapes = list(zip(widths[1:], widths[:-1], strict=True))
        self._dtype = dtype
        self._flat = torch.empty(sum(out * (into + 1) for out, into in self.shapes), dtype=dtype)
        self.weights, self.biases = self._views(self._flat)
        generator = torch.Generator().manual_seed(seed % 2**63)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            limit = 1 / math.sqrt(weight.shape[1])
            weight.uniform_(-limit, limit, generator=generator)
            bias.uniform_(-limit, limit, generator=generator)
        self._mean = torch.zeros(dimension, dtype=dtype)
        self._scale = torch.ones(dimension, dtype=dtype)

    def fit(
        self,
        features: FloatArray,
        scores: FloatArray,
        *,
        ridge: float,
        trust: FloatArray | None = None,
        steps: int = TRAINING_STEPS,
    ) -> None:
        """Train on all observations.

        Args:
            features: (t, d); scores: (t,) in [0, 1].
            ridge: lambda; the weight decay is lambda / (sum of trust), which is the paper's lambda / t without racing.
            trust: (t,) weight in (0, 1] of each squared error; None is 1 throughout.
        """
        raw = torch.as_tensor(features, dtype=self._dtype)
        self._mean = raw.mean(dim=0)
        spread = raw.std(dim=0) if len(raw) > 1 else torch.zeros_like(self._mean)
        self._scale = torch.where(spread > 1e-12, spread, torch.ones_like(spread))  # a constant feature says nothing
        x = self.standardise(features)
        y = torch.as_tensor(scores, dtype=self._dtype)[:, None]
        weight = torch.ones_like(y) if trust is None else torch.as_tensor(trust, dtype=self._dtype)[:, None]
        total = float(weight.sum())
        pull = weight * (2 / total)
        self._flat.grad = torch.empty_like(self._flat)
        weight_gradients, bias_gradients = self._views(self._flat.grad)
        adam = torch.optim.Adam([self._flat], lr=LEARNING_RATE, weight_decay=ridge / total, fused=True)
        with one_thread():
            for _ in range(steps):
                activations = self._forward(x)
                delta = (activations[-1] - y) * pull
                for layer in reversed(range(len(self.shapes))):
                    torch.mm(delta.T, activations[layer], out=weight_gradients[layer])
                    torch.sum(delta, dim=0, out=bias_gradients[layer])
                    if layer:
                        delta = (delta @ self.weights[layer]).mul_(activations[layer] > 0)
                adam.step()

    def predict(self, features: FloatArray) -> Tensor:
        """(b,) predicted scores."""
        return self._forward(self.standardise(features))[-1][:, 0]

    def backprop(self, features: FloatArray) -> Backprop:
        """Predictions with what `neural_ucb` needs of their gradients."""
        activations = self._forward(self.standardise(features))
        delta = torch.ones_like(activations[-1])
        deltas = [delta]
        for layer in reversed(range(1, len(self.shapes))):
            delta = (delta @ self.weights[layer]) * (activations[layer] > 0)
            deltas.append(delta)
        return Backprop(activations[-1][:, 0], activations[:-1], deltas[::-1])

    def standardise(self, features: FloatArray) -> Tensor:
        return (torch.as_tensor(features, dtype=self._dtype) - self._mean) / self._scale

    def _forward(self, x: Tensor) -> list[Tensor]:
        """Input, hidden activations and output."""
        activations = [x]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            activations.append(torch.addmm(bias, activations[-1], weight.T).relu_())
        activations.append(torch.addmm(self.biases[-1], activations[-1], self.weights[-1].T))
        return activations

    def _views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The flat buffer seen as one weight matrix and one bias vector per layer."""
        weights, biases, start = [], [], 0
        for out, into in self.shapes:
            weights.append(flat[start : start + out * into].view(out, into))
            biases.append(flat[start + out * into : start + out * (into + 1)])
            start += out * (into + 1)
        return weights, biases


@contextmanager
def one_thread() -> Iterator[None]:
    """Thousands of small steps: a second thread saves little on an idle machine, costs up to a hundredfold on a
    busy one, and would make results depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
