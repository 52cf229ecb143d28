"""Stage `evaluate`: score the winner, the baseline, random exemplars and no exemplars at all on the test set.

All are evaluated on every row of the test set, so that each is compared with the winner row by row. Random exemplars
are k exemplars picked at random, three times for every row, with the winner's instruction if it has one; they lack only
the search. No two rows share a sequence, so the rows are independent, and the result does not depend on the few random
sequences with which a whole test set could be asked. With one seed the draws are the same for every method.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import (
    read_document,
    read_exemplars,
    write_document,
    write_records,
)
from ease_lib.black_box.budget_ledger import TEST
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import JUDGE, Asks
from ease_lib.digests import sha256_of_files, sha256_of_text
from ease_lib.errors import CapReached, NotAsked
from ease_lib.evaluation.evaluator import Evaluation, Question
from ease_lib.evaluation.judge import Rubric
from ease_lib.evaluation.objective import Objective
from ease_lib.evaluation.requirement import LoadedRequirement
from ease_lib.evaluation.rows import RANDOM_DRAWS
from ease_lib.evaluation.statistics import mean_interval, paired_gain
from ease_lib.progress import Counted
from ease_lib.reporting.counted_answers import labels_of
from ease_lib.reporting.summary import verdict
from ease_lib.running.run import Run, prices_of
from ease_lib.running.stage import Confusion, StageReport, logger, makes, output_path, reads
from ease_lib.search.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.search.task import ScoredTask, read_task
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar

MIDDLE = 0.5
"""Middle of a judge's scale."""
BEST = "best"
RIVALS = RANDOM, ZERO_SHOT, BASELINE = "random", "zero_shot", "baseline"
"""Prompts that the winner is compared with."""


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
    """Evaluate the winner, and all that it is compared with, on every row of the test set."""
    task = read_task(inputs.pool, inputs.summary, run.metric)
    test = read_exemplars(Path(inputs.test), contracts.TEST_SET)
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    account = "test/" + sha256_of_files([Path(inputs.test), Path(inputs.best_sequence)])
    questions = _questions(task, best, test, config.run.seed, account)
    with run.llm(config, task.sampling(config.endpoint), TEST, judged=task.rubric) as black_box:
        rows = Counted("answers about the test set", len(questions) * len(test), run.host.progress.counted)
        objectives = {
            name: task.objective(black_box, test, task.baseline if name == BASELINE else None, on_row=rows.add)
            for name in questions
        }
        begun = time.perf_counter()
        evaluations = _evaluated(objectives, questions, one_by_one=black_box.meter.is_capped)
        seconds = time.perf_counter() - begun  # they overlap, so their own do not add up
    unasked = sum(each.unasked_rows for each in evaluations.values())
    if unasked:
        cap, every = black_box.meter.reached, len(evaluations) * len(test)
        if not evaluations[BEST].scored_rows:
            raise CapReached(cap)
        logger.warning("%s left %d of %d answers about the test set unasked; raise it to ask all", cap, unasked, every)
    run.budget(config).book(TEST, _usage(evaluations))  # the search's estimate stood there so far, for others to see
    _write_predictions(output_path(outputs.predictions), evaluations, test)
    summary = _summary(evaluations, prices_of(config), seconds=seconds, new_requests=black_box.answered)
    judge_scores, judge = task.summary["metric"] == JUDGE, black_box.judge.asked if black_box.judge else None
    if task.requirement:
        summary["requirement"] = _kept(evaluations, task.requirement, None if judge_scores else judge)
    if judge and judge_scores and task.rubric:
        agreed = [task.metric(answer, row.outputs) for answer, row in zip(evaluations[BEST].answers, test, strict=True)]
        summary["judge"] = _judge(judge, task.rubric, agreed, evaluations[BEST].scores)
    write_document(output_path(outputs.test_scores), contracts.TEST_SUMMARY, summary)
    logger.info("%s", verdict(summary)["text"])
    gains = {f"gain_over_{name}": summary[name]["mean"] for name in RIVALS if summary[name]}
    return StageReport(
        metrics={"test_score": evaluations[BEST].score, "random_test_score": summary[RANDOM].get("score")} | gains,
        confusion=_confusion(evaluations[BEST], test, task.summary["metric"]),
    )


def _confusion(winner: Evaluation, test: Sequence[Exemplar], metric: str) -> Confusion | None:
    """The winner's answers, label by label, of a task with few of them."""
    scored = [
        {"prediction": answer, "score": score, "outputs": row.outputs}
        for answer, score, row in zip(winner.answers, winner.scores, test, strict=True)
        if score is not None
    ]
    labels = labels_of(scored, metric)
    if labels is None:
        return None
    rows = {row.name: row.counts for row in labels.rows}
    nothing = [0] * len(labels.columns)
    return Confusion(categories=labels.columns, matrix=[rows.get(name, nothing) for name in labels.columns])


def _evaluated(
    objectives: Mapping[str, Objective], questions: Mapping[str, Question], *, one_by_one: bool
) -> dict[str, Evaluation]:
    """Evaluate all prompts at once: the winner's requests go first, and the endpoint is never idle between sequences.

    Args:
        one_by_one: wait for the winner before the others: where a cap is near, its retries come before their requests.
    """
    evaluations: dict[str, Evaluation] = {}
    others = [name for name in objectives if name != BEST]
    try:
        for together in ([BEST], others) if one_by_one else ([BEST, *others],):
            for name in together:
                objectives[name].start(0, questions[name])
            effect: NotAsked | None = None
            for name in together:
                try:
                    _, evaluations[name] = objectives[name].wait()
                except NotAsked as error:  # the cause is another one's
                    effect = effect or error
                    continue
                if name == BEST:
                    rows = len(evaluations[name].scores)
                    logger.info("test set of %d rows, best sequence: %.3f", rows, evaluations[name].score)
            if effect:
                raise effect
    finally:
        for objective in objectives.values():
            objective.stop()
    return evaluations


