"""Where does a prompt come from? Records of every stage, from the published prompt back to the raw rows.

PLACE is whatever you have: the output folder of a run, the folder or s3:// of published prompts or of one version, a
run's folder among Kubeflow's artifacts, or a lineage root (lineage_uri, or lineage/ in store_uri; with --run ID for one
run of several). Nothing but read access is needed, and no cluster.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ease_lib.artifacts.store import open_store
from ease_lib.config import declared_parameters
from ease_lib.errors import ConfigError, LineageError
from ease_lib.lineage import finding, forgetting
from ease_lib.lineage.difference import difference
from ease_lib.lineage.explanation import explain
from ease_lib.lineage.exports import exports_of
from ease_lib.lineage.problems import Problem
from ease_lib.lineage.trail import Trail, follow
from ease_lib.lineage.tree import show_page, show_text
from ease_lib.lineage.verification import verify_place

EXIT_FAULT = 3
"""Of `verify` when something is not as it was recorded."""
PUBLISHING = ("publish_uri", "publish_if", "openlineage_url")
"""Parameters that a repetition leaves out: it shall prove something, not publish it again."""
EXAMPLES = """examples:
  ease lineage show runs/demo                       the chain as a tree; --page FILE writes it as HTML
  ease lineage verify s3://prompts/feedback         recompute every digest behind the latest published prompt
  ease lineage explain runs/demo                    which rows, which noise, which iteration, and why
  ease lineage diff runs/monday runs/tuesday        what differs, and therefore why the prompt changed
  ease lineage find s3://prompts/feedback --row "You lost my parcel"
  ease lineage rerun runs/demo                      the command that gives the same history again, from the cache
"""
FORGET_EXAMPLES = """examples:
  ease forget --row "You lost my parcel" --in runs/demo                       list what holds it, remove nothing
  ease forget --row "You lost my parcel" --in runs/demo --remove --reason "request 17"
  ease forget --row 5c8822d2... --in s3://data/pools --in s3://prompts/feedback --root s3://audit/lineage
