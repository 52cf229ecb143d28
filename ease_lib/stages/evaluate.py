"""Stage `evaluate`: score the winner, the baseline, random sequences and no exemplars at all on the test set.

The random sequences stand for "k exemplars picked at random", behind the winner's instruction if it has one: what they
lack is the search alone. At one seed they are the same for every method: those that open the initial design of the
methods that have one. How much random sequences differ among each other says more than how they score on every row, so
nine are asked a third of the rows each, for the price of three. Without exemplars, behind the same instruction, every
row is asked, and so it is of the baseline, the prompt in use now, where one is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import (
    read_document,
    read_exemplars,
    sha256_of_files,
    write_document,
    write_records,
)
from ease_lib.black_box.asked import Asked
from ease_lib.config.sections import Asks
from ease_lib.evaluation.evaluator import Evaluation, Question
from ease_lib.evaluation.judge import Rubric
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.rows import RANDOM_SEQUENCES, ROW_SHARES
from ease_lib.evaluation.statistics import SequenceScores, gain_over_random, mean_interval, paired_gain
from ease_lib.evaluation.usage import Usage
from ease_lib.prompts.template import prompt_sha256
from ease_lib.reporting.answers import labels_of
from ease_lib.reporting.summary import verdict
from ease_lib.running.run import Run, prices_of
from ease_lib.running.stage import Confusion, StageReport, logger, makes, output_path, reads
from ease_lib.search.budget import TEST
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.task import read_task
from ease_lib.tasks.base import Exemplar

MIDDLE = 0.5
"""Of a judge's scale."""
BEST, ZERO_SHOT, BASELINE = "best", "zero_shot", "baseline"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = reads("prefilter.kept")
    test: str = reads("build_dataset.test")
    summary: str = reads("build_dataset.summary")
    best_sequence: str = reads("optimize.best_sequence")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    predictions: str = makes(contracts.PREDICTIONS)
    test_scores: str = makes(contracts.TEST_SUMMARY, at="result/test_scores.json")


Config = Asks


def run(inputs: Inputs, outputs: Outputs, config: Config, run: Run) -> StageReport:
    """Ask the test set once for the winner and for no exemplars, and a share of it for each random sequence."""
    task = read_task(inputs.pool, inputs.summary, run.metric)
    pool = {row.exemplar_id: row for row in task.pool}
    test = read_exemplars(Path(inputs.test), contracts.TEST_SET)
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    templates = {BASELINE: task.baseline} if task.baseline else {}
    tested = _tested(list(pool), best, len(test), config.run.seed) | {
        name: ([], range(len(test))) for name in templates
    }
    account = "test/" + sha256_of_files([Path(inputs.test), Path(inputs.best_sequence)])
    questions = {
        name: Question(
            exemplars=[pool[number] for number in ids],
            instruction=best["instruction"],
            account=f"{account}/{name}",
            rows=range(len(rows)),
            whole=True,
        )
        for name, (ids, rows) in tested.items()
    }
    with run.llm(config, task.sampling(config.endpoint), TEST, judged=task.rubric) as black_box:
        objectives = {
            name: task.objective(black_box, [test[row] for row in rows], templates.get(name))
            for name, (_, rows) in tested.items()
        }
        evaluations = _evaluated(objectives, questions)
    run.ledger(config.continuation).book(
        TEST, _usage(evaluations)
    )  # until now the search's estimate stands there, for others to see
    rows_of = {name: rows for name, (_, rows) in tested.items()}
    _write_predictions(output_path(outputs.predictions), evaluations, rows_of, test)
    summary = _summary(evaluations, rows_of, prices_of(config), new_requests=black_box.answered)
    if black_box.judge and task.rubric:
        agreed = [task.metric(answer, row.outputs) for answer, row in zip(evaluations[BEST].answers, test, strict=True)]
        summary["judge"] = _judge(black_box.judge.asked, task.rubric, agreed, evaluations[BEST].scores)
    write_document(output_path(outputs.test_scores), contracts.TEST_SUMMARY, summary)
    logger.info("%s", verdict(summary)["text"])
    return StageReport(
        metrics={"test_score": evaluations[BEST].score, "random_test_score": summary["random"]["score"]}
        | _gains(summary),
        confusion=_confusion(evaluations[BEST], test),
    )


def _confusion(winner: Evaluation, test: Sequence[Exemplar]) -> Confusion | None:
    """The winner's answers, label by label, of a task with few of them."""
    answered = zip(winner.answers, winner.scores, test, strict=True)
    labels = labels_of(
        [{"prediction": answer, "outputs": row.outputs} for answer, score, row in answered if score is not None]
    )
    if labels is None:
        return None
    rows = {row.name: row.counts for row in labels.rows}
    nothing = [0] * len(labels.columns)
    return Confusion(categories=labels.columns, matrix=[rows.get(name, nothing) for name in labels.columns])


def _gains(summary: Mapping[str, Any]) -> dict[str, float]:
    """For the dashboard."""
    named = {"random": summary["gain"], ZERO_SHOT: summary[ZERO_SHOT], BASELINE: summary[BASELINE]}
    return {f"gain_over_{name}": gain["mean"] for name, gain in named.items() if gain}


