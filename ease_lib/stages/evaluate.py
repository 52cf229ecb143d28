"""Stage `evaluate`: score the winner on the test set, beside random sequences.

The random sequences stand for "k exemplars picked at random", without an instruction. At one seed they are the same
for every method: those that open the initial design of the methods that have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import (
    read_document,
    read_exemplars,
    sha256_of_files,
    write_document,
    write_table,
)
from ease_lib.candidates.sampling import SequenceSpace
from ease_lib.config import EndpointConfig, RunConfig
from ease_lib.evaluation.objective import Evaluation, Question, Usage, answer_sampling
from ease_lib.evaluation.prompt import prompt_sha256
from ease_lib.reporting.statistics import mean_interval, paired_gain
from ease_lib.stages.black_box import open_black_box
from ease_lib.stages.execution import StageReport, artifact, logger, output_path
from ease_lib.tasks.base import Exemplar

RANDOM_SEQUENCES = 3
TESTED_SEQUENCES = 1 + RANDOM_SEQUENCES
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    pool: str = artifact(contracts.EXEMPLAR_POOL)
    test: str = artifact(contracts.TEST_SET)
    dataset: str = artifact(contracts.DATASET_SUMMARY)
    best_sequence: str = artifact(contracts.BEST_SEQUENCE)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    predictions: str = artifact(contracts.PREDICTIONS)
    summary: str = artifact(contracts.TEST_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Config:
    endpoint: EndpointConfig
    run: RunConfig


def run(inputs: Inputs, outputs: Outputs, config: Config) -> StageReport:
    """Ask the test set once for the winner and once for each random sequence."""
    pool = {row.exemplar_id: row for row in read_exemplars(Path(inputs.pool), contracts.EXEMPLAR_POOL)}
    test = read_exemplars(Path(inputs.test), contracts.TEST_SET)
    dataset = read_document(Path(inputs.dataset), contracts.DATASET_SUMMARY)
    best = read_document(Path(inputs.best_sequence), contracts.BEST_SEQUENCE)
    sequences = {BEST: list(best["exemplar_ids"])}
    sequences |= _random_sequences(list(pool), best["k"], sequences[BEST], config.run.seed)
    evaluations: dict[str, Evaluation] = {}
    account = "test/" + sha256_of_files([Path(inputs.test), Path(inputs.best_sequence)])
    sampling = answer_sampling(list(pool.values()), config.endpoint.llm_max_tokens)
    with open_black_box(config.endpoint, sampling=sampling, store_uri=config.run.store_uri) as black_box:
        objective = black_box.objective(test, dataset["metric"])
        for name, ids in sequences.items():
            instruction = best["instruction"] if name == BEST else ""
            exemplars = [pool[exemplar_id] for exemplar_id in ids]
            evaluations[name] = objective.evaluate(
                Question(exemplars=exemplars, instruction=instruction, account=account)
            )
            logger.info("test set of %d rows, %s sequence: %.3f", len(test), name, evaluations[name].score)
    _write_predictions(output_path(outputs.predictions), evaluations, test)
    summary = _summary(evaluations, config.endpoint, new_requests=black_box.innermost.answered)
    write_document(output_path(outputs.summary), contracts.TEST_SUMMARY, summary)
    return StageReport(metrics={"test_score": evaluations[BEST].score, "random_test_score": summary["random"]["score"]})


def _random_sequences(ids: Sequence[int], k: int, best: list[int], seed: int) -> dict[str, list[int]]:
    space = SequenceSpace(len(ids), k)
    drawn: dict[tuple[int, ...], list[int]] = {}
    for number in range(RANDOM_SEQUENCES):
        sequence = space.draw(seed, number, drawn)
        if sequence is not None:
            drawn[sequence] = [ids[position] for position in sequence]
    return {f"random {number}": chosen for number, chosen in enumerate(drawn.values(), 1) if chosen != best}


def _summary(evaluations: dict[str, Evaluation], endpoint: EndpointConfig, *, new_requests: int) -> dict[str, Any]:
    best = evaluations[BEST]
    randoms = [evaluation for name, evaluation in evaluations.items() if name != BEST]
    usage = sum((evaluation.usage for evaluation in evaluations.values()), start=Usage())
    baseline = [sum(scores) / len(scores) for scores in zip(*(each.scores for each in randoms), strict=True)]
    return {
        "best": {"score": best.score, "interval": mean_interval(best.scores)},
        "random": {
            "score": sum(baseline) / len(baseline) if baseline else None,
            "scores": [each.score for each in randoms],
        },
        "gain": paired_gain(best.scores, baseline) if baseline else {},
        "rows": len(best.scores),
        "seconds": usage.seconds,
        "llm": {"new_requests": new_requests, **usage.counts(**endpoint.prices)},
    }


def _write_predictions(path: Path, evaluations: dict[str, Evaluation], test: Sequence[Exemplar]) -> None:
    rows = [
        {
            "sequence": name,
            "exemplar_id": row.exemplar_id,
            "prompt_sha256": prompt_sha256(prompt),
            "prediction": answer,
            "outputs": list(row.outputs),
            "score": score,
        }
        for name, evaluation in evaluations.items()
        for row, prompt, answer, score in zip(
            test, evaluation.prompts, evaluation.answers, evaluation.scores, strict=True
        )
    ]
    write_table(path, contracts.PREDICTIONS, {column: [row[column] for row in rows] for column in rows[0]})
