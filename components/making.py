"""Make a component from what its stage declares.

KFP keeps a component as the source text of a function, whose signature is what goes in and out and whose docstring is
what the dashboard shows; both are written here from the stage's `Inputs` and `Outputs`, so that no file repeats them.
"""

import dataclasses
import linecache
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from kfp import dsl

from components import images
from ease_lib.config.parsing import Parameter
from ease_lib.running.graph import Stage

CONFIG = "Parameters of this stage{}, as check_prerequisites passes them."
METRICS = "A few numbers for the dashboard."
LINEAGE = "Record of what went in and came out, and how."
CHAIN = "The same for people."
SUPERVISED = ("from ease_lib.running.supervision import supervised", "", "supervised()")
"""What a component does before it loads its stage."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """Of a component's function: its name, its type as KFP knows it, and what it is."""

    name: str
    type: str
    text: str


def stage_component(stage: Stage) -> Any:
    """The component of a stage that `ease_lib.running.execution.execute` runs."""
    inputs, outputs = (
        artifact_arguments(stage.module.Inputs, "Input"),
        artifact_arguments(stage.module.Outputs, "Output"),
    )
    config = Argument("config", "str", CONFIG.format(" and shard" if stage.shards else ""))
    metrics = Argument("metrics", "dsl.Output[dsl.Metrics]", METRICS)
    keywords = ["metrics", "lineage", "chain", *(argument.name for argument in (*inputs, *outputs))]
    body = [
        *SUPERVISED,
        f"from ease_lib.stages import {stage.name} as stage",
        "from ease_lib.running.execution import execute",
        "",
        "execute(",
        "    stage,",
        "    config,",
        *(f"    {name}={name}," for name in keywords),
        ")",
    ]
    return component(stage, [config, *inputs, *outputs, metrics], body)


def form_arguments(parameters: Sequence[Parameter]) -> list[Argument]:
    """Fields of a run form, as a component that reads them all takes them."""
    return [Argument(parameter.name, parameter.type.__name__, parameter.help) for parameter in parameters]


def component(stage: Stage, arguments: Sequence[Argument], body: Sequence[str], returns: str = "None") -> Any:
    """A component whose function has this body; it takes the stage's record and its page too."""
    records = [
        Argument("lineage", "dsl.Output[dsl.Artifact]", LINEAGE),
        Argument("chain", "dsl.Output[dsl.Markdown]", CHAIN),
    ]
    arguments = [*arguments, *records]
    lines = [
        f"def {stage.name}(",
        *(f"    {argument.name}: {argument.type}," for argument in arguments),
        f") -> {returns}:",
        f'    """{_quoted(stage.summary)}',
        "",
        "    Args:",
        *(f"        {argument.name}: {_quoted(argument.text)}" for argument in arguments),
        '    """',
        textwrap.indent("\n".join(body), "    "),
        "",
    ]
    return dsl.component(base_image=images.CPU, install_kfp_package=False)(_function(stage.name, "\n".join(lines)))


def artifact_arguments(declared: type, direction: str) -> list[Argument]:
    """The fields of a stage's `Inputs` or `Outputs`; `direction` is the one or the other, without its s."""
    arguments = []
    for field in dataclasses.fields(declared):
        kind = f"dsl.{field.metadata['kind']}"
        wrapped = f"list[{kind}]" if field.metadata["many"] else kind
        arguments.append(Argument(field.name, f"dsl.{direction}[{wrapped}]", field.metadata["text"]))
    return arguments


def _quoted(text: str) -> str:
    """As it stands in the source of a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"""')


def _function(name: str, source: str) -> Any:
    """The function of this source, which `inspect.getsource` finds again as KFP asks for it."""
    file = f"<component {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"dsl": dsl, "NamedTuple": NamedTuple}
    exec(compile(source, file, "exec", dont_inherit=True), namespace)  # noqa: S102  (our own declarations)
    return namespace[name]
