"""Declaration of parameters, and values of parameters that other modules use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

AS_PUBLISHED = "instruction_induction"
"""The metric that scores as the authors of Instruction Induction do; the task says by which of its rules."""
EVALUATIONS_UNDER_WAY = 8
"""Number of evaluations at once for methods that choose rows, unless `parallel` is set: each takes only a few
requests."""
METRIC_NAMES = (
    *("exact_match", "case_sensitive_match", "label", "exact_set", "contains", "token_f1", "rouge_l"),
    "edit_similarity",
    *("regex", "json_equal", "json_fields", "json_set", "number", "option_letter", "boxed", AS_PUBLISHED),
)
JUDGE = "judge"
"""The metric that asks a second LLM."""
ROWS, EVALUATED = "rows", "evaluate"
"""Values of `prompt` and `metric` if `evaluate` names a program, which scores rows itself."""
FOLLOW_FROM_EVALUATE: Mapping[str, Any] = {"metric": EVALUATED, "prompt": ROWS}
PYTHON = "python:"
"""Prefix of a function that `llm_base_url` or `evaluate` names."""
FUNCTION = "function"
"""Value of a parameter whose function the caller of `ease_lib.optimize` passes."""
S3_SCHEMES = ("s3", "minio")
"""Schemes of object stores; the second is what Kubeflow calls its own."""
ENDPOINT_EMBEDDER = "openai:"
"""Prefix of an embedder behind an endpoint."""
FILE_ORDER, KEEP_LEAKS, FIXED_DATA, DRAWN_OUTPUTS, LATEST = "file", "keep", "fixed", "drawn", "latest"
"""Values of parameters that are the paper's, or its authors' code's, and not the default."""
INSTRUCTION_SOURCES = ("instructions", "instructions_uri")


Role = Literal["result", "place", "speed", "cap", "tolerance"]
"""Role of a parameter. It decides the result, a place, the speed, a cap on cost (or a price that costs are counted by),
or the failures that are tolerated. A continued run may change parameters of every role except the first."""


@dataclass(frozen=True)
class Only:
    """Runs in which a parameter has one of these values.

    Args:
        name: of that parameter, or of a property of its section.
        text, others: who they are, and who the others are, where the name and its value do not say it.
    """

    name: str
    values: tuple[Any, ...]
    text: str = ""
    others: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.name}={' or '.join(self.values)}"


TABLE = Only("task", ("table",))
TASKS_OF_FILES = Only("task", ("instruction_induction", "gsm8k", "aqua", "math", "table"))
TABLES = Only("task", ("gsm8k", "aqua", "math", "table"))
EASE = Only("method", ("ease",))
JUDGED = Only("is_judged", (True,), "metric=judge or require=judge", "this run asks no judge")


def param(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    form: bool = False,
    role: Role = "result",
    internal: bool = False,
    only: Only | None = None,
) -> Any:
    """Declare a parameter.

    Args:
        default: its one default.
        help: one line for `--help`, the run form and the table of parameters.
        low, high: inclusive bounds of a number.
        choices: the only strings allowed, when given.
        form: whether it is a field of the pipeline's run form; the others travel in the form's `advanced` field.
        role: what it decides, by which keys are made.
        internal: a run sets it for its stages; `--help` and tables do not list it.
        only: who reads it, where that is not every run; any other value than its default is refused of others.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "form": form}
    return dataclasses.field(default=default, metadata={**metadata, "role": role, "internal": internal, "only": only})


class Section:
    """Parameters that belong together."""
