"""Findings from a search's answers in addition to its winner, in four reports, and about the pool's labels.

rarity              share of random sequences that are as good as the winner, by the model of answers
order report        effect of the order of the winner's exemplars: other orders of it are evaluated
harmful exemplars   effect of an exemplar's presence on the score by the model of answers, over all lengths and places,
                    minus the mean effect of the pool; needs no requests
token front         prompts that no other one beats with as many tokens or fewer
mislabelled         exemplars whose label differs from that of similar validation rows (`search/mislabelled.py`)
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ease_lib.black_box.usage import Usage
from ease_lib.errors import CapReached
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.rows import row_order
from ease_lib.search.candidates.prompts import Prompt
from ease_lib.search.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.search.optimizers.history import History
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.outcome import Outcome
from ease_lib.search.task import SearchTask
from ease_lib.seeding import rng

logger = logging.getLogger("ease")

FEWEST_ROWS = 5
"""Smallest number of rows for an order report; with fewer, orders differ by chance."""
LISTABLE = 8
"""Longest sequence whose permutations are all listed to draw from."""


RANDOM_SEQUENCES = 400
"""Number of random sequences that represent all."""


def share_as_good(outcome: Outcome, space: SequenceSpace, seed: int) -> float:
    """Estimated share of random sequences that score no less than the winner on new rows.

    The winner's score is what its confirmation says, the scores of random sequences of k exemplars are what the model
    of answers expects of each, with the variance that it leaves. A test compares it with the true share in worlds of
    several kinds: it is right on average if sequences differ. If they do not, it says nothing of use, so it
    is in results only next to a gain over random exemplars that is beyond chance.

    Args:
        space: of sequences of k exemplars.
    """
    from scipy.special import ndtr  # 0.1 s, which stages that search nothing need not spend

    drawn = as_tuples(space.sample(rng(seed, "rarity"), RANDOM_SEQUENCES))
    means, variances = outcome.model.predict([(outcome.candidate.instruction, sequence) for sequence in drawn])
    return float(ndtr((means - outcome.estimate) / np.sqrt(variances + outcome.error**2)).mean())


@dataclass(frozen=True, kw_only=True)
class OrderReport:
    """Finding about the order, None if there is none, and its cost."""

    findings: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)


def ask_orders(
    outcome: Outcome,
    problem: Problem,
    task: SearchTask,
    objective: Objective,
    history: History,
    count: int,
    most_rows: int,
    account: str,
) -> OrderReport:
    """Evaluate the winner and so many other orders of it on rows that did not select its order.

    Args:
        most_rows: that each is evaluated on.
        account: what the answers are paid for.
    """
    instruction, sequence = outcome.candidate.prompt
    if not count or len(sequence) < 2:
        return OrderReport()
    rows = rows_for_orders(outcome, history, problem, most_rows)
    if len(rows) < FEWEST_ROWS:
        logger.info("notice: no order report, because the winner was chosen by its answers to all validation rows")
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
    logger.info("evaluated %d orders of the winner", len(scores))
    return OrderReport(findings=order_report(scores, outcome.model.variances.sequences), usage=usage)


def rows_for_orders(outcome: Outcome, history: History, problem: Problem, most: int) -> list[int]:
    """Validation rows on which the winner's own order has no advantage from selection.

    Rows that it was not asked come first, then those of its confirmation, which chose it among a few finalists only.
    """
    chose, confirmed = set[int](), list[int]()
    for observation in history:
        if observation.candidate.prompt == outcome.candidate.prompt:
            if observation.candidate.phase == "confirmation":
                confirmed += observation.rows
            else:
                chose.update(observation.rows)
    chose.update(set(outcome.answers.asked(outcome.candidate.prompt)) - set(confirmed))  # by an earlier search
    order = row_order(problem.validation_outputs, problem.seed)
    new = [row for row in order if row not in chose and row not in confirmed]
    return [*new, *(row for row in confirmed if row not in chose)][:most]


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
    """Report on the order of exemplars, from answers to permutations.

    Args:
        scores: of the same rows by the permutation's name.
        sequence_variance: of the true scores of the sequences that the search tried.

    Returns:
        `winner`, `by_similarity` (None if it is the winner's own order), mean, worst and best score of the
        permutations; `deviation`, the standard deviation of their true scores (chance removed); `share` of the variance
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
    """Variance of the rows' means beyond chance, by a two-way layout without repetition."""
    complete = table[:, ~np.isnan(table).any(axis=0)]
    orders, rows = complete.shape
    if orders < 2 or rows < 2:
        return 0.0
    residual = complete - complete.mean(axis=1, keepdims=True) - complete.mean(axis=0) + complete.mean()
    luck = float((residual**2).sum()) / ((orders - 1) * (rows - 1))
    return float(max(0.0, complete.mean(axis=1).var(ddof=1) - luck / rows))


DRAWS = 200
"""Number of draws from the posterior."""
LEAST_EFFECT = 0.01
"""Loss of score, below the mean effect of the tried exemplars, from which on an exemplar counts as harmful."""
FALSE_SHARE = 0.1
"""Expected share of listed exemplars that are not harmful, by the model."""
MOST_LISTED = 50
MOST_ROWS = 5
SPOILED = 0.5
"""Difference in the share of right answers to a row, with and without an exemplar, from which on the row is listed."""


def harmful_exemplars(outcome: Outcome, ids: Sequence[int], row_ids: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Return the exemplars that lower the score by `LEAST_EFFECT` or more, the surest first; the list ends where the
    expected share of wrong entries would exceed `FALSE_SHARE`.

    Args:
        ids: exemplar ids by position in the pool; row_ids: of the validation rows.

    Returns:
        of each: `exemplar_id`, `effect` on the score with its standard `error`, `probability` that it is harmful,
        `sequences` with it and their `answers`, mean `score` with and `score_without` it, and `spoiled_rows`: ids of
        validation rows that go wrong with it.
    """
    prompt, row, score = outcome.answers.table()
    sequences = [set(sequence) for _, sequence in outcome.answers.prompts]
    used = sorted(set().union(*sequences)) if sequences else []
    if not used:
        return []
    draw = rng(seed, "exemplar effects")
    effects = np.array([outcome.model.sample(draw)[0].exemplar_effects for _ in range(DRAWS)])
    effects = effects[:, used] - effects[:, used].mean(axis=1, keepdims=True)
    means, errors = effects.mean(axis=0), effects.std(axis=0)
    probabilities = (effects <= -LEAST_EFFECT).mean(axis=0)
    surest = np.lexsort((means, -probabilities))
    doubts = np.cumsum(1 - probabilities[surest])  # of the first so many
    count = int((doubts <= FALSE_SHARE * np.arange(1, len(used) + 1)).sum())
    found: list[dict[str, Any]] = []
    for column in surest[: min(count, MOST_LISTED)].tolist():
        holds = np.array([used[column] in sequence for sequence in sequences])
        with_it = holds[prompt]
        found.append(
            {
                "exemplar_id": ids[used[column]],
                "effect": float(means[column]),
                "error": float(errors[column]),
                "probability": float(probabilities[column]),
                "sequences": int(holds.sum()),
                "answers": int(with_it.sum()),
                "score": float(score[with_it].mean()) if with_it.any() else None,
                "score_without": float(score[~with_it].mean()) if not with_it.all() else None,
                "spoiled_rows": [row_ids[each] for each in _spoiled(row, score, with_it, len(row_ids))],
            }
        )
    return found


def _spoiled(row: np.ndarray, score: np.ndarray, with_it: np.ndarray, rows: int) -> list[int]:
    """Rows that are answered rightly much less often with an exemplar than without, the worst first."""
    counts = [np.bincount(row[part], minlength=rows) for part in (with_it, ~with_it)]
    sums = [np.bincount(row[part], score[part], minlength=rows) for part in (with_it, ~with_it)]
    means = [total / np.maximum(count, 1) for total, count in zip(sums, counts, strict=True)]
    loss = np.where((counts[0] > 0) & (counts[1] > 0), means[1] - means[0], 0.0)
    worst = np.argsort(-loss, kind="stable")[:MOST_ROWS]
    return [int(each) for each in worst if loss[each] >= SPOILED]


LEAST_STEP = 0.02
"""Smallest gain between two points of the front; less may be chance, and does not justify more tokens."""


def token_front(outcome: Outcome, tokens_of: Callable[[Prompt], int]) -> list[dict[str, Any]]:
    """Return the prompts from the shortest to the best, each better than all shorter ones.

    Args:
        tokens_of: tokens of a prompt before the query.

    Returns:
        of each: `tokens`, `exemplars`, `estimate` of its score on new rows with its standard `error`, and `rows` that
        it was asked.
    """
    points = [
        {
            "tokens": tokens_of(prompt),
            "exemplars": len(prompt[1]),
            "estimate": float(np.clip(outcome.model.mean[place], 0.0, 1.0)),
            "error": float(np.sqrt(max(outcome.model.covariance[place, place], 0.0))),
            "rows": len(outcome.answers.asked(prompt)),
        }
        for place, prompt in enumerate(outcome.model.prompts)
    ]
    front: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda each: (each["tokens"], -each["estimate"])):
        if not front or point["estimate"] > front[-1]["estimate"] + LEAST_STEP:
            front.append(point)
    return front
