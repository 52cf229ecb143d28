"""The run forms of the dashboard: some parameters each in a field of its own, all others in the last one."""

from __future__ import annotations

from dataclasses import replace

from ease_lib.config.parsing import Parameter, declared_parameters
from ease_lib.config.sections import ComparisonAxes, Parameters

ADVANCED, SHARED = "advanced", "parameters"
"""The fields of the two forms that take all other parameters."""
LISTED = "(`python -m pipelines params` lists them), as YAML or JSON"


def run_form() -> list[Parameter]:
    """Of a run: the parameters declared with `form=True`."""
    fields = [parameter for parameter in declared_parameters(Parameters).values() if parameter.form]
    return [*fields, _all_others(ADVANCED, f"All other parameters {LISTED}, e.g. {{nu: 1.0}}.")]


def comparison_form() -> list[Parameter]:
    """Of a comparison: its axes, and what all its runs share."""
    shared = declared_parameters(Parameters)
    seed = replace(shared["seed"], help="Seed of the first repeat; the others follow.")
    axes = declared_parameters(ComparisonAxes).values()
    store_uri = replace(
        shared["store_uri"],
        help="Folder or s3:// for finished cells, journals and answers; the same one continues the comparison.",
    )
    return [*axes, seed, store_uri, _all_others(SHARED, f"All other parameters of the runs {LISTED}.")]


def _all_others(name: str, help: str) -> Parameter:
    return Parameter(name=name, type=str, default="", help=help, low=None, high=None, choices=(), form=True)
