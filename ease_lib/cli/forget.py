"""The command `ease forget`; its help is that of `deletion/forgetting.py`."""

from __future__ import annotations

import argparse
import shlex

from ease_lib.lineage.attestation import signer
from ease_lib.lineage.chain import LATEST_FILE
from ease_lib.lineage.deletion import forgetting
from ease_lib.lineage.deletion.row_query import RowName
from ease_lib.running.bar import counting

__doc__ = forgetting.__doc__
EXAMPLES = """examples:
  ease forget --row "You lost my parcel" --in runs/demo                       list what holds it, change nothing
  ease forget --row "You lost my parcel" --in runs/demo --remove --reason "request 17"
  ease forget --where customer=C045 --in tickets.csv --in runs/tickets --remove
  ease forget --row 5c8822d2... --in s3://data/pools --in s3://prompts/feedback --root s3://audit/lineage
Files of runs, stores and published versions are deleted whole. Your own tables are listed with their lines; edit them
yourself. Afterwards run the commands that it prints, one for each affected run: they repeat the search without the row,
even if the task's data still has it. If the deletion was killed, the same command continues it.
Exit codes: 0 done, 2 an error, 3 done, but some listed items remain
"""


def add_options(forget: argparse.ArgumentParser) -> None:
    """Add the options for rows and places, and `--remove`."""
    which = forget.add_mutually_exclusive_group(required=True)
    text = "input text of the row, one of the cells that form it, or the SHA-256 of the input text"
    which.add_argument("--row", metavar="TEXT|HASH", help=text)
    condition = "rows with this value in a column of a table there, or of a table that a run there read"
    which.add_argument("--where", metavar="COLUMN=VALUE", help=condition)
    place = "folder, file or s3:// to search; may be repeated"
    forget.add_argument("--in", dest="places", action="append", required=True, metavar="PLACE", help=place)
    forget.add_argument(
        "--remove",
        action="store_true",
        help="delete the files of EASE that hold it; without this option nothing is changed",
    )
    forget.add_argument(
        "--reason", default="", help="reason to record in the tombstone, e.g. the number of the request"
    )
    root = "another lineage root for the tombstone (default: only those of the affected runs)"
    forget.add_argument("--root", default="", metavar="URI", help=root)


EXIT_LEFT = 3


def answer(parsed: argparse.Namespace) -> int:
    """List the files that hold the rows; with --remove delete them, read every file again, and print the next steps."""
    asked = RowName.where(parsed.where) if parsed.where else RowName.of(parsed.row)
    rows = forgetting.rows_asked_for(parsed.places, asked)
    with counting("searching") as told:
        removal = forgetting.plan(parsed.places, rows, root=parsed.root, progress=told)
    _print_found(removal, parsed.places)
    if not any(query.texts for query in rows):
        print("notice: only the hash is known, so files that quote the text within other text are not listed")
    if not parsed.remove:
        for line in removal.left:
            print(f"notice: left alone: {line}")
        if removal.is_needed:
            print("nothing was changed; add --remove to delete it")
        return 0
    left = removal.left
    if removal.is_needed:
        for tombstone in removal.carry_out(parsed.reason, signer()):
            print(f"deleted; tombstone {tombstone}")
        after = forgetting.plan(parsed.places, rows, root=parsed.root)
        left = [f"{holder.uri}, written in the meantime; run this again" for holder in after.holders] + after.left
    else:
        print("nothing had to be deleted")
    for line in left:
        print(f"notice: still there: {line}")
    for command, runs in forgetting.search_commands(removal).items():
        print(f"search again without the row, like run {', '.join(runs)}:\n{command}")
    return EXIT_LEFT if left or forgetting.not_searched(removal, parsed.places) else 0


def _print_found(removal: forgetting.Removal, places: list[str]) -> None:
    """Print the files that hold the rows, what happens to latest.json, and what stays."""
    for holder in removal.holders:
        what = f"{holder.answers} {'answer' if holder.answers == 1 else 'answers'} of" if holder.answers else "file"
        print(f"{what} {holder.uri}")
    for store, move in removal.publications:
        becomes = f"will name {move.version}" if move.version else "will go: every version with a prompt holds the row"
        print(f"latest: {store.address(LATEST_FILE)} {becomes}")
    for where, tombstone in removal.begun:
        print(f"begun {tombstone.when} and unfinished: {where}/{tombstone.name}; --remove continues it")
    print(f"{len(removal.holders)} files and objects of runs and stores hold row {', '.join(sorted(removal.rows))}")
    for source in forgetting.not_searched(removal, places):
        print(f"notice: not searched: {source}; add --in {shlex.quote(source)} to see whether the row is there too")
