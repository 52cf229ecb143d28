"""Run methods over tasks, noise ratios, endpoints and repeats on this machine; say which is best."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from typing import TYPE_CHECKING

from ease_lib.cli.options import add_parameters, add_set, given_values, made_folder
from ease_lib.config.sections import ComparisonAxes, Parameters
from ease_lib.errors import EXIT_ERROR, ConfigError
from ease_lib.machine import available_cores, children_have
from ease_lib.signals import sigterm_as_interrupt
from ease_lib.words import grouped

if TYPE_CHECKING:
    from ease_lib.running.comparison.workers import Done

EXAMPLES = """examples:
  ease compare --task table --task-uri tickets.csv --output-column team --llm-base-url https://llm.example.org/v1
  ease compare --tasks "lr, lp_variant" --noise-ratios "0, 0.5" --methods "ease, best_of_n" --endpoints local
  ease compare --methods "ease, {method: ease, shortlist: none}, {method: ease, nu: 1}" --task lr --repeats 5
entries of a list are names or {parameter: value, ...}, with a label of their own if you like; the same command, or one
with more methods, tasks or repeats, runs only what is not finished yet
"""


def add_options(compare: argparse.ArgumentParser) -> None:
    """Those of the command itself, what varies, and the parameters of every run."""
    add_set(compare)
    where = "folder for results and finished cells (default: runs/comparison)"
    compare.add_argument("--output-dir", metavar="DIR", default="runs/comparison", help=where)
    jobs = "processes side by side (default: one per core it may use)"
    compare.add_argument("--jobs", type=int, metavar="N", help=jobs)
    figures = "CSV of published scores (columns task, method, score in 0 to 1, and noise_ratio) to show beside ours"
    compare.add_argument("--figures", metavar="FILE", default="", help=figures)
    add_parameters(compare, ComparisonAxes, "what varies")
    add_parameters(compare, Parameters, "parameters of every run")


def answer(parsed: argparse.Namespace) -> int:
    """Run what is not finished yet, and print the tables."""
    from ease_lib.config.comparison import plan
    from ease_lib.reporting.figures import Figures
    from ease_lib.running.comparison.workers import run_cells
    from ease_lib.running.run import open_host, open_run
    from ease_lib.stages import report_comparison
    from ease_lib.stages.plan_comparison import checked, most_requests

    values = given_values(parsed)
    folder = made_folder(parsed.output_dir or "runs/comparison")
    jobs = available_cores() if parsed.jobs is None else parsed.jobs
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs} is below 1, the least allowed")
    figures = Figures.read(parsed.figures) if parsed.figures else None
    with sigterm_as_interrupt():
        with open_host() as host, open_run(host, "", "") as run:
            cells = checked(plan({"store_uri": str(folder / "store"), **values}), run)
        requests = grouped(most_requests(cells))
        print(f"{len(cells)} runs, {jobs} at a time, at most {requests} LLM requests; output in {folder}", flush=True)
        done = itertools.count(1)
        with tempfile.TemporaryDirectory(prefix="ease-compare-") as scratch, children_have(TMPDIR=scratch):
            results = run_cells(cells, jobs=jobs, on_done=lambda cell: _print_done(next(done), len(cells), cell))
    report_comparison.run(results, folder, figures)
    failed = [result for result in results if result["failure"]]
    print(f"\n{(folder / report_comparison.MARKDOWN).read_text(encoding='utf-8')}")
    for file in (report_comparison.PAGE, report_comparison.MARKDOWN, report_comparison.TABLE):
        print(folder / file)
    if failed:
        counted = f"{len(failed)} of {len(results)} runs failed"
        print(f"ease: error: {counted}; the same command tries them again", file=sys.stderr)
    return EXIT_ERROR if failed else 0


def _print_done(number: int, total: int, done: Done) -> None:
    if done.result["failure"]:
        print(f"{number}/{total}  {done.cell.name}: FAILED: {done.result['failure']}", flush=True)
        return
    scores = f"validation {done.result['validation_score']:.3f}  test {done.result['test_score']:.3f}"
    kept = "  (finished before)" if done.kept else ""
    print(f"{number}/{total}  {done.cell.name}: {scores}  {done.result['llm_requests']} requests{kept}", flush=True)
