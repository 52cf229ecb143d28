"""`python -m pipelines params`: the parameter sets and every parameter, as Markdown."""

import argparse
import itertools
from pathlib import Path

from ease_lib.config.named_sets import FOLDER as SETS
from ease_lib.config.parsing import declared_parameters
from ease_lib.config.sections import ComparisonAxes, Parameters

PARAMS_README = SETS / "README.md"
PARAMS_TEXT = """# Parameters

A parameter has one name in a pipeline, in YAML and on the command line: `noise_ratio` is `--noise-ratio`. API keys are
not parameters: they are read from the environment only.

`python -m pipelines params --write` writes this page from `ease_lib/config/sections/` and the comments at the top of
the sets.

## Sets

`--params NAME` uses a set from this folder, and `--params FILE` any YAML file of parameters. Options override the set.

The sets of the paper show its figures next to yours. RAW is the folder experiments/data/instruction_induction/raw of
the authors' repository (github.com/ZhaoxuanWu/EASE-Prompt-Optimization, commit e3514de, no licence given). The paper
used gpt-3.5-turbo-1106.

| Set | What it runs, with its commands |
|---|---|
{sets}

## Every parameter of a run

A bracket such as (task=table) at the end means that the parameter has an effect only then.

{parameters}

## What a comparison varies

`ease compare` and the comparison pipeline have these in addition to the parameters of every run:

{axes}
"""


def add_params_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m pipelines params`."""
    parser.add_argument("--write", action="store_true", help="write the README of the parameter sets instead")


def params(options: argparse.Namespace) -> int:
    """Print all parameters, or write them into the README of the parameter sets."""
    if options.write:
        PARAMS_README.write_text(params_readme(), encoding="utf-8")
    else:
        print(params_readme(), end="")
    return 0


def params_readme() -> str:
    """The README of the parameter sets: all sets, and every parameter."""
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
    """Description of a parameter set: the comment at its head, whose indented lines are commands."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    texts = (line.removeprefix("# ") for line in lines)
    return " ".join(f"`{text.strip()}`" if text.startswith(" ") else text for text in texts)
