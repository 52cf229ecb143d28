"""The components by the names of their tasks."""

from components.making import (
    RECORDS,
    SUPERVISED,
    Argument,
    artifact_arguments,
    component,
    folder,
    form_arguments,
    task_component,
)
from ease_lib.config.forms import comparison_form, run_form
from ease_lib.lineage.chain import ARTIFACT
from ease_lib.running.graph import CHECK, COMPARISON, LOOPED, PASSED, TASKS

_BEGIN, *_BEHIND = TASKS
_PLAN, _CELL, _REPORT = COMPARISON


def _begin():
    """It checks the form first, and passes the other tasks their parameters."""
    scheduled = Argument("scheduled", "str", "When Kubeflow made the run.")
    run_name = Argument("run_name", "str", "Its name in the dashboard.")
    outputs = [
        f'        ("{output}", list),  # of {task.name}, for each shard: kfp.local loops over an output of this name only'  # noqa: E501
        if output == LOOPED
        else f'        ("{output}", str),'
        for output, task in PASSED.items()
        if task is not _BEGIN
    ]
    body = [
        "form = dict(locals())  # the arguments, before anything else gets a name",
        'advanced, scheduled, run_name = form.pop("advanced"), form.pop("scheduled"), form.pop("run_name")',
        f'del form["{_BEGIN.folder}"]',
        "from typing import NamedTuple",
        "",
        *SUPERVISED,
        f"from ease_lib.stages import {CHECK.name} as stage",
        "from ease_lib.running.task import execute_task, part_of",
        "",
        f'lineage = part_of({_BEGIN.folder}, "{CHECK.name}.{ARTIFACT}")',
        "tasks = stage.execute(form, advanced, scheduled=scheduled, run_name=run_name, lineage=lineage)",
        f'execute_task("{_BEGIN.name}", tasks.pop("{_BEGIN.name}"), {_BEGIN.folder})',
        'return NamedTuple("TaskParameters", [(name, str) for name in tasks])(**tasks)',
    ]
    returns = "\n".join(["NamedTuple(", '    "TaskParameters",', "    [", *outputs, "    ],", ")"])
    return component(
        _BEGIN, [*form_arguments(run_form()), scheduled, run_name, folder(_BEGIN, "Output")], body, returns
    )


def _plan_comparison():
    body = [
        "axes = dict(locals())  # the arguments, before anything else gets a name",
        'parameters = axes.pop("parameters")',
        'del axes["lineage"], axes["chain"]',
        *SUPERVISED,
        f"from ease_lib.stages import {_PLAN.name} as stage",
        "",
        "return stage.execute(axes, parameters, lineage, chain)",
    ]
    return component(_PLAN, [*form_arguments(comparison_form()), *RECORDS], body, "list[str]")


def _run_cell():
    (stage,) = _CELL.stages
    cell = Argument("cell", "str", "Labels and parameters of the cell, as plan_comparison lists them.")
    body = [
        *SUPERVISED,
        f"from ease_lib.stages import {_CELL.name} as stage",
        "",
        "stage.execute(cell, result, lineage, chain)",
    ]
    return component(_CELL, [cell, *artifact_arguments(stage.module.Outputs, "Output"), *RECORDS], body)


def _report_comparison():
    (stage,) = _REPORT.stages
    inputs = artifact_arguments(stage.module.Inputs, "Input")
    outputs = artifact_arguments(stage.module.Outputs, "Output")
    body = [
        *SUPERVISED,
        f"from ease_lib.stages import {_REPORT.name} as stage",
        "",
        "stage.execute(cells, page, results, lineage, chain)",
    ]
    return component(_REPORT, [*inputs, *outputs, *RECORDS], body)


COMPONENTS = {
    _BEGIN.name: _begin(),
    **{task.name: task_component(task) for task in _BEHIND},
    _PLAN.name: _plan_comparison(),
    _CELL.name: _run_cell(),
    _REPORT.name: _report_comparison(),
}
