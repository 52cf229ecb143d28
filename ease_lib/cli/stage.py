"""A single stage from the command line, its artifacts as files."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from ease_lib.cli.options import add_parameters, given_parameters
from ease_lib.config.parsing import declared_parameters, parse_parameters, stage_parameters
from ease_lib.config.sections import OnlyLineage
from ease_lib.running.execution import LocalArtifact, execute
from ease_lib.running.graph import Stage


def fill(command: argparse.ArgumentParser, stage: Stage) -> None:
    """Describe the command of a stage, and add its options."""
    module = stage.module
    command.description = module.__doc__
    files = command.add_argument_group("files")
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
    add_parameters(command, stage.config, "parameters")
    if not set(declared_parameters(OnlyLineage)) & set(declared_parameters(stage.config)):
        add_parameters(command, OnlyLineage, "lineage")
    command.set_defaults(command=lambda parsed: _run_stage(stage, parsed))


def _run_stage(stage: Stage, parsed: argparse.Namespace) -> int:
    module = stage.module
    parameters = parse_parameters(given_parameters(parsed))
    paths = {field.name: getattr(parsed, f"read_{field.name}") for field in dataclasses.fields(module.Inputs)}
    paths.update({field.name: getattr(parsed, f"write_{field.name}") for field in dataclasses.fields(module.Outputs)})
    artifacts: dict[str, Any] = {
        name: [LocalArtifact(one) for one in path] if isinstance(path, list) else LocalArtifact(path)
        for name, path in paths.items()
    }
    report = execute(module, stage_parameters(stage.config, parameters), **artifacts)
    print(json.dumps(report.metrics))
    return 0
