"""Where does the time of a search go when every request takes 200 ms? `python -m tests.benchmarks.latency --help`

Runs the search stage in this process against a real HTTP endpoint with that latency, and prints the time split of the
report: waiting for the endpoint, and our own work. "The endpoint alone" is requests x latency / requests in flight.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import modules_between
from ease_lib.running.one_process import Artifacts
from ease_lib.simulation.in_context_learner import answer
from ease_lib.stages import optimize
from ease_lib.testing.faulty_endpoint import faulty_endpoint

SETTINGS = ({"parallel": 1, "llm_concurrency": 1}, {"parallel": 8, "llm_concurrency": 8})
"""The endpoint takes one request at a time for each sequence, as a rate-limited account does."""
ROWS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=40, help="evaluations (default: 40)")
    parser.add_argument("--initial-design", type=int, default=8, help="of them at random (default: 8)")
    parser.add_argument("--latency-seconds", type=float, default=0.2)
    parser.add_argument("--methods", nargs="+", default=["best_of_n", "ease"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| Method | parallel | the endpoint alone | the search | waiting for the endpoint | our own |")
    print("|---|--:|--:|--:|--:|--:|")
    for method in arguments.methods:
        for settings in SETTINGS:
            seconds = measure(arguments, {"method": method, **settings})
            total, waiting = seconds["total"], seconds["llm"]
            least = arguments.budget * ROWS * arguments.latency_seconds / settings["llm_concurrency"]
            print(
                f"| {method} | {settings['parallel']} | {least:.0f} s | {total:.0f} s "
                f"| {waiting / total:.1%} | {1 - waiting / total:.1%} |",
                flush=True,
            )
    return 0


def measure(arguments: argparse.Namespace, settings: dict[str, object]) -> dict[str, float]:
    """The time split of one search with the paper's sizes, journal and cache on local files."""
    with (
        tempfile.TemporaryDirectory() as folder,
        faulty_endpoint(answer, latency_seconds=arguments.latency_seconds) as endpoint,
    ):
        at = Artifacts(Path(folder))
        parameters = parse_parameters(
            {
                **{"task": "lr", "noise_ratio": 0.5, "llm_base_url": endpoint.base_url, "store_uri": at.store},
                **{"validation_size": ROWS, "budget": arguments.budget, "initial_design": arguments.initial_design},
                **settings,
            }
        )
        at.run(parameters, *modules_between("", "optimize"), optimize)
        summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
    if summary["evaluations"] != arguments.budget:
        raise RuntimeError(f"stopped after {summary['evaluations']} evaluations: {summary['stopped']}")
    return summary["seconds"]


if __name__ == "__main__":
    sys.exit(main())
