"""Search methods by name.

Those that need torch or POT are imported when they are made: that takes two seconds, which stages that only check the
parameters of a method need not spend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from ease_lib.config.methods import METHODS
from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.optimizers.adaptive import FIRST_ROWS
from ease_lib.search.optimizers.baselines import (
    BestOfN,
    Choice,
    Evolution,
    Influence,
    OneProposal,
    Retrieval,
    best_set,
    choose_by_dpp,
    choose_by_mmd,
    choose_by_ot,
    llm_select,
    zero_shot,
)
from ease_lib.search.optimizers.problem import ExemplarOptimizer, Problem, RowAllocating
from ease_lib.search.pool_retrieval import bm25_similarities
from ease_lib.search.surrogate.answers import Answered


def _ease(problem: Problem, config: OptimizerConfig) -> ExemplarOptimizer:
    from ease_lib.search.optimizers.ease import Ease

    return Ease(
        problem,
        initial_design=scaled_design(config),
        sampled_candidates=config.sampled_candidates,
        shortlist_size=config.shortlist_size,
        shortlist_by=config.shortlist,
        fixed_candidates=config.fixed_candidates,
        nu=config.nu,
        instruction_share=config.instruction_share,
        ridge=config.ridge,
    )


def _active(problem: Problem, config: OptimizerConfig) -> ExemplarOptimizer:
    from ease_lib.search.optimizers.active_selection import Active

    return Active(problem, evaluations=config.budget)


def _set(choose: Choice) -> Callable[[Problem, OptimizerConfig], OneProposal]:
    return lambda problem, config: best_set(problem, choose, sampled_candidates=config.sampled_candidates)


def _bm25(problem: Problem, config: OptimizerConfig) -> Retrieval:
    similarity = np.mean(list(bm25_similarities(problem.inputs, problem.evaluated_inputs)), axis=0)
    return Retrieval(problem, similarity, nearest=config.nearest)


def _halving(problem: Problem, config: OptimizerConfig) -> ExemplarOptimizer:
    from ease_lib.search.optimizers.adaptive import Halving

    return Halving(problem, challenged=config.method == "adaptive")


def _capo(problem: Problem, config: OptimizerConfig) -> ExemplarOptimizer:
    from ease_lib.search.optimizers.capo import Capo

    return Capo(problem)


OPTIMIZERS: dict[str, Callable[[Problem, OptimizerConfig], ExemplarOptimizer]] = {
    "adaptive": _halving,
    "halving": _halving,
    "capo": _capo,
    "ease": _ease,
    "best_of_n": lambda problem, config: BestOfN(problem),
    "evolution": lambda problem, config: Evolution(problem, initial_design=scaled_design(config)),
    "influence": lambda problem, config: Influence(problem, evaluations=config.budget),
    "active": _active,
    "cosine": lambda problem, config: Retrieval(problem, problem.relevance, nearest=config.nearest),
    "bm25": _bm25,
    "dpp": _set(choose_by_dpp),
    "mmd": _set(choose_by_mmd),
    "ot": _set(choose_by_ot),
    "llm_select": lambda problem, config: llm_select(problem),
    "zero_shot": lambda problem, config: zero_shot(),
}


def planned_answers(config: OptimizerConfig, validation_rows: int, affordable: float = math.inf) -> int:
    """Maximum number of answers of a search.

    Args:
        affordable: those that caps leave it.
    """
    if config.chooses_rows:
        return answers_to_plan(config, validation_rows, affordable)
    evaluation = min(config.evaluation_rows or validation_rows, validation_rows)
    evaluations = 1 if METHODS[config.method].evaluates_once else config.budget
    return int(min(evaluations * evaluation, affordable))


def least_answers(config: OptimizerConfig, validation_rows: int) -> int:
    """Minimum number of answers for a result: those of one evaluation."""
    return FIRST_ROWS if config.chooses_rows else min(config.evaluation_rows or validation_rows, validation_rows)


def create_optimizer(config: OptimizerConfig, problem: Problem, recalled: Iterable[Answered] = ()) -> ExemplarOptimizer:
    """The search method `config.method`, with its settings.

    Args:
        recalled: what an earlier search was answered, which methods that choose rows know from the start.
    """
    optimizer = OPTIMIZERS[config.method](problem, config)
    if isinstance(optimizer, RowAllocating):
        for prompt, rows, scores in recalled:
            optimizer.recall(prompt, rows, scores)
    return optimizer


def answers_to_plan(config: OptimizerConfig, validation_rows: int, affordable: float) -> int:
    """Number of answers that a search plans for, with the configured number of rows per evaluation.

    Args:
        affordable: those that max_llm_requests leaves it; infinite without that cap.
    """
    evaluation = min(config.evaluation_rows or validation_rows, validation_rows)
    planned = config.budget * evaluation or affordable
    return int(max(0, min(planned, affordable)))


def scaled_design(config: OptimizerConfig) -> int:
    """T_init; if that would use up the budget, the paper's share of the budget (40 of 165)."""
    if config.initial_design < config.budget or not config.budget:
        return config.initial_design
    return max(1, config.budget * OptimizerConfig.initial_design // OptimizerConfig.budget)
