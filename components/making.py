"""Make the component of a task from what its stages declare.

KFP keeps a component as the source text of a function, whose signature is what goes in and out and whose docstring is
what the dashboard shows; both are written here from the stages' `Inputs` and `Outputs`, so that no file repeats them.
"""

import dataclasses
import linecache
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from kfp import dsl

from components import images
from ease_lib.config.parsing import Parameter
from ease_lib.running.graph import TASKS, Task

CONFIG = "Parameters of the stages{}, as check_prerequisites passes them."
METRICS = "A few numbers for the dashboard."
FOLDER = "dsl.Artifact"
SUPERVISED = ("from ease_lib.running.supervision import supervised", "", "supervised()")
"""What a component does before it loads what it does."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """Of a component's function: its name, its type as KFP knows it, and what it is."""

    name: str
    type: str
    text: str


CHAIN = Argument("chain", "dsl.Output[dsl.Markdown]", "What went in and came out, and how, for people.")
RECORDS = (Argument("lineage", "dsl.Output[dsl.Artifact]", "The same as a record."), CHAIN)
"""What a component of its own takes of its stage's record."""


def task_component(task: Task) -> Any:
    """The component of a task that `ease_lib.running.task.execute_task` does.

    The last one of a run has the numbers and the page about its record: what everybody looks at stands in one place.
    """
    config = Argument("config", "str", CONFIG.format(" and shard" if task.shards else ""))
    inputs = [folder(made, "Input") for made in task.reads]
    pages = [
        argument
        for stage in task.stages
        for argument in artifact_arguments(stage.module.Outputs, "Output")
        if argument.name in task.pages
    ]
    shown = [Argument("metrics", "dsl.Output[dsl.Metrics]", METRICS), CHAIN] if task is TASKS[-1] else []
    body = [
        *SUPERVISED,
        "from ease_lib.running.task import execute_task",
        "",
        "execute_task(",
        f'    "{task.name}",',
        "    config,",
        f"    {task.folder},",
        *(f"    {argument.name}={argument.name}," for argument in (*inputs, *pages, *shown)),
        ")",
    ]
    return component(task, [config, *inputs, folder(task, "Output"), *pages, *shown], body)


def folder(task: Task, direction: str) -> Argument:
    """What a task makes, as its own output or the input of another; the text names everything in it."""
    fields = [(stage, field) for stage in task.stages for field in dataclasses.fields(stage.module.Outputs)]
    inside = [
        f"{stage.name}/{field.name}: {field.metadata['text']}"
        for stage, field in fields
        if field.name not in task.pages
    ]
    kind = f"list[{FOLDER}]" if task.shards and direction == "Input" else FOLDER
    return Argument(task.folder, f"dsl.{direction}[{kind}]", " ".join(inside))


def form_arguments(parameters: Sequence[Parameter]) -> list[Argument]:
    """Fields of a run form, as a component that reads them all takes them."""
    return [Argument(parameter.name, parameter.type.__name__, parameter.help) for parameter in parameters]


def component(task: Task, arguments: Sequence[Argument], body: Sequence[str], returns: str = "None") -> Any:
    """A component whose function has this body."""
    lines = [
        f"def {task.name}(",
        *(f"    {argument.name}: {argument.type}," for argument in arguments),
        f") -> {returns}:",
        f'    """{_quoted(task.summary)}',
        "",
        "    Args:",
        *(f"        {argument.name}: {_quoted(argument.text)}" for argument in arguments),
        '    """',
        textwrap.indent("\n".join(body), "    "),
        "",
    ]
    return dsl.component(base_image=images.CPU, install_kfp_package=False)(_function(task.name, "\n".join(lines)))


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
