"""Every declared parameter as an option of a command."""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path
from typing import Any

from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import declared_parameters, without_unread
from ease_lib.errors import ConfigError

PREFIX = "parameter_"
"""Begins the names of parameters among parsed options."""


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add the option that names parameters which are written down."""
    text = "parameter set (demo, smoke, paper) or YAML file; options win over it"
    parser.add_argument("--params", metavar="SET", help=text)


def add_parameters(parser: argparse.ArgumentParser, config: type, title: str) -> None:
    """Add an option for each parameter of `config`, in a group of their own."""
    group = parser.add_argument_group(title)
    for parameter in declared_parameters(config).values():
        default = f" (default: {parameter.default})" if parameter.default != "" else ""
        flag: dict[str, Any] = {"nargs": "?", "const": True} if parameter.type is bool else {}
        group.add_argument(
            f"--{parameter.name.replace('_', '-')}",
            dest=f"{PREFIX}{parameter.name}",
            metavar=parameter.type.__name__.upper(),
            help=argparse.SUPPRESS if parameter.internal else (parameter.help + default).replace("%", "%%"),
            **flag,
        )


def given_values(parsed: argparse.Namespace) -> dict[str, object]:
    """The parameters of the set that was named, and those given as options, which win."""
    values: dict[str, object] = {**read_parameter_set(parsed.params)} if parsed.params else {}
    return values | _options(parsed)


def run_values(parsed: argparse.Namespace) -> dict[str, object]:
    """Those of a run: what the set has for another task or method than the options name is left out."""
    values = given_values(parsed)
    return without_unread(values, kept=_options(parsed)) if parsed.params else values


def _options(parsed: argparse.Namespace) -> dict[str, object]:
    given = {name: value for name, value in vars(parsed).items() if name.startswith(PREFIX) and value is not None}
    return {name.removeprefix(PREFIX): value for name, value in given.items()}


def pipelines_module(module: str) -> Any:
    """A module of the graphs, which the library itself does not need."""
    try:
        return importlib.import_module(f"pipelines.{module}")
    except ImportError as error:
        needs = "kfp and the repository's pipelines/"
        raise ConfigError(f"this needs {needs} ({error}); run `make install` in a checkout") from error


def made_folder(given: str) -> Path:
    """The folder of `--output-dir`, made and writable.

    Raises:
        ConfigError: where it cannot be.
    """
    folder = Path(given).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output-dir {folder} cannot be made: {error.strerror}; choose another") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--output-dir {folder} is not writable; choose another")
    return folder
