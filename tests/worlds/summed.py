"""Worlds that are as our model of answers has it: parametric ones, and ones that the local LLM could be.

The score of a prompt on new rows is f(E), a sum of the components of `search/surrogate/components.py`. A row is
answered rightly with the probability Phi(g(E) + r(x)), where r(x) ~ N(0, s^2) is how easy the row is and g is such that
the mean over rows is f(E). So much is as the model of answers has it; that answers are right or wrong, that scores end
at 0 and 1, and that a prompt has effects of its own beyond all that is known of it, is not.

A parametric world draws its components from a prior; a recorded one draws them from the posterior given what the local
LLM answered (`record.py`), so it is one of those that this LLM could be. What nothing was answered of (a pair of
exemplars that was never shown, a prompt that was never asked) is drawn from the prior, by a hash of what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ease_lib.arrays import Floats
from ease_lib.search.candidates.prompts import Prompt, Prompts
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.surrogate.answer_model import Function
from ease_lib.search.surrogate.answers import Answers, fitted_model
from ease_lib.search.surrogate.components import CODED, Components
from ease_lib.seeding import rng
from tests.worlds.world import World, normals, prompt_codes, unit

FOLDER = Path(__file__).parent / "recorded"
LEAST, MOST, SOFTNESS = 0.02, 0.98, 0.03
"""Scores that prompts have at least and at most, and how near to the most effects begin to add up to less."""
BEYOND = 0.06
"""How much better than the best that the LLM was seen to be a prompt of its world can be at most."""


@dataclass(frozen=True, kw_only=True)
class SummedWorld(World):
    """A world whose scores are a sum of the components of our own model of answers.

    Args:
        sum: of the components that are the same for many prompts.
        spreads: standard deviation of each effect that is drawn by hash, by coded component, and of `own`.
        own: effects of prompts that are known, by their codes.
        rows: (R,) how easy each validation row is, in standard deviations of the noise.
        row_spread: s.
    """

    components: Components
    sum: Function
    spreads: Mapping[str, float]
    own: Mapping[int, float]
    rows: Floats
    row_spread: float
    most: float = MOST

    def scores(self, prompts: Prompts) -> Floats:
        from_end = prompts.reversed()
        values = self.sum(prompts)
        for name, spread in self.spreads.items():
            if name == "own" or not spread:
                continue
            codes = self.components.codes(name, from_end)
            known = self.sum.coded.get(name)
            new = (codes >= 0) & (~np.isin(codes, known.codes) if known else True)
            values = values + np.where(new, spread * normals(codes, self.seed, name), 0.0).sum(axis=1)
        codes = prompt_codes(prompts)
        own = self.spreads["own"] * normals(codes, self.seed, "own")
        for place in np.flatnonzero(np.isin(codes, list(self.own))):
            own[place] = self.own[int(codes[place])]
        below = (self.most - values - own) / SOFTNESS
        return np.asarray(np.maximum(self.most - SOFTNESS * np.logaddexp(0.0, below), LEAST))

    def answers(self, prompt: Prompt, rows: Sequence[int]) -> tuple[float, ...]:
        code = prompt_codes(Prompts.of([prompt], self.k))
        chance = normals(code + np.array(rows, dtype=np.int64) * 7919, self.seed, "answer")
        latent = ndtri(self.score(prompt)) * np.sqrt(1 + self.row_spread**2) + self.rows[list(rows)]
        return tuple((chance < latent).astype(float).tolist())

    @property
    def own_share(self) -> float:
        return self.spreads["own"] ** 2 / self.variance


# --- parametric worlds ------------------------------------------------------------------------------------------------

POOL, CLASSES, ROWS, K, TEXT = 50, 4, 160, 5, 8
LEVEL, SPREAD, ROW_SPREAD = 0.45, 0.08, 0.6
"""Mean score of sequences, its standard deviation over them, and s."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of parametric world.

    Args:
        shares: of the variance of the sequences, by component.
        lengths: (k + 1,) what each length adds.
    """

    shares: Mapping[str, float]
    lengths: Sequence[float] = (-0.15, -0.05, 0.0, 0.0, 0.0, 0.0)


KINDS = {
    "mixed": Kind(
        shares={
            "coverage": 0.2,
            "length": 0.15,
            "own": 0.35,
            "present exemplar": 0.1,
            "late exemplar": 0.1,
            "pair": 0.1,
        }
    ),
    "chance": Kind(shares={"own": 1.0}, lengths=(0.0,) * 6),
    "kindred": Kind(shares={"own": 0.3, "set": 0.35, "pattern": 0.35}),
    "additive": Kind(shares={"present exemplar": 0.4, "present text": 0.3, "late exemplar": 0.2, "own": 0.1}),
    "two best": Kind(
        shares={"own": 0.4, "present exemplar": 0.3, "pair": 0.3}, lengths=(-0.2, -0.05, 0.05, -0.02, -0.09, -0.16)
    ),
}


def parametric(name: str, seed: int) -> SummedWorld:
    kind, draw = KINDS[name], rng(seed, "world", name)
    pool, validation = (unit(draw.normal(size=(count, TEXT))) for count in (POOL, ROWS))
    labels, row_labels = (draw.permutation(np.arange(count) % CLASSES) for count in (POOL, ROWS))
    components = Components(k=K, pool=pool, labels=labels)
    sample = Prompts(SequenceSpace(POOL, K, 1).sample(draw, 2000), np.zeros(2000, np.int64))
    own = components.own_kernels(components.described(sample))
    deviations = {
        component: (share * SPREAD**2 / max(float(own[component].mean()), 1e-9)) ** 0.5
        for component, share in kind.shares.items()
        if component != "own"
    }
    places = np.zeros((K + 1, K, POOL))
    for place, base in components.placed:
        if deviation := deviations.get(f"{place} {base}", 0.0):
            effect = draw.normal(size=POOL if base == "exemplar" else components.bases[base].shape[1])
            effect = effect if base == "exemplar" else components.bases[base] @ effect
            places += components.place_weights[place][:, :, None] * deviation * effect
    coverage = np.sort(draw.normal(size=CLASSES + 1)) * deviations.get("coverage", 0.0)
    length = np.array(kind.lengths) + np.append(0.0, draw.normal(size=K)) * deviations.get("length", 0.0)
    function = Function(
        components=components,
        mean=LEVEL,
        places=places,
        length=length,
        instruction=np.zeros(1),
        coverage=coverage,
        coded={},
    )
    function = replace(function, mean=2 * LEVEL - float(function(sample).mean()))
    return SummedWorld(
        name=name,
        k=K,
        pool=pool,
        components=components,
        sum=function,
        spreads={each: deviations.get(each, 0.0) for each in CODED} | {"own": SPREAD * kind.shares["own"] ** 0.5},
        own={},
        validation=validation,
        labels=labels.tolist(),
        validation_labels=row_labels.tolist(),
        rows=draw.normal(size=ROWS) * ROW_SPREAD,
        row_spread=ROW_SPREAD,
        seed=seed,
    )


# --- recorded worlds --------------------------------------------------------------------------------------------------


def recording(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def answers_of(recorded: Mapping[str, Any]) -> Answers:
    """All that the LLM answered."""
    answers = Answers()
    for sequence, rows, scores in recorded["answers"]:
        prompt = (0, tuple(sequence))
        known = set(answers.asked(prompt))
        new = [place for place, row in enumerate(rows) if row not in known]
        answers.add(prompt, [rows[place] for place in new], [scores[place] for place in new])
    return answers


def recorded_components(recorded: Mapping[str, Any]) -> Components:
    labels = np.array(recorded["pool_class"]) if recorded["classes"] > 1 else None
    return Components(k=recorded["k"], pool=np.array(recorded["pool"]), labels=labels)


_MODELS: dict[str, Any] = {}


def from_recording(name: str, seed: int) -> SummedWorld:
    recorded = recording(name)
    validation = np.array(recorded["validation"])
    if name not in _MODELS:
        _MODELS[name] = fitted_model(recorded_components(recorded), answers_of(recorded))
    model = _MODELS[name]
    draw = rng(seed, "world", name)
    function, values = model.sample(draw)
    known = Prompts.of(model.prompts, recorded["k"])
    weights = model.weight_variances
    row_spread = _probit_spread(model.variances.rows, float(np.clip(model.mean.mean(), 0.1, 0.9)))
    return SummedWorld(
        name=name,
        k=recorded["k"],
        pool=np.array(recorded["pool"]),
        components=model.components,
        sum=function,
        spreads={each: weights.get(each, 0.0) ** 0.5 for each in CODED}
        | {"own": model.variances.components["own"] ** 0.5},
        own=dict(zip(prompt_codes(known).tolist(), (values - function(known)).tolist(), strict=True)),
        validation=validation,
        labels=recorded["pool_class"] if recorded["classes"] > 1 else [-1] * len(recorded["pool"]),
        validation_labels=recorded["validation_class"] if recorded["classes"] > 1 else [-1] * len(validation),
        rows=draw.normal(size=len(validation)) * row_spread,
        row_spread=row_spread,
        seed=seed,
        most=min(MOST, float(model.mean.max()) + BEYOND),
    )


def _probit_spread(variance: float, mean: float) -> float:
    """s for which rows vary so much on the scale of scores, at this mean."""
    share = min(variance / (mean * (1 - mean)), 0.9)
    correlation = np.sin(share * np.pi / 2)
    return float(np.sqrt(correlation / (1 - correlation)))


def recorded_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))
