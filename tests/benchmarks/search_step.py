"""How fast is the search step beside its straightforward form? `make benchmark`

Every fast path runs alternately with the code one would write first (`tests/straightforward.py`), in one process, at
the paper's sizes: n = 100, k = 5, |D_V| = 20, q = 50 000, q' = 1 000. The parts run on one core each, the whole step on
all. Prints a Markdown table of ratios and the share of sets whose transport was solved exactly, and writes both, with a
plot, to `tests/benchmarks/results/`. Tasks of Instruction Induction are taken from `--data` if it is given.
"""

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.embedding.models import BUNDLED, load_embedder
from ease_lib.evaluation.metrics import METRICS
from ease_lib.prompts.template import exemplar_text
from ease_lib.running import task_data
from ease_lib.search.candidates.optimal_transport import cosine_cost, shortlist
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.search.surrogate.network import ScoreNetwork
from ease_lib.search.surrogate.neural_ucb import Acquisition
from ease_lib.search.surrogate.representations import PositionalRepresentation, SequenceRepresentation
from ease_lib.seeding import rng
from ease_lib.tasks.catalog import build_task
from tests.straightforward import (
    autograd_training,
    in_spanned_directions,
    plain_acquisition,
    plain_shortlist,
    standardised,
)

SAMPLED, KEPT, SEED, RIDGE, NU = 50_000, 1_000, 0, 0.1, 0.1
TASKS = {
    "LR": {"task": "lr", "noise_ratio": 0.1},
    "SST5": {"task": "instruction_induction", "task_name": "sst5_reverse_10_noisy"},
    "AG News": {"task": "instruction_induction", "task_name": "ag_news_textlabel_redirect1_10_noisy"},
    "taxonomy_animal": {"task": "instruction_induction", "task_name": "taxonomy_animal_v1"},
}
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Ratio:
    """Times of both forms, alternately measured, in seconds."""

    what: str
    plain: list[float]
    fast: list[float]

    @property
    def ratios(self) -> list[float]:
        return sorted(plain / fast for plain, fast in zip(self.plain, self.fast, strict=True))

    def __str__(self) -> str:
        low, middle, high = self.ratios[0], statistics.median(self.ratios), self.ratios[-1]
        plain, fast = statistics.median(self.plain), statistics.median(self.fast)
        return f"| {self.what} | {plain:.3f} s | {fast:.4f} s | {middle:.1f} | {low:.1f} to {high:.1f} |"


@dataclass(frozen=True)
class Task:
    """Texts and embeddings of a task's pool, its cost matrix, and sampled sequences."""

    texts: list[str]
    pool: np.ndarray
    outputs: np.ndarray
    cost: np.ndarray
    sampled: np.ndarray


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder in the Instruction Induction format; without it LR only")
    parser.add_argument("--rounds", type=int, default=5, help="alternations (default: 5)")
    arguments = parser.parse_args()
    tasks = {name: load(values, arguments.data) for name, values in TASKS.items() if arguments.data or name == "LR"}
    ratios = []
    for ratio in measured(tasks, arguments.rounds):
        print(ratio.what, f"{statistics.median(ratio.ratios):.1f}", file=sys.stderr, flush=True)
        ratios.append(ratio)
    head = "| | straightforward | ours | ratio | min to max |\n|---|--:|--:|--:|--:|"
    solves = [f"{name} {solved_share(task):.1%}" for name, task in tasks.items()]
    text = "\n".join([head, *map(str, ratios), "", f"Sets solved exactly, of the distinct ones: {', '.join(solves)}."])
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "search_step.md").write_text(text + "\n")
    (RESULTS / "search_step.svg").write_text(plot(ratios))
    print(text)
    return 0


