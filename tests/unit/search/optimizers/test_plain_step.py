"""Same history, same choice: with the fast parts of the search step and with the straightforward ones in their place.

Two ways to add the same numbers round differently, and how depends on the processor. So what is promised is: the same
sequences are compared, their values are equal within rounding, and the same one is chosen unless two are that close.
The networks are float64 here, so that rounding is far below what any mistake would change; a thousand steps of training
in float32 make a hundredth of it.
"""

from functools import partial

import numpy as np
import pytest
import torch

from ease_lib.config.parsing import parse_parameters
from ease_lib.embedding.models import BUNDLED, load_embedder
from ease_lib.evaluation.metrics import METRICS
from ease_lib.prompts.template import exemplar_text
from ease_lib.search.candidates.optimal_transport import Shortlist
from ease_lib.search.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.search.optimizers import ease
from ease_lib.search.optimizers.history import Observation
from ease_lib.search.optimizers.problem import Problem
from ease_lib.search.surrogate import network
from ease_lib.search.surrogate.representations import PositionalRepresentation
from ease_lib.seeding import derive_seed
from ease_lib.tasks.catalog import build_task
from tests.straightforward import autograd_training, plain_acquisition, plain_shortlist

INITIAL, ITERATIONS = 15, 3
TASKS = tuple(
    {"validation_size": 20, **task}
    for task in ({"task": "lr", "noise_ratio": 0.1}, {"task": "lp_variant"}, {"task": "customer_feedback"})
)
ROUNDING = 1e-6
"""Rounding error of a value after a thousand training steps."""


@pytest.mark.parametrize("values", TASKS, ids=lambda values: values["task"])
@pytest.mark.rooms("ease_lib/search", "ease_lib/machine.py", "tests/straightforward.py")
def test_the_fast_step_makes_the_choice_of_the_plain_one(values, monkeypatch):
    monkeypatch.setattr(ease, "ScoreNetwork", partial(network.ScoreNetwork, dtype=torch.float64))
    problem = problem_of(values)
    told, fast = searched(problem)
    monkeypatch.setattr(ease, "shortlist", lambda *given: Shortlist(plain_shortlist(*given)[0], np.empty(0), 0))
    monkeypatch.setattr(ease, "Acquisition", PlainAcquisition)
    monkeypatch.setattr(network, "_train", autograd_in_the_place_of(derive_seed(problem.seed, "network")))
    for iteration, compared in fast.items():
        plain = compared_sequences(replayed(problem, told[:iteration]), iteration)
        assert set(plain) == set(compared)
        differences = [abs(plain[sequence] - compared[sequence]) for sequence in plain]
        assert max(differences) < ROUNDING
        chosen = told[iteration].candidate
        assert chosen.acquisition == pytest.approx(max(compared.values()))
        assert max(plain.values()) - plain[chosen.sequence] < 2 * ROUNDING


class PlainAcquisition:
    def __init__(self, network, observed, **settings):
        self.values = lambda candidates: plain_acquisition(network, observed, candidates, **settings).detach().numpy()

    def __call__(self, candidates):
        return self.values(candidates)


def autograd_in_the_place_of(seed):
    def train(layers, x, y, ridge, steps):
        with torch.inference_mode(False), torch.enable_grad():
            model = autograd_training(x.clone(), y.clone(), seed=seed, ridge=ridge, steps=steps)
        for linear, weight, bias in zip(model[::2], layers.weights, layers.biases, strict=True):
            weight.copy_(linear.weight)
            bias.copy_(linear.bias)

    return train


def new_search(problem):
    return ease.Ease(problem, initial_design=INITIAL, sampled_candidates=500, shortlist_size=60, nu=0.1, ridge=0.1)


def replayed(problem, told):
    search = new_search(problem)
    for observation in told:
        search.tell(observation)
    return search


def searched(problem):
    """Observations if even exemplars are worth more, and the compared values by iteration."""
    search, told, compared = new_search(problem), [], {}
    for iteration in range(INITIAL + ITERATIONS):
        if iteration >= INITIAL:
            compared[iteration] = compared_sequences(replayed(problem, told), iteration)
        candidate = search.ask(iteration)
        score = float(np.mean([position % 2 == 0 for position in candidate.sequence]))
        told.append(Observation(candidate=candidate, score=score, validation_rows=20))
        search.tell(told[-1])
    return told, compared


def compared_sequences(search, iteration):
    """Acquisition of every shortlisted sequence of the iteration."""
    prompts = search._unseen_candidates(iteration, ())
    acquisition = ease.Acquisition(search._network(), search._features(search._observed()), nu=0.1, ridge=0.1)
    return dict(zip(as_tuples(prompts.sequences), acquisition(search._features(prompts)).tolist(), strict=True))


def problem_of(values):
    task = build_task(
        parse_parameters(values).task, seed=0, locate=lambda name: name, list_files=list, metric_of=METRICS.__getitem__
    )
    embedder = load_embedder(BUNDLED)
    texts = [exemplar_text(row) for row in task.pool]
    pool = embedder.embed(texts)
    return Problem(
        space=SequenceSpace(len(pool), 5),
        representation=PositionalRepresentation(pool, embedder.embed([row.output for row in task.pool])),
        pool=pool,
        validation=embedder.embed([exemplar_text(row) for row in task.validation]),
        exemplars=texts,
        inputs=[row.input for row in task.pool],
        validation_inputs=[row.input for row in task.validation],
        outputs=[row.output for row in task.pool],
        validation_outputs=[row.output for row in task.validation],
        seed=0,
    )
