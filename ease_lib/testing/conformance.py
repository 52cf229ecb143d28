"""What every optimizer must do. A new one gets all of it for three lines:

class TestMyMethod(OptimizerConformance):
    def create(self, problem):
        return MyMethod(problem, ...)
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

import pytest

from ease_lib.candidates.sampling import Sequence
from ease_lib.evaluation.objective import Evaluation
from ease_lib.optimizers.base import ExemplarOptimizer, Problem
from ease_lib.study.journal import open_journal
from ease_lib.study.loop import Study, search
from ease_lib.testing.objectives import OrderedSum, ordered_sum

BUDGET = 14


class Killed(Exception):
    """Stands for the end of a process in the middle of an evaluation."""


class OptimizerConformance:
    """Determinism, budget, no repetition, resume, exhaustion."""

    @abstractmethod
    def create(self, problem: Problem) -> ExemplarOptimizer:
        """The optimizer under test, with an initial design of at most 6."""

    def run(self, objective: OrderedSum, folder: Path, budget: int = BUDGET, kill_at: int | None = None) -> Study:
        def evaluate(sequence: Sequence) -> Evaluation:
            if kill_at is not None and objective.evaluations == kill_at:
                raise Killed
            return objective(sequence)

        with open_journal(folder, "key") as journal:
            return search(self.create(objective.problem), evaluate, journal, budget=budget)

    def test_equal_seeds_give_equal_histories(self, tmp_path: Path) -> None:
        first, second = (self.run(ordered_sum(), tmp_path / name) for name in "ab")
        assert first.history == second.history

    def test_another_seed_gives_another_history(self, tmp_path: Path) -> None:
        first, second = (self.run(ordered_sum(seed=seed), tmp_path / str(seed)) for seed in (1, 2))
        assert first.history.sequences.tolist() != second.history.sequences.tolist()

    def test_budget_is_kept_and_no_sequence_is_evaluated_twice(self, tmp_path: Path) -> None:
        objective = ordered_sum()
        study = self.run(objective, tmp_path)
        assert objective.evaluations == len(study.history) == len(study.history.seen) == BUDGET

    @pytest.mark.parametrize("kill_at", range(1, BUDGET, 3))
    def test_killed_run_continues_to_the_same_history(self, tmp_path: Path, kill_at: int) -> None:
        quiet = self.run(ordered_sum(), tmp_path / "quiet")
        killed, resumed = ordered_sum(), ordered_sum()
        with pytest.raises(Killed):
            self.run(killed, tmp_path / "killed", kill_at=kill_at)
        study = self.run(resumed, tmp_path / "killed")
        assert study.history == quiet.history
        assert (study.replayed, killed.evaluations + resumed.evaluations) == (kill_at, BUDGET)

    def test_ends_when_every_sequence_is_evaluated(self, tmp_path: Path) -> None:
        objective = ordered_sum(n=3, k=2)
        objective.values[:] = [
            0.0,
            0.0,
            0.1,
        ]  # only (.., 2) scores, so the search does not end at a perfect score first
        study = self.run(objective, tmp_path, budget=50)
        assert len(study.history) <= objective.problem.space.size == 6
        assert study.stopped in ("every sequence evaluated", "perfect score")

    def test_whole_pool_as_sequence(self, tmp_path: Path) -> None:
        study = self.run(ordered_sum(n=4, k=4), tmp_path)
        assert all(sorted(sequence) == [0, 1, 2, 3] for sequence in study.history.sequences.tolist())
