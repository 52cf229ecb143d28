"""How good is the sequence that each method ends with? `python -m tests.benchmarks.search_quality`

Searches in worlds whose true scores are known (`tests/worlds`): parametric ones, and ones fitted to what the local LLM
answered. Each seed is another draw of the world, in which all methods search. Printed are the true score of the winner
of the first method, and how much better than that each other method's is, in points, with the standard error over
seeds. EASE samples a tenth of the paper's candidates here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

from ease_lib.config.methods import METHODS
from tests.worlds.search import Found, search
from tests.worlds.world import KINDS, recorded_names, world

METHODS_COMPARED = ("best_of_n", "ease", "capo", "halving", "adaptive")
Search = tuple[str, int, str, int]
"""World, answers, method and seed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*KINDS, *recorded_names()]
    parser.add_argument("--worlds", nargs="+", choices=names, default=names)
    parser.add_argument("--answers", type=int, nargs="+", default=[800, 1500, 3300])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS_COMPARED)
    parser.add_argument("--seeds", type=int, default=30, help="draws of each world (default: 30)")
    parser.add_argument("--processes", type=int, default=2, help="at once (default: 2)")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    seeds = range(arguments.seeds)
    print(about_worlds(arguments.worlds, seeds), flush=True)
    with ProcessPoolExecutor(arguments.processes) as processes:
        for answers in arguments.answers:
            searches = list(product(arguments.worlds, [answers], arguments.methods, seeds))
            found = dict(zip(searches, processes.map(searched, searches), strict=True))
            print(table(found, arguments.worlds, answers, arguments.methods, seeds), flush=True)
    return 0


def searched(made: Search) -> Found:
    name, answers, method, seed = made
    return search(world(name, seed), method, answers, seed)


def about_worlds(names: Sequence[str], seeds: range) -> str:
    """What can be found in each."""
    lines = ["| World | random sequence of five | best single exemplar | best sequence | variance that is own |"]
    lines.append("|---|--:|--:|--:|--:|")
    for name in names:
        drawn = [world(name, seed) for seed in seeds[:10]]
        values = [np.mean([getattr(each, of) for each in drawn]) for of in ("random_score", "best_single", "best")]
        shares = np.mean([each.spreads["own"] ** 2 / each.variance for each in drawn])
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} | {100 * shares:.0f} % |")
    return "\n".join(lines) + "\n"


def table(found: dict[Search, Found], names: Sequence[str], answers: int, methods: Sequence[str], seeds: range) -> str:
    first, *others = methods
    lines = [f"| {answers} answers | {first} | {' | '.join(f'{method} less that' for method in others)} |"]
    lines.append("|---|--:|" + "--:|" * len(others))
    for name in names:
        scores = {method: np.array([found[name, answers, method, seed].score for seed in seeds]) for method in methods}
        gains = (100 * (scores[method] - scores[first]) for method in others)
        cells = [f"{gain.mean():+.1f} ± {gain.std(ddof=1) / len(seeds) ** 0.5:.1f}" for gain in gains]
        lines.append(f"| {name} | {scores[first].mean():.3f} | {' | '.join(cells)} |")
    seconds = {
        method: np.mean([found[name, answers, method, seed].seconds for name in names for seed in seeds])
        for method in methods
    }
    lines.append(f"| *own seconds* | {seconds[first]:.1f} | {' | '.join(f'{seconds[each]:.1f}' for each in others)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
