"""Stage `check_prerequisites`: check every parameter, the data, the embedder, the store and the endpoint; pass each
task its parameters.

Its outputs are the parameters each later task receives: checked, complete, and no more than its stages read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ease_lib.config.parsing import flat_parameters, parse_parameter_text, parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.errors import ConfigError, StoreError
from ease_lib.observations import collecting
from ease_lib.running.execution import RUN_NAME, Artifact, logger, recorded, timed, user_errors, work_on
from ease_lib.running.graph import PASSED
from ease_lib.running.planning import in_words, planned
from ease_lib.running.prerequisites import check, current_answers, with_service_for_local
from ease_lib.running.task import task_parameters
from ease_lib.running.task_data import is_small
from ease_lib.running.under_way import begun


def execute(
    form: Mapping[str, object],
    advanced: str,
    *,
    scheduled: str = "",
    run_name: str = "",
    lineage: Artifact | None = None,
) -> dict[str, Any]:
    """Check as a task of a pipeline.

    Args:
        advanced: the form's field for all other parameters, as YAML or JSON.
        scheduled: when Kubeflow made the run, of a recurring run within seconds of its plan.
        run_name: the run's in the dashboard.
        lineage: takes the lineage record.
    """
    with user_errors("check_prerequisites"):
        parameters = read_form(form, advanced)
        named = replace(parameters.lineage, run_name=_as_name(run_name) or parameters.lineage.run_name)
        return perform(replace(parameters, lineage=named), scheduled=scheduled, lineage=lineage)


def perform(parameters: Parameters, *, scheduled: str = "", lineage: Artifact | None = None) -> dict[str, Any]:
    """Check and record it; takes what `execute` takes, and raises what is wrong."""
    values = {name: value for name, value in flat_parameters(parameters).items() if name != RUN_NAME}
    work = work_on("check_prerequisites", values, scheduled=_as_time(scheduled))
    root, name = parameters.lineage_root, parameters.lineage.run_name
    try:
        with timed("check_prerequisites"), recorded(work, root, lineage, run_name=name):
            return run(parameters)
    except StoreError:
        check(parameters)  # no record can be written: say what else is wrong before saying so
        raise


def run(parameters: Parameters) -> dict[str, Any]:
    """The parameters of the stages of each task, as JSON, by the names of `PASSED`; a list where there are shards.

    Raises:
        ConfigError: listing every problem found.
    """
    _check_caps(parameters)
    parameters = with_service_for_local(parameters)
    with collecting():  # what is tried here is not what the run rests on
        trials = check(parameters)
        if is_small(parameters.task):
            seconds = trials[parameters.endpoint].seconds
            logger.info("this run asks %s", in_words(parameters, planned(parameters), seconds))
        parameters = begun(parameters, lambda: current_answers(parameters, trials))
    logger.info("all prerequisites are met")
    return {
        output: [task_parameters(task, shard) for shard in _shards(parameters)]
        if task.shards
        else task_parameters(task, parameters)
        for output, task in PASSED.items()
    }


def _check_caps(parameters: Parameters) -> None:
    caps = {name: getattr(parameters.caps, name) for name in ("max_llm_requests", "max_cost_usd")}
    wanted = [f"{name}={value:g}" for name, value in caps.items() if value]
    if wanted and not parameters.run.store_uri:
        raise ConfigError(f"{' and '.join(wanted)} needs store_uri, where the stages keep what they have spent")


def _as_time(text: str) -> str:
    """A time as Kubeflow fills it in; empty where its placeholder was left as it is."""
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _as_name(text: str) -> str:
    """Likewise."""
    return "" if text.startswith("{{") else text


def _shards(parameters: Parameters) -> list[Parameters]:
    """The parameters for each shard of the pool."""
    settings = parameters.prefilter
    return [replace(parameters, prefilter=replace(settings, shard=shard)) for shard in range(settings.shards)]


def read_form(form: Mapping[str, object], advanced: str) -> Parameters:
    """The parameters of the run form and its `advanced` field together."""
    more = parse_parameter_text(advanced, "advanced")
    twice = sorted(set(form) & set(more))
    if twice:
        raise ConfigError(f"advanced repeats {', '.join(twice)}; set each in its own field of the form")
    return parse_parameters({**form, **more})
