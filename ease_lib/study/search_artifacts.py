"""What `optimize` writes of a finished search: the winner, the history, the summary."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import write_document, write_records
from ease_lib.black_box.opening import BlackBox
from ease_lib.config.sections import OptimizerConfig
from ease_lib.evaluation.prompt import TEMPLATE
from ease_lib.evaluation.usage import Usage
from ease_lib.optimizers.history import Observation
from ease_lib.study.loop import Study
from ease_lib.surrogate.representations import Representation, SequenceRepresentation
from ease_lib.tasks.base import Exemplar

logger = logging.getLogger("ease")


def write_best_sequence(
    path: Path,
    incumbent: Observation,
    k: int,
    pool: Sequence[Exemplar],
    instructions: Sequence[str],
    dataset: dict[str, Any],
    black_box: BlackBox,
) -> None:
    """The winning sequence with its texts, and what its score was measured with.

    Args:
        k: length of the sequences that were searched; the winner of `zero_shot` has none.
    """
    chosen = [pool[position] for position in incumbent.candidate.sequence]
    document = {
        "task": dataset["task"],
        "metric": dataset["metric"],
        "validation_score": incumbent.score,
        "k": k,
        "exemplar_ids": [row.exemplar_id for row in chosen],
        "exemplars": [
            {"exemplar_id": row.exemplar_id, "input": row.input, "outputs": list(row.outputs)} for row in chosen
        ],
        "instruction": instructions[incumbent.candidate.instruction],
        "template": TEMPLATE,
        "llm_model": black_box.model,
        "llm_endpoint": black_box.endpoint,
    }
    write_document(path, contracts.BEST_SEQUENCE, document)


def search_summary(
    study: Study,
    *,
    settings: OptimizerConfig,
    seed: int,
    black_box: BlackBox,
    representation: Representation,
    instructions: int,
    proposals: Usage,
    selection: Usage,
    new_requests: int,
    prices: dict[str, float],
) -> dict[str, Any]:
    """Cost, time and stop reason of the search, under `SEARCH_SUMMARY` but for the stage's own parameters.

    Args:
        instructions: how many there were beside the empty one.
        proposals, selection: what they cost, and the question of `llm_select`.
        new_requests: answers that the endpoint gave for this run now, proposals included.
    """
    truncated = None
    if isinstance(representation, SequenceRepresentation):
        truncated = {"sequences": representation.embedded, "truncated": representation.truncated}
        logger.info("%(truncated)d of %(sequences)d embedded sequences were longer than the embedder reads", truncated)
    usage = study.usage + proposals + selection
    seconds = study.seconds + proposals.seconds
    return {
        "method": settings.method,
        "seed": seed,
        "evaluations": len(study.history),
        "partial_evaluations": sum(observation.partial for observation in study.history),
        "budget": settings.budget,
        "stopped": study.stopped,
        "resumed": study.replayed > 0,
        "replayed": study.replayed,
        "simulated": black_box.simulated,
        "representation": settings.representation,
        "truncated_sequences": truncated,
        "instructions": instructions,
        "seconds": {"total": seconds, "llm": usage.seconds, "search": seconds - usage.seconds},
        "oldest_answer": usage.oldest_answer,
        "llm": {
            "endpoint": black_box.endpoint,
            "model": black_box.model,
            "new_requests": new_requests,
            **usage.counts(**prices),
        },
    }


def write_history(path: Path, study: Study, ids: Sequence[int], prices: dict[str, float]) -> None:
    """All observations in order, with the exemplars' ids, and what each cost."""
    incumbent, rows = 0.0, []
    for observation, record in zip(study.history, study.records, strict=True):
        candidate, usage = observation.candidate, record.usage
        incumbent = incumbent if observation.partial else max(incumbent, observation.score)
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
                is_partial=observation.partial,
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
