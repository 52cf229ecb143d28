"""Artifacts that `optimize` writes for a finished search: the winner, the history, the summary."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import write_document, write_records
from ease_lib.black_box.layers import BlackBox
from ease_lib.black_box.usage import Usage
from ease_lib.config.sections import OptimizerConfig
from ease_lib.evaluation.statistics import Z_95
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.findings import harmful_exemplars, share_as_good, token_front
from ease_lib.search.loop import Study
from ease_lib.search.mislabelled import LabelCheck
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.outcome import Outcome
from ease_lib.search.surrogate.representations import SequenceRepresentation
from ease_lib.search.task import SearchTask
from ease_lib.tasks.base import row_hash

logger = logging.getLogger("ease")


def write_best_sequence(
    path: Path, outcome: Outcome, settings: OptimizerConfig, task: SearchTask, black_box: BlackBox
) -> None:
    """Write the winning sequence with its texts, the range it was chosen from (`k`, of which the winner of `zero_shot`
    has none, and `max_prompt_tokens`), and what its score was measured with."""
    chosen, summary = task.asked.exemplars(outcome.candidate.sequence), task.asked.summary
    document = {
        "task": summary["task"],
        "metric": summary["metric"],
        "validation_score": outcome.score,
        "estimate": outcome.estimate,
        "estimate_interval": list(outcome.interval),
        "validation_rows": outcome.rows,
        "k": settings.k,
        "max_prompt_tokens": settings.max_prompt_tokens,
        "exemplar_ids": [row.exemplar_id for row in chosen],
        "exemplars": [
            {
                "exemplar_id": row.exemplar_id,
                "input": row.input,
                "outputs": list(row.outputs),
                **({"fields": dict(row.fields)} if row.fields else {}),
                **({"origin": row.origin} if row.origin else {}),
            }
            for row in chosen
        ],
        "instruction_id": outcome.candidate.instruction,
        "instruction": task.instructions.texts[outcome.candidate.instruction],
        "template": task.asked.template.identity,
        "prompt": summary["template"],
        "llm_model": black_box.asked.model,
        "llm_endpoint": black_box.asked.endpoint,
        "llm_api": black_box.asked.api,
        "request": black_box.answering.wire.settings,
    }
    write_document(path, contracts.BEST_SEQUENCE, document)


def search_summary(
    study: Study,
    outcome: Outcome,
    *,
    settings: OptimizerConfig,
    seed: int,
    task: SearchTask,
    black_box: BlackBox,
    problem: Problem,
    labels: LabelCheck | None,
    selection: Usage,
    orders: Usage,
    prices: dict[str, float],
    planned: Usage,
) -> dict[str, Any]:
    """Cost, time and stop reason of the search, under `SEARCH_SUMMARY` but for the stage's own parameters.

    Args:
        labels: what the validation rows say of the pool's; None if nothing can be said.
        selection: what the method asked besides its evaluations, while it searched.
        orders: what the order report asked after that.
        planned: what search and test set were expected to cost at most.
    """
    truncated = None
    if isinstance(representation := problem.representation, SequenceRepresentation):
        truncated = {"sequences": representation.embedded, "truncated": representation.truncated}
        logger.info("%(truncated)d of %(sequences)d embedded sequences were longer than the embedder reads", truncated)
    usage = study.usage + task.instructions.usage + selection + orders
    seconds = study.seconds + task.instructions.usage.seconds + orders.seconds
    return {
        "method": settings.method,
        "seed": seed,
        "evaluations": len(study.history),
        "budget": settings.budget,
        "stopped": study.stopped,
        "resumed": study.replayed > 0,
        "replayed": study.replayed,
        "answered_by_function": black_box.is_function,
        "representation": settings.representation,
        "truncated_sequences": truncated,
        "instructions": len(task.instructions.texts) - 1,
        "seconds": {"total": seconds, "llm": usage.seconds, "search": seconds - usage.seconds},
        "oldest_answer": usage.oldest_answer,
        "llm": {
            "endpoint": black_box.asked.endpoint,
            "model": black_box.asked.model,
            "new_requests": black_box.answered + task.instructions.new_requests,
            **usage.counts(**prices),
        },
        "planned": planned.counts(**prices),
        "token_front": [] if task.asked.of_program else token_front(outcome, task.prompt_tokens),
        "share_as_good": share_as_good(outcome, SequenceSpace(len(task.pool), settings.k), seed),
        "harmful_exemplars": harmful_exemplars(outcome, task.ids, task.row_ids, seed),
        "mislabelled_exemplars": _mislabelled(labels, task),
        "labels": {**labels.document, "without": _without_mislabelled(outcome, task)} if labels else None,
    }


def _mislabelled(labels: LabelCheck | None, task: SearchTask) -> list[dict[str, Any]]:
    """Probably mislabelled exemplars, each with the entry by which `exclude_rows` removes it."""
    inputs = {row.exemplar_id: row.input for row in task.pool}
    listed = labels.listed if labels else []
    return [{**each, "row_hash": row_hash(inputs[each["exemplar_id"]])} for each in listed]


def _without_mislabelled(outcome: Outcome, task: SearchTask) -> dict[str, Any] | None:
    """Expected score of the best sequence without mislabelled exemplars, if the winner shows some."""
    if outcome.without is None:
        return None
    shown = task.asked.exemplars(outcome.without.candidate.sequence)
    return {
        "exemplar_ids": [row.exemplar_id for row in shown],
        "estimate": outcome.without.estimate,
        "margin": Z_95 * outcome.without.error,
    }


def write_history(path: Path, study: Study, task: SearchTask, prices: dict[str, float]) -> None:
    """All observations in order, with the ids of exemplars and validation rows, and what each cost."""
    rows, ids, row_ids = [], task.ids, task.row_ids
    for observation, record, incumbent in zip(study.history, study.records, study.incumbents, strict=True):
        candidate, usage = observation.candidate, record.usage
        rows.append(
            contracts.HistoryRow(
                iteration=record.iteration,
                phase=candidate.phase,
                instruction_id=candidate.instruction,
                exemplar_ids=[ids[position] for position in candidate.sequence],
                score=observation.score,
                incumbent_score=incumbent,
                validation_rows=observation.validation_rows,
                failed_rows=observation.failed_rows,
                row_ids=[row_ids[position] for position in observation.rows],
                row_scores=list(observation.scores),
                acquisition=candidate.acquisition,
                seconds=record.seconds,
                llm_seconds=usage.seconds,
                llm_requests=usage.requests,
                cached_responses=usage.cached,
                retries=usage.retries,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cost_usd=usage.cost_usd(**prices),
            )
        )
    write_records(path, contracts.HISTORY, rows)
