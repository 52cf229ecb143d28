"""`python -m pipelines compile | params | submit | schedule`: the graphs as files for a cluster, and as its runs."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kfp import compiler

from ease_lib.config import declared_parameters
from ease_lib.errors import EaseError
from ease_lib.stages.execution import EXIT_ERROR, EXIT_STOPPED
from pipelines.comparison_pipeline import comparison_pipeline
from pipelines.ease_pipeline import ease_pipeline

COMPILED = {"ease_pipeline.yaml": ease_pipeline, "comparison_pipeline.yaml": comparison_pipeline}
FOLDER = Path(__file__).parent / "compiled"


def main(given: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    from pipelines import schedules, submit  # kfp's client, which `compile` does not need

    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile", help="write pipelines/compiled/, or check that it is current")
    compiling.add_argument("--check", action="store_true", help="write nothing; fail when a committed file differs")
    commands.add_parser("params", help="list all parameters as a Markdown table")
    shape = argparse.RawDescriptionHelpFormatter
    submit.add_submit_options(
        commands.add_parser("submit", help="start a run", description=submit.__doc__, formatter_class=shape)
    )
    schedules.add_schedule_options(
        commands.add_parser("schedule", help="recurring runs", description=schedules.__doc__, formatter_class=shape)
    )
    arguments = parser.parse_args(given)
    if arguments.command in ("submit", "schedule"):
        return _on_cluster(submit.submit if arguments.command == "submit" else schedules.schedule, arguments)
    if arguments.command == "params":
        print(parameter_table())
        return 0
    return check_compiled() if arguments.check else compile_all(FOLDER)


def _on_cluster(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command that talks to a cluster; its errors are messages."""
    try:
        return command(arguments)
    except EaseError as error:
        problems = "errors:\n" if str(error).startswith("- ") else "error: "
        print(f"python -m pipelines: {problems}{error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("python -m pipelines: stopped", file=sys.stderr)
        return EXIT_STOPPED


def compile_all(folder: Path) -> int:
    """Compile every pipeline into `folder`."""
    folder.mkdir(exist_ok=True)
    for name, pipeline in COMPILED.items():
        compiler.Compiler().compile(pipeline, str(folder / name))
    return 0


def check_compiled() -> int:
    """Say which committed files are not what the sources compile to."""
    with tempfile.TemporaryDirectory() as folder:
        compile_all(Path(folder))
        stale = [name for name in COMPILED if not _same(FOLDER / name, Path(folder) / name)]
    for name in stale:
        print(
            f"pipelines/compiled/{name} is not current: run `python -m pipelines compile` and commit it",
            file=sys.stderr,
        )
    return 1 if stale else 0


def parameter_table() -> str:
    """All parameters with default and help, as in the README."""
    lines = ["| Parameter | Default | What it sets |", "|---|---|---|"]
    for parameter in declared_parameters().values():
        default = f"`{parameter.default}`" if parameter.default != "" else ""
        help_text = parameter.help.replace("|", r"\|")
        lines.append(f"| `{parameter.name}` | {default} | {help_text} |")
    return "\n".join(lines)


def _same(committed: Path, compiled: Path) -> bool:
    return committed.is_file() and committed.read_bytes() == compiled.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
