"""`python -m pipelines compile`: the pipelines and components as files, and whether the committed ones are current."""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kfp import compiler

import components
from ease_lib.errors import ConfigError
from pipelines.arguments import assignments, given_values, installed_defaults
from pipelines.comparison_pipeline import comparison_pipeline
from pipelines.component_files import component_files, component_yaml
from pipelines.ease_pipeline import ease_pipeline
from pipelines.native_objects import native_objects
from pipelines.placement import MOST_SHARDS, Placement, placed

COMPILED = {"ease_pipeline.yaml": ease_pipeline, "comparison_pipeline.yaml": comparison_pipeline}
FOLDER = Path(__file__).parent / "compiled"
NATIVE_OBJECTS = Path(__file__).parents[1] / "manifests" / "components" / "native-pipelines" / "pipelines.yaml"


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines compile`."""
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a committed file differs")
    parser.add_argument("--params", default="", metavar="SET", help="defaults of the run form: a set or YAML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one default of the forms; repeatable"
    )
    _add_placement(parser)


def compile_pipelines(arguments: argparse.Namespace) -> int:
    """Write pipelines and components and, where asked for, the pipelines as Kubernetes objects; or check those."""
    if arguments.check:
        return check_compiled()
    folder, objects = arguments.output_dir, arguments.native_objects
    values = given_values(arguments.params, assignments(arguments.set))
    if values and folder == FOLDER:
        raise ConfigError(f"{FOLDER.name}/ is committed and must not hold custom defaults; pass another --output-dir")
    placement = placement_of(arguments)
    print(f"compiling into {folder} ...", flush=True)
    compile_all(folder, placement, values)
    if folder == FOLDER:
        for path, text in component_files().items():
            path.write_text(text, encoding="utf-8")
    else:
        _write_components(folder / "components", placement)
    if objects or folder == FOLDER:
        text = native_objects(folder, arguments.commit, arguments.code_url)
        (objects or NATIVE_OBJECTS).write_text(text, encoding="utf-8")
        print(f"wrote {objects or NATIVE_OBJECTS}")
    print(f"wrote {', '.join(sorted(path.name for path in folder.glob('*.yaml')))} and the components")
    return 0


def _write_components(folder: Path, placement: Placement) -> None:
    """The compiled components with the image of a cluster, for pipelines of others."""
    folder.mkdir(parents=True, exist_ok=True)
    for component in components.ALL:
        text = component_yaml(component, placement.cpu_image)
        (folder / f"{component.python_func.__name__}.yaml").write_text(text, encoding="utf-8")


def _add_placement(parser: argparse.ArgumentParser) -> None:
    """The options that depend on the cluster (`pipelines/placement.py`)."""
    default = Placement()
    options = parser.add_argument_group("settings of the cluster")
    options.add_argument(
        "--output-dir",
        type=Path,
        default=FOLDER,
        help=f"folder to write to (default: {FOLDER.name}/, which is committed)",
    )
    options.add_argument(
        "--native-objects", type=Path, metavar="FILE", help="also write the pipelines as Kubernetes objects"
    )
    options.add_argument("--commit", default="", help="commit of the source, a tag of these objects")
    options.add_argument("--code-url", default="", help="URL of the source, for a link in the dashboard")
    options.add_argument(
        "--cpu-image",
        default=default.cpu_image,
        help="image of the components, with registry and digest (default: %(default)s)",
    )
    options.add_argument(
        "--gpu-image",
        default=default.gpu_image,
        help="image of the GPU components, with tag or digest (default: %(default)s)",
    )
    options.add_argument(
        "--shards",
        type=int,
        default=default.shards,
        metavar="N",
        help=f"rank a large pool in N parallel parts before the prefilter, at most {MOST_SHARDS} "
        "(default: %(default)s)",
    )
    options.add_argument(
        "--workers",
        type=int,
        default=default.workers,
        metavar="N",
        help="pods that share the cells of a comparison (default: %(default)s, at most 12)",
    )
    options.add_argument(
        "--gpu",
        action="store_true",
        help="run embed and optimize on a GPU; it speeds up optimize only with representation=sequence",
    )
    options.add_argument(
        "--gpu-prefilter", action="store_true", help="run prefilter and its shards on a GPU too, for prefilter=cosine"
    )
    options.add_argument(
        "--gpu-resource", default=default.gpu_resource, help="resource name and taint of GPUs (default: %(default)s)"
    )
    options.add_argument(
        "--run-days",
        type=int,
        default=default.run_days,
        metavar="DAYS",
        help="end a run this many days after its first start, retries included (default: %(default)s)",
    )
    options.add_argument("--gpu-node-label", default="", metavar="LABEL=VALUE", help="label of the nodes with GPUs")


def placement_of(arguments: argparse.Namespace) -> Placement:
    """The given options, with at most the allowed number of shards; other settings keep their defaults."""
    given = {field.name for field in dataclasses.fields(Placement)} & set(vars(arguments))
    options = {name: getattr(arguments, name) for name in given}
    if options.get("shards", 1) > MOST_SHARDS:
        print(
            f"--shards {options['shards']}: a run's workflow has room for {MOST_SHARDS}, which are larger; taking these"
        )
        options["shards"] = MOST_SHARDS
    return Placement(**options)


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
        is_run = pipeline is ease_pipeline
        defaults = installed_defaults(values, is_run=is_run, shards=placement.shards) if values else {}
        compiler.Compiler().compile(placed(pipeline, placement), str(folder / name), pipeline_parameters=defaults)


def check_compiled() -> int:
    """Print the committed files that differ from what the sources compile to."""
    with tempfile.TemporaryDirectory() as folder:
        compile_all(Path(folder))
        stale = [FOLDER / name for name in COMPILED if not _same(FOLDER / name, Path(folder) / name)]
    stale += [path for path, text in component_files().items() if not _holds(path, text)]
    if not stale and not _holds(NATIVE_OBJECTS, native_objects(FOLDER)):
        stale.append(NATIVE_OBJECTS)
    for path in stale:
        print(
            f"{_shown(path)} is out of date; run `python -m pipelines compile` and commit it",
            file=sys.stderr,
        )
    return 1 if stale else 0


def _shown(path: Path) -> str:
    """The path relative to the root of the repository."""
    return str(path.relative_to(FOLDER.parents[1]))


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _same(committed: Path, compiled: Path) -> bool:
    return committed.is_file() and committed.read_bytes() == compiled.read_bytes()
