"""Say what `ease run` with the same options will ask at most, in requests, tokens and money, part by part.

The data is loaded and prompts are rendered; nothing is sent. Tokens are estimated, at four characters each. How long it
will take is said by `ease run`, once the endpoint has answered a first question.
"""

from __future__ import annotations

import argparse

from ease_lib.cli.options import add_parameters, add_set, run_values
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import Parameters

EXAMPLES = """examples:
  ease plan --params demo
  ease plan --params paper --llm-base-url https://llm.example.org/v1 --llm-prompt-usd 0.15 --llm-completion-usd 0.6
"""


def add_options(plan: argparse.ArgumentParser) -> None:
    """Those of `ease run`."""
    add_set(plan)
    add_parameters(plan, Parameters, "parameters")


def answer(parsed: argparse.Namespace) -> int:
    """Print the table."""
    print(plan_text(parse_parameters(run_values(parsed))))
    return 0


def plan_text(parameters: Parameters) -> str:
    """A table of the parts of a run; a judge's tokens are among the others."""
    from ease_lib.running.planning import Estimate, planned, shares_of_cap, total
    from ease_lib.running.run import open_host, open_run, run_of

    prices = parameters.endpoint.prices | parameters.judge.prices
    priced = any(prices.values())
    with open_host() as host, open_run(host, *run_of(parameters)) as run:
        parts = planned(parameters, run)
    lines = [f"{'':<18}{'requests':>12}{'prompt tokens':>16}{'answer tokens':>16}{'USD':>10}"]
    for part in (*parts, Estimate(name="at most", usage=total(parts))):
        usage = part.usage
        prompt = usage.prompt_tokens + usage.judge_prompt_tokens
        answer = usage.completion_tokens + usage.judge_completion_tokens
        shown = [f"{count:,}".replace(",", " ") for count in (usage.requests, prompt, answer)]
        cost = f"{usage.cost_usd(**prices):.2f}" if priced else "–"
        lines.append(f"{part.name:<18}{shown[0]:>12}{shown[1]:>16}{shown[2]:>16}{cost:>10}")
    if not priced:
        lines.append("without llm_prompt_usd and llm_completion_usd there is no price")
    shares = shares_of_cap(parameters, parts)
    return "\n".join([*lines, *([shares] if shares else []), "nothing was sent"])
