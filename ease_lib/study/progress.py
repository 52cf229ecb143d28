"""What the log says of a search: what lies ahead, and a line for each evaluation."""

from __future__ import annotations

import logging

from ease_lib.black_box.opening import BlackBox
from ease_lib.config.sections import OptimizerConfig
from ease_lib.optimizers.history import History
from ease_lib.study.caps import Caps
from ease_lib.study.journal import Record

logger = logging.getLogger("ease")


def announce(replayed: int, caps: Caps, settings: OptimizerConfig, black_box: BlackBox) -> None:
    """What lies ahead, and about what it will cost, before the first request.

    Args:
        replayed: evaluations that are in the journal.
    """
    budget, rows = settings.budget, caps.evaluation.requests
    if replayed:
        logger.info("continuing: %d of %d evaluations are in the journal", min(replayed, budget), budget)
    evaluations = max(0, budget - replayed)
    requests = evaluations * rows
    if settings.scaled_design != settings.initial_design:
        logger.info(
            "notice: initial_design=%d is scaled down to %d for a budget of %d",
            settings.initial_design,
            settings.scaled_design,
            budget,
        )
    logger.info(
        "%s asks %s (%s): at most %d x %d = %d requests, %s; then %d for the test set",
        settings.method,
        black_box.model,
        black_box.endpoint,
        evaluations,
        rows,
        requests,
        caps.described(requests),
        caps.test_requests,
    )


def log_evaluation(record: Record, history: History, budget: int) -> None:
    """Number, score, incumbent, requests and seconds."""
    observation = record.observation
    scores = [history.incumbent.score] if history.incumbent else []
    scores += [] if observation.partial else [observation.score]
    logger.info(
        "evaluation %d/%d %s  score %.3f%s  incumbent %.3f  %d requests  %.1f s",
        record.iteration + 1,
        budget,
        observation.candidate.phase,
        observation.score,
        f" (stopped after {observation.validation_rows} rows)" if observation.partial else "",
        max(scores),
        record.usage.requests,
        record.seconds,
    )
