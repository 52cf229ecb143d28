"""Which exemplars of the pool are likely mislabelled: those whose label is contradicted by validation rows like them.

The validation rows' labels are taken as right. A ridge classifier on the embeddings, fitted to them, gives every
exemplar the margin of its label over the best other one. How low a margin is that a right label has is read off the
validation rows themselves, each judged by a classifier of the others (leave-one-out, in closed form): the share of them
with a margin no higher is a conformal p-value (Bates, Candes, Lei, Romano & Sesia, 2023, Ann. Stat. 51(1)), and the
procedure of Benjamini & Hochberg (1995) lists as many exemplars as keep the expected share of false ones below
`FALSE_SHARE`. Where embeddings do not tell the labels apart, or few validation rows are there, the list is empty.

Holds where pool and validation set were drawn alike and outputs are classes. Nothing is asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import Floats
from ease_lib.machine import one_thread
from ease_lib.search.optimizers.problem import Problem
from ease_lib.tasks.splits import classes_of

RIDGE = 0.5
"""Against eigenvalues of the cosines of the validation rows."""
LEAST_ROWS = 5
"""Validation rows of a label, for exemplars that have it to be judged."""
FALSE_SHARE = 0.2
"""Of those listed, expected, whose label is right."""


@one_thread()
def mislabelled_exemplars(problem: Problem, ids: Sequence[int]) -> list[dict[str, Any]]:
    """The exemplars that are likely mislabelled, the surest first; none where outputs are no classes.

    Args:
        ids: of the exemplars, by position in the pool.

    Returns:
        of each: `exemplar_id`, the `suggested` label, and `p_value`, the share of rightly labelled rows whose label
        looks as wrong.
    """
    class_of = classes_of([*problem.outputs, *problem.validation_outputs])
    classes = list(dict.fromkeys(class_of.values()))
    if len(classes) < 2:
        return []
    number = {label: place for place, label in enumerate(classes)}
    number_of = {output: number[label] for output, label in class_of.items()}
    given, known = (
        np.array([number_of[output] for output in outputs]) for outputs in (problem.outputs, problem.validation_outputs)
    )
    rows, pool = problem.validation.astype(np.float64), problem.pool.astype(np.float64)
    targets = np.eye(len(classes))[known]
    centre = targets.mean(axis=0)
    inverse = np.linalg.inv(rows @ rows.T + RIDGE * np.eye(len(rows)))
    weights = inverse @ (targets - centre)
    left_out = targets - weights / inverse.diagonal()[:, None]  # what the others say of each row
    scores = pool @ rows.T @ weights + centre
    usual, margins = np.sort(_margins(left_out, known)), _margins(scores, given)
    margins[np.bincount(known, minlength=len(classes))[given] < LEAST_ROWS] = np.inf  # of which nothing is known
    p_values = (1 + np.searchsorted(usual, margins, side="right")) / (1 + len(usual))
    order = np.lexsort((margins, p_values))
    holds = np.flatnonzero(p_values[order] <= FALSE_SHARE * np.arange(1, len(order) + 1) / len(order))
    listed = order[: holds[-1] + 1 if len(holds) else 0]
    return [
        {
            "exemplar_id": ids[place],
            "suggested": classes[int(np.argmax(scores[place]))],
            "p_value": float(p_values[place]),
        }
        for place in listed
    ]


def _margins(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """How much more the classifier says of each one's label than of the best other one."""
    own = scores[np.arange(len(labels)), labels]
    others = scores.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return np.asarray(own - others.max(axis=1))
