"""`python -m pipelines compile | params | upload | submit | retry | schedule`: pipelines as files, and runs of them."""

import argparse
import sys
from collections.abc import Callable, Sequence

from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED, EaseError, message_and_remedy

Command = Callable[[argparse.Namespace], int]


def main(given: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    given = sys.argv[1:] if given is None else given
    arguments = _parser(given[0] if given else "").parse_args(given)
    return _with_messages(arguments.run, arguments)


def _parser(command: str) -> argparse.ArgumentParser:
    """Parser with the options of this command alone, since the modules of the others take long to import."""
    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, prepare) in COMMANDS.items():
        shape = argparse.RawDescriptionHelpFormatter
        one = commands.add_parser(name, help=text, formatter_class=shape)
        if name == command:
            one.set_defaults(run=prepare(one))
    return parser


def _compile(parser: argparse.ArgumentParser) -> Command:
    from pipelines import compilation

    compilation.add_compile_options(parser)
    return compilation.compile_pipelines


def _params(parser: argparse.ArgumentParser) -> Command:
    from pipelines import parameter_tables

    parameter_tables.add_params_options(parser)
    return parameter_tables.params


def _upload(parser: argparse.ArgumentParser) -> Command:
    from pipelines import submit

    parser.description = submit.upload.__doc__
    submit.add_upload_options(parser)
    return submit.upload


def _submit(parser: argparse.ArgumentParser) -> Command:
    from pipelines import submit

    parser.description = submit.__doc__
    submit.add_submit_options(parser)
    return submit.submit


def _retry(parser: argparse.ArgumentParser) -> Command:
    from pipelines import submit

    parser.description = submit.retry.__doc__
    submit.add_retry_options(parser)
    return submit.retry


def _schedule(parser: argparse.ArgumentParser) -> Command:
    from pipelines import schedules

    parser.description = schedules.__doc__
    schedules.add_schedule_options(parser)
    return schedules.schedule


COMMANDS = {
    "compile": ("write pipelines/compiled/, or check that it is up to date", _compile),
    "params": ("print parameter sets and parameters as Markdown", _params),
    "upload": ("upload compiled pipelines", _upload),
    "submit": ("start a run", _submit),
    "retry": ("repeat the failed tasks of a run", _retry),
    "schedule": ("recurring runs", _schedule),
}
"""Commands by name: the line of help, and a function that adds the options and returns the one that runs it."""


def _with_messages(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command; errors of the user's making are messages."""
    try:
        return command(arguments)
    except EaseError as error:
        problems = "errors:\n" if str(error).startswith("- ") else "error: "
        print(f"python -m pipelines: {problems}{message_and_remedy(str(error))}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("python -m pipelines: stopped", file=sys.stderr)
        return EXIT_STOPPED


if __name__ == "__main__":
    sys.exit(main())
