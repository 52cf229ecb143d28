"""`ease`: the pipeline and each of its stages on the command line.

`ease run` runs the whole Kubeflow pipeline on this machine. `ease STAGE` runs one stage on files. Options have the
names of the pipeline's parameters, with dashes: `--noise-ratio` is `noise_ratio`.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ease_lib import __version__
from ease_lib.comparison import AXES
from ease_lib.config import (
    ComparisonConfig,
    OnlyLineage,
    Parameters,
    changed_parameters,
    declared_parameters,
    parse_parameters,
    stage_parameters,
)
from ease_lib.errors import ConfigError, EaseError
from ease_lib.lineage.commands import add_lineage
from ease_lib.processes import available_cores, children_have
from ease_lib.running import doctor
from ease_lib.running.compare import Done, run_cells
from ease_lib.running.execution import EXIT_ERROR, EXIT_STOPPED, LocalArtifact, execute
from ease_lib.signals import sigterm_as_interrupt
from ease_lib.stages import report_comparison
from ease_lib.stages.check_prerequisites import STAGE_CONFIGS
from ease_lib.stages.plan_comparison import checked_plan, most_requests

EXAMPLES = """examples:
  ease run --params demo                            the shipped task with the small local LLM
  ease run --task lr --noise-ratio 0.1 --llm-base-url simulated
  ease run --task table --task-uri tickets.csv --input-columns text --output-column team \\
           --llm-base-url https://llm.example.org/v1 --llm-model small-1 --output-dir runs/tickets
the key of an endpoint comes from EASE_LLM_API_KEY, for OpenAI itself also from OPENAI_API_KEY; the same command with
the same --output-dir continues a run that was killed; exit codes: 0 done, 2 an error with its
message, 75 stopped and can be continued
"""


COMPARE_EXAMPLES = """examples:
  ease compare --task table --task-uri tickets.csv --output-column team --llm-base-url https://llm.example.org/v1
  ease compare --tasks "lr, lp_variant" --noise-ratios "0, 0.5" --methods "ease, best_of_n" --endpoints simulated
  ease compare --methods "ease, {method: ease, shortlist: none}, {method: ease, nu: 1}" --task lr --repeats 5
  ease compare --params knowledge                   how much selection matters to models that know the task
entries of a list are names or {parameter: value, ...}, with a label of their own if you like; the same command, or one
with more methods, tasks or repeats, runs only what is not finished yet
"""


DOCTOR_EXAMPLES = """examples:
  ease doctor --store-uri s3://my-bucket/ease       before the first run on an object store
  ease doctor --params demo                         everything that `make run` will need
  kubectl run ease-doctor --rm -it --image ease-pipelines-cpu:VERSION -- ease doctor --llm-base-url URL
