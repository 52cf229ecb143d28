"""Search methods by name."""

from __future__ import annotations

from collections.abc import Callable

from ease_lib.config import OptimizerConfig
from ease_lib.optimizers.base import ExemplarOptimizer, Problem
from ease_lib.optimizers.best_of_n import BestOfN
from ease_lib.optimizers.ease import Ease
from ease_lib.optimizers.evolution import Evolution

OPTIMIZERS: dict[str, Callable[[Problem, OptimizerConfig], ExemplarOptimizer]] = {
    "ease": lambda problem, config: Ease(
        problem,
        initial_design=config.initial_design,
        sampled_candidates=config.sampled_candidates,
        shortlist_size=config.shortlist_size,
        nu=config.nu,
        ridge=config.ridge,
    ),
    "best_of_n": lambda problem, config: BestOfN(problem),
    "evolution": lambda problem, config: Evolution(problem, initial_design=config.initial_design),
}


def create_optimizer(config: OptimizerConfig, problem: Problem) -> ExemplarOptimizer:
    """The search method `config.method`, with its settings."""
    return OPTIMIZERS[config.method](problem, config)
