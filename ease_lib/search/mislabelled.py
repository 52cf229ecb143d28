"""Search for likely mislabelled exemplars of the pool: their label contradicts that of similar rows.

The labels of the validation rows are taken as right. A ridge classifier on the embeddings of the inputs, of validation
rows and pool, predicts the labels of each row from all others (leave-one-out, in closed form); its confidence is
calibrated on the validation rows (cross-validation). An unknown share of the pool's labels is wrong, with any other
label equally likely, so each row has a posterior probability of being mislabelled. That share and the labels of the
pool's rows in the fit are estimated together (expectation maximisation, as Dawid & Skene, 1979, Appl. Stat. 28(1), do
for raters). The list takes as many rows as keep the expected share of false ones below `FALSE_SHARE` (Newton, Noueiry,
Sarkar & Ahlquist, 2004, Biostatistics 5(2)). So, unlike conformal p-values, probabilities are not bounded by the number
of validation rows, and if embeddings do not separate the labels, the list is empty.

`python -m tests.studies.mislabelled` measures it, with the bundled MiniLM (30 random pools each; of AG News 10):

    shipped task, 90 validation rows     46 to 47 % of 15 % wrong labels, 65 to 72 % of 30 %; 6 to 9 % of the list false
    shipped task, 50 validation rows     32 to 36 %, 53 to 55 %; 5 to 12 % false
    AG News, 200 validation rows         40 to 51 %, 60 to 70 %; 11 to 15 % false
    AG News, the authors' 50 % noise     21 of 33 found, 22 listed (90 validation rows); 15 and 17 (50); none (20)
    the authors' 10 % noise              none of 6 and 8 found in AG News and SST-5, none listed

So about half are found if a third are wrong, and fewer if a sixth are, because few wrong labels among so many must be
much more certain. One in ten labels of AG News is itself ambiguous, and these embeddings do not separate the five
grades of SST-5. The search's own answers are not evidence here: in tasks whose labels are learnt from similar
exemplars, one wrong exemplar of five lowers a score by less than the search can see (`python -m
tests.benchmarks.harmful_exemplars`: no exemplar of the shipped task).

The method assumes that pool and validation set were drawn alike and that outputs are classes. It sends no requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import FloatArray, Floats
from ease_lib.machine import one_thread
from ease_lib.tasks.splits import classes_of

RIDGE = 1.0
"""Ridge parameter, relative to eigenvalues of the rows' cosines."""
LEAST_ROWS = 5
"""Minimum number of validation rows of a label; exemplars with rarer labels are not judged."""
FALSE_SHARE = 0.1
"""Expected share of listed exemplars whose label is right."""
ROUNDS = 4
"""Number of rounds of the estimation; the list hardly changes after three."""
PARTS = 10
"""Number of parts of the validation rows, for cross-validation."""
FIRST_SHARE, MOST_SHARE = 0.2, 0.6
"""Share of wrong labels with which the estimation begins, and the largest that it accepts."""
DOUBTS = 0.5
"""Number of pseudo-rows without preference for any label, so that few rows cannot make a probability certain."""


@dataclass(frozen=True, kw_only=True)
class LabelCheck:
    """Evidence of the validation rows about the pool's labels.

    Args:
        listed: of each exemplar that is likely mislabelled, the surest first: `exemplar_id`, the `suggested` label, and
            the `probability` that its own is wrong.
        judged: exemplars that were looked at.
        expected_wrong: labels of the pool that are wrong, as far as can be estimated.
        told_apart: share of the validation rows whose label the other rows tell.
    """

    listed: list[dict[str, Any]]
    judged: int
    expected_wrong: float
    told_apart: float

    @property
    def document(self) -> dict[str, float]:
        """Facts in addition to the list."""
        return {"judged": self.judged, "expected_wrong": self.expected_wrong, "told_apart": self.told_apart}


@one_thread()
def checked_labels(
    pool: FloatArray,
    outputs: Sequence[str],
    validation: FloatArray,
    validation_outputs: Sequence[str],
    ids: Sequence[int],
) -> LabelCheck | None:
    """Check the labels of the pool; None if outputs are not classes, or no label has enough validation rows.

    Args:
        pool, validation: (n, d) and (m, d) embeddings of the inputs alone: what knows a row's label contradicts none.
        ids: of the exemplars, by position in the pool.
    """
    class_of = classes_of([*outputs, *validation_outputs])
    classes = list(dict.fromkeys(class_of.values()))
    if len(classes) < 2 or not len(pool) or not len(validation):
        return None
    number = {label: place for place, label in enumerate(classes)}
    given, known = (np.array([number[class_of[output]] for output in each]) for each in (outputs, validation_outputs))
    is_judged = np.bincount(known, minlength=len(classes))[given] >= LEAST_ROWS
    if not is_judged.any():
        return None
    of_labels, told_apart = _posterior(
        validation.astype(np.float64), known, pool.astype(np.float64), given, len(classes)
    )
    wrong = np.where(is_judged, 1 - of_labels[np.arange(len(given)), given], 0.0)
    order = np.argsort(-wrong, kind="stable")
    order = order[wrong[order] > 0.5]  # the list may hold a share of right ones, but is not filled up with them
    holds = np.flatnonzero(np.cumsum(1 - wrong[order]) <= FALSE_SHARE * np.arange(1, len(order) + 1))
    return LabelCheck(
        listed=[
            {
                "exemplar_id": ids[place],
                "suggested": classes[int(np.argmax(of_labels[place]))],
                "probability": float(wrong[place]),
            }
            for place in order[: holds[-1] + 1 if len(holds) else 0]
        ],
        judged=int(is_judged.sum()),
        expected_wrong=float(wrong.sum()),
        told_apart=told_apart,
    )


