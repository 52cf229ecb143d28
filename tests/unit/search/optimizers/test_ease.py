from dataclasses import replace

import numpy as np
import pytest

from ease_lib.config.sections import OptimizerConfig
from ease_lib.search.candidates.sampling import SequenceSpace, lengths_of
from ease_lib.search.optimizers.baselines import Evolution
from ease_lib.search.optimizers.ease import Ease
from ease_lib.search.optimizers.history import History, Observation
from ease_lib.search.optimizers.registry import create_optimizer
from ease_lib.seeding import rng
from tests.support.objectives import ordered_sum

SETTINGS = {"initial_design": 10, "sampled_candidates": 2000, "shortlist_size": 500, "nu": 0.1, "ridge": 0.1}
SEVERAL = pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py")
QUICK = {**SETTINGS, "training_steps": 100}
"""Settings for tests in which the quality of learning does not matter."""


def play(optimizer, objective, evaluations):
    history = History()
    for iteration in range(evaluations):
        candidate = optimizer.ask(iteration)
        observation = Observation(candidate=candidate, score=objective(candidate.sequence).score, validation_rows=1)
        optimizer.tell(observation)
        history.add(observation)
    return history


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SEVERAL) for seed in (1, 2))])
def test_proposals_are_clearly_better_than_random_ones(seed):
    objective = ordered_sum(n=40, k=4, seed=seed)
    history = play(Ease(objective.problem, **SETTINGS), objective, 25)
    random, proposed = history.scores[:10], history.scores[15:]
    assert proposed.mean() > random.mean() + 2 * random.std() / np.sqrt(10)


def test_initial_design_is_random_and_the_rest_is_chosen():
    objective = ordered_sum(n=20, k=3)
    history = play(Ease(objective.problem, **QUICK), objective, 12)
    phases = [observation.candidate.phase for observation in history]
    assert phases == ["initial"] * 10 + ["search"] * 2
    assert all(observation.candidate.acquisition is not None for observation in history.observations[10:])


def test_all_scores_zero_still_proposes():
    """The authors' code fails on an unbound name here."""
    objective = ordered_sum(n=20, k=3)
    objective.values[:-1] = 0.0
    optimizer = Ease(objective.problem, **QUICK)
    for iteration in range(10):
        optimizer.tell(Observation(candidate=optimizer.ask(iteration), score=0.0, validation_rows=20))
    assert optimizer.ask(10).phase == "search"


def test_a_batch_spreads_out():
    """Pending candidates count as observed for sigma, so the next is another one, and less sure of its bonus."""
    objective = ordered_sum(n=20, k=3)
    optimizer = Ease(objective.problem, **{**QUICK, "nu": 10.0})
    play(optimizer, objective, 12)
    first = optimizer.ask(12)
    again = optimizer.ask(12, [first])
    assert again.sequence != first.sequence
    assert again.acquisition < first.acquisition


def test_without_optimal_transport_the_first_or_all_sampled_are_candidates(monkeypatch):
    objective = ordered_sum(n=20, k=3)
    asked = []
    monkeypatch.setattr("ease_lib.search.optimizers.ease.shortlist", lambda *arguments: asked.append(arguments))
    for shortlist_by, candidates in (("random", 500), ("none", 2000)):
        optimizer = Ease(objective.problem, **QUICK, shortlist_by=shortlist_by)
        assert len(optimizer._candidates(10, set())) == candidates
        assert len(play(optimizer, objective, 12).seen) == 12
    assert not asked


def test_fixed_candidates_are_all_that_is_ever_proposed():
    objective = ordered_sum(n=20, k=3)
    optimizer = Ease(objective.problem, **QUICK, fixed_candidates=30)
    fixed = set(
        map(tuple, objective.problem.space.sample(rng(objective.problem.seed, "fixed candidates"), 30).tolist())
    )
    history = play(optimizer, objective, 25)
    assert {observation.candidate.sequence for observation in history.observations[10:]} <= fixed


def test_evolution_changes_one_position_of_the_incumbent_and_keeps_exemplars_distinct():
    objective = ordered_sum(n=15, k=4)
    optimizer = Evolution(objective.problem, initial_design=5)
    history = play(optimizer, objective, 5)
    mutant = optimizer.ask(5).sequence
    assert sum(a != b for a, b in zip(mutant, history.incumbent.candidate.sequence, strict=True)) == 1
    assert len(set(mutant)) == 4


def test_incumbent_is_replaced_by_strictly_better_scores_only():
    objective = ordered_sum()
    history = History()
    optimizer = Evolution(objective.problem, initial_design=5)
    for iteration, score in enumerate([0.4, 0.6, 0.6, 0.5]):
        observation = Observation(candidate=optimizer.ask(iteration), score=score, validation_rows=1)
        optimizer.tell(observation)
        history.add(observation)
    assert history.incumbent is history.observations[1]


def joint(objective, instructions=11):
    """The same problem with instructions, of which the representation knows nothing."""
    return replace(objective.problem, instructions=instructions)


def test_every_iteration_compares_the_same_number_of_prompts_whatever_the_number_of_instructions():
    objective = ordered_sum(n=20, k=3)
    optimizer = Ease(joint(objective, 21), **QUICK, instruction_share=0.2)
    prompts = optimizer._candidates(10, set())
    assert len(prompts) == 500 == 100 * (1 + 4)
    assert 0 in prompts.instructions
    assert len(set(prompts.instructions.tolist())) == 5
    assert set(prompts.instructions.tolist()) != set(optimizer._candidates(11, set()).instructions.tolist())


def test_no_prompt_is_proposed_twice_but_a_sequence_may_come_with_another_instruction():
    objective = ordered_sum(n=3, k=2)
    for method in (Ease(joint(objective, 3), **QUICK), Evolution(joint(objective, 3), initial_design=10)):
        history = play(method, objective, 18)
        assert len(history.seen) == 18 == 3 * objective.problem.space.size
        assert method.ask(18) is None


@pytest.mark.parametrize("method", ["ease", "evolution", "best_of_n"])
def test_a_range_of_lengths_is_searched(method):
    objective = ordered_sum(n=20, k=5)
    problem = replace(objective.problem, space=SequenceSpace(20, 5, 2))
    config = OptimizerConfig(method=method, initial_design=10, sampled_candidates=500, shortlist_size=60, k=5, k_min=2)
    history = play(create_optimizer(config, problem), objective, 20)
    assert {len(observation.candidate.sequence) for observation in history} == {2, 3, 4, 5}


def test_the_shortlist_keeps_every_length():
    """The longest sequences lie nearest to the validation set, so transport cost alone would choose only them."""
    objective = ordered_sum(n=20, k=5)
    problem = replace(objective.problem, space=SequenceSpace(20, 5, 2))
    lengths = lengths_of(Ease(problem, **QUICK)._candidates(10, set()).sequences)
    assert np.bincount(lengths)[2:].min() > 80
