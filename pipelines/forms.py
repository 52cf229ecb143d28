"""Give the function of a pipeline the run form that `ease_lib/config` declares: KFP reads signature and docstring."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ease_lib.config.parsing import Parameter


def has_form(fields: Sequence[Parameter], results: type) -> Callable[[Callable[[dict[str, Any]], Any]], Any]:
    """Decorate a function of the form's values by name, so that KFP sees a parameter for each field.

    Args:
        results: what the pipeline returns.
    """

    def decorate(wire: Callable[[dict[str, Any]], Any]) -> Any:
        def pipeline(*values: Any) -> Any:
            return wire({field.name: value for field, value in zip(fields, values, strict=True)})

        pipeline.__name__ = wire.__name__
        pipeline.__doc__ = "\n".join(
            [
                inspect.getdoc(wire) or "",
                "",
                *described(fields),
                "",
                "Args:",
                *(f"    {field.name}: {field.help}" for field in fields),
            ]
        )
        pipeline.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.default, annotation=field.type
                )
                for field in fields
            ],
            return_annotation=results,
        )
        return pipeline

    return decorate


def described(fields: Sequence[Parameter]) -> list[str]:
    """The fields as a table in the order of their use: the dashboard shows a pipeline's description, and no field's."""
    return [
        "| Field | Default | What it sets |",
        "|---|---|---|",
        *(f"| {field.name} | {field.default} | {_cell(field.help)} |" for field in fields),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "\\{")


def with_defaults(pipeline: Any, defaults: Mapping[str, Any]) -> Any:
    """The function of a pipeline, with other defaults of some fields of its form."""
    if not defaults:
        return pipeline

    def other(*values: Any) -> Any:
        return pipeline(*values)

    other.__name__, other.__doc__ = pipeline.__name__, pipeline.__doc__
    signature = inspect.signature(pipeline)
    fields = [field.replace(default=defaults.get(name, field.default)) for name, field in signature.parameters.items()]
    other.__signature__ = signature.replace(parameters=fields)  # type: ignore[attr-defined]
    return other
