"""Every optimizer passes the public conformance suite."""

from ease_lib.config import OptimizerConfig
from ease_lib.optimizers.registry import OPTIMIZERS, create_optimizer
from ease_lib.testing.conformance import OptimizerConformance

SMALL = {"initial_design": 5, "sampled_candidates": 300, "shortlist_size": 40}


class TestEase(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="ease", **SMALL), problem)


class TestBestOfN(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="best_of_n"), problem)


class TestEvolution(OptimizerConformance):
    def create(self, problem):
        return create_optimizer(OptimizerConfig(method="evolution", **SMALL), problem)


def test_every_registered_method_is_tested_above():
    assert set(OPTIMIZERS) == {"ease", "best_of_n", "evolution"}
