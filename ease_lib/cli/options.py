"""Every declared parameter as an option of a command."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
from pathlib import Path
from typing import Any

from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import declared_parameters, without_unread
from ease_lib.config.sections import Parameters
from ease_lib.errors import ConfigError

COMMON = (
    *("task", "task_uri", "input_columns", "output_column", "metric", "prompt", "baseline"),
    *("llm_base_url", "llm_model", "k", "budget", "max_llm_requests", "max_cost_usd", "seed"),
)
"""Parameters that most people need: `--help` shows these, `--help-all` every one."""
PREFIX = "parameter_"
"""Begins the names of parameters among parsed options."""


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a parameter set or a file of parameters."""
    text = "parameter set (demo, smoke, paper) or YAML file; options override it"
    parser.add_argument("--params", metavar="SET", help=text)


def add_parameters(parser: argparse.ArgumentParser, config: type, title: str) -> None:
    """Add an option for each parameter of `config`, in a group of their own.

    Of a run's, help shows the common ones first, and the others only where `--help-all` asks for them.
    """
    is_run = config is Parameters
    group = parser.add_argument_group(f"{title}; all others: --help-all" if is_run and not shows_all(parser) else title)
    for parameter in declared_parameters(config).values():
        default = f" (default: {parameter.default})" if parameter.default != "" else ""
        is_hidden = parameter.internal or (is_run and parameter.name not in COMMON and not shows_all(parser))
        flag: dict[str, Any] = {"nargs": "?", "const": True} if parameter.type is bool else {}
        group.add_argument(
            f"--{parameter.name.replace('_', '-')}",
            dest=f"{PREFIX}{parameter.name}",
            metavar=parameter.type.__name__.upper(),
            help=argparse.SUPPRESS if is_hidden else (parameter.help + default).replace("%", "%%"),
            **flag,
        )


class ShowAll(argparse.Action):
    """`--help-all`."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        parser.print_help()
        parser.exit()


def shows_all(parser: argparse.ArgumentParser) -> bool:
    """Whether help lists every parameter."""
    return bool(parser.get_default("shows_all"))


def nearest_option(parser: argparse.ArgumentParser, given: str) -> str:
    """Suggestion of a known option for an unknown one; empty if none is similar."""
    options = [option for action in parser._actions for option in action.option_strings]
    close = difflib.get_close_matches(given.partition("=")[0], options, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def given_values(parsed: argparse.Namespace) -> dict[str, object]:
    """The parameters of the set that was named, and those given as options, which win."""
    values: dict[str, object] = {**read_parameter_set(parsed.params)} if parsed.params else {}
    return values | _options(parsed)


def run_values(parsed: argparse.Namespace) -> dict[str, object]:
    """Values of a run's parameters; entries that the named set has for another task or method are left out."""
    values = given_values(parsed)
    return without_unread(values, kept=_options(parsed)) if parsed.params else values


def _options(parsed: argparse.Namespace) -> dict[str, object]:
    given = {name: value for name, value in vars(parsed).items() if name.startswith(PREFIX) and value is not None}
    return {name.removeprefix(PREFIX): value for name, value in given.items()}


def pipelines_module(module: str) -> Any:
    """A module of `pipelines/`, which the library itself does not need."""
    try:
        return importlib.import_module(f"pipelines.{module}")
    except ImportError as error:
        needs = "kfp and the repository's pipelines/"
        raise ConfigError(f"this needs {needs} ({error}); run `make install` in a checkout") from error


def made_folder(given: str) -> Path:
    """The folder of `--output-dir`, made and writable.

    Raises:
        ConfigError: if it cannot be.
    """
    folder = Path(given).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output-dir {folder} cannot be created: {error.strerror}; choose another") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--output-dir {folder} is not writable; choose another")
    return folder
