"""Run methods over tasks, noise ratios, endpoints and repeats on this machine; name the best."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ease_lib.cli.__main__ import printable
from ease_lib.cli.options import add_parameters, add_set, given_values, made_folder
from ease_lib.config.sections import ComparisonAxes, Parameters
from ease_lib.errors import EXIT_ERROR, ConfigError
from ease_lib.machine import available_cores, children_have
from ease_lib.signals import sigterm_as_interrupt
from ease_lib.words import grouped

EXAMPLES = """examples:
  ease compare --task table --task-uri tickets.csv --output-column team --llm-base-url https://llm.example.org/v1
  ease compare --tasks "lr, lp_variant" --noise-ratios "0, 0.5" --methods "ease, best_of_n" --endpoints local
  ease compare --methods "ease, {method: ease, shortlist: none}, {method: ease, nu: 1}" --task lr --repeats 5
Entries of a list are names or {parameter: value, ...}, if you like with a label. The same command, or one with more
methods, tasks or repeats, runs only the unfinished cells.
"""


def add_options(compare: argparse.ArgumentParser) -> None:
    """Add the options of `ease compare`, what varies, and the parameters of every run."""
    add_set(compare)
    where = "folder for results and finished cells (default: runs/comparison)"
    compare.add_argument("--output-dir", metavar="DIR", default="runs/comparison", help=where)
    workers = "runs at a time, each in its own process (default: one per usable core)"
    compare.add_argument("--workers", type=int, metavar="N", help=workers)
    add_parameters(compare, ComparisonAxes, "what varies")
    add_parameters(compare, Parameters, "parameters of every run")


def answer(parsed: argparse.Namespace) -> int:
    """Run the unfinished cells, and print the tables."""
    from ease_lib.config.comparison import plan
    from ease_lib.running.comparison.side_by_side import run_cells
    from ease_lib.running.run import open_host, open_run
    from ease_lib.stages import plan_comparison, report_comparison, run_cell

    values = given_values(parsed)
    folder = made_folder(parsed.output_dir or "runs/comparison")
    workers = available_cores() if parsed.workers is None else parsed.workers
    if workers < 1:
        raise ConfigError(f"--workers {workers} is below 1, the least allowed")
    with sigterm_as_interrupt():
        with open_host() as host, open_run(host, "", "") as run:
            figures = plan_comparison.figures_of(values)
            cells = plan_comparison.checked(plan({"store_uri": str(folder / "store"), **values}), run)
        with tempfile.TemporaryDirectory(prefix="ease-compare-") as scratch, children_have(TMPDIR=scratch):
            planned = plan_comparison.document_of(cells, str(Path(scratch) / "comparison"))
            requests = grouped(planned["requests"])
            runs = "1 run" if len(cells) == 1 else f"{len(cells)} runs, {min(workers, len(cells))} at a time"
            counted = f"{runs}, at most {requests} LLM requests besides trial questions"
            print(f"{counted}; output in {folder}", flush=True)
            results = run_cells(planned, run_cell.run, workers=workers, folder=Path(scratch), say=print_line)
    report_comparison.run(results, folder, figures)
    failed = [result for result in results if result["failure"]]
    print(f"\n{(folder / report_comparison.MARKDOWN).read_text(encoding='utf-8')}")
    for file in (report_comparison.PAGE, report_comparison.MARKDOWN, report_comparison.TABLE):
        print(folder / file)
    if failed:
        counted = f"{len(failed)} of {len(results)} runs failed"
        print(f"ease: error: {counted}; run the same command to try them again", file=sys.stderr)
    return EXIT_ERROR if failed else 0


def print_line(text: str) -> None:
    """Print a whole line, also if other threads print, without control sequences."""
    with suppress(BrokenPipeError):  # its reader has gone, and the comparison goes on
        print(f"{printable(text)}\n", end="", flush=True)
