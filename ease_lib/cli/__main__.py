"""`ease`: the pipeline and each of its stages on the command line.

`ease run` runs the whole Kubeflow pipeline on this machine. `ease STAGE` runs one stage on files. Options have the
names of the pipeline's parameters, with dashes: `--noise-ratio` is `noise_ratio`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ease_lib import __version__
from ease_lib.cli.compare import add_compare
from ease_lib.cli.doctor import add_doctor
from ease_lib.cli.lineage import add_lineage
from ease_lib.cli.run import EXAMPLES, add_run
from ease_lib.cli.stage import add_stage
from ease_lib.errors import EaseError
from ease_lib.running.execution import EXIT_ERROR, EXIT_STOPPED
from ease_lib.running.graph import RUN


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except EaseError as error:
        print(f"ease: error: {error}" if "\n" not in str(error) else f"ease: errors:\n{error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("ease: stopped; what was answered is kept, and the same command continues", file=sys.stderr)
        return EXIT_STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ease", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"ease {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_run(commands)
    add_compare(commands)
    add_doctor(commands)
    add_lineage(commands)
    for stage in RUN:
        add_stage(commands, stage)
    return parser


if __name__ == "__main__":
    sys.exit(main())
