"""Show where a prompt comes from, by the records of every stage, from the published prompt back to the raw rows.

PLACE can be the output folder of a run, the folder or s3:// of published prompts or of one version, a
run's folder among Kubeflow's artifacts, or a lineage root (lineage_uri, or lineage/ in store_uri; with --run ID for one
run of several). You need read access only, and no cluster.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import open_store
from ease_lib.cli.__main__ import printable
from ease_lib.digests import sha256_of
from ease_lib.errors import ConfigError
from ease_lib.lineage import faults
from ease_lib.lineage.attestation import read_public_key
from ease_lib.lineage.chain import follow
from ease_lib.lineage.deletion.tombstones import STAGE
from ease_lib.lineage.difference import difference, difference_text, rerun_commands
from ease_lib.lineage.explanation import explain
from ease_lib.lineage.exports.slsa import exports_of
from ease_lib.lineage.publishing import versions as finding
from ease_lib.lineage.verification import verify_place
from ease_lib.reporting.lineage_tree import difference_page, show_page, show_text
from ease_lib.running.bar import counting

EXIT_FAULT = 3
"""Exit code of `verify` if something differs from what was recorded or signed."""
EXIT_UNSIGNED = 4
"""Exit code of `verify --require-signature` if nothing is wrong but a signature is missing."""
EXAMPLES = """examples:
  ease lineage show runs/demo                       the chain as a tree; --page FILE writes it as HTML
  ease lineage verify s3://prompts/feedback         recompute every digest behind the latest published prompt
  ease lineage explain runs/demo                    which rows, which noise, which iteration, and why
  ease lineage diff runs/monday runs/tuesday        what differs, and therefore why the prompt changed;
                                                    --page FILE shows the prompts side by side
  ease lineage find s3://prompts/feedback --row "You lost my parcel"
  ease lineage rerun runs/demo                      the command that gives the same history again, from the cache