def measured(tasks, rounds):
    torch.set_num_threads(1)
    for name, task in tasks.items():
        yield alternately(
            f"shortlist, {name}",
            lambda task=task: plain_shortlist(task.sampled, task.cost, KEPT),
            lambda task=task: shortlist(task.sampled, task.cost, KEPT),
            rounds,
        )
    task = tasks["LR"]
    represent = PositionalRepresentation(task.pool, task.outputs)
    candidates = represent(task.sampled[:KEPT])
    for observations in (40, 165):
        features, scores = represent(task.sampled[-observations:]), rng(SEED, "scores").random(observations)
        in_all = standardised(features, torch.float32)
        spanned = in_spanned_directions(in_all)
        network = ScoreNetwork(features.shape[1], seed=SEED)
        fit = lambda network=network, x=features, y=scores: network.fit(x, y, ridge=RIDGE)  # noqa: E731
        for what, x in (("all 600 dimensions", in_all), ("the directions spanned", spanned)):
            yield alternately(
                f"training, {observations} observations, autograd in {what}",
                lambda x=x, y=scores: autograd_training(x, y, seed=SEED, ridge=RIDGE),
                fit,
                rounds,
            )
        yield alternately(
            f"acquisition of 1 000, {observations} observations",
            lambda network=network, x=features: plain_acquisition(network, x, candidates, nu=NU, ridge=RIDGE),
            lambda network=network, x=features: Acquisition(network, x, nu=NU, ridge=RIDGE)(candidates),
            rounds,
        )
    torch.set_num_threads(os.cpu_count() or 1)
    for name in [name for name in ("LR", "AG News") if name in tasks]:
        plain, fast = whole_steps(tasks[name])
        yield alternately(f"whole step, {name}", plain, fast, max(1, rounds // 2))
    task, embedder = tasks["LR"], load_embedder(BUNDLED)
    representations = {
        "by position": partial(PositionalRepresentation, task.pool, task.outputs),
        "by whole texts": partial(SequenceRepresentation, embedder, task.texts),
    }
    for how, representation in representations.items():
        for sampled in (5_000, SAMPLED):
            yield alternately(
                f"step, LR, {sampled // 1_000} 000 sequences {how}: all, shortlisted",
                partial(iteration, task, representation, task.sampled[:sampled]),
                partial(iteration, task, representation, task.sampled[:sampled], KEPT),
                rounds=1,
            )


def solved_share(task):
    return shortlist(task.sampled, task.cost, KEPT).solved / len(np.unique(np.sort(task.sampled, axis=1), axis=0))


def whole_steps(task):
    """An iteration at 100 observations: the paper's arrangement written down plainly, and `auto`."""
    observed, scores = task.sampled[-100:], rng(SEED, "scores").random(100)

    def plain():
        kept = task.sampled[plain_shortlist(task.sampled, task.cost, KEPT)[0]]
        represent = SequenceRepresentation(load_embedder(BUNDLED), task.texts)
        seen, new = represent(observed), represent(kept)
        x = standardised(seen, torch.float32)
        autograd_training(x, scores, seed=SEED, ridge=RIDGE)
        return plain_acquisition(ScoreNetwork(seen.shape[1], seed=SEED), seen, new, nu=NU, ridge=RIDGE)

    by_position = partial(PositionalRepresentation, task.pool, task.outputs)
    return plain, partial(iteration, task, by_position, task.sampled, KEPT)


def iteration(task, representation, sampled, kept=None):
    """NeuralUCB at 100 observations among `kept` sequences that optimal transport shortlists, or among all."""
    represent = representation()
    if kept is not None:
        sampled = sampled[shortlist(sampled, task.cost, kept).positions]
    observed, scores = represent(task.sampled[-100:]), rng(SEED, "scores").random(100)
    network = ScoreNetwork(observed.shape[1], seed=SEED)
    network.fit(observed, scores, ridge=RIDGE)
    return Acquisition(network, observed, nu=NU, ridge=RIDGE)(represent(sampled))


def alternately(what, plain, fast, rounds):
    seconds = {plain: [], fast: []}
    fast()  # neither is charged for imports and first allocations
    for _ in range(rounds):
        for form, taken in seconds.items():
            start = time.perf_counter()
            form()
            taken.append(time.perf_counter() - start)
    return Ratio(what, seconds[plain], seconds[fast])


def load(values, folder):
    place = {} if values["task"] == "lr" else {"task_uri": folder}
    task = parse_parameters({**place, "validation_size": 20, **values}).task
    store, names = task_data.task_files(task.task_uri, Sources())
    data = build_task(
        task,
        seed=SEED,
        locate=lambda name: store.fetch(name, Path("runs/benchmark")),
        list_files=lambda folder: names or store.find_names(),
        metric_of=METRICS.__getitem__,
    )
    embedder = load_embedder(BUNDLED)
    texts = [exemplar_text(row) for row in data.pool]
    pool = embedder.embed(texts)
    return Task(
        texts=texts,
        pool=pool,
        outputs=embedder.embed([row.output for row in data.pool]),
        cost=cosine_cost(pool, embedder.embed([exemplar_text(row) for row in data.validation])),
        sampled=SequenceSpace(len(pool), 5).sample(rng(SEED, "benchmark"), SAMPLED),
    )


def plot(ratios):
    """A bar for each ratio, on a logarithmic scale."""
    largest = max(statistics.median(ratio.ratios) for ratio in ratios)
    bars = []
    for row, ratio in enumerate(ratios):
        middle, y = statistics.median(ratio.ratios), 34 + 26 * row
        width = 420 * np.log10(middle) / np.log10(largest)
        bars.append(
            f'<text x="8" y="{y + 13}">{ratio.what}</text><rect x="420" y="{y}" width="{width:.0f}" height="18"/>'
            f'<text x="{426 + width:.0f}" y="{y + 13}">{middle:.1f} x</text>'
        )
    height = 40 + 26 * len(ratios)
    title = "Times faster than the straightforward form (logarithmic)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="920" height="{height}" fill="white"/><text x="8" y="20" font-weight="bold">{title}</text>'
        f'<g fill="#1f6feb">{"".join(bars)}</g></svg>'
    ).replace('<text x="8"', '<text fill="#1c2430" x="8"')


if __name__ == "__main__":
    sys.exit(main())
