"""Arguments of a run of a compiled pipeline: the values of its form, checked like those of `ease run`.

A package may have defaults of its own, those of an installation (`python -m pipelines compile --set`); what is given
wins over them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ease_lib.config.comparison import AXES, FIGURES, check_for_cluster, figures_named, plan
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import (
    ADVANCED,
    SHARED,
    Parameter,
    Value,
    changed_parameters,
    comparison_form,
    declared_parameters,
    flat_parameters,
    parse_parameter_text,
    parse_parameters,
    run_form,
    without_unread,
)
from ease_lib.config.sections import PYTHON, Parameters
from ease_lib.errors import ConfigError
from ease_lib.evaluation.own_metric import file_of
from ease_lib.reporting.figures import is_file

ROOT = Path(__file__).parents[1]
IN_IMAGES = ("ease_lib", "components")
PLACEHOLDER = "{{"
"""Beginnings of placeholders: Argo replaces its own in the arguments of a run (4.0.5: `{{workflow.name}}`), and
Kubeflow's launcher those of a component's inputs in any string (2.17: `{{$.inputs...}}`)."""
READ_ONLY_PATHS = (
    *("task_uri", "validation_uri", "test_uri"),
    *("prompt", "baseline", "judge_rubric", "instructions_uri", "embedder"),
)
"""Parameters that may name a file or folder of this machine."""
WRITTEN_PATHS = ("store_uri", "publish_uri", "lineage_uri")
MOST_BYTES = 20_000
"""Largest size of a run's arguments as Kubeflow writes them: into one argument of a program, which may have 128 KiB,
and fifteen times into the run's workflow, which may have 1 MiB (`tests/pipelines/test_workflow_size.py`)."""
MOST_BYTES_WITH_SHARDS = 4_000
"""The same limit for a pipeline with shards, each of which holds the arguments six times more."""
SHARD = "comp-rank-shard"
"""Name of the component in such a pipeline."""
_ONLY_HERE = "is a file on this machine, which pods cannot read; copy it to an object store and name it s3://..."
COMPARISON = "ease-comparison"
"""The pipeline of that name; any other is of a run."""


def given_values(parameter_set: str, overrides: Mapping[str, object]) -> dict[str, object]:
    """The values of a set, with overrides; entries of the set for another task or method are left out."""
    values = {**(read_parameter_set(parameter_set) if parameter_set else {}), **overrides}
    return without_unread(values, kept=overrides) if parameter_set and not is_comparison(values) else values


def assignments(given: Sequence[str]) -> dict[str, object]:
    """`["k=8", "task=lr"]` as a mapping; of two values for one name the last wins."""
    broken = [f"--set {text} is not name=value, e.g. --set k=8" for text in given if "=" not in text.lstrip("=")]
    if broken:
        raise ConfigError(*broken)
    return {name.strip(): value for name, _, value in (text.partition("=") for text in given)}


def is_comparison(values: Mapping[str, object]) -> bool:
    """Whether the values are those of a comparison, which varies something."""
    return bool(set(values) & set(AXES))


def check_values(values: Mapping[str, object]) -> None:
    """
    Raises:
        ConfigError: with everything that is wrong with them.
    """
    if is_comparison(values):
        plan(values)
    else:
        parse_parameters(values)


def arguments_of(values: Mapping[str, object], pipeline: str, spec: Mapping[str, Any], origin: str) -> dict[str, Value]:
    """The form's arguments for these values, where they differ from the package's own defaults.

    Args:
        pipeline, spec: the package's.
        origin: names it in messages.

    Raises:
        ConfigError: on wrong values, or a form that is not this version's.
    """
    if pipeline == COMPARISON:
        form, last = comparison_form(), SHARED
    elif is_comparison(values):
        axes = ", ".join(sorted(set(values) & set(AXES)))
        raise ConfigError(f"{axes} make several runs, but {origin} makes one; use the comparison's package")
    else:
        form, last = run_form(), ADVANCED
    defaults = _defaults(form, spec, origin)
    installed = {name: value for name, value in defaults.items() if name != last and value != ""}
    merged = {**parse_parameter_text(str(defaults[last]), last), **installed, **values}
    if pipeline == COMPARISON:
        cells = plan(merged)
        check_for_cluster(cells)
        from ease_lib.stages.plan_comparison import figures_of, with_shares  # loads the search, which few commands need

        with_shares(cells)
        named = figures_named(merged)
        if not ("://" in named and is_file(named)):
            figures_of(merged)
        fields, runs = _comparison_fields(merged), [parse_parameters(cell.parameters) for cell in cells]
    else:
        from ease_lib.running.planning import check_cap  # slow to import

        runs = [parse_parameters(merged)]
        check_cap(runs[0])
        fields = form_values(runs[0])
    _check_for_pods(runs, fields, has_shards=SHARD in spec.get("components", {}))
    return {name: value for name, value in fields.items() if value != defaults[name] or name == last}


def _check_for_pods(runs: Iterable[Parameters], fields: Mapping[str, Value], *, has_shards: bool) -> None:
    """
    Raises:
        ConfigError: if a value names something of this machine, which no pod sees, or holds a placeholder; and where
            the values are too long.
    """
    problems = [problem for run in runs for problem in _of_this_machine(run)]
    figures = str(fields.get(FIGURES, ""))
    problems += [f"{FIGURES}={figures} {_ONLY_HERE}"] * (is_file(figures) and _is_here(figures))
    problems += [
        f"{name} holds {PLACEHOLDER}, where Kubeflow inserts its own values; rename it, or put the text into a file"
        for name, value in fields.items()
        if PLACEHOLDER in str(value)
    ]
    problems += _too_long(fields, MOST_BYTES_WITH_SHARDS if has_shards else MOST_BYTES)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))