"""


@dataclass(frozen=True, kw_only=True)
class ComparisonAxes:
    """The options of `ease compare` beside those of a run."""

    comparison: ComparisonConfig


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except EaseError as error:
        print(f"ease: error: {error}" if "\n" not in str(error) else f"ease: errors:\n{error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("ease: stopped; what was answered is kept, and the same command continues", file=sys.stderr)
        return EXIT_STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ease", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"ease {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    _add_compare(commands)
    _add_doctor(commands)
    add_lineage(commands)
    for name in STAGE_CONFIGS:
        _add_stage(commands, name)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run the whole pipeline on this machine",
        description="Run the whole pipeline on this machine, from the task's data to the report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "--params", metavar="SET", help="parameter set (demo, smoke, paper) or YAML file; options win over it"
    )
    run.add_argument(
        "--output-dir", metavar="DIR", help="folder for results and journal (default: runs/TASK-METHOD-HASH)"
    )
    run.add_argument(
        "--runner",
        choices=("process", "docker"),
        default="process",
        help="a process for each stage, or a container of the images that `make images` builds (default: process)",
    )
    _add_parameters(run, Parameters, "parameters")
    run.set_defaults(command=_run)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="compare methods over tasks, noise ratios, endpoints and repeats",
        description="Run methods over tasks, noise ratios, endpoints and repeats on this machine; say which is best.",
        epilog=COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument(
        "--params", metavar="SET", help="parameter set (paper-tables, knowledge, ...) or YAML file; options win over it"
    )
    compare.add_argument(
        "--output-dir", metavar="DIR", help="folder for results and finished cells (default: runs/comparison)"
    )
    compare.add_argument(
        "--jobs", type=int, metavar="N", help="processes side by side (default: one per core it may use)"
    )
    _add_parameters(compare, ComparisonAxes, "what varies")
    _add_parameters(compare, Parameters, "parameters of every run")
    compare.set_defaults(command=_compare)


def _add_doctor(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="try everything that a run needs, and say what is wrong and what to do",
        description="Try the task data, the embedder, the object store, the endpoint and this machine, as a run would "
        "meet them. Costs one short LLM request.",
        epilog=DOCTOR_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--params", metavar="SET", help="parameter set or YAML file; options win over it")
    doctor.add_argument("--output-dir", metavar="DIR", default="runs", help="folder to write to (default: runs)")
    _add_parameters(doctor, Parameters, "parameters")
    doctor.set_defaults(command=_doctor)


def _add_stage(commands: Any, name: str) -> None:
    module = _stage_module(name)
    summary = (module.__doc__ or "").split("\n")[0].partition(": ")[2]
    stage = commands.add_parser(name.replace("_", "-"), help=summary, description=module.__doc__)
    files = stage.add_argument_group("files")
    for kind, declared in (("read", module.Inputs), ("write", module.Outputs)):
        for field in dataclasses.fields(declared):
            contract = field.metadata["contract"] or "page or folder"
            prefix = "" if kind == "read" else "out-"
            files.add_argument(
                f"--{prefix}{field.name.replace('_', '-')}",
                dest=f"{kind}_{field.name}",
                metavar="PATH",
                nargs="+" if field.metadata["many"] else None,
                required=True,
                help=f"{kind}: {contract}",
            )
    _add_parameters(stage, STAGE_CONFIGS[name], "parameters")
    if not set(declared_parameters(OnlyLineage)) & set(declared_parameters(STAGE_CONFIGS[name])):
        _add_parameters(stage, OnlyLineage, "lineage")
    stage.set_defaults(command=lambda parsed: _run_stage(name, parsed))


def _add_parameters(parser: argparse.ArgumentParser, config: type, title: str) -> None:
    group = parser.add_argument_group(title)
    for parameter in declared_parameters(config).values():
        default = f" (default: {parameter.default})" if parameter.default != "" else ""
        flag: dict[str, Any] = {"nargs": "?", "const": True} if parameter.type is bool else {}
        group.add_argument(
            f"--{parameter.name.replace('_', '-')}",
            dest=f"parameter_{parameter.name}",
            metavar=parameter.type.__name__.upper(),
            help=(parameter.help + default).replace("%", "%%"),
            **flag,
        )


def _given(parsed: argparse.Namespace) -> dict[str, object]:
    prefix = "parameter_"
    return {
        name.removeprefix(prefix): value
        for name, value in vars(parsed).items()
        if name.startswith(prefix) and value is not None
    }


def _run_stage(name: str, parsed: argparse.Namespace) -> int:
    module, config = _stage_module(name), STAGE_CONFIGS[name]
    parameters = parse_parameters(_given(parsed))
    paths = {field.name: getattr(parsed, f"read_{field.name}") for field in dataclasses.fields(module.Inputs)}
    paths.update({field.name: getattr(parsed, f"write_{field.name}") for field in dataclasses.fields(module.Outputs)})
    artifacts: dict[str, Any] = {
        name: [LocalArtifact(one) for one in path] if isinstance(path, list) else LocalArtifact(path)
        for name, path in paths.items()
    }
    report = execute(module, stage_parameters(config, parameters), **artifacts)
    print(json.dumps(report.metrics))
    return 0


def _stage_module(name: str) -> ModuleType:
    return importlib.import_module(f"ease_lib.stages.{name}")


def _compare(parsed: argparse.Namespace) -> int:
    values = _values(parsed)
    folder = _made_folder(parsed.output_dir or "runs/comparison")
    jobs = _jobs(parsed.jobs)
    with sigterm_as_interrupt():
        cells = checked_plan({"store_uri": str(folder / "store"), **values})
        requests = f"{most_requests(cells):,}".replace(",", " ")
        print(f"{len(cells)} runs, {jobs} at a time, at most {requests} LLM requests; output in {folder}", flush=True)
        done = itertools.count(1)
        with tempfile.TemporaryDirectory(prefix="ease-compare-") as scratch, children_have(TMPDIR=scratch):
            results = run_cells(cells, jobs=jobs, on_done=lambda cell: _print_done(next(done), len(cells), cell))
    report_comparison.run(results, folder)
    failed = [result for result in results if result["failure"]]
    print(f"\n{(folder / report_comparison.MARKDOWN).read_text(encoding='utf-8')}")
    for file in (report_comparison.PAGE, report_comparison.MARKDOWN, report_comparison.TABLE):
        print(folder / file)
    if failed:
        print(
            f"ease: error: {len(failed)} of {len(results)} runs failed; the same command tries them again",
            file=sys.stderr,
        )
    return EXIT_ERROR if failed else 0


def _jobs(given: int | None) -> int:
    if given is not None and given < 1:
        raise ConfigError(f"--jobs {given} is below 1, the least allowed")
    return given or available_cores()


def _print_done(number: int, total: int, done: Done) -> None:
    if done.result["failure"]:
        print(f"{number}/{total}  {done.cell.name}: FAILED: {done.result['failure']}", flush=True)
        return
    scores = f"validation {done.result['validation_score']:.3f}  test {done.result['test_score']:.3f}"
    kept = "  (finished before)" if done.kept else ""
    print(f"{number}/{total}  {done.cell.name}: {scores}  {done.result['llm_requests']} requests{kept}", flush=True)


def _values(parsed: argparse.Namespace) -> dict[str, object]:
    """The parameters of the set that was named, and those given as options, which win."""
    if not parsed.params:
        return _given(parsed)
    return {**_pipelines("parameter_sets").read_parameter_set(parsed.params), **_given(parsed)}


def _pipelines(module: str) -> Any:
    """A module of the graphs, which the library itself does not need."""
    try:
        return importlib.import_module(f"pipelines.{module}")
    except ImportError as error:
        raise ConfigError(
            f"this needs kfp and the repository's pipelines/ ({error}); run `make install` in a checkout"
        ) from error


def _run(parsed: argparse.Namespace) -> int:
    local_run = _pipelines("local_run")
    values = _values(parsed)
    axes = sorted(set(values) & set(AXES))
    if axes:
        raise ConfigError(f"--params {parsed.params} varies {', '.join(axes)}; it is for ease compare")
    parameters = parse_parameters(values)
    output_dir = _output_dir(parsed.output_dir, parameters)
    if not parameters.run.store_uri:
        parameters = parse_parameters({**values, "store_uri": str(output_dir / "store")})
    start = time.perf_counter()
    print(f"{_described(parameters)}; output in {output_dir}", flush=True)
    local_run.run_pipeline(parameters, output_dir, parsed.runner)
    print(result_text(output_dir, time.perf_counter() - start))
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    parameters = parse_parameters(_values(parsed))
    problems = 0
    for finding in doctor.examine(parameters, Path(parsed.output_dir).expanduser().absolute()):
        print(f"  {'FAIL' if finding.problems else 'ok':<6}{finding.what:<16}{finding.which}", flush=True)
        for problem in finding.problems:
            print(f"        {problem}")
        problems += len(finding.problems)
    print(f"{problems} problem{'s' * (problems != 1)} found" if problems else "everything that this run needs is there")
    return EXIT_ERROR if problems else 0


def _described(parameters: Parameters) -> str:
    search = parameters.optimizer
    return (
        f"{search.method} on {parameters.task.task_name or parameters.task.task}: k={search.k}, budget {search.budget}"
    )


def _output_dir(given: str | None, parameters: Parameters) -> Path:
    """The folder of the run: as given, or named after its parameters so that the same command finds it again."""
    if given is None:
        digest = hashlib.sha256(json.dumps(changed_parameters(parameters), sort_keys=True).encode()).hexdigest()[:8]
        given = (
            f"runs/{parameters.task.task_name or parameters.task.task}-{parameters.optimizer.method}-{digest}".replace(
                ":", "-"
            )
        )
    return _made_folder(given)


def _made_folder(given: str) -> Path:
    folder = Path(given).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output-dir {folder} cannot be made: {error.strerror}; choose another") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--output-dir {folder} is not writable; choose another")
    return folder


@dataclass(frozen=True)
class _Line:
    label: str
    value: str

    def __str__(self) -> str:
        return f"  {self.label:<28}{self.value}"


def result_text(output_dir: Path, seconds: float) -> str:
    """The end of a run as text: the prompt, its scores beside random exemplars, the cost, where everything is."""
    report = json.loads((output_dir / "report.json").read_text(encoding="utf-8"))
    best, random, llm = report["best"], report["random"], report["llm"]
    low, high = best["test_interval"]
    lines = [
        _Line("", "winner    random exemplars"),
        _Line(
            "validation score",
            f"{best['validation_score']:.3f}     {_number(random['validation_score'])} (mean of {random['sequences']})",
        ),
        _Line(
            "test score",
            f"{best['test_score']:.3f}     {_number(random['test_score'])} (mean of {len(random['test_scores'])})",
        ),
        _Line("95 % interval of the winner", f"{low:.3f} to {high:.3f} on {_tested(report)}"),
        _Line("evaluations", f"{report['evaluations']} of {report['budget']}, stopped: {report['stopped']}"),
        _Line("LLM requests", _requests(llm, simulated=report["simulated"])),
        *(
            [_Line("oldest answer", f"{report['oldest_answer'][:16].replace('T', ' ')} UTC")]
            if report["oldest_answer"]
            else []
        ),
        _Line("time", f"{seconds:.0f} s"),
        _Line("report", str(output_dir / "report.html")),
        _Line("prompt", str(output_dir / "prompt.txt")),
        _Line("artifacts", str(output_dir / "pipeline")),
    ]
    prompt = (output_dir / "prompt.txt").read_text(encoding="utf-8")
    gain = report["gain"]
    verdict = (
        ""
        if not gain or gain["evidence"]
        else "\n  There is no evidence on the test set that the winner beats random exemplars."
    )
    return f"\nWinning prompt\n\n{_indented(prompt)}\n\n" + "\n".join(map(str, lines)) + verdict


def _requests(llm: dict[str, Any], *, simulated: bool) -> str:
    text = f"{llm['requests']}, of {llm['model']}{' (simulated)' if simulated else ''}"
    kept = "" if llm["new_requests"] == llm["requests"] else f"; {llm['new_requests']} of them now"
    return text + kept + (f"; ${llm['cost_usd']:.4f}" if llm["cost_usd"] else "")


def _tested(report: dict[str, Any]) -> str:
    """The rows that the test score is the mean of."""
    failed = report["failed_rows"]["test"]
    return f"{report['best']['test_rows']} test rows" + (f"; the endpoint refused {failed}" if failed else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))


if __name__ == "__main__":
    sys.exit(main())
