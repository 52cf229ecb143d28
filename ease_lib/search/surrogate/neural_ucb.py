"""NeuralUCB (Zhou et al., 2020) as the paper uses it: the candidate that maximises m(x) + nu * sigma(x).

    sigma^2(x) = ridge * g' U^-1 g,   U = ridge * I + sum_i g_i g_i'   over the observations, g = d m / d theta

U has as many rows as the network has weights; by Woodbury only the t x t kernel K of the observations is needed:

    sigma^2(x) = g.g - k' (ridge * I + K)^-1 k,   k_i = g_i . g,   K_ij = g_i . g_j

and gradients of an MLP are never formed, because their inner products factor layer by layer:
g . g' = sum_l (delta_l . delta'_l) (a_(l-1) . a'_(l-1) + 1).

Differences from the authors' code: nu is outside the root as in the paper (their 0.01 inside acts like our default
0.1); the covariance is full, not diagonal; it is built from the current weights and the observations alone, so nothing
accumulates and replaying a history restores everything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ease_lib.arrays import FloatArray
from ease_lib.search.surrogate.network import Backprop, ScoreNetwork


class Acquisition:
    """m(x) + nu * sigma(x), given the observations.

    Args:
        observed: (t, d) features of the observations.
    """

    def __init__(self, network: ScoreNetwork, observed: FloatArray, *, nu: float, ridge: float) -> None:
        self._network = network
        self._nu = nu
        self._seen = network.backprop(observed)
        kernel = gradient_products(self._seen, self._seen).double()
        self._factor = torch.linalg.cholesky(kernel + torch.diag(kernel.new_full((len(kernel),), ridge)))

    def __call__(self, candidates: FloatArray) -> FloatArray:
        """(b,) values in float64 of (b, d) features."""
        block = self._network.backprop(candidates)
        cross = gradient_products(self._seen, block).double()
        whitened = torch.linalg.solve_triangular(self._factor, cross, upper=False)
        variance = squared_gradient_norms(block).double() - whitened.square().sum(dim=0)
        values: FloatArray = (block.predictions.double() + self._nu * variance.clamp_min(0).sqrt()).cpu().numpy()
        return values


def gradient_products(left: Backprop, right: Backprop) -> Tensor:
    """(a, b) inner products of the parameter gradients of two batches."""
    return sum(
        (
            (left_delta @ right_delta.T) * (left_input @ right_input.T + 1)
            for left_delta, right_delta, left_input, right_input in zip(
                left.deltas, right.deltas, left.inputs, right.inputs, strict=True
            )
        ),
        start=left.predictions.new_zeros(()),
    )


def squared_gradient_norms(batch: Backprop) -> Tensor:
    """(b,) squared norms of the parameter gradients."""
    return sum(
        (
            delta.square().sum(dim=1) * (inputs.square().sum(dim=1) + 1)
            for delta, inputs in zip(batch.deltas, batch.inputs, strict=True)
        ),
        start=batch.predictions.new_zeros(()),
    )
