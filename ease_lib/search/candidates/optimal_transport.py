"""Optimal-transport shortlist: keep the sequences whose exemplars look most like the validation set.

    OT(S, V) = min_pi  sum_ij pi_ij (1 - cos(h(e_i), h(v_j))),  uniform weights on exemplars and on V   (paper, Sec. 3)

The result is the same as if every sampled sequence were solved exactly; most are never solved. OT ignores order, so
equal sets are solved once. Lower bounds rule out almost all others: sets are taken in ascending order of a separable
bound, a few steps of dual ascent tighten it, and a set is solved if it may still be kept. The search for sets ends once
the bound exceeds the worst kept cost. If k divides the number of rows of V (or the reverse), transport with uniform
weights is an assignment problem, which is solved faster than the general one for up to 32 rows.

Differences from the authors' code: the top q' of all q, not the top 50 of each of 20 chunks; ties, of costs that agree
to 1e-12, are broken by the order of sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import FloatArray, IntArray

ROUNDING = 1e-9
"""Slack between a bound and an exact cost, both sums of at most a few thousand float64 terms in [0, 2]."""
TIE_DECIMALS = 12
LARGEST_ASSIGNMENT = 32
"""Rows up to which the assignment problem is solved faster than the transport problem (measured: 2 to 3 times)."""
DUAL_STEPS = 12
SETS_PER_BLOCK = 512
EXEMPLARS_PER_BLOCK = 65_536
NUMBERS_PER_BLOCK = 2**20
"""Size of temporary arrays, which bounds the memory whatever q and the size of the validation set."""


@dataclass(frozen=True)
class Shortlist:
    """Positions of the kept sequences, by ascending cost, and how many exact problems were solved for them."""

    positions: NDArray[np.intp]
    costs: FloatArray
    solved: int


def cosine_cost(exemplars: FloatArray, validation: FloatArray) -> FloatArray:
    """(n, m) cost 1 - cos between unit-length rows, float64, in [0, 2]."""
    cost = np.empty((len(exemplars), len(validation)))
    rows = validation.astype(np.float64).T
    for start in range(0, len(exemplars), EXEMPLARS_PER_BLOCK):
        block = exemplars[start : start + EXEMPLARS_PER_BLOCK].astype(np.float64)
        cost[start : start + EXEMPLARS_PER_BLOCK] = 1.0 - block @ rows
    return np.clip(cost, 0.0, 2.0, out=cost)


def transport_cost(rows: FloatArray) -> float:
    """Exact OT between k exemplars and m validation rows with uniform weights.

    Args:
        rows: (k, m) cost of moving exemplar i to validation row j.
    """
    import ot  # it imports torch: two seconds, which stages that search nothing need not spend

    k, m = rows.shape
    return float(
        ot.emd2(
            np.full(k, 1 / k), np.full(m, 1 / m), np.ascontiguousarray(rows), center_dual=False, check_marginals=False
        )
    )


def shortlist(sequences: IntArray, cost: FloatArray, size: int) -> Shortlist:
    """The `size` sequences with the smallest OT cost; all of them when there are no more.

    Args:
        sequences: (q, k) positions in the pool.
        cost: (n, m) as of `cosine_cost`.
    """
    sets, set_of, copies = _distinct_sets(sequences, len(cost))
    exact = _solve_cheapest(sets, copies, cost, min(size, len(sequences)))
    costs = np.round(exact[set_of], TIE_DECIMALS)
    positions = np.argsort(costs, kind="stable")[: min(size, len(sequences))]
    return Shortlist(positions, costs[positions], int(np.isfinite(exact).sum()))


def _distinct_sets(sequences: IntArray, n: int) -> tuple[IntArray, IntArray, IntArray]:
    """Sets as sorted rows, the number of each sequence's set, and how many sequences each set has."""
    ordered = np.sort(sequences, axis=1)
    k = ordered.shape[1]
    if n**k < 2**63:  # one integer for each set is found faster than a row
        keys = ordered.astype(np.int64) @ np.array([n**place for place in range(k)], dtype=np.int64)
        _, first, set_of, copies = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    else:
        _, first, set_of, copies = np.unique(
            ordered, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
    return ordered[first], set_of.ravel(), copies


def _solve_cheapest(sets: IntArray, copies: IntArray, cost: FloatArray, size: int) -> FloatArray:
    """Exact costs of at least those sets whose sequences make up the `size` cheapest; infinity for the rest."""
    exact = np.full(len(sets), np.inf)
    bounds = _separable_bounds(sets, cost)
    order = np.argsort(bounds, kind="stable")
    first = _first_covering(order, copies, size)
    _solve(first, sets, cost, exact)
    sets_per_block = min(SETS_PER_BLOCK, NUMBERS_PER_BLOCK // (sets.shape[1] * cost.shape[1]) + 1)
    for start in range(len(first), len(order), sets_per_block):
        limit = _worst_kept(exact, copies, size) + ROUNDING
        block = order[start : start + sets_per_block]
        if bounds[block[0]] > limit:
            break
        block = block[bounds[block] <= limit]
        _solve(block[_may_be_kept(sets[block], cost, limit)], sets, cost, exact)
    return exact


def _solve(chosen: IntArray, sets: IntArray, cost: FloatArray, exact: FloatArray) -> None:
    k, m = sets.shape[1], cost.shape[1]
    size = max(k, m)
    if size % k or size % m or size > LARGEST_ASSIGNMENT:
        for index in chosen:
            exact[index] = transport_cost(cost[sets[index]])
        return
    from scipy.optimize import linear_sum_assignment  # takes half a second

    columns = np.repeat(cost, size // m, axis=1)  # a row of V for each exemplar that it takes a share of
    for index in chosen:
        square = np.repeat(columns[sets[index]], size // k, axis=0)
        exact[index] = square[linear_sum_assignment(square)].sum() / size


def _first_covering(order: IntArray, copies: IntArray, size: int) -> IntArray:
    """The shortest beginning of `order` that covers at least `size` sequences."""
    return order[: int(np.searchsorted(np.cumsum(copies[order]), size)) + 1]


def _worst_kept(exact: FloatArray, copies: IntArray, size: int) -> float:
    """The cost of the `size`-th cheapest sequence among the solved ones."""
    solved = np.flatnonzero(np.isfinite(exact))
    order = solved[np.argsort(exact[solved], kind="stable")]
    return float(exact[_first_covering(order, copies, size)[-1]])


def _separable_bounds(sets: IntArray, cost: FloatArray) -> FloatArray:
    """The larger of two relaxations: validation rows take their nearest exemplar; exemplars take their nearest rows."""
    k, m = sets.shape[1], cost.shape[1]
    nearest = np.empty(len(sets))
    for start in range(0, len(sets), NUMBERS_PER_BLOCK // m + 1):
        block = sets[start : start + NUMBERS_PER_BLOCK // m + 1]
        costs = cost[block[:, 0]]
        for position in range(1, k):
            np.minimum(costs, cost[block[:, position]], out=costs)
        nearest[start : start + len(block)] = costs.mean(axis=1)
    share = m / k  # validation rows that one exemplar's weight fills
    whole = int(share)
    ordered = np.sort(cost, axis=1)
    filled = ordered[:, :whole].sum(axis=1) + (share - whole) * ordered[:, min(whole, m - 1)]
    bounds: FloatArray = np.maximum(nearest, filled[sets].sum(axis=1) / m)
    return bounds


def _may_be_kept(sets: IntArray, cost: FloatArray, limit: float) -> IntArray:
    """Positions of the sets whose cost a few steps of dual ascent do not prove to exceed `limit`.

    The semi-dual mean_i u_i + mean_j min_i (c_ij - u_i) is a lower bound for every u; its subgradient compares an
    exemplar's weight 1/k with the share of V that it is nearest to. A set is looked at until its bound passes.
    """
    left = np.arange(len(sets))
    rows = cost[sets.T]  # (k, b, m)
    k = len(rows)
    potentials = np.zeros(rows.shape[:2])
    step = k * rows.std(axis=(0, 2))
    for iteration in range(1, DUAL_STEPS + 1):
        reduced = rows - potentials[:, :, None]
        least = reduced.min(axis=0)
        below = np.flatnonzero(potentials.mean(axis=0) + least.mean(axis=1) <= limit)
        left, step, rows, potentials = left[below], step[below], rows[:, below], potentials[:, below]
        load = (reduced[:, below] == least[below]).mean(axis=2)
        potentials += step / iteration * (1 / k - load)
    return left
