"""Same seed, same history: with the fast parts of the search step and with the straightforward ones in their place."""

import numpy as np
import pytest
import torch

from ease_lib.candidates.optimal_transport import Shortlist
from ease_lib.candidates.sampling import SequenceSpace
from ease_lib.config import parse_parameters
from ease_lib.embeddings import BUNDLED, PositionalRepresentation, load_embedder
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.prompt import exemplar_text
from ease_lib.optimizers import ease
from ease_lib.optimizers.base import Problem
from ease_lib.seeding import derive_seed
from ease_lib.study.history import Observation
from ease_lib.surrogate import network
from ease_lib.tasks.catalog import build_task
from tests.straightforward import autograd_training, plain_acquisition, plain_shortlist

INITIAL, ITERATIONS = 15, 3
TASKS = ({"task": "lr", "noise_ratio": 0.1}, {"task": "lp_variant"}, {"task": "customer_feedback"})


@pytest.mark.parametrize("values", TASKS, ids=lambda values: values["task"])
def test_the_fast_step_changes_no_history(values, monkeypatch):
    problem = problem_of(values)
    fast = history(problem)
    monkeypatch.setattr(ease, "shortlist", lambda *given: Shortlist(plain_shortlist(*given)[0], np.empty(0), 0))
    monkeypatch.setattr(ease, "Acquisition", PlainAcquisition)
    monkeypatch.setattr(network, "_train", autograd_in_the_place_of(derive_seed(problem.seed, "network")))
    assert history(problem) == fast


class PlainAcquisition:
    def __init__(self, network, observed, *, trust, **settings):
        self.values = lambda candidates: plain_acquisition(network, observed, candidates, **settings).detach().numpy()

    def __call__(self, candidates):
        return self.values(candidates)


def autograd_in_the_place_of(seed):
    def train(layers, x, y, trust, ridge, steps):
        with torch.inference_mode(False), torch.enable_grad():
            model = autograd_training(x.clone(), y.clone(), seed=seed, ridge=ridge, steps=steps)
        for linear, weight, bias in zip(model[::2], layers.weights, layers.biases, strict=True):
            weight.copy_(linear.weight)
            bias.copy_(linear.bias)

    return train


def history(problem):
    """Sequences proposed, when even ones are worth more."""
    search = ease.Ease(problem, initial_design=INITIAL, sampled_candidates=500, shortlist_size=60, nu=0.1, ridge=0.1)
    proposed = []
    for iteration in range(INITIAL + ITERATIONS):
        candidate = search.ask(iteration)
        score = float(np.mean([position % 2 == 0 for position in candidate.sequence]))
        search.tell(Observation(candidate=candidate, score=score, validation_rows=20))
        proposed.append(candidate.sequence)
    return proposed


def problem_of(values):
    task = build_task(parse_parameters(values).task, seed=0, locate=lambda name: name, list_files=list, metrics=METRICS)
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
        seed=0,
    )
