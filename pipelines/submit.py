"""`python -m pipelines submit | retry`: start a run on a cluster or retry a failed one, and follow it.

Everything is checked on this machine first: the parameters as `ease run` and `ease compare` check them, and that the
compiled pipeline has the form of this version. Nothing is sent before that. Values that vary something (`tasks`,
`methods`, ...) start a comparison. The run belongs to the cluster: stopping this program never stops it.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kfp_server_api import V2beta1Run

from ease_lib.artifacts.store import open_file
from ease_lib.config.parsing import Value
from ease_lib.errors import EXIT_STOPPED, ConfigError, EaseError
from ease_lib.running.log import BEGINS_AGAIN, CELL_DONE, CELLS_DONE, ERROR_PREFIX, LINE_PREFIX, MAY_SUCCEED, RESULT
from pipelines.arguments import arguments_of, assignments, given_values, is_comparison
from pipelines.cluster import (
    Cluster,
    ClusterError,
    ClusterUnavailable,
    Package,
    add_connection_options,
    connect,
    read_package,
)
from pipelines.workflow import Pod, Task, Workflow, last_failures

COMPILED = Path(__file__).parent / "compiled"
PACKAGE, COMPARISON_PACKAGE = COMPILED / "ease_pipeline.yaml", COMPILED / "comparison_pipeline.yaml"
EXPERIMENT = "ease"
POLL_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
"""How long `--wait` tolerates an unreachable API; the run itself continues."""
EXIT_FAILED = 1
NOT_FOUND = 404
ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
STILL_SECONDS = 120.0
"""Time without any change after which `--wait` prints where to look."""
RETRY_PAUSES = (10.0, 30.0)
"""Seconds before Kubeflow is asked again to retry a run."""
_TOO_LARGE = re.compile("larger than max|too large|Too long")
"""Messages of gRPC, etcd and the API server about a workflow that is too large."""
LOG_SECONDS = 30.0
"""Seconds between two looks at the log of the search."""
MOST_MISSED = 2
"""Number of consecutive failed reads of the log after which the place of the log is printed, and reads become rarer."""
LOG_AWAY_SECONDS = 300.0
"""Seconds between two looks after that."""
_TOO_LONG = (
    "the parameters are too long for one argument of a program: put long values into files and name them s3://..."
)
_NO_REASON = f"Kubeflow names no task and no error; probably {_TOO_LONG}"
_NO_CONFIG_MAP = "configmaps is forbidden"
"""Argo's message if an argument is too long for a command and would need a ConfigMap, which Kubeflow forbids."""
RUN = "run"
MOST_SHOWN = 300
"""Number of characters shown of a log's last line."""
MOST_LINES = 5
"""Number of lines shown of the errors with which a log ends."""
KUBEFLOW = "kubeflow"
SEARCH, WORKER = "optimize", "run-cells"
LAST = ("evaluate", "report-comparison")
_HIDDEN = (
    "Kubeflow reports no more tasks of this run, because its workflow exceeds 1 MiB; its end is reported, and what "
    "the known tasks print"
)
_NO_MESSAGE = "no message; see its log"
_KILLED = re.compile(r"OOMKilled|exit code 1[23]\d|[Ee]vict|deleted|[Dd]eadline")
"""Argo's messages about a pod that did not end by itself; after a signal to stop (143) its log may have more."""


def add_submit_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines submit`."""
    parser.add_argument("--params", default="", metavar="SET", help="parameter set (demo, smoke, paper) or YAML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one parameter; repeatable, overrides --params"
    )
    _add_following(parser)
    parser.add_argument("--experiment", default=EXPERIMENT, metavar="NAME", help="default: %(default)s")
    parser.add_argument("--run-name", default="", metavar="NAME", help="default: method, task and time")
    parser.add_argument("--service-account", default="", metavar="NAME", help="default: the cluster's")
    parser.add_argument(
        "--pipeline-root", default="", metavar="URI", help="folder for artifacts (default: the cluster's)"
    )
    parser.add_argument(
        "--package",
        type=Path,
        metavar="FILE",
        help="compiled pipeline (default: the committed one of a run or comparison)",
    )
    add_connection_options(parser)


def add_retry_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines retry`."""
    parser.add_argument("run_id", metavar="RUN", help="id of the run, as submit and the dashboard show it")
    _add_following(parser)
    add_connection_options(parser)


def add_upload_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines upload`."""
    parser.add_argument("packages", nargs="*", type=Path, default=[PACKAGE, COMPARISON_PACKAGE], metavar="FILE")
    add_connection_options(parser)


