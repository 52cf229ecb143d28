"""`python -m pipelines schedule`: make a cluster's recurring runs match the files of `manifests/schedules/`.

The API cannot change a recurring run, so a changed schedule is a new recurring run, and the old one is disabled after
that: a schedule whose new form the cluster refuses keeps its old one. Nothing is ever deleted, nothing ever catches up.
Which recurring run belongs to which file, and to what content of it, is in its description:

    ease-schedule: NAME sha256:DIGEST
    ease-version: VERSION

The digest covers the entry, the arguments that its parameter set makes today, and the pipeline's version.
"""

import argparse
import dataclasses
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kfp_server_api import V2beta1RecurringRun

from ease_lib.config.parsing import Value
from ease_lib.digests import sha256_of_json
from ease_lib.errors import ConfigError
from pipelines.arguments import arguments_of, check_values, given_values
from pipelines.cluster import Cluster, ClusterError, Package, add_connection_options, connect, read_package
from pipelines.cron import next_start
from pipelines.submit import EXPERIMENT, PACKAGE

CURRENT = "current"
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
STAMP = re.compile(r"^ease-schedule: (?P<name>\S+) sha256:(?P<digest>[0-9a-f]{64})$", re.MULTILINE)
VERSION_LINE = re.compile(r"^ease-version: (?P<version>\S+)$", re.MULTILINE)
MOST_AT_ONCE = 10
EXIT_DIFFERENT = 1


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One file of `manifests/schedules/`; the table in its README explains the fields."""

    name: str
    cron: str
    enabled: bool = True
    experiment: str = EXPERIMENT
    params: str = ""
    set: Mapping[str, object] = dataclasses.field(default_factory=dict)
    version: str = CURRENT
    service_account: str = ""
    pipeline_root: str = ""
    max_concurrency: int = 1
    timezone_note: str = ""


@dataclass(frozen=True, kw_only=True)
class IntendedSchedule:
    """A schedule with its current meaning: its arguments, its version, and the digest of both."""

    schedule: Schedule
    arguments: Mapping[str, Value]
    version: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """A recurring run that this program has created."""

    recurring_run_id: str
    name: str
    digest: str
    version: str
    cron: str
    enabled: bool
    created_at: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ScheduleChange:
    """Changes for one schedule: perhaps create, then disable."""

    wanted: IntendedSchedule
    create: bool
    disable: tuple[OnCluster, ...]
    reason: str

    @property
    def changes(self) -> bool:
        return self.create or bool(self.disable)


def add_schedule_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines schedule`."""
    actions = parser.add_subparsers(dest="action", required=True)
    apply = actions.add_parser("apply", help="create what is new or changed, then disable what it replaces")
    apply.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    diff = actions.add_parser("diff", help="print what apply would do; exit with code 1 if there is anything to do")
    for action in (apply, diff):
        action.add_argument("files", nargs="+", type=Path, metavar="FILE", help="schedule file, or folder of them")
        action.add_argument(
            "--package", type=Path, default=PACKAGE, metavar="FILE", help="compiled pipeline (default: committed)"
        )
    listing = actions.add_parser("list", help="list the schedules of EASE on the cluster")
    listing.add_argument("--all", action="store_true", help="list replaced ones too")
    pause = actions.add_parser("pause", help="disable schedules; the next apply of an enabled file starts them again")
    pause.add_argument("targets", nargs="+", metavar="NAME|FILE", help="schedule, by its name or its file")
    for action in (apply, diff, listing, pause):
        add_connection_options(action)


def schedule(options: argparse.Namespace) -> int:
    """Run one of the actions; returns the exit code."""
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "apply": _apply,
        "diff": _diff,
        "list": _list,
        "pause": _pause,
    }
    return actions[options.action](options)


def read_schedules(paths: Sequence[Path]) -> list[Schedule]:
    """Read and check schedule files, or all `*.yaml` of folders.

    Raises:
        ConfigError: with every problem of every file; two files with one name are a problem too.
    """
    problems: list[str] = []
    origins: dict[str, Path] = {}
    schedules = []
    for path in _files(paths, problems):
        try:
            found = _read_schedule(path)
        except ConfigError as error:
            problems += [f"{path}: {problem}" for problem in error.problems]
            continue
        if found.name in origins:
            problems.append(f"{path}: name {found.name} is taken by {origins[found.name]}; give each file its own")
        origins[found.name] = path
        schedules.append(found)
    if problems:
        raise ConfigError(*problems)
    return schedules


