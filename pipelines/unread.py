"""Remove unread parts from a compiled pipeline.

A run's workflow holds the program and the declaration of each component up to eight times, with every quote and line
end escaped twice, and may have 1 MiB (`tests/pipelines/workflow_size.py`). Descriptions of components and of their
inputs are in their `component.yaml` and README; the dashboard shows those of the pipeline and its form alone.
"""

import ast
import re
from typing import Any


def leave_out_unread(spec: Any) -> None:
    """Shorten the components' programs; drop descriptions, versions of artifact types and defaults that are never used.

    Args:
        spec: kfp's `PipelineSpec`, which is changed.
    """
    for name, component in spec.components.items():
        for declared in (component.input_definitions, component.output_definitions):
            for each in (*declared.parameters.values(), *declared.artifacts.values()):
                each.ClearField("description")
            for artifact in declared.artifacts.values():
                artifact.artifact_type.ClearField("schema_version")
        for parameter in _always_given(spec, name):
            component.input_definitions.parameters[parameter].ClearField("default_value")
            component.input_definitions.parameters[parameter].ClearField("is_optional")
    executors = spec.deployment_spec["executors"]
    for name in executors:
        command = executors[name]["container"]["command"]
        *shell, program = command
        for place, text in enumerate([*(re.sub(" +", " ", each) for each in shell), without_docstrings(program)]):
            command[place] = text


def _always_given(spec: Any, component: str) -> set[str]:
    """The inputs of a component that every task of it is given."""
    graphs = (spec.root.dag, *(each.dag for each in spec.components.values()))
    tasks = [task for graph in graphs for task in graph.tasks.values() if task.component_ref.name == component]
    return set.intersection(*(set(task.inputs.parameters) for task in tasks))


def without_docstrings(program: str) -> str:
    """The same program, as short as Python writes it."""
    tree = ast.parse(program)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and ast.get_docstring(function) is not None:
            del function.body[0]
    return ast.unparse(tree) + "\n"
