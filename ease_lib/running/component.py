"""Do the work of a component: its stages one after another in this process, each recorded by itself.

A component (`components/NAME/component.py`) says which stages it does and which artifact is whose; everything else that
its process needs is here. Its parameters are flat names and values. KFP carries numbers as doubles, so each stage takes
what its `Config` declares, by the declared type; what is missing has its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from ease_lib.artifacts.store import PATIENCE_SECONDS
from ease_lib.config.parsing import changed_parameters, checked_values, parse_parameter_text, read_by
from ease_lib.config.sections import Parameters
from ease_lib.running.graph import CHECK, stages_of
from ease_lib.running.run import Run, open_host, open_run, run_of
from ease_lib.running.stage import Artifact, MetricsArtifact, StageReport, file_in, name_of, perform, user_errors


class ConfusionArtifact(Protocol):
    """The part of `kfp.dsl.ClassificationMetrics` that we use."""

    def log_confusion_matrix(self, categories: list[str], matrix: list[list[int]]) -> None: ...


class Doing(Protocol):
    """Does a stage of a component."""

    def __call__(
        self, stage: ModuleType, *, verdict: Artifact | None = None, **artifacts: Artifact | Sequence[Artifact]
    ) -> StageReport: ...


class CheckedParameters(NamedTuple):
    """Parameters that `build_dataset` passes to the later components: those that each reads, without defaults."""

    for_prefilter: dict[str, Any]
    for_embed: dict[str, Any]
    for_optimize: dict[str, Any]
    for_evaluate: dict[str, Any]


@contextmanager
def component(name: str, parameters: Mapping[str, object], lineage: Artifact) -> Iterator[Doing]:
    """Context in which a component runs its stages; a user error ends the process with its message and exit code.

    Args:
        parameters: flat, as `build_dataset` passed them or as another pipeline sets them.
        lineage: folder that takes the record of every stage.

    Yields:
        `do(stage, **artifacts)`, with an artifact for each field of the stage's `Inputs` and `Outputs`, and `verdict`
        for a page about its record.
    """
    with user_errors(name), open_host(patience_seconds=PATIENCE_SECONDS) as host:
        values = checked_values(parameters)
        with open_run(host, str(values.get("store_uri") or ""), str(values["lineage_uri"])) as run:
            yield _doing(values, run, lineage)


@contextmanager
def first_component(
    form: Mapping[str, object], lineage: Artifact, *, scheduled: str = "", run_name: str = ""
) -> Iterator[tuple[Doing, CheckedParameters]]:
    """Component like `component`, for the start of a run: it first checks all parameters, data and endpoint.

    Args:
        form: the fields of the run form, with `advanced` for all other parameters, as YAML or JSON.
        scheduled: when Kubeflow made the run, of a recurring run within seconds of its plan.
        run_name: the run's in the dashboard.
    """
    with user_errors("build_dataset"), open_host(patience_seconds=PATIENCE_SECONDS) as host:
        check = CHECK.module
        parameters = check.named(check.read_form(form), run_name)
        with open_run(host, *run_of(parameters)) as run:
            record = file_in(lineage, f"{CHECK.name}.json")
            parameters = check.perform(parameters, run, scheduled=scheduled, record=record)
            passed = CheckedParameters(
                *(_passed(name.removeprefix("for_"), parameters) for name in CheckedParameters._fields)
            )
            yield _doing(_passed("build_dataset", parameters), run, lineage), passed


def shard_parameters(form: Mapping[str, object], advanced: str) -> dict[str, object]:
    """The parameters of `rank_shard`, to which a loop of kfp.local can pass only fields of the run form."""
    return {**parse_parameter_text(advanced, "advanced"), **form}


def show(metrics: MetricsArtifact, confusion: ConfusionArtifact, *reports: StageReport) -> None:
    """Pass the reports of stages to the dashboard: numbers, and a confusion matrix if there are labels."""
    for report in reports:
        report.publish(metrics)
        if report.confusion:
            confusion.log_confusion_matrix(report.confusion.categories, report.confusion.matrix)


def _passed(component: str, parameters: Parameters) -> dict[str, Any]:
    """Parameters that the component reads, without those at their default: Kubeflow keeps six copies of them."""
    configs = [stage.module.Config for stage in stages_of(component) if stage is not CHECK]
    changed = changed_parameters(parameters)
    return {
        name: value for name, value in read_by(configs, parameters).items() if name in changed or name == "lineage_uri"
    }


def _doing(values: Mapping[str, object], run: Run, lineage: Artifact) -> Doing:
    def do(
        stage: ModuleType, *, verdict: Artifact | None = None, **artifacts: Artifact | Sequence[Artifact]
    ) -> StageReport:
        record = file_in(lineage, f"{name_of(stage)}.json")
        return perform(stage, values, artifacts, run, record=record, verdict=verdict)

    return do
