"""How long does a search take by itself? `python -m tests.benchmarks.whole_search`

Each line is a whole search stage against an endpoint that answers at once: reading its inputs, the search with journal,
cache and record on local files, and the artifacts. "Stage" is what a user waits for, "search" what the report calls the
seconds of the search, "plain aiohttp" how long that takes for as many requests of the same size, and the last column
tells histories apart. Run it on an idle machine; the endpoint takes a core of its own.
"""

import argparse
import hashlib
import json
import sys

from tests.benchmarks.client import measured
from tests.benchmarks.endpoint import endpoint
from tests.benchmarks.latency import ROWS, searched

SEARCHES = (
    *(("adaptive", answers) for answers in (1_000, 3_300)),
    *(("capo", answers) for answers in (1_000, 3_300)),
    *(("ease", answers) for answers in (1_000, 3_300)),
    ("best_of_n", 20_000),
)
BY_EVALUATIONS = ("best_of_n", "ease")
"""Methods that ask the same rows of every sequence; the others are asked all hundred by choice."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=sorted({method for method, _ in SEARCHES}))
    arguments = parser.parse_args()
    print("| Method | answers | stage | search | plain aiohttp | answers a second | history |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for method, answers in SEARCHES:
        if method in arguments.methods:
            print(line(method, answers, arguments.in_flight), flush=True)
    return 0


def line(method: str, answers: int, in_flight: int) -> str:
    rows = {"evaluation_rows": ROWS} if method in BY_EVALUATIONS else {}
    values = {"method": method, "budget": answers // ROWS, **rows}
    search = searched(values, in_flight)
    with endpoint() as served:
        plain = answers / measured("plain aiohttp", served.url, "", in_flight, answers)
    digest = hashlib.sha256(json.dumps(search.history).encode()).hexdigest()[:12]
    return (
        f"| {method} | {answers} | {search.stage_seconds:.1f} s | {search.seconds:.1f} s | {plain:.1f} s "
        f"| {answers / search.seconds:.0f} | {digest} |"
    )


if __name__ == "__main__":
    sys.exit(main())
