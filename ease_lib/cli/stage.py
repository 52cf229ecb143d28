"""A single stage from the command line, its artifacts as files."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
from types import ModuleType
from typing import Any

from ease_lib.cli.options import add_parameters, given_parameters
from ease_lib.config import OnlyLineage, declared_parameters, parse_parameters, stage_parameters
from ease_lib.running.execution import LocalArtifact, execute
from ease_lib.stages.check_prerequisites import STAGE_CONFIGS


def add_stage(commands: Any, name: str) -> None:
    module = _stage_module(name)
    summary = (module.__doc__ or "").split("\n")[0].partition(": ")[2]
    stage = commands.add_parser(name.replace("_", "-"), help=summary, description=module.__doc__)
    files = stage.add_argument_group("files")
    for kind, declared in (("read", module.Inputs), ("write", module.Outputs)):
        for field in dataclasses.fields(declared):
            contract = field.metadata["contract"] or "page or folder"
            prefix = "" if kind == "read" else "out-"
            files.add_argument(
                f"--{prefix}{field.name.replace('_', '-')}",
                dest=f"{kind}_{field.name}",
                metavar="PATH",
                nargs="+" if field.metadata["many"] else None,
                required=True,
                help=f"{kind}: {contract}",
            )
    add_parameters(stage, STAGE_CONFIGS[name], "parameters")
    if not set(declared_parameters(OnlyLineage)) & set(declared_parameters(STAGE_CONFIGS[name])):
        add_parameters(stage, OnlyLineage, "lineage")
    stage.set_defaults(command=lambda parsed: _run_stage(name, parsed))


def _run_stage(name: str, parsed: argparse.Namespace) -> int:
    module, config = _stage_module(name), STAGE_CONFIGS[name]
    parameters = parse_parameters(given_parameters(parsed))
    paths = {field.name: getattr(parsed, f"read_{field.name}") for field in dataclasses.fields(module.Inputs)}
    paths.update({field.name: getattr(parsed, f"write_{field.name}") for field in dataclasses.fields(module.Outputs)})
    artifacts: dict[str, Any] = {
        name: [LocalArtifact(one) for one in path] if isinstance(path, list) else LocalArtifact(path)
        for name, path in paths.items()
    }
    report = execute(module, stage_parameters(config, parameters), **artifacts)
    print(json.dumps(report.metrics))
    return 0


def _stage_module(name: str) -> ModuleType:
    return importlib.import_module(f"ease_lib.stages.{name}")
