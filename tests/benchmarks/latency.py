"""How busy does a search keep an endpoint whose answers take 100 to 300 ms? `python -m tests.benchmarks.latency --help`

Runs the search stage in this process against a real HTTP endpoint with that latency. "Slots busy" is the mean number of
requests that the endpoint has under way, from the first request to the last, of the `--in-flight` it takes. "Same
history" compares with the same search without latency, whose answers come in another order.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from tests.benchmarks.endpoint import MODEL, endpoint
from tests.support.runs import run_stages

SETTINGS = (
    *((method, 1) for method in ("best_of_n", "influence", "cosine", "bm25", "active", "evolution", "ease")),
    *((method, 16) for method in ("active", "evolution", "ease")),
)
"""Methods, with `parallel`."""
ROWS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=165, help="evaluations (default: 165)")
    parser.add_argument("--latency-seconds", type=float, default=0.2, help="mean (default: 0.2)")
    parser.add_argument("--spread-seconds", type=float, default=0.1, help="to either side (default: 0.1)")
    parser.add_argument("--in-flight", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=sorted({method for method, _ in SETTINGS}))
    arguments = parser.parse_args()
    print("| Method | parallel | evaluations | the endpoint alone | the search | slots busy | same history |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for method, parallel in SETTINGS:
        if method in arguments.methods:
            print(measured(method, parallel, arguments), flush=True)
    return 0


def measured(method: str, parallel: int, arguments: argparse.Namespace) -> str:
    """A row of the table."""
    mean, spread, in_flight = arguments.latency_seconds, arguments.spread_seconds, arguments.in_flight
    history, seconds, busy = searched(method, parallel, arguments.budget, in_flight, mean, spread)
    at_once, *_ = searched(method, parallel, arguments.budget, in_flight, 0.0, 0.0)
    least = len(history) * ROWS * mean / in_flight
    same = "yes" if history == at_once else "NO"
    evaluations = len(history)
    return (
        f"| {method} | {parallel} | {evaluations} | {least:.0f} s | {seconds:.0f} s | {busy / in_flight:.1%} | {same} |"
    )


def searched(
    method: str, parallel: int, budget: int, in_flight: int, mean: float, spread: float
) -> tuple[list[tuple[object, object]], float, float]:
    """Sequences with their scores, the seconds of the search, and the requests that the endpoint had under way.

    With the paper's sizes, journal and cache on local files.
    """
    with tempfile.TemporaryDirectory() as folder, endpoint(mean, spread) as served:
        at = Workspace(Path(folder))
        table = Path(folder, "questions.csv")
        table.write_text("question,answer\n" + "".join(f"question {n},{('yes', 'no')[n % 2]}\n" for n in range(200)))
        parameters = parse_parameters(
            {
                **{"task": "table", "task_uri": str(table), "input_columns": "question", "output_column": "answer"},
                **{"validation_size": ROWS, "store_uri": at.store},
                **{"llm_base_url": served.url, "llm_model": MODEL, "llm_concurrency": in_flight},
                **{"method": method, "budget": budget, "parallel": parallel},
            }
        )
        run_stages(at, parameters, *modules_between("", "optimize"), optimize)
        summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
        table = read_table(Path(at.history), contracts.HISTORY)
        history = [(row["exemplar_ids"], row["score"]) for row in table.to_pylist()]
    return history, summary["seconds"]["total"], served.mean_under_way


if __name__ == "__main__":
    sys.exit(main())
