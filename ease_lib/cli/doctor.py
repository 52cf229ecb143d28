"""Check the task data, the embedder, the object store, the endpoint and this machine, like the start of a run.

It sends one short LLM request.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ease_lib.cli.options import add_parameters, add_set, run_values
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.errors import EXIT_ERROR

EXAMPLES = """examples:
  ease doctor --store-uri s3://my-bucket/ease       before the first run on an object store
  ease doctor --params demo                         everything that `make run` will need
  kubectl apply -f manifests/doctor.yaml            in a pod, with the settings of a stage
"""


def add_options(doctor: argparse.ArgumentParser) -> None:
    """Add the options of `ease run`."""
    add_set(doctor)
    doctor.add_argument("--output-dir", metavar="DIR", default="runs", help="folder to write to (default: runs)")
    add_parameters(doctor, Parameters, "parameters")


def answer(parsed: argparse.Namespace) -> int:
    """Print a line for each check, and a remedy for each that failed."""
    from ease_lib.running import diagnosis
    from ease_lib.running.run import open_host, open_run, run_of

    parameters = parse_parameters(run_values(parsed))
    problems = 0
    folder = Path(parsed.output_dir).expanduser().absolute()
    with open_host() as host, open_run(host, *run_of(parameters)) as run:
        for finding in diagnosis.examine(parameters, folder, run):
            print(f"  {'FAIL' if finding.problems else 'ok':<6}{finding.what:<16}{finding.which}", flush=True)
            for line in (*finding.problems, *([f"notice: {finding.notice}"] if finding.notice else [])):
                print(f"        {line}")
            problems += len(finding.problems)
    print(f"{problems} problem{'s' * (problems != 1)} found" if problems else "all checks passed")
    return EXIT_ERROR if problems else 0