def _questions(
    task: ScoredTask, best: Mapping[str, Any], test: Sequence[Exemplar], seed: int, account: str
) -> dict[str, Question]:
    """Prompts by name, the winner first."""
    pool = {row.exemplar_id: row for row in task.pool}
    winner = Question(
        exemplars=[pool[number] for number in best["exemplar_ids"]],
        instruction=best["instruction"],
        account=f"{account}/{BEST}",
        rows=range(len(test)),
        whole=True,
        up_to_cap=True,
    )

    def beside(name: str, drawn: Sequence[Sequence[Exemplar]] = ()) -> Question:
        return replace(winner, exemplars=[], own=dict(enumerate(drawn)), account=f"{account}/{name}")

    questions = {BEST: winner}
    if winner.exemplars:
        questions[ZERO_SHOT] = beside(ZERO_SHOT)
    space = SequenceSpace(len(task.pool), best["k"])
    for number in range(RANDOM_DRAWS):
        sampled = as_tuples(space.sample(rng(seed, "random exemplars", number), len(test)))
        drawn = [
            _that_fit(task, task.exemplars(sequence), row, best) for sequence, row in zip(sampled, test, strict=True)
        ]
        name = f"{RANDOM} {number + 1}"
        questions[name] = beside(name, drawn)
    if task.baseline:
        questions[BASELINE] = beside(BASELINE)
    return questions


def _that_fit(
    task: ScoredTask, drawn: Sequence[Exemplar], row: Exemplar, best: Mapping[str, Any]
) -> Sequence[Exemplar]:
    """The first exemplars, as many as `max_prompt_tokens` allows with this row."""
    most = best.get("max_prompt_tokens", 0)
    if not most:
        return drawn
    tokens = task.query_tokens(row, best["instruction"])
    for count, exemplar in enumerate(drawn):
        tokens += task.exemplar_tokens(exemplar)
        if tokens > most:
            return drawn[:count]
    return drawn


def _summary(
    evaluations: dict[str, Evaluation], prices: Mapping[str, float], *, seconds: float, new_requests: int
) -> dict[str, Any]:
    best = evaluations[BEST]
    usage = _usage(evaluations)
    known = [score for score in best.scores if score is not None]
    return {
        "best": {
            "score": best.score,
            "interval": mean_interval(known),
            "rows": len(known),
            "failed_rows": best.failed_rows,
        },
        **{rival: _less(evaluations, rival) for rival in RIVALS},
        "rows": len(best.scores),
        "seconds": seconds,
        "oldest_answer": usage.oldest_answer,
        "llm": {"new_requests": new_requests, **usage.counts(**prices)},
        "judge": {},
        "requirement": {},
    }


def _kept(
    evaluations: Mapping[str, Evaluation], requirement: LoadedRequirement, judge: LLMIdentity | None
) -> dict[str, Any]:
    """Number of the winner's answers that meet the requirement, and the share of those with random exemplars."""
    winner, random = (
        [kept for name, evaluation in evaluations.items() if name.split()[0] == asked for kept in evaluation.kept]
        for asked in (BEST, RANDOM)
    )
    known = [[kept for kept in each if kept is not None] for each in (winner, random)]
    return {
        "text": requirement.text,
        "share": requirement.requirement.share,
        "rows": len(known[0]),
        "kept": sum(known[0]),
        "random_share": sum(known[1]) / len(known[1]) if known[1] else None,
        "judge": {"endpoint": judge.endpoint, "model": judge.model} if judge else {},
    }


def _less(evaluations: Mapping[str, Evaluation], rival: str) -> dict[str, Any]:
    """Gain of the winner over another prompt, or over several that represent one; empty if none was asked."""
    others = [evaluation.scores for name, evaluation in evaluations.items() if name.split()[0] == rival]
    return paired_gain(evaluations[BEST].scores, *others) if others else {}


def _judge(
    judge: LLMIdentity, rubric: Rubric, matches: Sequence[float], scores: Sequence[float | None]
) -> dict[str, Any]:
    """The judge, and how often it agrees with the expected outputs about the winner's answers.

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


def _usage(evaluations: dict[str, Evaluation]) -> Usage:
    return sum((evaluation.usage for evaluation in evaluations.values()), start=Usage())


def _write_predictions(path: Path, evaluations: dict[str, Evaluation], test: Sequence[Exemplar]) -> None:
    rows = [
        contracts.PredictionRow(
            sequence=name,
            exemplar_id=row.exemplar_id,
            prompt_sha256=sha256_of_text(prompt),
            prediction=answer,
            outputs=list(row.outputs),
            score=score,
            is_kept=is_kept,
            failure=failure,
        )
        for name, evaluation in evaluations.items()
        for row, prompt, answer, score, is_kept, failure in zip(
            test,
            evaluation.prompts,
            evaluation.answers,
            evaluation.scores,
            evaluation.kept,
            evaluation.failures,
            strict=True,
        )
    ]
    write_records(path, contracts.PREDICTIONS, rows)
