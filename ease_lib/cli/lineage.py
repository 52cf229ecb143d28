"""Where does a prompt come from? Records of every stage, from the published prompt back to the raw rows.

PLACE is whatever you have: the output folder of a run, the folder or s3:// of published prompts or of one version, a
run's folder among Kubeflow's artifacts, or a lineage root (lineage_uri, or lineage/ in store_uri; with --run ID for one
run of several). Nothing but read access is needed, and no cluster.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import joined, open_store
from ease_lib.errors import ConfigError
from ease_lib.lineage.attestation import read_public_key
from ease_lib.lineage.chain import follow
from ease_lib.lineage.deletion.tombstones import STAGE
from ease_lib.lineage.difference import difference, rerun_commands
from ease_lib.lineage.explanation import explain
from ease_lib.lineage.exports.files import exports_of
from ease_lib.lineage.faults import (
    CHANGED,
    FORGOTTEN,
    MISSIGNED,
    MISSING,
    UNFINISHED,
    UNREADABLE,
    UNRECORDED,
    UNSIGNED,
    Fault,
)
from ease_lib.lineage.publishing import versions as finding
from ease_lib.lineage.verification import verify_place
from ease_lib.reporting.lineage import show_page, show_text

EXIT_FAULT = 3
"""Of `verify` when something is not as it was recorded or signed."""
EXIT_UNSIGNED = 4
"""Of `verify --require-signature` when nothing is wrong, and a signature is missing."""
EXAMPLES = """examples:
  ease lineage show runs/demo                       the chain as a tree; --page FILE writes it as HTML
  ease lineage verify s3://prompts/feedback         recompute every digest behind the latest published prompt
  ease lineage explain runs/demo                    which rows, which noise, which iteration, and why
  ease lineage diff runs/monday runs/tuesday        what differs, and therefore why the prompt changed
  ease lineage find s3://prompts/feedback --row "You lost my parcel"
  ease lineage rerun runs/demo                      the command that gives the same history again, from the cache
