"""Which exemplars make prompts worse: the pool's rows that are likely to be mislabelled, with the evidence.

An exemplar's effect is what its presence adds to the score by the model of answers, over all lengths and places, less
the mean effect of the pool. Nothing is asked for it: a search that tried many sequences knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ease_lib.search.outcome import Outcome
from ease_lib.seeding import rng

DRAWS = 200
"""From the posterior."""
LEAST_PROBABILITY = 0.8
"""That an exemplar's effect is below the pool's mean, for it to be listed."""
MOST_LISTED = 50
MOST_ROWS = 5
SPOILED = 0.5
"""How much less often a row is answered rightly with an exemplar than without, to be named."""


def harmful_exemplars(outcome: Outcome, ids: Sequence[int], row_ids: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Those that lower the score with a probability of at least `LEAST_PROBABILITY`, the surest first.

    Args:
        ids: exemplar ids by position in the pool; row_ids: of the validation rows.

    Returns:
        of each: `exemplar_id`, `effect` on the score with its standard `error`, `probability` that it is negative,
        `sequences` with it and their `answers`, mean `score` with and `score_without` it, and `spoiled_rows`: ids of
        validation rows that go wrong with it.
    """
    prompt, row, score = outcome.answers.table()
    sequences = [set(sequence) for _, sequence in outcome.answers.prompts]
    used = sorted(set().union(*sequences)) if sequences else []
    if not used:
        return []
    draw = rng(seed, "exemplar effects")
    effects = np.array([outcome.model.sample(draw).exemplar_effects for _ in range(DRAWS)])
    effects = effects[:, used] - effects[:, used].mean(axis=1, keepdims=True)
    found: list[dict[str, Any]] = []
    for column, position in enumerate(used):
        probability = float((effects[:, column] < 0).mean())
        if probability < LEAST_PROBABILITY:
            continue
        holds = np.array([position in sequence for sequence in sequences])
        with_it = holds[prompt]
        found.append(
            {
                "exemplar_id": ids[position],
                "effect": float(effects[:, column].mean()),
                "error": float(effects[:, column].std()),
                "probability": probability,
                "sequences": int(holds.sum()),
                "answers": int(with_it.sum()),
                "score": float(score[with_it].mean()) if with_it.any() else None,
                "score_without": float(score[~with_it].mean()) if not with_it.all() else None,
                "spoiled_rows": [row_ids[each] for each in _spoiled(row, score, with_it, len(row_ids))],
            }
        )
    return sorted(found, key=lambda each: (-each["probability"], each["effect"]))[:MOST_LISTED]


def _spoiled(row: np.ndarray, score: np.ndarray, with_it: np.ndarray, rows: int) -> list[int]:
    """Rows that are answered rightly much less often with an exemplar than without, the worst first."""
    counts = [np.bincount(row[part], minlength=rows) for part in (with_it, ~with_it)]
    sums = [np.bincount(row[part], score[part], minlength=rows) for part in (with_it, ~with_it)]
    means = [total / np.maximum(count, 1) for total, count in zip(sums, counts, strict=True)]
    loss = np.where((counts[0] > 0) & (counts[1] > 0), means[1] - means[0], 0.0)
    worst = np.argsort(-loss, kind="stable")[:MOST_ROWS]
    return [int(each) for each in worst if loss[each] >= SPOILED]