afterwards run the command that it prints: the same search without the row, also while the task's own data still has it
"""


def add_lineage(commands: Any) -> None:
    """Add `ease lineage` and `ease forget` to the commands of `ease`."""
    shape = argparse.RawDescriptionHelpFormatter
    lineage = commands.add_parser(
        "lineage",
        help="where a prompt comes from: show, verify, explain, diff, find, rerun, export, index",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=shape,
    )
    questions = lineage.add_subparsers(metavar="QUESTION", required=True)
    show = _question(questions, "show", _show, "the chain from the prompt to the raw data, as a tree or a page")
    show.add_argument("--page", metavar="FILE", help="write an HTML page instead")
    show.add_argument("--json", action="store_true", help="print the records themselves")
    verifying = _question(questions, "verify", _verify, "recompute every digest; exit code 3 when something differs")
    verifying.add_argument("--all", action="store_true", help="every published version, not only the latest")
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
    forget = commands.add_parser(
        "forget",
        help="list, and remove on request, everything that holds a row",
        description=forgetting.__doc__,
        epilog=FORGET_EXAMPLES,
        formatter_class=shape,
    )
    forget.add_argument("--row", required=True, metavar="TEXT|HASH", help="input text of the row, or the SHA-256 of it")
    forget.add_argument("--in", dest="places", action="append", required=True, metavar="PLACE", help="may be repeated")
    forget.add_argument("--remove", action="store_true", help="remove it; without this nothing is changed")
    forget.add_argument("--reason", default="", help="kept in the tombstone, e.g. the number of the request")
    forget.add_argument("--root", default="", metavar="URI", help="lineage root for the tombstone (default: found)")
    forget.set_defaults(command=_forget)


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
    trail = follow(parsed.place, parsed.run)
    if parsed.json:
        print(json.dumps([step.record for step in trail.everything], indent=1, ensure_ascii=False))
    elif parsed.page:
        Path(parsed.page).write_text(show_page(trail), encoding="utf-8")
        print(parsed.page)
    else:
        print(show_text(trail))
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    verdict = verify_place(parsed.place, parsed.run, all_versions=parsed.all, progress=_progress)
    for problem in verdict.problems:
        print(_described(problem))
    faults = sum(problem.is_fault for problem in verdict.problems)
    forgotten = len(verdict.problems) - faults
    on_request = f"; {forgotten} removed on request" if forgotten else ""
    print(f"{verdict.checked} files and objects compared, {faults} not as recorded{on_request}")
    return EXIT_FAULT if faults else 0


def _described(problem: Problem) -> str:
    why = f" ({problem.why})" if problem.why else ""
    return f"{problem.what}: {problem.uri}{why}\n    first stage affected: {problem.stage}"


def _explain(parsed: argparse.Namespace) -> int:
    print(explain(follow(parsed.place, parsed.run)))
    return 0


def _export(parsed: argparse.Namespace) -> int:
    folder = open_store(parsed.to)
    for name, content in exports_of(follow(parsed.place, parsed.run)).items():
        folder.write(name, content)
        print(f"{folder.uri.rstrip('/')}/{name}")
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
        latest = "  latest" if each.is_latest else ""
        scores = f"validation {manifest['validation_score']:.3f}  test {manifest['test_score']:.3f}"
        run = f"run {manifest['run']['id']}{latest}"
        print(f"{each.version}  {manifest['task']}  {manifest['llm_model']}  {scores}  {run}")
    print(f"{len(found)} published {'version holds' if len(found) == 1 else 'versions hold'} it")
    return 0


def _index(parsed: argparse.Namespace) -> int:
    count = finding.index(parsed.place, _progress)
    print(f"{count} versions had no marks and have them now")
    return 0


def _rerun(parsed: argparse.Namespace) -> int:
    print(rerun_commands(follow(parsed.place, parsed.run)))
    return 0


def rerun_commands(trail: Trail) -> str:
    """Shell commands that run the same again: with the same store nothing is asked that was answered before."""
    options = " ".join(run_options(trail))
    again = f"runs/again-{short_run_id(trail)}"
    software = trail.head.record["software"]
    lines = []
    if software["revision"]:
        lines.append(f"git checkout {software['revision'].removesuffix('-dirty')} && make install")
        if software["revision"].endswith("-dirty"):
            lines.append("# the source had changes that were not committed: the result may differ")
    if software["image"]:
        lines.append(f"# it ran in {software['image']}")
    lines.append(f".venv/bin/ease run {options} --output-dir {again}")
    lines.append(f".venv/bin/ease lineage diff {shlex.quote(trail.head.uri)} {again}")
    return "\n".join(lines)


def run_options(trail: Trail, **more: str) -> list[str]:
    """Options of `ease run` that repeat a run, with other values for some.

    Args:
        more: values that are added to a parameter that is a list, by name.
    """
    checked = trail.step_of("check_prerequisites")
    source = checked.record if checked else _all_parameters(trail)
    given = {name: source["parameters"][name] for name in declared_parameters() if name in source["parameters"]}
    changed = [name for name in given if name not in source["defaults"] and name not in PUBLISHING]
    for name, value in more.items():
        given[name] = ",".join(filter(None, (str(given.get(name, "")), value)))
    wanted = [name for name in given if name in changed or name in more]
    return [f"--{name.replace('_', '-')} {shlex.quote(str(given[name]))}" for name in wanted]


def short_run_id(trail: Trail) -> str:
    return str(trail.head.record["run"]["id"])[:8]


def _all_parameters(trail: Trail) -> dict[str, Any]:
    """What the stages received, where the record of the form cannot be reached."""
    parameters: dict[str, Any] = {}
    defaults: set[str] = set()
    for step in trail.steps:
        parameters.update(step.record["parameters"])
        defaults.update(step.record["defaults"])
    return {"parameters": {name: parameters[name] for name in sorted(parameters)}, "defaults": defaults}


def _forget(parsed: argparse.Namespace) -> int:
    wanted = finding.as_row_hash(parsed.row)
    text = forgetting.known_text(parsed.places, wanted) if parsed.row == wanted else parsed.row
    holders = list(forgetting.find_holders(parsed.places, parsed.row, text))
    for holder in holders:
        rows = f", {holder.rows} {'row' if holder.rows == 1 else 'rows'}" if holder.rows else ""
        print(f"{holder.kind}{rows}: {holder.uri}")
    if parsed.row == wanted and not text:
        print("notice: only the hash is known, and no table here has its text: prompts and reports were not searched")
    print(f"{len(holders)} files and objects hold row {wanted}")
    if not parsed.remove:
        if holders:
            print("nothing was changed; --remove removes it")
        return 0
    root = parsed.root or _root(parsed.places)
    again = run_options(follow(parsed.places[0]), exclude_rows=wanted) if holders else []
    name = forgetting.forget(holders, parsed.row, root, reason=parsed.reason)
    print(f"removed; tombstone {root.rstrip('/')}/{name}")
    if again:
        print(f"search again without it:\n.venv/bin/ease run {' '.join(again)}")
    return 0


def _root(places: list[str]) -> str:
    """The lineage root of the run that a place is of."""
    for place in places:
        try:
            link = str(follow(place).head.record["attempt"]["record"])
        except LineageError:
            continue
        if "/runs/" in link:
            return link.rpartition("/runs/")[0]
    raise LineageError("no lineage root was found there for the tombstone; name one by --root")


def _progress(done: int, total: int) -> None:
    """A line that is drawn again, on terminals only."""
    if sys.stderr.isatty() and (done == total or done % 50 == 0):
        print(f"\r{done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