"""


def fill(lineage: argparse.ArgumentParser) -> None:
    """Describe the command, and add its questions."""
    lineage.description = __doc__
    lineage.epilog = EXAMPLES
    questions = lineage.add_subparsers(metavar="QUESTION", required=True)
    show = _question(questions, "show", _show, "the chain from the prompt to the raw data, as a tree or a page")
    show.add_argument("--page", metavar="FILE", help="write an HTML page instead")
    show.add_argument("--json", action="store_true", help="print the records themselves")
    verifying = _question(
        questions, "verify", _verify, "recompute every digest and check signatures; exit code 3 when something differs"
    )
    verifying.add_argument("--all", action="store_true", help="every published version, not only the latest")
    key = "file of a key that signatures are accepted from, with @SINCE..UNTIL for those of that time; may be repeated"
    verifying.add_argument("--public-key", dest="keys", action="append", default=[], metavar="FILE[@TIMES]", help=key)
    required = "exit code 4 where nothing is wrong and something is not signed"
    verifying.add_argument("--require-signature", action="store_true", help=required)
    _question(questions, "explain", _explain, "in plain words: data, noise, prefilter, search, test, publication")
    _question(questions, "rerun", _rerun, "the commands that give the same history again")
    export = _question(questions, "export", _export, "provenance (SLSA), events (OpenLineage), data set (Croissant)")
    export.add_argument("--to", default=".", metavar="FOLDER", help="where to write the files (default: here)")
    diff = _question(questions, "diff", _diff, "what differs between two runs, and therefore why the prompt changed")
    diff.add_argument("other", metavar="PLACE", help="the other run")
    find = _question(questions, "find", _find, "the published prompts that hold a row, or one prompt", run=False)
    wanted = find.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--row", metavar="TEXT|HASH", help="input text of the row, or the SHA-256 of it")
    wanted.add_argument("--prompt", metavar="FILE", help="a prompt.txt")
    _question(questions, "index", _index, "write the marks that find needs, for versions copied without", run=False)


def _question(
    questions: Any, name: str, answer: Callable[[argparse.Namespace], int], text: str, *, run: bool = True
) -> argparse.ArgumentParser:
    sentence = f"{text[:1].upper()}{text[1:]}."
    parser: argparse.ArgumentParser = questions.add_parser(name, help=text, description=sentence)
    parser.add_argument("place", metavar="PLACE", help="see ease lineage --help")
    if run:
        parser.add_argument("--run", default="", metavar="ID", help="of several runs there (default: the newest)")
    parser.set_defaults(command=answer)
    return parser


def _show(parsed: argparse.Namespace) -> int:
    chain = follow(parsed.place, parsed.run)
    if parsed.json:
        print(json.dumps([step.record for step in chain.everything], indent=1, ensure_ascii=False))
    elif parsed.page:
        Path(parsed.page).write_text(show_page(chain), encoding="utf-8")
        print(parsed.page)
    else:
        print(show_text(chain))
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    if parsed.require_signature and not parsed.keys:
        raise ConfigError("--require-signature needs a key to check signatures by; add --public-key FILE")
    keys = [read_public_key(key) for key in parsed.keys]
    verdict = verify_place(parsed.place, parsed.run, all_versions=parsed.all, progress=_progress, keys=keys)
    for problem in verdict.problems:
        print(_described(problem))
    counts = Counter(problem.what for problem in verdict.problems)
    faults = sum(counts[what] for what in (CHANGED, MISSING, UNRECORDED, UNREADABLE))
    on_request = f"; {counts[FORGOTTEN]} removed on request" if counts[FORGOTTEN] else ""
    unfinished = f"; unfinished removals: {counts[UNFINISHED]}" if counts[UNFINISHED] else ""
    print(f"{verdict.checked} files and objects compared, {faults} not as recorded{on_request}{unfinished}")
    if keys:
        for signature in verdict.signatures:
            print(signature)
        print(f"{len(verdict.signatures)} signatures hold, {counts[MISSIGNED]} do not, {counts[UNSIGNED]} are missing")
    if not verdict.is_whole:
        return EXIT_FAULT
    return EXIT_UNSIGNED if parsed.require_signature and counts[UNSIGNED] else 0


def _described(problem: Fault) -> str:
    why = f" ({problem.why})" if problem.why else ""
    stage = "" if problem.stage == STAGE else f"\n    first stage affected: {problem.stage}"
    return f"{problem.what}: {problem.uri}{why}{stage}"


def _explain(parsed: argparse.Namespace) -> int:
    print(explain(follow(parsed.place, parsed.run)))
    return 0


def _export(parsed: argparse.Namespace) -> int:
    folder = open_store(parsed.to)
    for name, content in exports_of(follow(parsed.place, parsed.run)).items():
        folder.write(name, content)
        print(joined(folder.uri, name))
    return 0


def _diff(parsed: argparse.Namespace) -> int:
    print(difference(follow(parsed.place, parsed.run), follow(parsed.other)))
    return 0


def _find(parsed: argparse.Namespace) -> int:
    if parsed.prompt:
        try:
            content = Path(parsed.prompt).read_bytes()
        except OSError as error:
            raise ConfigError(f"--prompt {parsed.prompt} cannot be read: {error.strerror}") from error
        found = list(finding.find_prompt(parsed.place, hashlib.sha256(content).hexdigest()))
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
    print(f"{holding} published {'version holds' if holding == 1 else 'versions hold'} it{removed}")
    return 0


def _index(parsed: argparse.Namespace) -> int:
    count = finding.index(parsed.place, _progress)
    print(f"{count} versions had no marks and have them now")
    return 0


def _rerun(parsed: argparse.Namespace) -> int:
    print(rerun_commands(follow(parsed.place, parsed.run)))
    return 0


def _progress(done: int, total: int) -> None:
    """A line that is drawn again, on terminals only."""
    if sys.stderr.isatty() and (done == total or done % 50 == 0):
        print(f"\r{done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
