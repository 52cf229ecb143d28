"""`python -m pipelines submit`: start a run on a cluster and, with `--wait`, follow it to its end.

Everything is checked on this machine first: the parameters as `ease run` checks them, and that the compiled pipeline is
of this version. Nothing is sent before that. The run belongs to the cluster: stopping this program never stops it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kfp_server_api import V2beta1PipelineTaskDetail, V2beta1Run

from ease_lib.comparison import AXES
from ease_lib.config.parsing import Value, declared_parameters, parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.errors import EXIT_STOPPED, ConfigError
from pipelines.cluster import (
    Cluster,
    ClusterError,
    ClusterUnavailable,
    Package,
    add_connection_options,
    connect,
    read_package,
)
from pipelines.local_run import form_arguments
from pipelines.parameter_sets import read_parameter_set

PACKAGE = Path(__file__).parent / "compiled" / "ease_pipeline.yaml"
EXPERIMENT = "ease"
POLL_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
"""How long `--wait` bears an API that cannot be reached; the run goes on without us."""
EXIT_FAILED = 1
ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
ADVANCED = "advanced"


def add_submit_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines submit`."""
    parser.add_argument("--params", default="", metavar="SET", help="parameter set (demo, smoke, paper) or YAML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one parameter; repeatable, wins over --params"
    )
    parser.add_argument("--wait", action="store_true", help="follow the run; exit code 0 if it succeeds, else 1")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="follow it no longer than this; it goes on")
    parser.add_argument("--experiment", default=EXPERIMENT, metavar="NAME", help="default: %(default)s")
    parser.add_argument("--run-name", default="", metavar="NAME", help="default: method, task and time")
    parser.add_argument("--service-account", default="", metavar="NAME", help="default: the cluster's")
    parser.add_argument("--pipeline-root", default="", metavar="URI", help="where artifacts go; default: the cluster's")
    parser.add_argument(
        "--package", type=Path, default=PACKAGE, metavar="FILE", help="compiled pipeline (default: committed)"
    )
    add_connection_options(parser)


def submit(options: argparse.Namespace) -> int:
    """Start a run, print its id and link; follow it if asked to. Returns the exit code."""
    _check_timeout(options)
    parameters = run_parameters(options.params, assignments(options.set))
    package = read_package(options.package)
    arguments = checked_arguments(parameters, package.spec, f"{package.path}")
    cluster = connect(options.host, options.namespace, options.ca_cert)
    run = start_run(cluster, package, arguments, options.run_name or _run_name(parameters), options)
    link = cluster.run_link(run.run_id)
    print(f"run {run.run_id} of pipeline {package.pipeline}, version {package.version}\n{link}", flush=True)
    if not options.wait:
        return 0
    try:
        ended = follow(cluster, run.run_id, task_names(package), timeout_seconds=options.timeout)
    except KeyboardInterrupt:
        print(f"\nno longer followed; the run goes on: {link}", file=sys.stderr)
        return EXIT_STOPPED
    except ClusterError as error:
        raise ClusterError(f"{error}; the run goes on: {link}", status=error.status) from error
    return _print_end(ended, task_names(package), link, options.timeout)


def run_parameters(parameter_set: str, overrides: Mapping[str, object]) -> Parameters:
    """The parameters of a set, or the defaults, with overrides; checked as `ease run` checks them."""
    values = {**(read_parameter_set(parameter_set) if parameter_set else {}), **overrides}
    axes = sorted(set(values) & set(AXES))
    if axes:
        raise ConfigError(f"{', '.join(axes)} make several runs; that is for ease compare, or the comparison pipeline")
    return parse_parameters(values)


def assignments(given: Sequence[str]) -> dict[str, object]:
    """`["k=8", "task=lr"]` as a mapping; of two values for one name the last wins."""
    broken = [f"--set {text} is not name=value, e.g. --set k=8" for text in given if "=" not in text.lstrip("=")]
    if broken:
        raise ConfigError(*broken)
    return {name.strip(): value for name, _, value in (text.partition("=") for text in given)}


def checked_arguments(parameters: Parameters, spec: Mapping[str, Any], origin: str) -> dict[str, Value]:
    """The run form's arguments, after a check that the pipeline's form is this version's.

    Only what differs from a default is sent, so a pipeline with other defaults would run something else.

    Raises:
        ConfigError: naming every field of the form that is not as declared here.
    """
    fields = spec.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    declared = {name: field.default for name, field in declared_parameters().items() if field.form}
    expected: dict[str, Value] = {**declared, ADVANCED: ""}
    found = {name: field.get("defaultValue", "") for name, field in fields.items()}
    problems = [f"{origin} lacks parameter {name}" for name in expected if name not in found]
    problems += [f"{origin} has parameter {name}, which this version does not know" for name in found.keys() - expected]
    problems += [
        f"{origin} has default {name}={found[name]}, this version {value}"
        for name, value in expected.items()
        if name in found and found[name] != value
    ]
    if problems:
        raise ConfigError(*(f"{problem}; run `python -m pipelines compile`" for problem in sorted(problems)))
    return form_arguments(parameters)


def start_run(
    cluster: Cluster, package: Package, arguments: Mapping[str, Value], name: str, options: argparse.Namespace
) -> V2beta1Run:
    """Create the run, from the package's version on the cluster."""
    version = cluster.uploaded_version(package)
    return cluster.create_run(
        experiment_id=cluster.experiment_id(options.experiment),
        job_name=name,
        params=dict(arguments),
        pipeline_root=options.pipeline_root or None,
        service_account=options.service_account or None,
        pipeline_id=version.pipeline_id,
        version_id=version.version_id,
    )


