"""List runs and comparisons below a folder or s3:// prefix, the newest first, with their subjects and results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ease_lib.cli.__main__ import printable
from ease_lib.errors import ConfigError
from ease_lib.lineage.runs import FAILED, RUN, RunEntry, listed
from ease_lib.reporting.runs_page import runs_page
from ease_lib.words import cut

EXAMPLES = """examples:
  ease list                                  all below runs/
  ease list s3://bucket/ease --json          a cluster's store_uri, as JSON
  ease list runs --page runs.html            a page with a link to each
"""
HEAD = ("started", "state", "task", "method", "model", "test", "over random (95 %)", "expected", "requests", "USD", "")
LONGEST = 28
"""Maximum width of a table cell, in characters."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for place and form."""
    parser.add_argument("place", metavar="PLACE", nargs="?", default="runs", help="folder or s3:// (default: runs)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON with all fields in full")
    form.add_argument("--page", metavar="FILE", help="write a page with links in place of the table")


def answer(parsed: argparse.Namespace) -> int:
    """Print the table, or write the requested file."""
    found = listed(parsed.place)
    if parsed.json:
        print(json.dumps([asdict(each) for each in found], indent=1, ensure_ascii=False))
    elif parsed.page:
        try:
            Path(parsed.page).write_text(runs_page(found), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--page {parsed.page}: {error.strerror}; name a file in a folder that exists") from error
        print(parsed.page)
    else:
        print(table([HEAD, *map(cells_of, found)]))
        for each in found:
            if each.state == FAILED:
                print(f"\n{each.started[:16].replace('T', ' ')} {each.task}: {in_one_line(each.reason)}")
    return 0


def cells_of(entry: RunEntry) -> tuple[str, ...]:
    """A row of the table; scores have two digits, as the eye compares them."""
    gain = "{:+.0f} ({:+.0f} to {:+.0f})".format(*(100 * each for each in entry.gain)) if entry.gain else ""
    test, expected = ("" if score is None else f"{score:.2f}" for score in (entry.test, entry.expected))
    started = " ".join(filter(None, (entry.started[:16].replace("T", " "), entry.kind * (entry.kind != RUN))))
    cost = f"{entry.cost_usd:.2f}" if entry.cost_usd else ""
    named = (cut(in_one_line(text), LONGEST) for text in (entry.task, entry.method, entry.model))
    where = in_one_line(entry.page or entry.place)
    return (started, entry.state, *named, test, gain, expected, str(entry.requests or ""), cost, where)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the last one as long as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def in_one_line(text: str) -> str:
    return " ".join(printable(text).split())