"""


def add_options(lineage: argparse.ArgumentParser) -> None:
    """Add the questions of `ease lineage`, each with its options."""
    questions = lineage.add_subparsers(metavar="QUESTION", required=True)
    show = _question(questions, "show", _show, "show the chain from the prompt to the raw data, as a tree or a page")
    show.add_argument("--page", metavar="FILE", help="write an HTML page instead")
    show.add_argument("--json", action="store_true", help="print the records themselves")
    recompute = "recompute every digest and check signatures; exit code 3 if something differs"
    verifying = _question(questions, "verify", _verify, recompute)
    verifying.add_argument("--all", action="store_true", help="check every published version, not only the latest")
    key = "public key to accept signatures from, with @SINCE..UNTIL for signatures of that time; may be repeated"
    verifying.add_argument("--public-key", dest="keys", action="append", default=[], metavar="FILE[@TIMES]", help=key)
    required = "exit with code 4 if nothing is wrong but something is not signed"
    verifying.add_argument("--require-signature", action="store_true", help=required)
    moved = "folder where signed files lay before you moved them, since signatures name their folder; may be repeated"
    verifying.add_argument("--moved-from", action="append", default=[], metavar="FOLDER", help=moved)
    plain = "explain in plain words: data, noise, prefilter, search, test, publication"
    _question(questions, "explain", lambda parsed: printable(explain(follow(parsed.place, parsed.run))), plain)
    again = "print the commands that reproduce the history"
    _question(questions, "rerun", lambda parsed: rerun_commands(follow(parsed.place, parsed.run)), again)
    export = _question(
        questions, "export", _export, "write provenance (SLSA), events (OpenLineage) or the data set (Croissant)"
    )
    export.add_argument("--to", default=".", metavar="FOLDER", help="folder to write to (default: here)")
    diff = _question(questions, "diff", _diff, "show what differs between two runs, and so why the prompt changed")
    diff.add_argument("other", metavar="PLACE", help="the other run")
    diff.add_argument("--page", metavar="FILE", help="write an HTML page instead, the two prompts side by side")
    find = _question(questions, "find", _find, "list the published versions that hold a row, or a prompt", run=False)
    wanted = find.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--row", metavar="TEXT|HASH", help="input text of the row, or its SHA-256")
    wanted.add_argument("--prompt", metavar="FILE", help="a prompt.txt")
    _question(
        questions, "index", _index, "write the marks that `find` needs, for versions copied without them", run=False
    )


def _question(
    questions: Any, name: str, answer: Callable[[argparse.Namespace], str | int], text: str, *, run: bool = True
) -> argparse.ArgumentParser:
    """A subcommand, whose function returns a text, or an exit code after printing."""
    sentence = f"{text[:1].upper()}{text[1:]}."
    parser: argparse.ArgumentParser = questions.add_parser(name, help=text, description=sentence)
    parser.add_argument("place", metavar="PLACE", help="see ease lineage --help")
    if run:
        parser.add_argument("--run", default="", metavar="ID", help="which of several runs there (default: the newest)")
    parser.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.set_defaults(question=answer)
    return parser


def answer(parsed: argparse.Namespace) -> int:
    """Answer the question that was asked."""
    found = parsed.question(parsed)
    if isinstance(found, int):
        return found
    print(found)
    return 0


def _show(parsed: argparse.Namespace) -> str:
    chain = follow(parsed.place, parsed.run)
    if parsed.json:
        return json.dumps([step.record for step in chain.everything], indent=1, ensure_ascii=False)
    if parsed.page:
        return _written(parsed.page, show_page(chain))
    return show_text(chain)


def _verify(parsed: argparse.Namespace) -> int:
    if parsed.require_signature and not parsed.keys:
        raise ConfigError("--require-signature needs a key to check signatures by; add --public-key FILE")
    keys = [read_public_key(key) for key in parsed.keys]
    asked = {"all_versions": parsed.all, "keys": keys, "moved_from": parsed.moved_from}
    with counting("comparing") as told:
        found = verify_place(parsed.place, parsed.run, **asked, progress=told)
    for fault in found.problems:
        why = f" ({fault.why})" if fault.why else ""
        stage = "" if fault.stage == STAGE else f"\n    first stage affected: {fault.stage}"
        print(f"{fault.what}: {fault.uri}{why}{stage}")
    counts = Counter(fault.what for fault in found.problems)
    differing = sum(counts[what] for what in (faults.CHANGED, faults.MISSING, faults.UNRECORDED, faults.UNREADABLE))
    forgotten, unfinished, unsigned = (counts[what] for what in (faults.FORGOTTEN, faults.UNFINISHED, faults.UNSIGNED))
    on_request = f"; {forgotten} removed on request" if forgotten else ""
    begun = f"; unfinished removals: {unfinished}" if unfinished else ""
    print(f"{found.checked} files and objects compared, {differing} different from the record{on_request}{begun}")
    if keys:
        for signature in found.signatures:
            print(signature)
        wrong = counts[faults.MISSIGNED]
        print(f"{len(found.signatures)} signatures hold, {wrong} do not, {unsigned} are missing")
    if not found.is_whole:
        return EXIT_FAULT
    return EXIT_UNSIGNED if parsed.require_signature and unsigned else 0


def _export(parsed: argparse.Namespace) -> str:
    folder, files = open_store(parsed.to), exports_of(follow(parsed.place, parsed.run))
    for name, content in files.items():
        folder.write(name, content)
    return "\n".join(map(folder.address, files))


def _diff(parsed: argparse.Namespace) -> str:
    one, other = follow(parsed.place, parsed.run), follow(parsed.other)
    found = difference(one, other)
    if parsed.page:
        return _written(parsed.page, difference_page(one, other, found))
    return printable(difference_text(found))


def _written(page: str, content: str) -> str:
    """Path to which the page was written."""
    try:
        Path(page).write_text(content, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--page {page} cannot be written: {error.strerror}; name a file in a folder that exists"
        ) from error
    return page


def _find(parsed: argparse.Namespace) -> str:
    if parsed.prompt:
        try:
            content = Path(parsed.prompt).read_bytes()
        except OSError as error:
            raise ConfigError(f"--prompt {parsed.prompt} cannot be read: {error.strerror}") from error
        found = list(finding.find_prompt(parsed.place, sha256_of(content)))
    else:
        found = list(finding.find_row(parsed.place, parsed.row))
    for each in found:
        manifest = each.manifest
        latest = "  latest" if each.is_latest else "" if each.has_prompt else "  prompt removed"
        scores = f"validation {manifest['validation_score']:.3f}  test {manifest['test_score']:.3f}"
        run = f"run {manifest['run']['id']}{latest}"
        print(f"{each.version}  {manifest['task']}  {manifest['llm_model']}  {scores}  {run}")
    holding = sum(each.has_prompt for each in found)
    removed = f"; {len(found) - holding} held it until the prompt was removed" if holding < len(found) else ""
    return f"{holding} published {'version holds' if holding == 1 else 'versions hold'} it{removed}"


def _index(parsed: argparse.Namespace) -> str:
    with counting("writing marks") as told:
        return f"{finding.index(parsed.place, told)} versions had no marks and have them now"
