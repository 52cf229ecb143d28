"""Parameters as they arrive and travel: flat names and values, checked, and back again."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import yaml

from ease_lib.config.sections import OnlyLineage, Parameters
from ease_lib.errors import ConfigError

Value = str | int | float | bool
Section = TypeVar("Section")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A declared parameter, for those who list them: command line, run forms, tables, tests."""

    name: str
    type: type[Value]
    default: Value
    help: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    form: bool


def declared_parameters(config: type = Parameters) -> dict[str, Parameter]:
    """The parameters of `config` (a dataclass of sections) by flat name, in order of declaration."""
    declared: dict[str, Parameter] = {}
    for section in get_type_hints(config).values():
        types = get_type_hints(section)
        for field in dataclasses.fields(section):
            declared[field.name] = Parameter(
                name=field.name, type=types[field.name], default=cast(Value, field.default), **field.metadata
            )
    return declared


def parse_parameters(values: Mapping[str, object]) -> Parameters:
    """Build and validate a whole run from flat values.

    Numbers may arrive as strings or floats (run forms and JSON do that) and are coerced.

    Raises:
        ConfigError: listing every unknown name, wrong type, value out of bounds and broken cross-field rule.
    """
    parameters = _build(Parameters, values)
    problems = list(parameters.problems())
    if problems:
        raise ConfigError(*problems)
    return parameters


def changed_parameters(parameters: Parameters) -> dict[str, Value]:
    """The flat parameters whose value is not the default."""
    declared = declared_parameters()
    return {name: value for name, value in _flat(parameters) if value != declared[name].default}


def flat_parameters(parameters: Parameters) -> dict[str, Value]:
    """All parameters by flat name."""
    return dict(_flat(parameters))


def stage_parameters(config: type, parameters: Parameters) -> str:
    """The JSON that a stage with this `Config` receives: the parameters of its sections, and where its record goes."""
    wanted = {**declared_parameters(config), **declared_parameters(OnlyLineage)}
    values = {name: value for name, value in _flat(parameters) if name in wanted}
    return json.dumps({**values, "lineage_uri": parameters.lineage_root}, sort_keys=True)


def parse_stage_config(config: type[Section], text: str) -> Section:
    """Read back what `stage_parameters` wrote, as the stage's own `Config`."""
    declared = declared_parameters(config)
    others = set(declared_parameters(OnlyLineage)) - set(declared)
    values = {name: value for name, value in json.loads(text).items() if name not in others}
    missing = [name for name in declared if name not in values]
    if missing:
        raise ConfigError(
            f"stage parameters lack {', '.join(missing)}; compile the pipeline and the image from one version"
        )
    return _build(config, values)


def read_parameter_file(path: Path) -> dict[str, object]:
    """Read a YAML file of flat pipeline parameters."""
    try:
        return parse_parameter_text(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read parameter file {path}: {error}") from error


def parse_parameter_text(text: str, origin: str) -> dict[str, object]:
    """Read YAML or JSON text that maps parameter names to values; `origin` names it in errors."""
    try:
        content = yaml.safe_load(text) if text.strip() else {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"{origin} must map parameter names to values, e.g. `budget: 60`; found {type(content).__name__}"
        )
    return {str(name): value for name, value in content.items()}


def _flat(parameters: Parameters) -> Iterator[tuple[str, Value]]:
    for section in dataclasses.fields(parameters):
        yield from dataclasses.asdict(getattr(parameters, section.name)).items()


def _build(config: type[Section], values: Mapping[str, object]) -> Section:
    declared = declared_parameters(config)
    problems = [_unknown(name, declared) for name in values if name not in declared]
    checked: dict[str, Value] = {}
    for name, parameter in declared.items():
        try:
            checked[name] = _coerce(parameter, values.get(name, parameter.default))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    sections = {
        name: section(**{field.name: checked[field.name] for field in dataclasses.fields(section)})
        for name, section in get_type_hints(config).items()
    }
    return config(**sections)


_BOOLEANS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
"""Spellings of forms, YAML and JSON."""


def _unknown(name: str, declared: Mapping[str, Parameter]) -> str:
    close = difflib.get_close_matches(name, declared, n=1)
    hint = f"did you mean {close[0]}?" if close else "`ease run --help` lists all"
    return f"unknown parameter {name}; {hint}"


def _coerce(parameter: Parameter, value: object) -> Value:
    """The value as the parameter's type and within its bounds, or a `ConfigError` that says what would be."""
    name = parameter.name
    if parameter.type is str:
        text = "" if value is None else str(value)
        if parameter.choices and text not in parameter.choices:
            raise ConfigError(f"{name}={text or '(empty)'} is not one of {', '.join(parameter.choices)}")
        return text
    if parameter.type is bool:
        if str(value).lower() not in _BOOLEANS:
            raise ConfigError(f"{name}={value!r} is neither true nor false; its default is {parameter.default}")
        return _BOOLEANS[str(value).lower()]
    try:
        number = float(cast(Any, value)) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        number = float("nan")
    wanted = "a whole number" if parameter.type is int else "a number"
    if number != number or (parameter.type is int and number != int(min(max(number, -1e18), 1e18))):
        raise ConfigError(f"{name}={value!r} is not {wanted}; its default is {parameter.default}")
    if parameter.low is not None and number < parameter.low:
        raise ConfigError(f"{name}={value} is below {parameter.low}, the least allowed")
    if parameter.high is not None and number > parameter.high:
        raise ConfigError(f"{name}={value} is above {parameter.high}, the most allowed")
    return int(number) if parameter.type is int else number