def _add_following(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="follow the run; exit code 0 if it succeeds, else 1")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="stop following after this many seconds; the run continues"
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=0,
        metavar="N",
        help="with --wait: repeat failed tasks this many times with Kubeflow's retry; a search continues where it "
        "stopped",
    )


def upload(options: argparse.Namespace) -> int:
    """Put compiled pipelines onto the cluster, for "Create run" in its dashboard."""
    packages = [read_package(path) for path in options.packages]
    cluster = connect(options.host, options.namespace, options.ca_cert)
    for package in packages:
        cluster.uploaded_version(package)
        print(f"pipeline {package.pipeline}, version {package.version}", flush=True)
    return 0


def submit(options: argparse.Namespace) -> int:
    """Start a run, print its id and link; follow it if asked to. Returns the exit code."""
    _check_following(options)
    values = given_values(options.params, assignments(options.set))
    package = read_package(options.package or (COMPARISON_PACKAGE if is_comparison(values) else PACKAGE))
    arguments = arguments_of(values, package.pipeline, package.spec, str(package.path))
    cluster = connect(options.host, options.namespace, options.ca_cert)
    run = start_run(cluster, package, arguments, options.run_name or _run_name(arguments, package), options)
    print(f"run {run.run_id} of pipeline {package.pipeline}, version {package.version}", flush=True)
    return _followed(cluster, run.run_id, task_names(package.spec), options)


def retry(options: argparse.Namespace) -> int:
    """Retry the failed tasks of a run; finished tasks stay, and the search continues from its journal."""
    _check_following(options)
    cluster = connect(options.host, options.namespace, options.ca_cert)
    run = cluster.run(options.run_id)
    may_begin = run.state in ("FAILED", "CANCELED")
    if not may_begin:
        print(f"run {options.run_id} is {run.state}: there is nothing to repeat", flush=True)
    if run.state == "SUCCEEDED":
        return 0
    tasks = task_names(cluster.spec_of(run))
    if not may_begin:
        return _followed(cluster, options.run_id, tasks, options)
    known = _states(_tasks(cluster, run, tasks))
    _begin_again(cluster, options.run_id)
    print(f"run {options.run_id} continues", flush=True)
    return _followed(cluster, options.run_id, tasks, options, known)


def _followed(
    cluster: Cluster,
    run_id: str,
    tasks: frozenset[str],
    options: argparse.Namespace,
    known: dict[str, str] | None = None,
) -> int:
    """Print the run's link and, if requested, follow it to its end; return the exit code.

    Args:
        known: as of `follow`.
    """
    known = {} if known is None else known
    link = cluster.run_link(run_id)
    print(link, flush=True)
    if not options.wait:
        return 0
    try:
        for tries in range(options.retries + 1):
            try:
                ended = follow(cluster, run_id, tasks, known=known, timeout_seconds=options.timeout)
                said = failures(cluster, ended, tasks)
            except ClusterError as error:
                goes_on = "" if error.status == NOT_FOUND else f"; the run continues: {link}"
                raise ClusterError(f"{error}{goes_on}", status=error.status) from error
            mistaken = any(failure.is_mistake for failure in said.values())
            if ended.state != "FAILED" or mistaken or tries == options.retries:
                break
            try:
                _begin_again(cluster, run_id)
            except ClusterError:
                _print_end(ended, said, link, known)
                raise
            _say(f"{', '.join(said) or 'run'} failed; repeating them")
    except KeyboardInterrupt:
        print(f"\nno longer followed; the run continues: {link}", file=sys.stderr)
        return EXIT_STOPPED
    if ended.state == "SUCCEEDED":
        for line in _results(cluster, run_id):
            print(line, flush=True)
    return _print_end(ended, said, link, known, options.timeout)


def _begin_again(cluster: Cluster, run_id: str) -> None:
    """Start Kubeflow's retry, which may fail right after the run did, while other processes still write its workflow.

    Raises:
        ClusterError: also where the workflow is too large for it, which no second try cures.
    """
    for pause in (*RETRY_PAUSES, None):
        try:
            cluster.retry_run(run_id)
            return
        except ClusterError as error:
            if error.status not in (400, 409) and error.status < 500:
                raise  # it is about the request, not about the run
            may_pass = error.status != 400 and not _TOO_LARGE.search(str(error))
            if may_pass and cluster.run(run_id).state not in ENDED:
                return  # it was begun all the same
            if pause is None or not may_pass:
                raise ClusterError(
                    f"{error}; submit the run again with the same store_uri; answers so far are reused",
                    status=error.status,
                ) from error
        time.sleep(pause)


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


