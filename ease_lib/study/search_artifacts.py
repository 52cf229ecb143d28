"""What `optimize` writes of a finished search: the winner, the history, the summary."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import write_document, write_records
from ease_lib.black_box.chain import BlackBox
from ease_lib.config.sections import OptimizerConfig
from ease_lib.evaluation.prompt import PromptTemplate
from ease_lib.evaluation.usage import Usage
from ease_lib.optimizers.base import RowAllocating
from ease_lib.optimizers.history import History
from ease_lib.study.loop import Study
from ease_lib.study.outcome import Outcome
from ease_lib.surrogate.representations import Representation, SequenceRepresentation
from ease_lib.tasks.base import Exemplar

logger = logging.getLogger("ease")

LOOKS = 40
"""At the incumbent of a method that chooses rows, for the search curve."""


def write_best_sequence(
    path: Path,
    outcome: Outcome,
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
    chosen = [pool[position] for position in outcome.candidate.sequence]
    document = {
        "task": dataset["task"],
        "metric": dataset["metric"],
        "validation_score": outcome.score,
        "estimate": outcome.estimate,
        "estimate_interval": list(outcome.interval),
        "validation_rows": outcome.rows,
        "k": k,
        "exemplar_ids": [row.exemplar_id for row in chosen],
        "exemplars": [
            {
                "exemplar_id": row.exemplar_id,
                "input": row.input,
                "outputs": list(row.outputs),
                **({"fields": dict(row.fields)} if row.fields else {}),
            }
            for row in chosen
        ],
        "instruction_id": outcome.candidate.instruction,
        "instruction": instructions[outcome.candidate.instruction],
        "template": PromptTemplate.of(dataset["template"]).identity,
        "prompt": dataset["template"],
        "llm_model": black_box.asked.model,
        "llm_endpoint": black_box.asked.endpoint,
        "llm_api": black_box.asked.api,
        "request": black_box.answering.wire.settings,
    }
    write_document(path, contracts.BEST_SEQUENCE, document)


def exemplar_of(entry: dict[str, Any]) -> Exemplar:
    """An exemplar of the winning sequence, as `write_best_sequence` left it."""
    fields = tuple(entry.get("fields", {}).items())
    return Exemplar(entry["exemplar_id"], entry["input"], tuple(entry["outputs"]), fields=fields)


def search_summary(
    study: Study,
    *,
    settings: OptimizerConfig,
    seed: int,
    black_box: BlackBox,
    representation: Representation,
    instructions: int,
    proposals: Usage,
    extra: Usage,
    new_requests: int,
    prices: dict[str, float],
    planned: Usage,
) -> dict[str, Any]:
    """Cost, time and stop reason of the search, under `SEARCH_SUMMARY` but for the stage's own parameters.

    Args:
        instructions: how many there were beside the empty one.
        proposals, extra: what they cost, and what was asked beside the evaluations.
        new_requests: answers that the endpoint gave for this run now, proposals included.
        planned: what search and test set were expected to cost at most.
    """
    truncated = None
    if isinstance(representation, SequenceRepresentation):
        truncated = {"sequences": representation.embedded, "truncated": representation.truncated}
        logger.info("%(truncated)d of %(sequences)d embedded sequences were longer than the embedder reads", truncated)
    usage = study.usage + proposals + extra
    seconds = study.seconds + proposals.seconds
    return {
        "method": settings.method,
        "seed": seed,
        "evaluations": len(study.history),
        "budget": settings.budget,
        "stopped": study.stopped,
        "resumed": study.replayed > 0,
        "replayed": study.replayed,
        "simulated": black_box.is_function,
        "representation": settings.representation,
        "truncated_sequences": truncated,
        "instructions": instructions,
        "seconds": {"total": seconds, "llm": usage.seconds, "search": seconds - usage.seconds},
        "oldest_answer": usage.oldest_answer,
        "llm": {
            "endpoint": black_box.asked.endpoint,
            "model": black_box.asked.model,
            "new_requests": new_requests,
            **usage.counts(**prices),
        },
        "planned": planned.counts(**prices),
    }


def incumbent_scores(history: History) -> list[float]:
    """After each observation, the best score until then."""
    return list(itertools.accumulate((observation.score for observation in history), max))


def recommended_scores(history: History, optimizer: RowAllocating) -> list[float]:
    """After each observation, the score of what the search would end with, computed a few times only.

    Args:
        optimizer: as it was before the search.
    """
    scores: list[float] = []
    every = max(1, len(history) // LOOKS)
    for number, observation in enumerate(history):
        optimizer.tell(observation)
        recommended = optimizer.recommend() if number % every == every - 1 or number == len(history) - 1 else None
        scores.append(recommended.score if recommended else scores[-1] if scores else 0.0)
    return scores


def write_history(
    path: Path,
    study: Study,
    incumbents: Sequence[float],
    ids: Sequence[int],
    row_ids: Sequence[int],
    prices: dict[str, float],
) -> None:
    """All observations in order, with the ids of exemplars and validation rows, and what each cost.

    Args:
        incumbents: what `incumbent_scores` or `recommended_scores` gives.
    """
    rows = []
    for observation, record, incumbent in zip(study.history, study.records, incumbents, strict=True):
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
