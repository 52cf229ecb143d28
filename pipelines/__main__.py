"""`python -m pipelines compile | params | upload | submit | retry | schedule`: graphs as files, and runs of them."""

import argparse
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kfp import compiler

import components
from ease_lib.config.named_sets import FOLDER as SETS
from ease_lib.config.parsing import declared_parameters
from ease_lib.config.sections import ComparisonAxes, Parameters
from ease_lib.errors import EXIT_ERROR, EXIT_STOPPED, ConfigError, EaseError
from pipelines.arguments import assignments, given_values, installed_defaults
from pipelines.comparison_pipeline import comparison_pipeline
from pipelines.component_files import component_files, component_yaml
from pipelines.ease_pipeline import ease_pipeline
from pipelines.native_objects import native_objects
from pipelines.placement import Placement, placed

COMPILED = {"ease_pipeline.yaml": ease_pipeline, "comparison_pipeline.yaml": comparison_pipeline}
FOLDER = Path(__file__).parent / "compiled"
NATIVE_OBJECTS = Path(__file__).parents[1] / "manifests" / "components" / "native-pipelines" / "pipelines.yaml"
PARAMS_README = SETS / "README.md"
PARAMS_TEXT = """# Parameters

Pipeline parameter = YAML key = command-line option: `--noise-ratio` is `noise_ratio`. Keys of endpoints are no
parameters: they are read from the environment only.

`python -m pipelines params --write` writes this file from `ease_lib/config/sections.py` and the heads of the sets.

## Sets

`--params NAME` takes a set of this folder, `--params FILE` any YAML file of parameters. Options win over the set.

| Set | |
|---|---|
{sets}

## Every parameter of a run

{parameters}

## What a comparison varies

Of `ease compare` and the comparison pipeline, beside the parameters of every run:

{axes}
"""