def follow(cluster: Cluster, run_id: str, tasks: frozenset[str], *, timeout_seconds: float | None = None) -> V2beta1Run:
    """Print each change of state of the run and its tasks until the run ends or time is up.

    An API that cannot be reached is asked again for `PATIENCE_SECONDS`, since a long run outlives port-forwards and
    restarts of the API server.

    Returns:
        The run as it was seen last; its state is not one of `ENDED` when time was up.
    """
    seen: dict[str, str] = {}
    start = time.monotonic()
    left = float("inf") if timeout_seconds is None else timeout_seconds
    while True:
        run = _patiently(lambda: cluster.run(run_id), min(left, PATIENCE_SECONDS))
        for node, name, state in _states(run, tasks):
            if seen.get(node) != state:
                seen[node] = state
                print(f"{datetime.now():%H:%M:%S}  {name:<24}{state}", flush=True)
        left = float("inf") if timeout_seconds is None else timeout_seconds - (time.monotonic() - start)
        if run.state in ENDED or left <= 0:
            return run
        time.sleep(min(POLL_SECONDS, left))


def failures(run: V2beta1Run, tasks: frozenset[str]) -> dict[str, str]:
    """What the failed tasks say, by task.

    A failed step shows as several nodes: the task, its driver and its executor. Their messages belong to the task. The
    nodes around all tasks say only that something below them failed, and are left out.
    """
    details = _details(run)
    messages: dict[str, list[str]] = {}
    for detail in details:
        task = _task_of(detail, details, tasks) if detail.state == "FAILED" else None
        if task:
            message = detail.error.message if detail.error else None
            messages.setdefault(task, []).extend([message] if message else [])
    return {task: "; ".join(dict.fromkeys(said)) or "no message; see its log" for task, said in messages.items()}


def task_names(package: Package) -> frozenset[str]:
    """The names under which the dashboard shows the pipeline's tasks, those inside of loops too."""
    dags = [package.spec["root"].get("dag", {})]
    dags += [component.get("dag", {}) for component in package.spec.get("components", {}).values()]
    return frozenset(task["taskInfo"]["name"] for dag in dags for task in dag.get("tasks", {}).values())


def _run_name(parameters: Parameters) -> str:
    task = parameters.task.task_name or parameters.task.task
    return f"{parameters.optimizer.method} on {task} {datetime.now():%Y-%m-%d %H:%M:%S}"


def _check_timeout(options: argparse.Namespace) -> None:
    if options.timeout is not None and not options.wait:
        raise ConfigError(f"--timeout {options.timeout:g} is for --wait; add it, or leave out --timeout")
    if options.timeout is not None and not options.timeout > 0:
        raise ConfigError(f"--timeout {options.timeout:g} is not above 0; give seconds, or leave it out to wait on")


def _patiently(ask: Callable[[], V2beta1Run], seconds: float) -> V2beta1Run:
    """Ask until there is an answer, or time is up."""
    start = time.monotonic()
    announced = False
    while True:
        try:
            return ask()
        except ClusterUnavailable as error:
            if time.monotonic() - start > seconds:
                raise
            if not announced:
                print(f"{datetime.now():%H:%M:%S}  trying on: {error}", file=sys.stderr, flush=True)
                announced = True
            time.sleep(POLL_SECONDS)


def _states(run: V2beta1Run, tasks: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Node, name and state of the tasks in the order of their start, then of the run: it ends last."""
    for detail in sorted(_details(run), key=lambda detail: str(detail.create_time)):
        if detail.display_name in tasks and detail.state:
            yield detail.task_id or detail.display_name, detail.display_name, detail.state
    yield "", "run", run.state or "PENDING"


def _details(run: V2beta1Run) -> list[V2beta1PipelineTaskDetail]:
    return (run.run_details.task_details if run.run_details else None) or []


def _task_of(
    detail: V2beta1PipelineTaskDetail, details: Sequence[V2beta1PipelineTaskDetail], tasks: frozenset[str]
) -> str | None:
    """The task that a node belongs to: itself, the one it drives, or its parent."""
    name = (detail.display_name or "").removesuffix("-driver")
    if name in tasks:
        return name
    for other in details:
        children = {identity for child in other.child_tasks or [] for identity in (child.task_id, child.pod_name)}
        is_parent = other.task_id is not None and other.task_id == detail.parent_task_id
        if other.display_name in tasks and (is_parent or detail.task_id in children - {None}):
            return other.display_name
    return None


def _print_end(run: V2beta1Run, tasks: frozenset[str], link: str, timeout_seconds: float | None) -> int:
    if run.state not in ENDED:
        print(f"run still {run.state or 'PENDING'} after {timeout_seconds:g} s; it goes on: {link}", file=sys.stderr)
        return EXIT_FAILED
    took = ""
    if run.finished_at and run.created_at:
        took = f" after {_duration((run.finished_at - run.created_at).total_seconds())}"
    if run.state == "SUCCEEDED":
        print(f"run succeeded{took}; the report is at {link}", flush=True)
        return 0
    said = failures(run, tasks)
    if not said and run.error and run.error.message:
        said = {"run": run.error.message}
    lines = [f"run {run.state}{took}", *(f"- {task}: {message}" for task, message in said.items())]
    print("\n".join([*lines, f"logs and artifacts: {link}"]), file=sys.stderr)
    return EXIT_FAILED


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
