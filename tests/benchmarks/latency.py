"""How busy does a search keep an endpoint whose answers take 100 to 300 ms? `python -m tests.benchmarks.latency --help`

Runs the search stage in this process against a real HTTP endpoint with that latency. "Slots busy" is the mean number of
requests that the endpoint has under way, from the first request to the last, of the `--in-flight` it takes. "Same
history" compares with the same search without latency, whose answers come in another order.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
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
    ("adaptive", 8),
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
    values = {"evaluation_rows": ROWS, "method": method, "budget": arguments.budget, "parallel": parallel}
    search = searched(values, in_flight, mean, spread)
    evaluations = len(search.history)
    least = search.answers * mean / in_flight
    same = "yes" if search.history == searched(values, in_flight).history else "NO"
    seconds, busy = search.seconds, search.under_way
    return (
        f"| {method} | {parallel} | {evaluations} | {least:.0f} s | {seconds:.0f} s | {busy / in_flight:.1%} | {same} |"
    )


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A search that ended.

    Args:
        history: sequences with their scores, and the rows of each; answers: their number of rows in all.
        seconds: of the search, as its report says; stage_seconds: until its artifacts were written.
        under_way: requests that the endpoint had, in the mean.
    """

    history: list[tuple[object, ...]]
    answers: int
    seconds: float
    stage_seconds: float
    under_way: float


def searched(values: Mapping[str, object], in_flight: int, mean: float = 0.0, spread: float = 0.0) -> Searched:
    """Journal, cache and record on local files; a table of yes and no, of which the pool has a hundred rows."""
    with tempfile.TemporaryDirectory() as folder, endpoint(mean, spread) as served:
        at = Workspace(Path(folder))
        table = Path(folder, "questions.csv")
        table.write_text("question,answer\n" + "".join(f"question {n},{('yes', 'no')[n % 2]}\n" for n in range(220)))
        parameters = parse_parameters(
            {
                "task": "table",
                "task_uri": str(table),
                "input_columns": "question",
                "output_column": "answer",
                "pool_size": 100,
                "validation_size": 100,
                "test_size": 20,
                "store_uri": f"{folder}/store",
                "llm_base_url": served.url,
                "llm_model": MODEL,
                "llm_concurrency": in_flight,
                "max_zero_answers": 0,
                **values,
            }
        )
        run_stages(at, parameters, *modules_between("", "optimize"))
        begun = time.perf_counter()
        run_stages(at, parameters, optimize)
        stage_seconds = time.perf_counter() - begun
        summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
        rows = read_table(Path(at.history), contracts.HISTORY).to_pylist()
    return Searched(
        history=[(row["exemplar_ids"], row["score"], row["row_ids"]) for row in rows],
        answers=sum(len(row["row_ids"]) for row in rows),
        seconds=summary["seconds"]["total"],
        stage_seconds=stage_seconds,
        under_way=served.mean_under_way,
    )


if __name__ == "__main__":
    sys.exit(main())
