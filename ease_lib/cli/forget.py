"""The command `ease forget`; its help is that of `deletion/forgetting.py`."""

from __future__ import annotations

import argparse
import shlex

from ease_lib.lineage.attestation import signer
from ease_lib.lineage.chain import LATEST_FILE
from ease_lib.lineage.deletion import forgetting
from ease_lib.lineage.publishing import versions as finding

__doc__ = forgetting.__doc__
EXAMPLES = """examples:
  ease forget --row "You lost my parcel" --in runs/demo                       list what holds it, remove nothing
  ease forget --row "You lost my parcel" --in runs/demo --remove --reason "request 17"
  ease forget --row 5c8822d2... --in s3://data/pools --in s3://prompts/feedback --root s3://audit/lineage
afterwards run the commands that it prints, one for each run that is affected: the same search without the row, also
while the task's own data still has it. Stopped or killed, the same command continues; exit codes: 0 done, 2 an error
"""


def add_options(forget: argparse.ArgumentParser) -> None:
    """Which row, where, and whether it goes."""
    forget.add_argument("--row", required=True, metavar="TEXT|HASH", help="input text of the row, or the SHA-256 of it")
    place = "folder, file or s3:// to search, whatever lies there; may be repeated"
    forget.add_argument("--in", dest="places", action="append", required=True, metavar="PLACE", help=place)
    forget.add_argument("--remove", action="store_true", help="remove it; without this nothing is changed")
    forget.add_argument("--reason", default="", help="kept in the tombstone, e.g. the number of the request")
    root = "another lineage root for the tombstone (default: only those of the runs that are affected)"
    forget.add_argument("--root", default="", metavar="URI", help=root)


def answer(parsed: argparse.Namespace) -> int:
    """List what holds the row; with --remove, remove it and say what to do next."""
    row = finding.as_row_hash(parsed.row)
    text = "" if parsed.row == row else parsed.row
    removal = forgetting.plan(parsed.places, row, text=text, root=parsed.root)
    _print_found(removal, parsed.places)
    if not text:
        print("notice: only the hash is known, so what quotes the text within other text is not listed")
    if parsed.remove and not removal.is_needed:
        print("nothing had to be removed")
    if removal.is_needed and not parsed.remove:
        print("nothing was changed; --remove removes it")
    if not (removal.is_needed and parsed.remove):
        return 0
    key = signer()  # a damaged one is an error before anything is removed
    again = forgetting.search_commands(removal)
    for tombstone in removal.carry_out(parsed.reason, key):
        print(f"removed; tombstone {tombstone}")
    for command, runs in again.items():
        print(f"search again without it, as run {', '.join(runs)}:\n{command}")
    return 0


def _print_found(removal: forgetting.Removal, places: list[str]) -> None:
    """What holds a row, what happens to latest.json, and what stays."""
    for holder in removal.holders:
        rows = f", {holder.rows} {'row' if holder.rows == 1 else 'rows'}" if holder.rows else ", the whole file"
        print(f"{holder.kind}{rows}: {holder.uri}")
    for store, move in removal.publications:
        becomes = f"names {move.version} then" if move.version else "goes: no version without the row has a prompt"
        print(f"latest: {store.address(LATEST_FILE)} {becomes}")
    for where, tombstone in removal.begun:
        print(f"begun {tombstone.when} and not ended: {where}/{tombstone.name}; --remove continues it")
    print(f"{len(removal.holders)} files and objects hold row {removal.row}")
    for line in removal.quoting:
        print(f"notice: left alone, {line}")
    for source in forgetting.not_searched(removal, places):
        print(f"notice: not searched: {source}; add --in {shlex.quote(source)} if the row has to go there too")