def follow(
    cluster: Cluster,
    run_id: str,
    tasks: frozenset[str],
    *,
    known: dict[str, str] | None = None,
    timeout_seconds: float | None = None,
) -> V2beta1Run:
    """Print each change of state of the run and its tasks, and the progress, until the run ends or time is up.

    An API that cannot be reached is asked again for `PATIENCE_SECONDS`, since a long run outlives port-forwards and
    restarts of the API server.

    Args:
        known: states that need not be printed, by the names of tasks; kept up to date.

    Returns:
        The run as it was seen last; its state is not one of `ENDED` when time was up.
    """
    seen: dict[str, str] = {} if known is None else known
    start = changed = time.monotonic()
    logs = _Logs(cluster, run_id)
    told_still = told_hidden = False
    left = float("inf") if timeout_seconds is None else timeout_seconds
    while True:
        run = _patiently(lambda: cluster.run(run_id), min(left, PATIENCE_SECONDS))
        found = _tasks(cluster, run, tasks)
        news = {name: state for name, state in _states(found).items() if seen.get(name) != state}
        for name, state in news.items():
            _say(f"{name:<24}{state}")
        seen |= news
        if logs.tell(found) or news:
            changed, told_still = time.monotonic(), False
        elif not (told_still or told_hidden) and time.monotonic() - changed > STILL_SECONDS and run.state not in ENDED:
            workflow = cluster.workflow(run_id)
            told_still, told_hidden = True, workflow.is_compressed
            _say(_HIDDEN if told_hidden else _where_to_look(cluster, run, workflow))
        left = float("inf") if timeout_seconds is None else timeout_seconds - (time.monotonic() - start)
        if run.state in ENDED or left <= 0:
            logs.tell_rest()
            return run
        time.sleep(min(POLL_SECONDS, left))


def _states(tasks: Sequence[Task]) -> dict[str, str]:
    """The state of each task by its name; for several of one name, as in a loop, the number in each state."""
    by_name: dict[str, Counter[str]] = {}
    for task in tasks:
        by_name.setdefault(task.name, Counter())[task.state] += 1
    return {
        name: ", ".join(state if counts.total() == 1 else f"{count} {state}" for state, count in counts.items())
        for name, counts in by_name.items()
    }


class _Logs:
    """Prints from time to time the progress of running tasks: of a search, and the cells of a comparison."""

    def __init__(self, cluster: Cluster, run_id: str) -> None:
        self._cluster = cluster
        self._run_id = run_id
        self._pods: dict[str, Pod] = {}
        self._told: set[str] = set()
        self._looked = -LOG_SECONDS
        self._missed = 0

    def tell(self, tasks: Sequence[Task]) -> bool:
        """Print news of the tasks; return whether there was any."""
        running = [task.name for task in tasks if _says_how_far(task.name) and task.state == "RUNNING"]
        pause = LOG_AWAY_SECONDS if self._missed >= MOST_MISSED else LOG_SECONDS
        if not running or time.monotonic() - self._looked < pause:
            return False
        self._looked = time.monotonic()
        workflow, before = self._cluster.workflow(self._run_id), self._pods
        if not workflow.is_compressed:
            self._pods = {pod.name: pod for name in dict.fromkeys(running) if (pod := workflow.pod_of(name))}
        if self._pods and all(pod.phase != "Running" for pod in self._pods.values()):
            return False  # they wait for a place
        logs = self._read(before | self._pods)
        if any(log is not None for _, log in logs):
            self._missed = 0
            return self._say_news(logs)
        self._missed += 1
        if self._missed == MOST_MISSED:
            _say(_how_to_read_the_log(self._cluster, next(iter(self._pods), "POD")))
        return True

    def tell_rest(self) -> None:
        """Print the cells that have ended since."""
        self._say_news(self._read({name: pod for name, pod in self._pods.items() if pod.task != SEARCH}))

    def _read(self, pods: Mapping[str, Pod]) -> list[tuple[Pod, str | None]]:
        return [(pod, self._cluster.log(self._run_id, pod)) for pod in pods.values()]

    def _say_news(self, logs: Sequence[tuple[Pod, str | None]]) -> bool:
        said: list[str] = []
        counts: list[str] = []
        for pod, log in logs:
            lines = _lines(log or "", LINE_PREFIX)
            said += lines[-1:] if pod.task == SEARCH else filter(CELL_DONE.match, lines)
            counts += filter(CELLS_DONE.match, lines)
        said += sorted(counts, key=lambda line: int(line.split()[0]))[-1:]
        news = [line for line in dict.fromkeys(said) if line not in self._told]
        self._told.update(news)
        for line in news:
            _say(f"{'':<24}{line}")
        return bool(news)


