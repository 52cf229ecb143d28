"""Stage `check_prerequisites`: check every parameter, the data, the embedder, the store and the endpoint of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from ease_lib.config.parsing import ADVANCED, flat_parameters, parse_parameter_text, parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.errors import ConfigError, StoreError
from ease_lib.running.planning import in_words, planned
from ease_lib.running.prerequisites import check, current_answers, with_service_for_local
from ease_lib.running.run import Run
from ease_lib.running.stage import RUN_NAME, Artifact, logger, recorded, timed, work_on
from ease_lib.running.task_data import is_small
from ease_lib.running.under_way import begun


def perform(parameters: Parameters, run: Run, *, scheduled: str = "", record: Artifact | None = None) -> Parameters:
    """Check, and record it.

    Args:
        scheduled: when Kubeflow made the run.
        record: takes the lineage record.

    Returns:
        the parameters of the stages behind it, as `checked` does.

    Raises:
        EaseError: with what is wrong.
    """
    values = {name: value for name, value in flat_parameters(parameters).items() if name != RUN_NAME}
    work = work_on("check_prerequisites", values, scheduled=_as_time(scheduled))
    run.host.progress.stage("check_prerequisites")
    try:
        with timed("check_prerequisites"), recorded(work, run, record, run_name=parameters.lineage.run_name):
            return checked(parameters, run.unrecorded())  # what is tried here is not what the run rests on
    except StoreError:
        check(parameters, run=run.unrecorded())  # no record can be written: say what else is wrong before saying so
        raise


def checked(parameters: Parameters, run: Run) -> Parameters:
    """The parameters with the results of the check: the address of `local`, the ledger, the generation of answers.

    Raises:
        ConfigError: listing every problem found.
    """
    _check_caps(parameters)
    parameters = with_service_for_local(parameters, run.sources)
    trials = check(parameters, run=run)
    if is_small(parameters.task, run.sources):
        seconds = trials[parameters.endpoint].seconds
        logger.info("this run asks %s", in_words(parameters, planned(parameters, run), seconds))
    parameters = begun(parameters, run.store, lambda: current_answers(parameters, trials, run))
    logger.info("all prerequisites are met")
    return parameters


def _check_caps(parameters: Parameters) -> None:
    caps = {name: getattr(parameters.caps, name) for name in ("max_llm_requests", "max_cost_usd")}
    wanted = [f"{name}={value:g}" for name, value in caps.items() if value]
    if wanted and not parameters.run.store_uri:
        raise ConfigError(
            f"{' and '.join(wanted)} needs store_uri, through which the stages share what they have spent"
        )


def _as_time(text: str) -> str:
    """A time as Kubeflow fills it in; empty if its placeholder was left as it is."""
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def named(parameters: Parameters, run_name: str) -> Parameters:
    """The parameters with the run's name in the dashboard, unless its placeholder was not replaced."""
    name = "" if run_name.startswith("{{") else run_name
    return replace(parameters, lineage=replace(parameters.lineage, run_name=name or parameters.lineage.run_name))


def read_form(form: Mapping[str, object]) -> Parameters:
    """The parameters of the run form: its fields, and all others in the field `advanced`, as YAML or JSON."""
    fields = {name: value for name, value in form.items() if name != ADVANCED}
    more = parse_parameter_text(str(form.get(ADVANCED) or ""), ADVANCED)
    twice = sorted(set(fields) & set(more))
    if twice:
        raise ConfigError(f"advanced repeats {', '.join(twice)}; set each in its own field of the form")
    return parse_parameters({**fields, **more})
