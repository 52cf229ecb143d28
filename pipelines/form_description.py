"""Text of the run form in the dashboard: the pipeline's description, because the dashboard shows no description of a
field, and choices."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.struct_pb2 import Value

from ease_lib.config.parsing import Parameter


def described(summary: str, fields: Sequence[Parameter]) -> str:
    """A sentence, and the fields of the form as a table in the order of their use."""
    rows = (f"| {field.name} | {field.default} | {_cell(field.help)} |" for field in fields)
    return "\n".join([summary, "", "| Field | Default | What it sets |", "|---|---|---|", *rows])


def offer_choices(spec: Any, fields: Sequence[Parameter]) -> None:
    """Let the form offer choices and Kubeflow refuse other values, which the SDK cannot express.

    Args:
        spec: kfp's `PipelineSpec`, which is changed.
    """
    shown = spec.root.input_definitions.parameters
    for field in fields:
        if field.name in shown:
            shown[field.name].literals.extend(Value(string_value=str(choice)) for choice in field.choices)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "\\{")
