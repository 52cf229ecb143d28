"""Watch a search through its journal: answers, contenders with intervals, sequences under way, time left.

It only reads, so it can follow a run on another machine or in a cluster, through the run's store. Sequences are named
by the positions of their exemplars in the pool. If the run's artifacts are there too, as in the folder of `ease run`,
the texts of the best sequence are shown until the search is over. The report names the winner.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import shorten

from ease_lib.artifacts import contracts
from ease_lib.artifacts.store import Store, open_store
from ease_lib.artifacts.tables import read_exemplars
from ease_lib.cli.__main__ import printable
from ease_lib.errors import ConfigError, EaseError
from ease_lib.reporting.watch_page import watch_page
from ease_lib.running.graph import address
from ease_lib.search.watching import Watched, watched
from ease_lib.tasks.base import Exemplar

EXAMPLES = """examples:
  ease watch runs/tickets                    the --output-dir of a run
  ease watch s3://bucket/ease                its store_uri, wherever it runs
  ease watch runs/tickets --serve 8080       a page that refreshes itself, for this machine alone
"""
SHOWN_CHARACTERS = 70
SILENT_SECONDS = 60.0
"""Silence after which `ease watch` reports that no answer has come."""
ABOVE = "\x1b[{}A\x1b[J"
"""Moves the cursor up by so many lines, and clears the lines below."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for run, interval and port."""
    parser.add_argument("place", metavar="RUN", help="folder of a run, or its store_uri; a path or s3://")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="seconds between two looks (default: 2)"
    )
    parser.add_argument("--once", action="store_true", help="look once and exit")
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve a page on http://127.0.0.1:PORT")


def answer(parsed: argparse.Namespace) -> int:
    """Show the search until it has all its answers."""
    if parsed.every <= 0:
        raise ConfigError(f"--every {parsed.every:g} is not a time between two looks; use e.g. 2")
    store = store_of(parsed.place)
    if parsed.serve is not None:
        serve(lambda: watched(store), parsed.place, parsed.serve, parsed.every)
        return 0
    shown = 0
    while True:
        found = watched(store)
        text = text_of(found, datetime.now(UTC), best_of(found, parsed.place))
        if shown and sys.stdout.isatty():
            print(ABOVE.format(shown), end="")
        print(text, flush=True)
        shown = text.count("\n") + 1
        if parsed.once or (found and found.is_over):
            return 0
        time.sleep(parsed.every)


def store_of(place: str) -> Store:
    """The store of a run, named itself or by the folder of results that it lies in."""
    store = open_store(place)
    inner = store.below("store")
    return inner if inner.below("journals").walk_names() else store


def best_of(found: Watched | None, place: str) -> list[Exemplar]:
    """Exemplars of the best sequence so far; none after the end of the search, or without a pool there."""
    if not found or not found.contenders or found.is_over:
        return []
    kept = address("prefilter.kept")
    pools = [*Path(place).glob(kept), *Path(place).glob(f"pipeline/*/{kept}")]
    try:
        pool = read_exemplars(max(pools, key=lambda path: path.stat().st_mtime), contracts.EXEMPLAR_POOL)
        return [pool[position] for position in found.contenders[0].prompt[1]]
    except (ValueError, OSError, IndexError, EaseError):  # none; or of a run that has just begun
        return []


def text_of(found: Watched | None, now: datetime, best: Sequence[Exemplar] = ()) -> str:
    """The picture as text.

    Args:
        best: exemplars of the best sequence.
    """
    if found is None:
        return "no search has begun here yet"
    planned = "" if found.planned is None else f" of {found.planned}"
    left = "" if not found.left_seconds else f", about {found.left_seconds:.0f} s left"
    tokens = f" of {found.tokens} tokens" if found.tokens else ""
    lines = [f"{found.answers}{planned} answers, {found.sequences} sequences, {found.requests} requests{tokens}{left}"]
    if found.failures:
        lines.append(found.failures)
    for each in found.contenders:
        low, high = each.interval
        interval = f"({low:.2f} to {high:.2f}, {each.rows} rows)"
        lines.append(f"  {each.score:.3f} {interval:<28}{_prompt(*each.prompt)}")
    if best:
        shown = (f"  {number}. {_short(row.input)} → {_short(row.output)}" for number, row in enumerate(best, 1))
        lines += ["the best so far:", *shown]
    if found.under_way and not found.is_over:
        asked = "; ".join(f"{_prompt(*prompt)} on {rows or 'all'} rows" for prompt, rows in found.under_way[:3])
        more = f"; and {len(found.under_way) - 3} more" if len(found.under_way) > 3 else ""
        lines.append(f"asked now: {asked}{more}")
    silent = found.silent_seconds(now)
    if found.is_over:
        lines.append("the search has all its answers; the report names the winner")
    elif silent > SILENT_SECONDS:
        lines.append(f"no answer for {silent:.0f} s; the run has stopped or is waiting for its endpoint")
    return "\n".join(lines)


def _short(text: str) -> str:
    return shorten(printable(text), SHOWN_CHARACTERS, placeholder=" …")


def _prompt(instruction: int, sequence: tuple[int, ...]) -> str:
    begun = f"instruction {instruction}, " if instruction else ""
    return f"{begun}exemplars {' '.join(map(str, sequence))}" if sequence else f"{begun}no exemplars"


def serve(look: Callable[[], Watched | None], place: str, port: int, every: float) -> None:
    """Serve the page until Ctrl-C, on the loopback interface only.

    Raises:
        ConfigError: when the port is taken.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = look()
            content = watch_page(found, place, every, best_of(found, place)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *given: object) -> None:
            pass

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--serve {port}: {error}; choose another port") from error
    with server:
        print(f"http://127.0.0.1:{server.server_port}; press Ctrl-C to stop", flush=True)
        server.serve_forever()