def _evaluated(objectives: Mapping[str, Objective], questions: Mapping[str, Question]) -> dict[str, Evaluation]:
    """All at once: the requests of the winner go first, and the endpoint is not idle between two sequences."""
    evaluations: dict[str, Evaluation] = {}
    try:
        for name, objective in objectives.items():
            objective.start(0, questions[name])
        for name, objective in objectives.items():
            _, evaluations[name] = objective.wait()
            if name == BEST:
                rows = len(evaluations[name].scores)
                logger.info("test set of %d rows, best sequence: %.3f", rows, evaluations[name].score)
    finally:
        for objective in objectives.values():
            objective.stop()
    return evaluations


def _tested(ids: Sequence[int], best: dict[str, Any], rows: int, seed: int) -> dict[str, tuple[list[int], range]]:
    """Exemplar ids by the name of the sequence, and the rows of the test set that it is asked."""
    shares = min(ROW_SHARES, rows)
    tested = {BEST: (list(best["exemplar_ids"]), range(rows))}
    if best["exemplar_ids"]:
        tested[ZERO_SHOT] = [], range(rows)
    for number, chosen in enumerate(_random_sequences(ids, best["k"], seed)):
        if chosen != best["exemplar_ids"]:
            tested[f"random {number + 1}"] = chosen, range(number % shares, rows, shares)
    return tested


def _random_sequences(ids: Sequence[int], k: int, seed: int) -> list[list[int]]:
    space = SequenceSpace(len(ids), k)
    drawn: dict[tuple[int, ...], list[int]] = {}
    for number in range(RANDOM_SEQUENCES):
        sequence = space.draw(seed, number, drawn)
        if sequence is not None:
            drawn[sequence] = [ids[position] for position in sequence]
    return list(drawn.values())


def _summary(
    evaluations: dict[str, Evaluation], rows_of: dict[str, range], prices: Mapping[str, float], *, new_requests: int
) -> dict[str, Any]:
    best = evaluations[BEST]
    usage = _usage(evaluations)
    randoms = [name for name in evaluations if name not in (BEST, ZERO_SHOT, BASELINE)]
    scores = {
        name: [math.nan if score is None else score for score in evaluations[name].scores] for name in evaluations
    }
    of_randoms = [score for name in randoms for score in scores[name] if not math.isnan(score)]
    known = [score for score in best.scores if score is not None]
    return {
        "best": {
            "score": best.score,
            "interval": mean_interval(known),
            "rows": len(known),
            "failed_rows": best.failed_rows,
        },
        "random": {
            "score": sum(of_randoms) / len(of_randoms) if of_randoms else None,
            "scores": [evaluations[name].score for name in randoms],
        },
        ZERO_SHOT: _less(scores, ZERO_SHOT),
        BASELINE: _less(scores, BASELINE),
        "gain": gain_over_random(scores[BEST], [SequenceScores(rows_of[name], scores[name]) for name in randoms]),
        "rows": len(best.scores),
        "seconds": usage.seconds,
        "oldest_answer": usage.oldest_answer,
        "llm": {"new_requests": new_requests, **usage.counts(**prices)},
        "judge": {},
    }


def _judge(judge: Asked, rubric: Rubric, matches: Sequence[float], scores: Sequence[float | None]) -> dict[str, Any]:
    """Who judged, and how often it agrees with the expected outputs about the winner's answers.

    Args:
        matches: 1 where the answer is an expected output as it stands, which no judge should find wrong.
        scores: the judge's; from 0.5 on it finds an answer right.
    """
    pairs = [(match == 1, score >= MIDDLE) for match, score in zip(matches, scores, strict=True) if score is not None]
    return {
        "endpoint": judge.endpoint,
        "model": judge.model,
        "rubric_sha256": rubric.sha256,
        "rows": len(pairs),
        "agreed": sum(matched == right for matched, right in pairs),
        "right_though_other": sum(right and not matched for matched, right in pairs),
        "wrong_though_equal": sum(matched and not right for matched, right in pairs),
    }


def _less(scores: Mapping[str, list[float]], name: str) -> dict[str, Any]:
    """The score of another prompt, and what the winner gains over it; nothing where it was not asked."""
    pairs = [
        (winner, other)
        for winner, other in zip(scores[BEST], scores.get(name, [math.nan] * len(scores[BEST])), strict=True)
        if not (math.isnan(winner) or math.isnan(other))
    ]
    if not pairs:
        return {}
    winners, others = zip(*pairs, strict=True)
    return {"score": sum(others) / len(others), **paired_gain(winners, others)}


def _usage(evaluations: dict[str, Evaluation]) -> Usage:
    return sum((evaluation.usage for evaluation in evaluations.values()), start=Usage())


def _write_predictions(
    path: Path, evaluations: dict[str, Evaluation], rows_of: dict[str, range], test: Sequence[Exemplar]
) -> None:
    rows = [
        contracts.PredictionRow(
            sequence=name,
            exemplar_id=test[row].exemplar_id,
            prompt_sha256=prompt_sha256(prompt),
            prediction=answer,
            outputs=list(test[row].outputs),
            score=score,
            failure=failure,
        )
        for name, evaluation in evaluations.items()
        for row, prompt, answer, score, failure in zip(
            rows_of[name],
            evaluation.prompts,
            evaluation.answers,
            evaluation.scores,
            evaluation.failures,
            strict=True,
        )
    ]
    write_records(path, contracts.PREDICTIONS, rows)