def _says_how_far(task: str) -> bool:
    return task == SEARCH or task.startswith(WORKER)


def _say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {text}", flush=True)


def _how_to_read_the_log(cluster: Cluster, pod: str) -> str:
    return (
        f"the progress of the run cannot be read at {cluster.host}; it is printed by "
        f"`kubectl -n {cluster.namespace or KUBEFLOW} logs -f {pod} -c main`"
    )


def _where_to_look(cluster: Cluster, run: V2beta1Run, workflow: Workflow) -> str:
    namespace, still = cluster.namespace or KUBEFLOW, f"nothing has changed for {STILL_SECONDS / 60:.0f} min"
    waiting = [pod for pod in workflow.pods if pod.phase == "Pending" and pod.message]
    if waiting:
        return f"{still}: {waiting[-1].title} waits: {waiting[-1].message}"
    running = [pod for pod in workflow.pods if pod.phase == "Running"]
    if running:
        return "; ".join(f"{pod.title} has been running for {_age(pod)}" for pod in running)
    return (
        f"{still}; see `kubectl -n {namespace} get pods -l "
        f"pipeline/runid={run.run_id}` and `kubectl -n {namespace} get events --sort-by=.lastTimestamp`: no place on a "
        "node, an image that cannot be pulled, or a network policy that hides the API server or the name service"
    )


def _age(pod: Pod) -> str:
    return _duration((datetime.now(UTC) - datetime.fromisoformat(pod.started)).total_seconds())


class Failure(NamedTuple):
    """Message of a failed task, and whether the cause is a user's mistake, which another try would only repeat."""

    text: str
    is_mistake: bool = False


def failures(cluster: Cluster, run: V2beta1Run, tasks: frozenset[str]) -> dict[str, Failure]:
    """Failures of a run: the last message of the stage, else Argo's message with the exit code.

    The nodes around all tasks say only that something below them failed, and are left out.
    """
    failed = {task.name for task in _tasks(cluster, run, tasks) if task.state == "FAILED"} - {RUN}
    if run.state != "FAILED":
        return {name: Failure(_NO_MESSAGE) for name in failed}
    workflow = cluster.workflow(run.run_id)
    messages = {task.name: task.message for task in workflow.tasks if task.message}
    found: dict[str, list[Failure]] = {}
    for pod in last_failures(workflow.pods):
        read = cluster.log(run.run_id, pod)
        log = _kept_log(pod) if read is None else read
        own = "; ".join(_lines(log.rpartition(BEGINS_AGAIN)[2], ERROR_PREFIX)[-MOST_LINES:])
        if _KILLED.search(pod.message):
            own = ""  # what it says is of something before, which it had survived
        printed = "" if own or not log.strip() else f"; it ends with {log.strip().splitlines()[-1][:MOST_SHOWN]!r}"
        if not log and read is None and pod.log_uri:
            printed = f"; if it ended by itself, what it printed is in {pod.log_uri}"
        if _NO_CONFIG_MAP in pod.message:
            said = Failure(f"{_TOO_LONG} (Argo: {pod.message})", is_mistake=True)
        else:
            said = Failure(
                own or f"{pod.message or 'no message'}{printed}", is_mistake=bool(own) and MAY_SUCCEED not in log
            )
        found.setdefault(pod.title, []).append(said)
        failed.discard(pod.task)
    first = {title: said[0]._replace(text=said[0].text + _more(len(said) - 1)) for title, said in found.items()}
    without = sorted(failed & messages.keys() if first else failed)  # a loop prints only what its tasks print
    return {name: Failure(messages.get(name, _NO_MESSAGE)) for name in without} | first


def _kept_log(pod: Pod) -> str:
    """Log that Kubeflow keeps of a pod that is gone, if we may read its bucket; else empty."""
    if not pod.log_uri:
        return ""
    with suppress(EaseError):  # a bucket of a kind that we do not read (gs://) too
        store, name = open_file(pod.log_uri)
        return (store.read(name) or b"").decode(errors="replace")
    return ""


