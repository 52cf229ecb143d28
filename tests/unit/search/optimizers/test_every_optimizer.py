"""Every optimizer passes the public conformance suite."""

from dataclasses import replace

from ease_lib.config.parsing import declared_parameters
from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.optimizers.active_selection import Active
from ease_lib.search.optimizers.ease import Ease
from ease_lib.search.optimizers.registry import OPTIMIZERS, create_optimizer
from tests.support.optimizer_conformance import BUDGET, OptimizerConformance, RowAllocatingConformance

METHODS = declared_parameters()["method"].choices
SMALL = {"initial_design": 5, "sampled_candidates": 300, "shortlist_size": 40}


class TestAdaptive(RowAllocatingConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="adaptive"), problem)


class TestHalving(RowAllocatingConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="halving"), problem)


class TestCapo(RowAllocatingConformance):
    most_evaluations = 8  # of a block of eight rows each

    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="capo"), problem)


class TestEase(OptimizerConformance):
    def create(self, problem):
        return Ease(problem, **SMALL, nu=0.1, ridge=0.1, training_steps=50)  # every attempt of the killed ones trains


class TestBestOfN(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="best_of_n"), problem)


class TestEvolution(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="evolution", **SMALL), problem)


class TestInfluence(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="influence", budget=BUDGET), problem)


class TestActive(OptimizerConformance):
    def create(self, problem):
        return Active(problem, evaluations=BUDGET, updates=50)  # every attempt of the killed ones trains again


class TestCosine(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="cosine"), problem)


class TestBm25(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="bm25"), problem)


class TestDpp(OptimizerConformance):
    most_evaluations = 1

    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="dpp", sampled_candidates=5), problem)


class TestMmd(OptimizerConformance):
    most_evaluations = 1

    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="mmd", sampled_candidates=5), problem)


class TestOt(OptimizerConformance):
    most_evaluations = 1

    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="ot", sampled_candidates=5), problem)


class TestLlmSelect(OptimizerConformance):
    most_evaluations = 1
    seeded = False

    def create(self, problem):
        return create_optimizer(
            OptimizerConfig(method="llm_select"), replace(problem, ask_llm=lambda prompt: "3, 1, 2")
        )


class TestZeroShot(OptimizerConformance):
    most_evaluations = 1
    seeded = False

    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="zero_shot"), problem)


def test_every_registered_method_is_tested_above():
    tested = {name.removeprefix("Test").lower() for name in globals() if name.startswith("Test")}
    assert tested == {name.replace("_", "") for name in OPTIMIZERS} == {name.replace("_", "") for name in METHODS}