def _posterior(
    rows: Floats, known: NDArray[np.int64], pool: Floats, given: NDArray[np.int64], classes: int
) -> tuple[Floats, float]:
    """(n, classes) probabilities of the pool's labels, and the accuracy on the validation rows' labels.

    Validation rows have taught the fit by which the pool's labels were estimated, and those teach the fit in turn. So
    how sure it may be is found on validation rows that nothing was learnt from (cross-validation).

    Args:
        rows, pool: (m, d) and (n, d) embeddings.
        known, given: their labels by number.
    """
    if len(rows) + len(pool) < rows.shape[1]:  # the same rows in fewer dimensions
        basis = np.linalg.qr(np.vstack([rows, pool]).T)[0]
        rows, pool = rows @ basis, pool @ basis
    whole = _Fit(rows, known, pool, given, classes)
    part = np.empty(len(rows), dtype=np.int64)
    part[np.argsort(known, kind="stable")] = np.arange(len(rows)) % PARTS  # each with its share of every label
    held_out = np.empty((len(rows), classes))
    for number in range(min(PARTS, len(rows))):
        others = part != number
        held_out[~others] = _Fit(rows[others], known[others], pool, given, classes).scores(rows[~others])
    likely = _probabilities(whole.of_pool, _calibrated(held_out, known, whole.centre), whole.centre, len(rows))
    posterior, share = _of_given(likely, given, whole.share)
    for _ in range(ROUNDS):
        posterior, share = _of_given(likely, given, share)
    return posterior, float((held_out.argmax(axis=1) == known).mean())


class _Fit:
    """A classifier of validation rows and pool, with the share of the pool's labels that are wrong.

    Attributes:
        centre: (classes,) shares of the validation rows' labels.
        of_pool: (n, classes) scores of the pool's rows, each by all others.
        share: as estimated.
    """

    def __init__(
        self, rows: Floats, known: NDArray[np.int64], pool: Floats, given: NDArray[np.int64], classes: int
    ) -> None:
        count = len(rows)
        right = np.eye(classes)[known]
        self.centre = (right.sum(axis=0) + 1) / (count + classes)
        self.share = FIRST_SHARE
        own, both = _Ridge(rows), _Ridge(np.vstack([rows, pool]))
        left_out = own.left_out(right - self.centre) + self.centre
        self.of_pool = pool @ own.weights(right - self.centre) + self.centre
        for _ in range(ROUNDS):
            sureness = _calibrated(left_out, known, self.centre)
            likely = _probabilities(self.of_pool, sureness, self.centre, count)
            posterior, self.share = _of_given(likely, given, self.share)
            targets = np.vstack([right, posterior]) - self.centre
            scores = both.left_out(targets) + self.centre
            left_out, self.of_pool = scores[:count], scores[count:]
        self._weights = both.weights(targets)

    def scores(self, rows: Floats) -> Floats:
        """(m, classes) scores of unseen rows."""
        return np.asarray(rows @ self._weights + self.centre)


def _of_given(likely: Floats, given: NDArray[np.int64], share: float) -> tuple[Floats, float]:
    """(n, classes) probabilities of the pool's labels if this share of them is wrong, and the resulting share."""
    own = np.arange(len(given)), given
    noise = np.full(likely.shape, share / (likely.shape[1] - 1))
    noise[own] = 1 - share
    posterior = likely * noise
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior, min(MOST_SHARE, float((1 - posterior[own]).sum() + 1) / (len(given) + 10))


def _calibrated(left_out: Floats, known: NDArray[np.int64], centre: Floats) -> float:
    """The factor that turns scores into log probabilities, by maximum likelihood of the validation rows' labels."""
    from scipy.optimize import minimize_scalar  # 0.2 s, which stages that check no labels need not spend

    own = np.arange(len(known)), known

    def loss(logarithm: float) -> float:
        likely = _probabilities(left_out, float(np.exp(logarithm)), centre, len(known))
        return float(-np.log(likely[own]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 4.0), method="bounded").x))


def _probabilities(scores: Floats, sureness: float, centre: Floats, rows: int) -> Floats:
    from scipy.special import softmax

    return np.asarray((softmax(sureness * scores, axis=1) * rows + DOUBTS * centre) / (rows + DOUBTS))


class _Ridge:
    """Ridge regression on the same rows, for whatever targets."""

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self._inverse = np.linalg.inv(rows.T @ rows + RIDGE * np.eye(rows.shape[1]))
        self._leverage = np.einsum("ij,jk,ik->i", rows, self._inverse, rows, optimize=True)[:, None]

    def weights(self, targets: Floats) -> Floats:
        return np.asarray(self._inverse @ (self._rows.T @ targets))

    def left_out(self, targets: Floats) -> Floats:
        """Prediction for each row from all other rows."""
        fitted = self._rows @ self.weights(targets)
        return np.asarray((fitted - self._leverage * targets) / (1 - self._leverage))