def _more(count: int) -> str:
    return f" (and {count} more)" if count else ""


def _results(cluster: Cluster, run_id: str) -> list[str]:
    """Verdict, scores and cost that the last stages of a run printed; none if their logs cannot be read."""
    workflow = cluster.workflow(run_id)
    pods = [pod for name in LAST if (pod := workflow.pod_of(name))]
    return [line for pod in pods for line in _lines(cluster.log(run_id, pod) or "", f"{LINE_PREFIX}{RESULT}")]


def _lines(log: str, prefix: str) -> list[str]:
    """Lines of the log with this prefix, without it."""
    return [line.partition(prefix)[2] for line in log.splitlines() if prefix in line]


def task_names(spec: Mapping[str, Any]) -> frozenset[str]:
    """The names under which the dashboard shows a pipeline's tasks, those inside of loops too."""
    dags = [spec["root"].get("dag", {})]
    dags += [component.get("dag", {}) for component in spec.get("components", {}).values()]
    return frozenset(task["taskInfo"]["name"] for dag in dags for task in dag.get("tasks", {}).values())


def _run_name(arguments: Mapping[str, Value], package: Package) -> str:
    fields = package.spec["root"]["inputDefinitions"]["parameters"]

    def shown(name: str) -> str:
        return str(arguments.get(name, fields.get(name, {}).get("defaultValue", "")))

    what = f"{shown('method')} on {shown('task_name') or shown('task')}" if "method" in fields else package.pipeline
    return f"{what} {datetime.now():%Y-%m-%d %H:%M:%S}"


def _check_following(options: argparse.Namespace) -> None:
    if options.timeout is not None and not options.wait:
        raise ConfigError(f"--timeout {options.timeout:g} needs --wait; add it, or omit --timeout")
    if options.timeout is not None and not options.timeout > 0:
        raise ConfigError(f"--timeout {options.timeout:g} is not above 0; pass seconds, or omit it to keep waiting")
    if options.retries and not options.wait:
        raise ConfigError(f"--retries {options.retries} needs --wait; add it, or see `python -m pipelines retry`")
    if options.retries < 0:
        raise ConfigError(f"--retries {options.retries} is below 0; give a number of times")


def _patiently(ask: Callable[[], V2beta1Run], seconds: float) -> V2beta1Run:
    """Repeat a request until there is an answer, or time is up."""
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


def _tasks(cluster: Cluster, run: V2beta1Run, names: frozenset[str]) -> list[Task]:
    """The tasks of these names in the order of their start, then the run: it ends last.

    A Kubeflow without ML Metadata tells of a run without its tasks, which are then those of its workflow. The last
    tasks of a run that succeeded are told as running for ever, and have succeeded too.
    """
    details = (run.run_details.task_details if run.run_details else None) or []
    told = [Task(each.task_id, each.display_name, each.state or "", str(each.create_time), "") for each in details]
    found = sorted(told, key=lambda task: task.started) or cluster.workflow(run.run_id).tasks
    state = run.state or "PENDING"
    tasks = [
        task._replace(state=state) if state == "SUCCEEDED" and task.state not in ENDED else task
        for task in found
        if task.name in names and task.state
    ]
    return [*tasks, Task("", RUN, state, "", "")]


def _print_end(
    run: V2beta1Run,
    said: Mapping[str, Failure],
    link: str,
    known: Mapping[str, str],
    timeout_seconds: float | None = None,
) -> int:
    if run.state not in ENDED:
        print(f"run still {run.state or 'PENDING'} after {timeout_seconds:g} s; it continues: {link}", file=sys.stderr)
        return EXIT_FAILED
    took = ""
    if run.finished_at and run.created_at:
        took = f" after {_duration((run.finished_at - run.created_at).total_seconds())}"
    if run.state == "SUCCEEDED":
        print(f"run succeeded{took}; the report is at {link}", flush=True)
        return 0
    if not said and run.error and run.error.message:
        said = {RUN: Failure(run.error.message)}
    elif not said and run.state == "FAILED":
        said = {RUN: Failure(_NO_MESSAGE if known.keys() - {RUN} else _NO_REASON)}
    lines = [f"run {run.state}{took}", *(f"- {task}: {failure.text}" for task, failure in said.items())]
    print("\n".join([*lines, f"logs and artifacts: {link}"]), file=sys.stderr)
    return EXIT_FAILED


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
