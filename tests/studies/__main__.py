"""`python -m tests.studies`: what makes sequences of a task differ, and what can be learnt from answers."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from ease_lib.cli.options import add_parameters, run_values
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.running.stage import logger
from tests.studies import offline

STUDY_EXAMPLES = """examples:
  python -m tests.studies --params demo --sequences 100    of the shipped task with the small local LLM
  python -m tests.studies --task lr --noise-ratio 0.5 --validation-size 80 \\
      --llm-base-url python:tests.simulation.models:in_context_learner
"""
FILE = "study.md"


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    study = argparse.ArgumentParser(prog="python -m tests.studies", formatter_class=shape, epilog=STUDY_EXAMPLES)
    study.description = (
        "Ask random sequences many validation rows, once and through the cache, and compare by replay what can be "
        "learnt from the answers: how much length, exemplars, labels and order explain; how well surrogates predict "
        f"sequences and rows that they have not seen; what searches end with. Writes {FILE} and prints it."
    )
    study.add_argument("--params", metavar="SET", help="parameter set or YAML file; options override it")
    study.add_argument("--output-dir", metavar="DIR", default="runs/study", help="where (default: runs/study)")
    study.add_argument("--sequences", type=int, default=150, help="random sequences (default: 150)")
    study.add_argument("--rows", type=int, default=80, help="validation rows each is asked at most (default: 80)")
    add_parameters(study, Parameters, "parameters")
    return study


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    parameters = parse_parameters(run_values(parsed))
    folder = Path(parsed.output_dir).expanduser().absolute()
    if not parameters.run.store_uri:
        run = dataclasses.replace(parameters.run, store_uri=str(folder / "store"))
        parameters = dataclasses.replace(parameters, run=run)
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.setLevel(logging.INFO)
    text = offline.study_text(offline.answered(parameters, parsed.sequences, parsed.rows))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {folder / FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
