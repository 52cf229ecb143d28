"""`ease`: find exemplars for a prompt on this machine, and show where a prompt comes from.

Options have the names of the pipeline's parameters, with dashes: `--noise-ratio` is `noise_ratio`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from ease_lib import __version__
from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED, EaseError, message_and_remedy

EXAMPLES = """examples:
  ease run --params demo                            the shipped task with the small local LLM
  ease run --task lr --noise-ratio 0.1              a generated task
  ease run --task table --task-uri tickets.csv --input-columns text --output-column team \\
           --llm-base-url https://llm.example.org/v1 --llm-model small-1 --output-dir runs/tickets
The key of an endpoint comes from EASE_LLM_API_KEY, for OpenAI itself also from OPENAI_API_KEY.
To continue a run that was killed, repeat the command with the same --output-dir.
Exit codes: 0 done, 2 an error with a message, 3 not better than --require-better-than, 75 stopped and can be continued
"""
COMMANDS = {
    "run": "run the whole pipeline on this machine",
    "compare": "compare methods over tasks, noise ratios, endpoints and repeats",
    "plan": "estimate requests, tokens and cost before sending anything",
    "doctor": "check everything that a run needs, and print what is wrong and how to correct it",
    "watch": "follow a running search: contenders, cost, time left",
    "list": "list runs and comparisons in a folder or on s3://, with results and states",
    "export": "write the winning prompt for openai, dspy, langchain, promptfoo or mlflow",
    "lineage": "trace where a prompt comes from: show, verify, explain, diff, find, rerun, export, index",
    "forget": "list everything that holds a row, and delete it on request",
}
"""Summary of each command. The module `ease_lib.cli.NAME` has its `EXAMPLES`, adds its options and runs it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    chosen = next((argument for argument in given if not argument.startswith("-")), "")
    parser, command = _parser(chosen, shows_all="--help-all" in given)
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        from ease_lib.cli.options import nearest_option

        (command or parser).error(f"no option {unknown[0]}{nearest_option(command or parser, unknown[0])}")
    try:
        return int(parsed.answer(parsed))
    except EaseError as error:
        text = printable(str(error))
        head, between = ("ease: error:", " ") if "\n" not in text else ("ease: errors:", "\n")
        print(f"{_red(head)}{between}{message_and_remedy(text)}", file=sys.stderr)
        if parsed.verbose:
            print(f"\n{_origin_of(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("ease: stopped; answers are kept, and the same command continues", file=sys.stderr)
        return EXIT_STOPPED
    except BrokenPipeError:  # the reader of the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR


def _origin_of(error: EaseError) -> str:
    """Location and cause of an error; for errors of libraries only their type, as their text may quote keys."""
    import traceback

    from ease_lib.lineage.redaction import redacted
    from ease_lib.running.run_context import secrets

    parts: list[str] = []
    each: BaseException | None = error
    while each is not None:
        kind = type(each)
        said = f": {each}" if isinstance(each, EaseError) or kind.__module__ == "builtins" else ""
        parts.append(f"{''.join(traceback.format_tb(each.__traceback__))}{kind.__module__}.{kind.__qualname__}{said}\n")
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return printable(redacted("caused by\n".join(parts), secrets()))


def printable(text: str) -> str:
    """Text without control sequences that would move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _red(text: str) -> str:
    """Colour the text red on a terminal that shows colours, unless NO_COLOR is set (no-color.org)."""
    shows = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[31m{text}\x1b[0m" if shows else text


def _parser(chosen: str, *, shows_all: bool) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """The parser of all commands. Only the chosen one gets its options, so that other modules are not loaded."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="ease", description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("--version", action="version", version=f"ease {__version__}")
    found = None
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=shape)
        if name == chosen:
            from ease_lib.cli.options import ShowAll

            module = importlib.import_module(f"ease_lib.cli.{name}")
            command.description, command.epilog = module.__doc__, module.EXAMPLES
            command.set_defaults(answer=module.answer)
            command.set_defaults(shows_all=shows_all)
            module.add_options(command)
            verbose = "with an error, print where it was raised and what caused it"
            command.add_argument("--verbose", action="store_true", help=verbose)
            command.add_argument("--help-all", action=ShowAll, nargs=0, help="show every parameter and exit")
            found = command
    return parser, found


if __name__ == "__main__":
    sys.exit(main())