def wanted_schedule(
    schedule: Schedule, package: Package, version: str, spec: Mapping[str, Any], origin: str
) -> IntendedSchedule:
    """Recurring run that a schedule asks for with this version of the pipeline."""
    arguments = arguments_of(given_values(schedule.params, schedule.set), package.pipeline, spec, origin)
    entry = dataclasses.asdict(schedule)
    for name in ("enabled", "params", "set"):  # the cluster's own state, and what the arguments say better
        del entry[name]
    content = {**entry, "version": version, "arguments": arguments, "pipeline": package.pipeline}
    digest = sha256_of_json(content)
    return IntendedSchedule(schedule=schedule, arguments=arguments, version=version, digest=digest)


def plan(wanted: Sequence[IntendedSchedule], existing: Sequence[OnCluster]) -> list[ScheduleChange]:
    """Changes that make the cluster match the files; schedules without a file among them are left alone."""
    return [_step(each, [found for found in existing if found.name == each.schedule.name]) for each in wanted]


def on_cluster(cluster: Cluster) -> list[OnCluster]:
    """The recurring runs that carry our stamp, newest first."""
    ours = [_ours(found) for found in cluster.recurring_runs()]
    return sorted((found for found in ours if found), key=lambda found: found.created_at, reverse=True)


def _apply(options: argparse.Namespace) -> int:
    cluster, package, steps = _planned(options)
    for step in steps:
        if options.dry_run:
            print(f"{step.wanted.schedule.name}: {_described(step, 'would ')}")
        else:
            _carry_out(step, cluster, package)
    return 0


def _diff(options: argparse.Namespace) -> int:
    _, _, steps = _planned(options)
    for step in steps:
        print(f"{step.wanted.schedule.name}: {_described(step, 'would ')}")
    return EXIT_DIFFERENT if any(step.changes for step in steps) else 0


def _list(options: argparse.Namespace) -> int:
    found = on_cluster(connect(options.host, options.namespace, options.ca_cert))
    newest = {each.name: each.recurring_run_id for each in reversed(found)}
    shown = [each for each in found if options.all or each.enabled or newest[each.name] == each.recurring_run_id]
    rows = [("NAME", "CRON", "ENABLED", "NEXT (UTC)", "VERSION", "RECURRING RUN")]
    for each in sorted(shown, key=lambda each: each.name):
        enabled = "yes" if each.enabled else "no"
        rows.append((each.name, each.cron, enabled, _next(each), each.version, each.recurring_run_id))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _pause(options: argparse.Namespace) -> int:
    names = [_named(target) for target in options.targets]
    cluster = connect(options.host, options.namespace, options.ca_cert)
    found = on_cluster(cluster)
    known = sorted({each.name for each in found})
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            *(f"no schedule {name} on the cluster; it has {', '.join(known) or 'none'}" for name in unknown)
        )
    for name in names:
        enabled = [each for each in found if each.name == name and each.enabled]
        for each in enabled:
            cluster.disable_recurring_run(each.recurring_run_id)
        done = f"disabled {_ids(enabled)}; set enabled: false in its file, or the next apply starts it again"
        print(f"{name}: {done if enabled else 'unchanged, is disabled already'}", flush=True)
    return 0


