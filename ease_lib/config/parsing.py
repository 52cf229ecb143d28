"""Conversion of parameters between flat names with values and checked objects, and the forms of the dashboard."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import yaml

from ease_lib.config.rules import problems_of, problems_of_run, unread
from ease_lib.config.sections import (
    FOLLOW_FROM_EVALUATE,
    ComparisonAxes,
    Only,
    OnlyLineage,
    Parameters,
    Role,
    ShardConfig,
    lineage_root,
)
from ease_lib.errors import ConfigError

ADVANCED, SHARED = "advanced", "parameters"
"""The fields of the two forms that take all other parameters."""
LISTED = "(`python -m pipelines params` lists them), as YAML or JSON"


def run_form() -> list[Parameter]:
    """Form of a run: the parameters declared with `form=True`."""
    fields = [parameter for parameter in declared_parameters(Parameters).values() if parameter.form]
    return [*fields, _all_others(ADVANCED, f"All other parameters {LISTED}, e.g. {{k_min: 2}}.")]


def comparison_form() -> list[Parameter]:
    """Form of a comparison: its axes, and what all its runs share."""
    shared = declared_parameters(Parameters)
    seed = replace(shared["seed"], help="Seed of the first repeat; later repeats count up from it.")
    axes = declared_parameters(ComparisonAxes).values()
    store_uri = replace(
        shared["store_uri"],
        help="Folder or s3:// for finished cells, journals and answers; the same one continues the comparison.",
    )
    return [*axes, seed, store_uri, _all_others(SHARED, f"All other parameters of the runs {LISTED}.")]


def _all_others(name: str, help: str) -> Parameter:
    return Parameter(name=name, type=str, default="", help=help, low=None, high=None, choices=(), form=True)


Value = str | int | float | bool
Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A declared parameter, for code that lists them: command line, run forms, tables, tests."""

    name: str
    type: type[Value]
    default: Value
    help: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    form: bool
    role: Role = "result"
    internal: bool = False
    only: Only | None = None


def declared_parameters(config: type = Parameters) -> Mapping[str, Parameter]:
    """The parameters of `config` (a dataclass of sections) by flat name, in order of declaration."""
    if config not in _DECLARED:
        _DECLARED[config] = _declared(config)
    return _DECLARED[config]


_DECLARED: dict[type, Mapping[str, Parameter]] = {}
"""A comparison of a thousand cells asks for them thousands of times."""


def _declared(config: type) -> dict[str, Parameter]:
    declared: dict[str, Parameter] = {}
    for section in get_type_hints(config).values():
        types = get_type_hints(section)
        for field in dataclasses.fields(section):
            only, text = field.metadata["only"], field.metadata["help"]
            metadata = {**field.metadata, "help": f"{text[:-1]} ({only})." if only else text}
            declared[field.name] = Parameter(
                name=field.name, type=types[field.name], default=cast(Value, field.default), **metadata
            )
    return declared


def parameters_of(*roles: Role, internal: bool = False) -> frozenset[str]:
    """Names of the parameters of a run with one of these roles; with `internal`, also those that are not set by
    hand."""
    declared = declared_parameters().values()
    return frozenset(each.name for each in declared if each.role in roles or (internal and each.internal))


def parse_parameters(values: Mapping[str, object]) -> Parameters:
    """Build and validate a whole run from flat values.

    Numbers may arrive as strings or floats (run forms and JSON do that) and are coerced.

    Raises:
        ConfigError: listing every unknown name, wrong type, value out of bounds and broken cross-field rule.
    """
    parameters = _build(Parameters, values)
    problems = list(problems_of_run(parameters))
    if problems:
        raise ConfigError(*problems)
    if parameters.endpoint.evaluate:
        return replace(parameters, task=replace(parameters.task, **FOLLOW_FROM_EVALUATE))
    return parameters


def without_unread(values: Mapping[str, object], kept: Collection[str] = ()) -> dict[str, object]:
    """The values that the run reads, and those named in `kept`.

    Values that were written down for several runs, in a set or for a comparison, need not all be for each of them.

    Raises:
        ConfigError: as `parse_parameters`, but for rules between parameters.
    """
    left = {name for name, _ in unread(_build(Parameters, values))}
    return {name: value for name, value in values.items() if name not in left or name in kept}


def changed_parameters(parameters: Parameters) -> dict[str, Value]:
    """The flat parameters whose value is not the default."""
    declared = declared_parameters()
    return {name: value for name, value in _flat(parameters) if value != declared[name].default}


def flat_parameters(config: Any) -> dict[str, Value]:
    """All parameters of a run, or of a stage's `Config`, by flat name."""
    return dict(_flat(config))


def read_by(configs: Iterable[type], parameters: Parameters) -> dict[str, Value]:
    """The parameters that stages with these `Config`s read, and where their records go.

    Returns:
        flat names and values, which `stage_config` reads; KFP carries them from component to component as a struct.
    """
    wanted = {name for config in (*configs, OnlyLineage) for name in declared_parameters(config)}
    values = {name: value for name, value in _flat(parameters) if name in wanted}
    return {**values, "lineage_uri": parameters.lineage_root}


def checked_values(values: Mapping[str, object]) -> dict[str, object]:
    """Checked parameters for a component of any author, with the place of its records.

    Raises:
        ConfigError: on names that are not parameters.
    """
    known = {**declared_parameters(), **declared_parameters(_OnlyShard)}
    problems = [_unknown(name, known) for name in values if name not in known]
    if problems:
        raise ConfigError(*problems)
    places = (str(values.get(name) or "") for name in ("lineage_uri", "store_uri", "publish_uri"))
    return {**values, "lineage_uri": lineage_root(*places)}


def stage_config(config: type[Config], values: Mapping[str, object]) -> Config:
    """The `Config` of a stage, from flat values; missing ones have their defaults.

    Raises:
        ConfigError: listing every wrong type, value out of bounds and broken rule of a section.
    """
    built = _build(config, {name: values[name] for name in declared_parameters(config) if name in values})
    sections = (getattr(built, name) for name in get_type_hints(config))
    problems = [problem for section in sections for problem in problems_of(section)]
    if problems:
        raise ConfigError(*problems)
    return built


@dataclass(frozen=True)
class _OnlyShard:
    shard: ShardConfig


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


def _flat(config: Any) -> Iterator[tuple[str, Value]]:
    for section in dataclasses.fields(config):
        yield from dataclasses.asdict(getattr(config, section.name)).items()


def _build(config: type[Config], values: Mapping[str, object]) -> Config:
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
    """The value in the parameter's type and within its bounds, or a `ConfigError` that states what is allowed."""
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
