"""What does a GPU change? `python -m tests.benchmarks.gpu`

Everything that `device` decides, on this machine's CPU and on its GPU by turns: embedding, training the surrogate,
NeuralUCB, a whole iteration of EASE, in the default representation and in the paper's, which embeds every shortlisted
sequence; how far the numbers of the two are apart; and a whole search on each. Tasks of Instruction Induction are taken
from `--data` if it is given.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch

import ease_lib
from ease_lib.embedding.models import BFLOAT16, BUNDLED, FLOAT32, SentenceEmbedder, load_embedder
from ease_lib.search.candidates.optimal_transport import shortlist
from ease_lib.search.surrogate.network import ScoreNetwork
from ease_lib.search.surrogate.neural_ucb import Acquisition
from ease_lib.search.surrogate.representations import PositionalRepresentation, Representation, SequenceRepresentation
from ease_lib.seeding import rng
from tests.benchmarks.embedding import WORDS
from tests.benchmarks.search_step import KEPT, NU, RIDGE, SEED, TASKS, Task, load

DEVICES = ("cpu", "cuda")
SEARCH = {
    "task": "lr",
    "noise_ratio": 0.1,
    "method": "ease",
    "budget": 80,
    "initial_design": 40,
    "test_size": 50,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder in the Instruction Induction format; without it LR only")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default: 3)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here", file=sys.stderr)
        return 2
    print(f"{torch.get_num_threads()} CPU threads, {torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| | CPU | GPU | times faster | difference |\n|---|--:|--:|--:|---|")
    for words, count in ((12, 2000), (90, 400)):
        texts = [" ".join(row) for row in rng(SEED, "texts", words).choice(WORDS, (count, words))]
        for precision in (FLOAT32, BFLOAT16):
            what = f"embedding {count} texts of {words} words, {precision} on the GPU"
            line(what, partial(embedded, texts, precision), arguments.rounds, least_cosine)
    for name in [name for name in ("LR", "AG News") if arguments.data or name == "LR"]:
        task = load(TASKS[name], arguments.data)
        if name == "LR":
            parts(task, arguments.rounds)
        line(f"iteration, {name}", partial(iteration, task), arguments.rounds, best_first)
        line(f"iteration as in the paper, {name}", partial(iteration_of_the_paper, task), 1, best_first)
    whole_searches()
    return 0


def line(
    what: str, on: Callable[[str], np.ndarray], rounds: int, apart: Callable[[np.ndarray, np.ndarray], str]
) -> None:
    """Times of both devices, measured by turns, as a line of the table."""
    seconds: dict[str, list[float]] = {device: [] for device in DEVICES}
    results = [on(device) for device in DEVICES]  # neither is charged for imports and first allocations
    for _ in range(rounds):
        for device, taken in seconds.items():
            start = time.perf_counter()
            on(device)
            taken.append(time.perf_counter() - start)
    cpu, gpu = (statistics.median(seconds[device]) for device in DEVICES)
    print(f"| {what} | {cpu:.3f} s | {gpu:.3f} s | {cpu / gpu:.1f} | {apart(*results)} |", flush=True)


def embedder_on(device: str, precision: str = BFLOAT16) -> SentenceEmbedder:
    """Embedder in float32 on the CPU, whose own bfloat16 `tests.benchmarks.embedding` measures."""
    return load_embedder(BUNDLED, device, precision if device == "cuda" else FLOAT32)


def embedded(texts: list[str], precision: str, device: str) -> np.ndarray:
    return embedder_on(device, precision).embed(texts)


def least_cosine(left: np.ndarray, right: np.ndarray) -> str:
    return f"least cosine {(left * right).sum(axis=1).min():.5f}"


def largest_difference(left: np.ndarray, right: np.ndarray) -> str:
    return f"at most {np.abs(left - right).max():.1e}"


def best_first(left: np.ndarray, right: np.ndarray) -> str:
    """How far the values are apart, and whether both devices would evaluate the same sequence next."""
    same = "same" if left.argmax() == right.argmax() else "another"
    return f"{largest_difference(left, right)}, {same} sequence chosen"


def parts(task: Task, rounds: int) -> None:
    represent = PositionalRepresentation(task.pool, task.outputs)
    candidates = represent(task.sampled[:KEPT])
    for observations in (40, 165, 1000):
        seen, scores = represent(task.sampled[-observations:]), rng(SEED, "scores").random(observations)
        networks = {device: ScoreNetwork(seen.shape[1], seed=SEED, device=device) for device in DEVICES}
        training = partial(trained, networks, seen, scores, candidates)
        line(f"training, {observations} observations", training, rounds, largest_difference)
        acquisition = partial(valued, networks, seen, candidates)
        line(f"acquisition of 1 000, {observations} observations", acquisition, rounds, largest_difference)


def trained(
    networks: Mapping[str, ScoreNetwork], seen: np.ndarray, scores: np.ndarray, candidates: np.ndarray, device: str
) -> np.ndarray:
    networks[device].fit(seen, scores, ridge=RIDGE)
    return networks[device].predict(candidates).cpu().numpy()


def valued(networks: Mapping[str, ScoreNetwork], seen: np.ndarray, candidates: np.ndarray, device: str) -> np.ndarray:
    return Acquisition(networks[device], seen, nu=NU, ridge=RIDGE)(candidates)


def iteration(task: Task, device: str) -> np.ndarray:
    """Compute shortlist, training and NeuralUCB at 100 observations; returns the values of the shortlist."""
    kept = task.sampled[shortlist(task.sampled, task.cost, KEPT).positions]
    return valued_by(PositionalRepresentation(task.pool, task.outputs), task, kept, device)


def iteration_of_the_paper(task: Task, device: str) -> np.ndarray:
    """The same with each shortlisted sequence embedded as a whole."""
    kept = task.sampled[shortlist(task.sampled, task.cost, KEPT).positions]
    return valued_by(SequenceRepresentation(embedder_on(device), task.texts), task, kept, device)


def valued_by(represent: Representation, task: Task, kept: np.ndarray, device: str) -> np.ndarray:
    observed, scores = represent(task.sampled[-100:]), rng(SEED, "scores").random(100)
    networks = {device: ScoreNetwork(observed.shape[1], seed=SEED, device=device)}
    networks[device].fit(observed, scores, ridge=RIDGE)
    return valued(networks, observed, represent(kept), device)


def whole_searches() -> None:
    """EASE on each device with the simulated LLM, which answers at once; in its default and in the paper's way."""
    print("\n| search | device | seconds | test score | sequences evaluated by both |\n|---|---|--:|--:|--:|")
    for representation in ("auto", "sequence"):
        evaluated = []
        for device in DEVICES:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                found = ease_lib.optimize(
                    None,
                    "python:tests.simulation.models:in_context_learner",
                    progress=False,
                    output_dir=folder,
                    representation=representation,
                    device=device,
                    **SEARCH,
                )
                seconds = time.perf_counter() - start
            evaluated.append({str(entry["exemplar_ids"]) for entry in found.history})
            both = f"{len(evaluated[0] & evaluated[1])} of {len(found.history)}" if len(evaluated) > 1 else ""
            print(f"| {representation} | {device} | {seconds:.0f} | {found.test_score:.3f} | {both} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
