"""A comparison: methods x tasks x noise ratios x endpoints, each cell repeated with seeds of its own.

An axis is a list, or a text with commas between its entries. An entry is a name, or a mapping of parameters:

    tasks         lr · instruction_induction:antonyms_v1 · {task: table, task_uri: a.csv, noise_ratios: [0, 0.1]}
    methods       ease · {method: ease, shortlist: none} · {method: ease, nu: 1, label: curious}
    noise_ratios  0 · 0.1
    endpoints     local · {llm_base_url: https://llm.example.org/v1, llm_model: small-1, label: ours}

The noise ratios in the entry of a task replace those of the axis. All other parameters are those of one run and apply
to every cell. Repeat r has the seed `seed + r` for everything (split, noise, initial design, candidates and network),
so that a standard error covers all of it. With `repeat_data: fixed` repeats share splits and noise, like the paper's
(in the authors' code they share the candidates too). With one seed all methods see the same data, so they can be
compared in pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ease_lib.config.parsing import Value, changed_parameters, declared_parameters, parse_parameters, without_unread
from ease_lib.config.sections import ComparisonConfig, RunConfig
from ease_lib.errors import ConfigError

logger = logging.getLogger("ease")

AXES = tuple(field.name for field in dataclasses.fields(ComparisonConfig))
ORDER_REPORT, FIGURES = "order_report", "figures"
ANSWERS_PER_POINT = 20
"""Number of answers per point of the search curve that a cell stores."""
_NAMED = {"tasks": "task", "methods": "method", "noise_ratios": "noise_ratio", "endpoints": "llm_base_url"}
"""The parameter that an entry of an axis sets when it is a name."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a comparison: its labels, and its parameters where they differ from the defaults.

    Args:
        several_endpoints: whether its name says at which one.
    """

    task: str
    noise_ratio: float
    endpoint: str
    method: str
    repeat: int
    parameters: dict[str, Value]
    several_endpoints: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Cell:
        """Read a cell from what `document` returned; KFP turns whole numbers into doubles on the way."""
        return cls(**{**document, "repeat": int(document["repeat"]), "parameters": dict(document["parameters"])})

    @property
    def document(self) -> dict[str, Any]:
        """The cell as a pipeline passes it on."""
        return dataclasses.asdict(self)

    @property
    def name(self) -> str:
        return cell_name(
            self.task, self.noise_ratio, self.method, self.repeat, self.endpoint if self.several_endpoints else ""
        )

    @property
    def search(self) -> str:
        """Key that is equal for cells with the same search; labels and the work after the search may differ."""
        return json.dumps({name: value for name, value in self.parameters.items() if name != ORDER_REPORT})

    @property
    def data_and_endpoint(self) -> tuple[str, float, str, int]:
        """Data and endpoint, which cells share that differ in the method alone."""
        return self.task, self.noise_ratio, self.endpoint, self.repeat


def cell_name(task: str, noise_ratio: float, method: str, repeat: int, endpoint: str = "") -> str:
    """Readable name of a cell.

    Args:
        endpoint: where there are several.
    """
    noise = f", noise {noise_ratio:.0%}" if noise_ratio else ""
    at = f" at {endpoint}" if endpoint else ""
    return f"{task}{noise}, {method}{at}, repeat {repeat + 1}"


@dataclass(frozen=True)
class AxisEntry:
    """An entry of an axis: its label in tables, and the parameters it sets."""

    label: str
    parameters: dict[str, Any]
    noise_ratios: Sequence[AxisEntry] = ()


def check_for_cluster(cells: Sequence[Cell]) -> None:
    """
    Raises:
        ConfigError: if a pipeline cannot run this comparison, though `ease compare` can.
    """
    if not cells[0].parameters.get("store_uri"):
        raise ConfigError("a comparison in a pipeline needs store_uri, through which its workers share results")


def figures_named(values: Mapping[str, object]) -> str:
    """The published scores next to which a comparison shows its own: a file, or tables with commas between them."""
    named = values.get(FIGURES) or ""
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named)


def plan(values: Mapping[str, object]) -> list[Cell]:
    """All cells, repeat by repeat, those of the same data next to each other.

    Args:
        values: the axes by name, and the parameters that all cells share.

    Raises:
        ConfigError: listing every cell's problems, equal ones once.
    """
    given = {name: value for name, value in values.items() if value not in (None, "")}
    shared = {name: value for name, value in given.items() if name not in AXES}
    repeats = _whole("repeats", given.get("repeats", ComparisonConfig.repeats), least=1)
    seed = _whole("seed", shared.pop("seed", RunConfig.seed), least=0)
    declared = declared_parameters()
    entries = {axis: _entries(axis, given.get(axis), shared) for axis in _NAMED}
    cells: list[Cell] = []
    problems: list[str] = []
    read: set[str] = set()
    for repeat, endpoint, task in itertools.product(range(repeats), entries["endpoints"], entries["tasks"]):
        for noise, method in itertools.product(task.noise_ratios or entries["noise_ratios"], entries["methods"]):
            chosen = task.parameters | noise.parameters | endpoint.parameters | method.parameters
            try:
                own = without_unread({**shared, **chosen, "seed": seed + repeat}, kept=chosen)
                read |= own.keys()
                parameters = parse_parameters(own)
            except ConfigError as error:
                problems += [f"{task.label}, {method.label}: {problem}" for problem in error.problems]
                continue
            cells.append(
                Cell(
                    task=task.label,
                    noise_ratio=parameters.task.noise_ratio,
                    endpoint=endpoint.label,
                    method=method.label,
                    repeat=repeat,
                    parameters=changed_parameters(parameters),
                    several_endpoints=len(entries["endpoints"]) > 1,
                )
            )
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    for name in shared.keys() - read:
        logger.info(
            "notice: %s has an effect only with %s, which no run of this comparison has", name, declared[name].only
        )
    return cells


def _whole(name: str, value: object, *, least: int) -> int:
    try:
        given = float(str(value))  # KFP turns whole numbers into doubles
        number = int(given) if given.is_integer() else least - 1
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigError(f"{name}={value} is not a whole number of at least {least}")
    return number


def _entries(axis: str, value: object, shared: Mapping[str, object]) -> list[AxisEntry]:
    """The entries of an axis; an empty one is the run's own, and for methods all there are."""
    named = _NAMED[axis]
    if value is None and axis == "methods":
        value = list(declared_parameters()[named].choices)
    if value is None:
        own = str(shared.get(named, declared_parameters()[named].default))
        better = shared.get("task_name") if axis == "tasks" else shared.get("llm_model") if "://" in own else None
        return [AxisEntry(str(better or own), {})]
    found = [_entry(axis, item) for item in _items(axis, value)]
    labels = [entry.label for entry in found]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ConfigError(f"{axis} has {', '.join(twice)} twice; give one of them a different label")
    return found