def _planned(options: argparse.Namespace) -> tuple[Cluster, Package, list[ScheduleChange]]:
    """Check everything that can be checked locally, then ask the cluster, without changing it."""
    schedules = read_schedules(options.files)
    package = read_package(options.package)
    problems: list[str] = []
    for each in schedules:
        try:
            wanted_schedule(each, package, package.version, package.spec, str(package.path))
        except ConfigError as error:
            problems += [f"{each.name}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    cluster = connect(options.host, options.namespace, options.ca_cert)
    wanted = [_resolved(each, package, cluster) for each in schedules]
    return cluster, package, plan(wanted, on_cluster(cluster))


def _resolved(schedule: Schedule, package: Package, cluster: Cluster) -> IntendedSchedule:
    """The schedule with its version; one that is named must be on the cluster and have this checkout's form."""
    if schedule.version == CURRENT:
        return wanted_schedule(schedule, package, package.version, package.spec, str(package.path))
    version = cluster.find_version(package.pipeline, schedule.version)
    if version is None:
        raise ConfigError(
            f"{schedule.name}: pipeline {package.pipeline} has no version {schedule.version} on the cluster; "
            f"take {CURRENT}, or a version that the dashboard lists"
        )
    return wanted_schedule(schedule, package, version.name, version.spec, f"{schedule.name}: version {version.name}")


def _step(wanted: IntendedSchedule, existing: Sequence[OnCluster]) -> ScheduleChange:
    enabled = [found for found in existing if found.enabled]
    if not wanted.schedule.enabled:
        return ScheduleChange(wanted=wanted, create=False, disable=tuple(enabled), reason="enabled: false")
    current = next((found for found in enabled if found.digest == wanted.digest), None)
    others = tuple(found for found in enabled if found is not current)
    if current:
        return ScheduleChange(wanted=wanted, create=False, disable=others, reason="replaced before")
    reason = _differences(existing[0], wanted) if existing else "new"
    return ScheduleChange(wanted=wanted, create=True, disable=others, reason=reason)


def _carry_out(step: ScheduleChange, cluster: Cluster, package: Package) -> None:
    """Create, then disable: if the cluster refuses the new one, the old one goes on."""
    name = step.wanted.schedule.name
    if step.create:
        try:
            created = _create(step.wanted, cluster, package)
        except ClusterError as error:
            kept = f"{_ids(step.disable)} goes on" if step.disable else "nothing was changed"
            raise type(error)(f"{name}: {error}; {kept}", status=error.status) from error
        print(f"{name}: created {created} ({step.reason})", flush=True)
    for old in step.disable:
        cluster.disable_recurring_run(old.recurring_run_id)
        print(f"{name}: disabled {old.recurring_run_id}", flush=True)
    if not step.changes:
        print(f"{name}: unchanged", flush=True)


def _create(wanted: IntendedSchedule, cluster: Cluster, package: Package) -> str:
    schedule = wanted.schedule
    if schedule.version == CURRENT:
        version = cluster.uploaded_version(package)
    else:
        version = cluster.find_version(package.pipeline, wanted.version)
        if version is None:
            raise ConfigError(f"version {wanted.version} of pipeline {package.pipeline} has gone; take {CURRENT}")
    return cluster.create_recurring_run(
        experiment_id=cluster.experiment_id(schedule.experiment),
        job_name=schedule.name,
        description=_description(wanted),
        cron_expression=schedule.cron,
        no_catchup=True,
        max_concurrency=schedule.max_concurrency,
        params=dict(wanted.arguments),
        pipeline_id=version.pipeline_id,
        version_id=version.version_id,
        pipeline_root=schedule.pipeline_root or None,
        service_account=schedule.service_account or None,
    )


def _description(wanted: IntendedSchedule) -> str:
    lines = [f"ease-schedule: {wanted.schedule.name} sha256:{wanted.digest}", f"ease-version: {wanted.version}"]
    return "\n".join([*lines, wanted.schedule.timezone_note]).strip()


def _described(step: ScheduleChange, mood: str) -> str:
    if not step.changes:
        return "unchanged"
    done = [f"{mood}create a recurring run"] if step.create else []
    done += [f"{mood}disable {_ids(step.disable)}"] if step.disable else []
    return f"{', then '.join(done)} ({step.reason})"


def _differences(old: OnCluster, wanted: IntendedSchedule) -> str:
    """Differences between the newest recurring run and the file, as far as the API shows them."""
    pairs = [("cron", old.cron, wanted.schedule.cron), ("version", old.version, wanted.version)]
    names = sorted({*old.arguments, *wanted.arguments})
    pairs += [(name, old.arguments.get(name, "default"), wanted.arguments.get(name, "default")) for name in names]
    changed = [f"{name} {before or 'empty'} -> {after or 'empty'}" for name, before, after in pairs if before != after]
    if changed:
        return ", ".join(changed)
    return "other settings changed" if old.digest != wanted.digest else "was disabled"


def _ours(found: V2beta1RecurringRun) -> OnCluster | None:
    description = found.description or ""
    stamp, version = STAMP.search(description), VERSION_LINE.search(description)
    if not stamp:
        return None
    trigger = found.trigger.cron_schedule if found.trigger else None
    return OnCluster(
        recurring_run_id=found.recurring_run_id,
        name=stamp["name"],
        digest=stamp["digest"],
        version=version["version"] if version else "?",
        cron=(trigger.cron if trigger else None) or "?",
        enabled=(found.status or found.mode) in ("ENABLED", "ENABLE"),
        created_at=found.created_at.isoformat() if found.created_at else "",
        arguments=(found.runtime_config.parameters if found.runtime_config else None) or {},
    )


def _next(each: OnCluster) -> str:
    if not each.enabled:
        return "-"
    try:
        return f"{next_start(each.cron, datetime.now(UTC)):%Y-%m-%d %H:%M:%S}"
    except ConfigError:
        return "?"


def _ids(found: Sequence[OnCluster]) -> str:
    return ", ".join(each.recurring_run_id for each in found)


def _named(target: str) -> str:
    """The schedule of a name, or of a file, of which only the name must be valid, because pausing is urgent."""
    path = Path(target)
    if path.suffix not in (".yaml", ".yml"):
        return target
    name = _mapping(path).get("name")
    if not isinstance(name, str):
        raise ConfigError(f"{path} has no name; give the schedule's name instead")
    return name


def _files(paths: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    for path in paths:
        inside = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
        if not inside:
            problems.append(f"{path}: a folder without *.yaml files; give schedule files, or the folder they are in")
        yield from inside


def _mapping(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give a schedule file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} is not valid YAML: {reason}; quote a cron that begins with *") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must map keys to values, e.g. `name: nightly`; found {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def _read_schedule(path: Path) -> Schedule:
    content = _mapping(path)
    fields = {field.name: field for field in dataclasses.fields(Schedule)}
    problems = [_unknown(key, fields) for key in content if key not in fields]
    problems += [f"{key} is missing; every schedule needs it" for key in ("name", "cron") if not content.get(key)]
    values = {key: value for key, value in content.items() if key in fields and value is not None}
    problems += _wrong_types(values)
    if not problems:
        problems += _wrong_values(values)
    if problems:
        raise ConfigError(*problems)
    return Schedule(**{**values, **_concurrency(values)})


def _unknown(key: str, fields: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, fields, n=1)
    return f"unknown key {key}; " + (f"did you mean {close[0]}?" if close else f"the keys are {', '.join(fields)}")


def _wrong_types(values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        if key == "enabled":
            if not isinstance(value, bool):
                yield f"enabled={value!r} is neither true nor false"
        elif key == "set":
            if not isinstance(value, dict):
                yield f"set={value!r} must map parameter names to values, e.g. set: {{k: 8}}"
        elif key == "max_concurrency":
            if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value)):
                yield f"max_concurrency={value!r} is not a whole number from 1 to {MOST_AT_ONCE}"
        elif not isinstance(value, str):
            yield f"{key}={value!r} is not text; put it in quotes"


def _wrong_values(values: Mapping[str, Any]) -> Iterator[str]:
    if not NAME.fullmatch(values["name"]):
        yield f"name={values['name']} must be 1 to 63 of a-z, 0-9 and -, with no - at its ends"
    if not 1 <= int(values.get("max_concurrency", 1)) <= MOST_AT_ONCE:
        yield f"max_concurrency={values['max_concurrency']} is not from 1 to {MOST_AT_ONCE}, what the API takes"
    if "\n" in values.get("timezone_note", "").strip():
        yield "timezone_note has several lines; make it one"
    if values.get("version") == "":
        yield f"version is empty; take {CURRENT}, or the name of a version on the cluster"
    for check in (
        lambda: next_start(values["cron"], datetime.now(UTC)),
        lambda: check_values(given_values(values.get("params", ""), values.get("set", {}))),
    ):
        try:
            check()
        except ConfigError as error:
            yield from error.problems


def _concurrency(values: Mapping[str, Any]) -> dict[str, int]:
    return {"max_concurrency": int(values["max_concurrency"])} if "max_concurrency" in values else {}