def main(given: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = _parser().parse_args(given)
    return int(arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    from pipelines import schedules, submit  # kfp's client, which `compile` does not need

    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile", help="write pipelines/compiled/, or check that it is current")
    compiling.add_argument("--check", action="store_true", help="write nothing; fail when a committed file differs")
    compiling.add_argument("--params", default="", metavar="SET", help="defaults of the run form: a set or YAML file")
    compiling.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one default of the forms; repeatable"
    )
    add_placement(compiling)
    compiling.set_defaults(run=lambda given: check_compiled() if given.check else _with_messages(_compile, given))
    params = commands.add_parser("params", help="list parameter sets and parameters as Markdown")
    params.add_argument("--write", action="store_true", help=f"write it to {_shown(PARAMS_README)} instead")
    params.set_defaults(run=_params)
    shape = argparse.RawDescriptionHelpFormatter
    submitting = commands.add_parser("submit", help="start a run", description=submit.__doc__, formatter_class=shape)
    submit.add_submit_options(submitting)
    submitting.set_defaults(run=lambda given: _with_messages(submit.submit, given))
    retrying = commands.add_parser("retry", help="begin again what failed of a run", description=submit.retry.__doc__)
    submit.add_retry_options(retrying)
    retrying.set_defaults(run=lambda given: _with_messages(submit.retry, given))
    uploading = commands.add_parser("upload", help="put compiled pipelines there", description=submit.upload.__doc__)
    submit.add_upload_options(uploading)
    uploading.set_defaults(run=lambda given: _with_messages(submit.upload, given))
    recurring = commands.add_parser(
        "schedule", help="recurring runs", description=schedules.__doc__, formatter_class=shape
    )
    schedules.add_schedule_options(recurring)
    recurring.set_defaults(run=lambda given: _with_messages(schedules.schedule, given))
    return parser


def _params(arguments: argparse.Namespace) -> int:
    """Print all parameters, or write them into the README of the parameter sets."""
    if arguments.write:
        PARAMS_README.write_text(params_readme(), encoding="utf-8")
    else:
        print(params_readme(), end="")
    return 0


def _compile(arguments: argparse.Namespace) -> int:
    """Write the compiled pipelines and components and, where asked for, the pipelines as Kubernetes objects."""
    folder, objects = arguments.output_dir, arguments.native_objects
    values = given_values(arguments.params, assignments(arguments.set))
    if values and folder == FOLDER:
        raise ConfigError(f"{FOLDER.name}/ is committed and has no defaults of one's own; give another --output-dir")
    placement = placement_of(arguments)
    compile_all(folder, placement, values)
    if folder == FOLDER:
        for path, text in component_files().items():
            path.write_text(text, encoding="utf-8")
    else:
        _write_components(folder / "components", placement)
    if objects or folder == FOLDER:
        text = native_objects(folder, arguments.commit, arguments.code_url)
        (objects or NATIVE_OBJECTS).write_text(text, encoding="utf-8")
    return 0


def _write_components(folder: Path, placement: Placement) -> None:
    """The compiled components with the image of a cluster, for pipelines of others."""
    folder.mkdir(parents=True, exist_ok=True)
    for component in components.ALL:
        text = component_yaml(component, placement.cpu_image)
        (folder / f"{component.python_func.__name__}.yaml").write_text(text, encoding="utf-8")


def _with_messages(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; errors of the user's making are messages."""
    try:
        return command(arguments)
    except EaseError as error:
        problems = "errors:\n" if str(error).startswith("- ") else "error: "
        print(f"python -m pipelines: {problems}{error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("python -m pipelines: stopped", file=sys.stderr)
        return EXIT_STOPPED


def add_placement(parser: argparse.ArgumentParser) -> None:
    """The options that depend on the cluster (`pipelines/placement.py`)."""
    default = Placement()
    options = parser.add_argument_group("what depends on the cluster")
    options.add_argument("--output-dir", type=Path, default=FOLDER, help=f"default: {FOLDER.name}/, which is committed")
    options.add_argument("--native-objects", type=Path, metavar="FILE", help="write Kubernetes objects of them too")
    options.add_argument("--commit", default="", help="of the source, as a tag of these objects")
    options.add_argument("--code-url", default="", help="of the source, for the dashboard's link")
    options.add_argument(
        "--cpu-image", default=default.cpu_image, help="with registry and digest (default: %(default)s)"
    )
    options.add_argument("--gpu-image", default=default.gpu_image, help="likewise (default: %(default)s)")
    options.add_argument(
        "--shards",
        type=int,
        default=default.shards,
        metavar="N",
        help="rank a large pool in so many parts side by side before the prefilter (default: %(default)s)",
    )
    options.add_argument("--gpu", action="store_true", help="run embed and optimize on a GPU each")
    options.add_argument(
        "--gpu-prefilter", action="store_true", help="prefilter and its shards too, for prefilter=cosine"
    )
    options.add_argument("--gpu-resource", default=default.gpu_resource, help="and taint (default: %(default)s)")
    options.add_argument(
        "--run-days",
        type=int,
        default=default.run_days,
        metavar="DAYS",
        help="end a run so long after its first start, retries included (default: %(default)s)",
    )
    options.add_argument("--gpu-node-label", default="", metavar="LABEL=VALUE", help="nodes to take for them")


def placement_of(arguments: argparse.Namespace) -> Placement:
    """The options as given; what is no option keeps its default."""
    given = {field.name for field in dataclasses.fields(Placement)} & set(vars(arguments))
    return Placement(**{name: getattr(arguments, name) for name in given})


def compile_all(
    folder: Path,
    placement: Placement = Placement(),  # noqa: B008  (it is frozen)
    values: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Compile every pipeline into `folder`.

    Args:
        values: of parameters, an installation's own defaults of the forms.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, pipeline in COMPILED.items():
        defaults = installed_defaults(values, is_run=pipeline is ease_pipeline) if values else {}
        compiler.Compiler().compile(placed(pipeline, placement), str(folder / name), pipeline_parameters=defaults)


def check_compiled() -> int:
    """Say which committed files are not what the sources compile to."""
    with tempfile.TemporaryDirectory() as folder:
        compile_all(Path(folder))
        stale = [FOLDER / name for name in COMPILED if not _same(FOLDER / name, Path(folder) / name)]
    stale += [path for path, text in component_files().items() if not _holds(path, text)]
    if not stale and not _holds(NATIVE_OBJECTS, native_objects(FOLDER)):
        stale.append(NATIVE_OBJECTS)
    for path in stale:
        print(
            f"{_shown(path)} is not current: run `python -m pipelines compile` and commit it",
            file=sys.stderr,
        )
    return 1 if stale else 0


def params_readme() -> str:
    """The README of the parameter sets: which there are, and every parameter."""
    paths = sorted(SETS.glob("*.yaml"), key=lambda path: path.stem)
    sets = "\n".join(f"| [`{path.stem}`]({path.name}) | {_head(path)} |" for path in paths)
    return PARAMS_TEXT.format(sets=sets, axes=parameter_table(ComparisonAxes), parameters=parameter_table())


def parameter_table(config: type = Parameters) -> str:
    """All parameters with default and help."""
    lines = ["| Parameter | Default | What it sets |", "|---|---|---|"]
    for parameter in (each for each in declared_parameters(config).values() if not each.internal):
        default = f"`{parameter.default}`" if parameter.default != "" else ""
        help_text = parameter.help.replace("|", r"\|")
        lines.append(f"| `{parameter.name}` | {default} | {help_text} |")
    return "\n".join(lines)


def _head(path: Path) -> str:
    """What a parameter set says of itself: the comment at its head, whose indented lines are commands."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    texts = (line.removeprefix("# ") for line in lines)
    return " ".join(f"`{text.strip()}`" if text.startswith(" ") else text for text in texts)


def _shown(path: Path) -> str:
    """As seen from the root of the repository."""
    return str(path.relative_to(FOLDER.parents[1]))


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _same(committed: Path, compiled: Path) -> bool:
    return committed.is_file() and committed.read_bytes() == compiled.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