def _items(axis: str, value: object) -> Sequence[object]:
    if isinstance(value, str):
        try:
            value = yaml.safe_load(f"[{value}]")
        except yaml.YAMLError as error:
            raise ConfigError(f"{axis}={value} is not a list; write a, b or {{name: value}}, ...") from error
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise ConfigError(f"{axis} is an empty list; name at least one")
    return items


def _entry(axis: str, item: object) -> AxisEntry:
    named = _NAMED[axis]
    if isinstance(item, Mapping):
        parameters = {str(name): value for name, value in item.items() if name not in ("label", "noise_ratios")}
        label = str(item.get("label") or _described(parameters, named))
        ratios = _items("noise_ratios", item["noise_ratios"]) if "noise_ratios" in item else ()
        return AxisEntry(label, parameters, [_entry("noise_ratios", ratio) for ratio in ratios])
    if axis == "tasks" and isinstance(item, str) and ":" in item:
        task, _, name = item.partition(":")
        return AxisEntry(name, {"task": task, "task_name": name})
    return AxisEntry(str(item), {named: item})


def _described(parameters: Mapping[str, object], named: str) -> str:
    """A task is called by its name, an endpoint by its model; else as `ease, shortlist=none`."""
    for name in ("task_name", "llm_model"):
        if name in parameters:
            return str(parameters[name])
    rest = [f"{name}={value}" for name, value in parameters.items() if name != named]
    return ", ".join([str(parameters[named])] * (named in parameters) + rest)
