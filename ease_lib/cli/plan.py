"""Estimate the maximum of requests, tokens and cost of a run, or of all runs of a comparison, part by part.

The data is loaded and prompts are rendered; nothing is sent. Tokens are estimated, at four characters each. `ease run`
estimates the time, once the endpoint has answered a first question.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ease_lib.cli.options import add_parameters, add_set, given_values, run_values
from ease_lib.config.comparison import AXES
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import ComparisonAxes, Parameters
from ease_lib.words import grouped

if TYPE_CHECKING:
    from ease_lib.black_box.usage import Usage

EXAMPLES = """examples:
  ease plan --params demo
  ease plan --params paper --task lr --llm-prompt-usd 0.15 --llm-completion-usd 0.6
  ease plan --params paper-table-1 --task-uri RAW --llm-prompt-usd 1 --llm-completion-usd 2
With tasks, methods, noise ratios, endpoints or repeats it plans a comparison; shared answers are counted twice.
"""


def add_options(plan: argparse.ArgumentParser) -> None:
    """Add the options of `ease run`, and what a comparison varies."""
    add_set(plan)
    add_parameters(plan, Parameters, "parameters")
    add_parameters(plan, ComparisonAxes, "what a comparison varies")


def answer(parsed: argparse.Namespace) -> int:
    """Print the table."""
    values = given_values(parsed)
    is_comparison = any(values.get(axis) for axis in AXES)
    print(comparison_text(values) if is_comparison else plan_text(parse_parameters(run_values(parsed))))
    return 0


def plan_text(parameters: Parameters) -> str:
    """A table of the parts of a run; a judge's tokens are among the others."""
    from ease_lib.running.planning import planned, shares_of_cap, warning_of_few
    from ease_lib.running.run import open_host, open_run, run_of

    prices = parameters.endpoint.prices | parameters.judge.prices
    with open_host() as host, open_run(host, *run_of(parameters)) as run:
        parts = planned(parameters, run)
    shares, warning = shares_of_cap(parameters, parts), warning_of_few(parameters, parts)
    return "\n".join([*_table(parts, prices), *filter(None, (shares, warning)), "nothing was sent"])


def comparison_text(values: Mapping[str, object]) -> str:
    """A table of the methods of a comparison over its tasks; repeats are taken to cost what the first one does."""
    from tqdm import tqdm

    from ease_lib.black_box.usage import Usage
    from ease_lib.config.comparison import plan
    from ease_lib.running.planning import planned, total
    from ease_lib.running.run import open_host, open_run, run_of
    from ease_lib.running.task_data import load_data
    from ease_lib.stages.plan_comparison import figures_of

    figures_of(values)  # as the comparison will
    cells = plan(values)
    first = sorted((cell for cell in cells if not cell.repeat), key=lambda cell: (cell.task, cell.noise_ratio))
    repeats = len(cells) // len(first)
    methods = {cell.method: Usage() for cell in cells}
    prices: dict[str, float] = {}
    data_of, data = None, None
    with open_host() as host:
        for cell in tqdm(first, "planning", unit="runs", leave=False, disable=None, delay=2):
            parameters = parse_parameters(cell.parameters)
            prices = parameters.endpoint.prices | parameters.judge.prices
            with open_run(host, *run_of(parameters)) as run:
                if data is None or data_of != (parameters.task, parameters.run.seed):
                    data_of = parameters.task, parameters.run.seed
                    data = load_data(parameters.task, parameters.run.seed, run.sources, run.caller.metric)
                methods[cell.method] += total(planned(parameters, run, data)).share(repeats)
    tasks = len({(cell.task, cell.noise_ratio, cell.endpoint) for cell in cells})
    runs = (
        f"{len(cells)} runs: {len(methods)} methods x {tasks} tasks x {repeats} repeats, counting shared answers twice"
    )
    return "\n".join([*_table(methods, prices), runs, "nothing was sent"])


def _table(parts: Mapping[str, Usage], prices: Mapping[str, float]) -> Iterable[str]:
    """Lines of the parts, and their total."""
    from ease_lib.running.planning import total

    priced = any(prices.values())
    width = max(18, *(len(part) + 1 for part in parts))
    yield f"{'':<{width}}{'requests':>12}{'prompt tokens':>16}{'answer tokens':>16}{'USD':>10}"
    for part, usage in (*parts.items(), ("at most", total(parts))):
        prompt = usage.prompt_tokens + usage.judge_prompt_tokens
        answer = usage.completion_tokens + usage.judge_completion_tokens
        shown = [grouped(count) for count in (usage.requests, prompt, answer)]
        cost = f"{usage.cost_usd(**prices):.2f}" if priced else "–"
        yield f"{part:<{width}}{shown[0]:>12}{shown[1]:>16}{shown[2]:>16}{cost:>10}"
    if not priced:
        yield "set llm_prompt_usd and llm_completion_usd to see the cost"
