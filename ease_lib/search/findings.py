"""How much the order of the winner's exemplars matters: it is asked again in other orders."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ease_lib.errors import CapReached
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.usage import Usage
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.outcome import Outcome
from ease_lib.search.task import SearchTask
from ease_lib.seeding import rng

logger = logging.getLogger("ease")

LISTABLE = 8
"""Longest sequence whose permutations are all listed to draw from."""


@dataclass(frozen=True, kw_only=True)
class OrderReport:
    """What was found, None where nothing was, and what it cost."""

    findings: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)


def ask_orders(
    outcome: Outcome,
    problem: Problem,
    task: SearchTask,
    objective: Objective,
    count: int,
    rows: Sequence[int],
    account: str,
) -> OrderReport:
    """Evaluate the winner in so many other orders on those of these validation rows that it was not asked yet.

    Args:
        account: whom the answers are paid for.
    """
    instruction, sequence = outcome.candidate.prompt
    if not count or len(sequence) < 2:
        return OrderReport()
    known = {prompt: dict(zip(asked, scored, strict=True)) for prompt, asked, scored in outcome.answers.by_prompt()}
    scores: dict[str, list[float | None]] = {}
    usage = Usage()
    for name, order in permutations_of(sequence, problem, count).items():
        of_rows = known.get((instruction, order), {})
        missing = [row for row in rows if row not in of_rows]
        if missing:
            try:
                evaluation = objective.evaluate(task.question((instruction, order), missing, account))
            except CapReached as error:
                logger.info("notice: %s leaves too few requests for the order report", error.cap)
                return OrderReport(usage=usage + objective.stop())
            usage += evaluation.usage
            of_rows |= dict(zip(evaluation.rows, evaluation.scores, strict=True))
        scores[name] = [of_rows[row] for row in rows]
    logger.info("asked %d orders of the winner", len(scores))
    return OrderReport(findings=order_report(scores, outcome.model.variances.sequences), usage=usage)


def permutations_of(sequence: Sequence[int], problem: Problem, count: int) -> dict[str, tuple[int, ...]]:
    """The sequence (`winner`), in similarity order, and at random, by name; all different.

    Similarity order puts the exemplar last that is most like the validation rows.
    """
    winner = tuple(sequence)
    by_similarity = tuple(sorted(winner, key=lambda position: float(problem.relevance[position])))
    found = {"winner": winner}
    if by_similarity != winner:
        found["by similarity"] = by_similarity
    draw = rng(problem.seed, "order report")
    if len(winner) <= LISTABLE:
        every = list(itertools.permutations(winner))
        drawn = [every[place] for place in draw.permutation(len(every))]
    else:
        drawn = [tuple(draw.permutation(winner).tolist()) for _ in range(count)]
    others = [each for each in dict.fromkeys(drawn) if each not in found.values()]
    return found | {
        f"random {number + 1}": each for number, each in enumerate(others[: max(0, count - len(found) + 1)])
    }


def order_report(scores: Mapping[str, Sequence[float | None]], sequence_variance: float) -> dict[str, Any]:
    """What answers to permutations say.

    Args:
        scores: of the same rows by the permutation's name.
        sequence_variance: of the true scores of the sequences that the search tried.

    Returns:
        `winner`, `by_similarity` (None where it is the winner's own order), mean, worst and best score of the
        permutations; `deviation`, the standard deviation of their true scores (luck taken off); `share` of the variance
        between sequences, up to 1.
    """
    table = np.array([[math.nan if each is None else each for each in row] for row in scores.values()])
    means = np.nanmean(table, axis=1)
    variance = _between(table)
    share = min(1.0, variance / sequence_variance) if sequence_variance > 0 else None
    named = dict(zip(scores, means.tolist(), strict=True))
    return {
        "permutations": len(scores),
        "rows": table.shape[1],
        "winner": named["winner"],
        "by_similarity": named.get("by similarity"),
        "mean": float(means.mean()),
        "lowest": float(means.min()),
        "highest": float(means.max()),
        "deviation": math.sqrt(variance),
        "share": share,
    }


def _between(table: NDArray[np.float64]) -> float:
    """Variance of the rows' means beyond what luck gives, by a two-way layout without repetition."""
    complete = table[:, ~np.isnan(table).any(axis=0)]
    orders, rows = complete.shape
    if orders < 2 or rows < 2:
        return 0.0
    residual = complete - complete.mean(axis=1, keepdims=True) - complete.mean(axis=0) + complete.mean()
    luck = float((residual**2).sum()) / ((orders - 1) * (rows - 1))
    return float(max(0.0, complete.mean(axis=1).var(ddof=1) - luck / rows))