def written_bytes(arguments: Mapping[str, Value]) -> int:
    """Length of arguments as Kubeflow writes them: JSON in JSON in JSON, where a quote in a text has 8 bytes."""
    text: object = dict(arguments)
    for _ in range(3):
        text = json.dumps(text, ensure_ascii=False)
    return len(str(text).encode())


def _too_long(fields: Mapping[str, Value], most_bytes: int) -> Iterator[str]:
    written = written_bytes(fields)
    if written > most_bytes:
        longest = max(fields, key=lambda name: written_bytes({name: fields[name]}))
        yield (
            f"the parameters have {written:,} bytes as Kubeflow writes them, most of them in {longest}, and may have "
            f"{most_bytes:,}: the run's state holds them many times, and may have 1 MiB; put a long prompt, baseline, "
            "judge_rubric or list of instructions into a file and name it s3://... (instructions by instructions_uri)"
        )


def _of_this_machine(parameters: Parameters) -> Iterator[str]:
    requirement, values = parameters.task.requirement, flat_parameters(parameters)
    named = {name: str(values[name]) for name in READ_ONLY_PATHS}
    functions = {f"metric={parameters.task.metric}": parameters.task.metric}
    functions |= {f"require={measure}": measure for measure in (requirement.measures if requirement else ())}
    url = parameters.endpoint.llm_base_url
    if url.startswith(PYTHON):
        functions[f"llm_base_url={url}"] = url.removeprefix(PYTHON)
    if program := parameters.endpoint.program:
        functions[f"evaluate={parameters.endpoint.evaluate}"] = program
    files = {text: file_of(function) or _checkout_file(function) for text, function in functions.items()}
    files |= {f"{name}={value}": value for name, value in named.items()}
    for name in WRITTEN_PATHS:
        if values[name] and "://" not in str(values[name]):
            yield f"{name}={values[name]} is a folder, which pods do not share; use a place in an object store, s3://..."
    for text, file in files.items():
        if _is_here(file):
            yield f"{text} {_ONLY_HERE}"


def _is_here(file: str) -> bool:
    """Whether the value is a path of an existing file; it may be a text instead."""
    try:
        return bool(file) and "://" not in file and Path(file).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _checkout_file(function: str) -> str:
    """Path of a module of this checkout that is in no image, such as those of the tests; else empty."""
    module = function.rpartition(":")[0]
    path = ROOT / Path(*module.split(".")).with_suffix(".py") if module else ROOT
    return str(path) if path.is_file() and module.split(".")[0] not in IN_IMAGES else ""


def installed_defaults(values: Mapping[str, object], *, is_run: bool, shards: int = 1) -> dict[str, Value]:
    """Defaults of an installation, for the form of a run or of a comparison.

    Args:
        shards: of the package they are put into.

    Raises:
        ConfigError: with everything that is wrong with them.
    """
    if is_comparison(values):
        raise ConfigError(f"{sorted(set(values) & set(AXES))[0]} varies something; pass defaults of a run")
    parameters = parse_parameters(values)
    fields = form_values(parameters) if is_run else _comparison_fields(values)
    _check_for_pods([parameters], fields, has_shards=is_run and shards > 1)
    return fields


def form_arguments(parameters: Parameters) -> dict[str, Value]:
    """The arguments of a run: its form's fields that are not at their defaults, and the other parameters together."""
    defaults = {field.name: field.default for field in run_form()}
    return {
        name: value for name, value in form_values(parameters).items() if value != defaults[name] or name == ADVANCED
    }


def form_values(parameters: Parameters) -> dict[str, Value]:
    """Every field of the run form."""
    declared = declared_parameters()
    fields = {name: value for name, value in flat_parameters(parameters).items() if declared[name].form}
    more = {name: value for name, value in changed_parameters(parameters).items() if not declared[name].form}
    return {**fields, ADVANCED: json.dumps(more) if more else ""}


def _comparison_fields(values: Mapping[str, object]) -> dict[str, Value]:
    named = {field.name: field for field in comparison_form()}
    values = {**values, FIGURES: figures_named(values)} if FIGURES in values else values
    fields: dict[str, Value] = {name: _as_field(named[name], value) for name, value in values.items() if name in named}
    more = {name: value for name, value in values.items() if name not in named}
    return {**fields, SHARED: json.dumps(more) if more else ""}


def _as_field(field: Parameter, value: object) -> Value:
    """The entries of an axis as text, because the form takes no lists."""
    if field.type is int:
        return int(str(value))
    return json.dumps(value)[1:-1] if isinstance(value, list) else str(value)


def _defaults(form: Sequence[Parameter], spec: Mapping[str, Any], origin: str) -> dict[str, Value]:
    fields = spec.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    names = {field.name for field in form}
    problems = [f"{origin} lacks parameter {name}" for name in names - fields.keys()]
    problems += [f"{origin} has parameter {name}, which this version does not have" for name in fields.keys() - names]
    if problems:
        raise ConfigError(*(f"{problem}; run `python -m pipelines compile`" for problem in sorted(problems)))
    types = {field.name: field.type for field in form}
    return {name: types[name](field.get("defaultValue", "")) for name, field in fields.items()}
