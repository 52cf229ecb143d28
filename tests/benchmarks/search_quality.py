"""How good is the sequence that each method ends with? `python -m tests.benchmarks.search_quality`

Searches in worlds whose true scores are known (`tests/worlds`): parametric ones, and ones fitted to what the local LLM
answered. Each seed is another draw of the world, in which all methods search. Printed are the true score of the winner
of the first method, and how much better than that each other method's is, in points, with the standard error over
seeds. EASE samples 400 candidates here, where the paper has 50 000.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product

import numpy as np

from ease_lib.config.methods import METHODS
from tests.worlds.named import NAMES, world
from tests.worlds.search import Found, search

METHODS_COMPARED = ("best_of_n", "ease", "capo", "halving", "adaptive")
Search = tuple[str, int, str, int]
"""World, answers, method and seed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=NAMES, default=NAMES)
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
            searches = product(arguments.worlds, [answers], arguments.methods, seeds)
            for line in table(processes.map(searched, searches), arguments.worlds, answers, arguments.methods, seeds):
                print(line, flush=True)
    return 0


def searched(made: Search) -> Found:
    name, answers, method, seed = made
    return search(world(name, seed), method, answers, seed)


def about_worlds(names: Sequence[str], seeds: range) -> str:
    """Best possible scores in each world."""
    lines = ["| World | random sequence of five | best single exemplar | best sequence | prompt-specific variance |"]
    lines.append("|---|--:|--:|--:|--:|")
    for name in names:
        drawn = [world(name, seed) for seed in seeds[:10]]
        values = [np.mean([getattr(each, of) for each in drawn]) for of in ("random_score", "best_single", "best")]
        shares = np.mean([each.own_share for each in drawn])
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} | {100 * shares:.0f} % |")
    return "\n".join(lines) + "\n"


def table(
    found: Iterator[Found], names: Sequence[str], answers: int, methods: Sequence[str], seeds: range
) -> Iterator[str]:
    """The lines, each as soon as its world's searches have ended; these come by world, then method, then seed."""
    first, *others = methods
    yield f"| {answers} answers | {first} | {' | '.join(f'{method} − {first}' for method in others)} |"
    yield "|---|--:|" + "--:|" * len(others)
    seconds = []
    for name in names:
        of_methods = [list(islice(found, len(seeds))) for _ in methods]
        scores = np.array([[search.score for search in of_method] for of_method in of_methods])
        gains = 100 * (scores[1:] - scores[0])
        cells = [f"{gain.mean():+.1f} ± {gain.std(ddof=1) / len(seeds) ** 0.5:.1f}" for gain in gains]
        yield f"| {name} | {scores[0].mean():.3f} | {' | '.join(cells)} |"
        seconds.append([np.mean([search.seconds for search in of_method]) for of_method in of_methods])
    yield f"| *own seconds* | {' | '.join(f'{of_method:.1f}' for of_method in np.mean(seconds, axis=0))} |\n"


if __name__ == "__main__":
    raise SystemExit(main())
