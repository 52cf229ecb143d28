"""The description of a pipeline in the dashboard, which shows it beside the run form, and no field's own."""

from collections.abc import Sequence

from ease_lib.config.parsing import Parameter


def described(summary: str, fields: Sequence[Parameter]) -> str:
    """A sentence, and the fields of the form as a table in the order of their use."""
    rows = (f"| {field.name} | {field.default} | {_cell(field.help)} |" for field in fields)
    return "\n".join([summary, "", "| Field | Default | What it sets |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "\\{")
