"""Files generated for each component, for readers and for other pipelines: its README and `component.yaml`."""

import tempfile
from pathlib import Path
from typing import Any

import docstring_parser
import yaml
from kfp import compiler

import components
from components import images

FOLDER = Path(components.__file__).parent
README = """# {name}

{text}

In a pipeline of your own: `components.{name}(...)`, or from any other checkout
`kfp.components.load_component_from_file("component.yaml")`.

| Input | Type | Default | What it is |
|---|---|---|---|
{inputs}

{outputs}

`python -m pipelines compile` writes this file from `component.py`.
"""


def component_files() -> dict[Path, str]:
    """Content of every generated file, by its path in the checkout."""
    files: dict[Path, str] = {}
    for component in components.ALL:
        folder = FOLDER / component.python_func.__name__
        files[folder / "README.md"] = readme(component)
        files[folder / "component.yaml"] = component_yaml(component)
    return files


def component_yaml(component: Any, image: str = images.CPU) -> str:
    """The compiled component, as other pipelines load it.

    Args:
        image: that it runs in, with registry and digest where a cluster has to pull it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "component.yaml"
        compiler.Compiler().compile(component, str(path))
        text = path.read_text(encoding="utf-8")
    if image == images.CPU:
        return text
    spec = yaml.safe_load(text)
    for executor in spec["deploymentSpec"]["executors"].values():
        executor["container"]["image"] = image
    return str(yaml.safe_dump(spec, sort_keys=False, width=120))


def readme(component: Any) -> str:
    """The README of a component: the text of its docstring, its inputs and its outputs."""
    function = component.python_func
    taken, made = component.component_spec.inputs or {}, component.component_spec.outputs or {}
    said = docstring_parser.parse(function.__doc__)
    described = {each.arg_name: each.description for each in said.params}
    returned = said.returns.description if said.returns else ""
    inputs = [
        f"| `{name}` | {_type(one)} | {_default(one)} | {_cell(described[name])} |" for name, one in taken.items()
    ]
    outputs = [f"| `{name}` | {_type(one)} | {_cell(described.get(name, returned))} |" for name, one in made.items()]
    text = [" ".join((each or "").split()) for each in (said.short_description, said.long_description)]
    table = "\n".join(["| Output | Type | What it is |", "|---|---|---|", *outputs]) if outputs else "It has no output."
    return README.format(
        name=function.__name__,
        text="\n\n".join(filter(None, text)),
        inputs="\n".join(inputs),
        outputs=table,
    )


def _type(declared: Any) -> str:
    """Name of the type as kfp's users know it."""
    name = str(declared.type).partition("@")[0].removeprefix("system.")
    return f"list of {name}" if getattr(declared, "is_artifact_list", False) else name


def _default(declared: Any) -> str:
    if not declared.optional:
        return ""
    return (
        "may be absent" if declared.default is None else f"`{declared.default}`" if declared.default != "" else "empty"
    )


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", r"\|")
