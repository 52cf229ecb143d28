"""Run the whole pipeline on this machine, from the task's data to the report."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from ease_lib.artifacts.result_files import REPORT
from ease_lib.cli.__main__ import EXAMPLES as EXAMPLES
from ease_lib.cli.options import add_parameters, add_set, given_values, made_folder, pipelines_module, run_values
from ease_lib.cli.plan import plan_text
from ease_lib.config.comparison import AXES
from ease_lib.config.parsing import changed_parameters, parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.digests import key_of
from ease_lib.errors import EXIT_NOT_BETTER, ConfigError
from ease_lib.reporting.result_text import result_text
from ease_lib.reporting.summary import BETTER

RIVALS = ("baseline", "random", "zero_shot")
"""Prompts that the verdict compares with."""


def add_options(run: argparse.ArgumentParser) -> None:
    """Add the options of `ease run` itself, and the parameters of the run."""
    add_set(run)
    where = "folder for results and journal (default: runs/TASK-METHOD-HASH)"
    run.add_argument("--output-dir", metavar="DIR", help=where)
    runner = (
        "inline: all stages in this process; process, in a checkout: the compiled pipeline by Kubeflow's own "
        "local run, with a process for each component, which makes the same artifacts more slowly; docker: the same "
        "in containers of the images that `make images` builds (default: inline)"
    )
    run.add_argument("--runner", choices=("inline", "process", "docker"), default="inline", help=runner)
    rival = f"exit with code {EXIT_NOT_BETTER} unless the winner is significantly better than this on the test set"
    run.add_argument("--require-better-than", choices=RIVALS, help=rival)
    dry = "estimate requests and cost like `ease plan`, and send nothing"
    run.add_argument("--dry-run", action="store_true", help=dry)
    add_parameters(run, Parameters, "parameters")


def answer(parsed: argparse.Namespace) -> int:
    """Run, print the result, and compare with the prompt that `--require-better-than` names."""
    axes = sorted(set(given_values(parsed)) & set(AXES))
    if axes:
        raise ConfigError(f"--params {parsed.params} is a comparison ({', '.join(axes)}); use it with ease compare")
    values = run_values(parsed)
    parameters = parse_parameters(values)
    if parsed.require_better_than == "baseline" and not parameters.task.baseline:
        raise ConfigError("--require-better-than baseline needs --baseline, the file of your current prompt")
    if parsed.dry_run:
        print(plan_text(parameters))
        return 0
    output_dir = _output_dir(parsed.output_dir, parameters)
    if not parameters.run.store_uri:
        parameters = parse_parameters({**values, "store_uri": str(output_dir / "store")})
    start = time.perf_counter()
    search = parameters.optimizer
    described = f"{search.method} on {_task_of(parameters)}: k={search.k}, budget {search.budget}"
    print(f"{described}; output in {output_dir}", flush=True)
    if parsed.runner == "inline":
        _run_inline(parameters, output_dir)
    else:
        pipelines_module("local_run").run_pipeline(parameters, output_dir, parsed.runner)
    print(result_text(output_dir, time.perf_counter() - start))
    return _gated(parsed.require_better_than, output_dir) if parsed.require_better_than else 0


def _run_inline(parameters: Parameters, output_dir: Path) -> None:
    """Run the stages in this process; a terminal shows a bar below the lines."""
    from ease_lib.running.bar import Bar, LinesAbove
    from ease_lib.running.inline import run_inline

    if not sys.stdout.isatty():
        run_inline(parameters, output_dir)
        return
    with Bar(sys.stdout) as bar:
        run_inline(parameters, output_dir, lines=LinesAbove(sys.stdout), progress=bar)


def _gated(rival: str, output_dir: Path) -> int:
    """The exit code for the verdict on a rival."""
    found = json.loads((output_dir / REPORT).read_text(encoding="utf-8"))["verdict"][rival]
    if found == BETTER:
        return 0
    print(f"ease: the winner is not better than {rival.replace('_', '-')}: {found}", file=sys.stderr)
    return EXIT_NOT_BETTER


def _task_of(parameters: Parameters) -> str:
    return parameters.task.task_name or parameters.task.task


def _output_dir(given: str | None, parameters: Parameters) -> Path:
    """The folder of the run: as given, or named after its parameters so that the same command finds it again."""
    if given is None:
        digest = key_of(changed_parameters(parameters))[:8]
        given = f"runs/{_task_of(parameters)}-{parameters.optimizer.method}-{digest}".replace(":", "-")
    return made_folder(given)
