"""`ease plan`: what a run will ask and cost, before anything is sent."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ease_lib.black_box.client import estimated_tokens
from ease_lib.candidates.instructions import proposal_prompts
from ease_lib.candidates.sampling import SequenceSpace, as_tuples
from ease_lib.cli.options import add_parameters, run_values
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import ROW_METHODS, Parameters
from ease_lib.evaluation.prompt import PromptTemplate, exemplar_text, read_template
from ease_lib.evaluation.usage import Usage
from ease_lib.optimizers.registry import ONE_EVALUATION
from ease_lib.running.prerequisites import PROBE_PROMPTS, TRIAL_PROMPT
from ease_lib.running.task_data import load_data
from ease_lib.seeding import rng
from ease_lib.stages.evaluate import passes_of
from ease_lib.stages.propose_instructions import PROPOSAL_TOKENS
from ease_lib.tasks.base import Exemplar, TaskData

PLAN_EXAMPLES = """examples:
  ease plan --params demo
  ease plan --params paper --llm-base-url https://llm.example.org/v1 --llm-prompt-usd 0.15 --llm-completion-usd 0.6
"""
SEQUENCES, QUERIES = 40, 40
"""Of random ones, whose prompts are rendered: their mean length stands for all."""
PROPOSALS = 20
"""Likewise of the prompts that ask for instructions."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a run, and about what it costs at most: answers that are kept already cost nothing."""

    name: str
    usage: Usage


def fill(plan: argparse.ArgumentParser) -> None:
    """Describe the command, and add its options."""
    plan.description = (
        "Say what `ease run` with the same options will ask at most, in requests, tokens and money, part by part. "
        "The data is loaded and prompts are rendered; nothing is sent. Tokens are estimated, at four characters each."
    )
    plan.epilog = PLAN_EXAMPLES
    plan.add_argument("--params", metavar="SET", help="parameter set or YAML file; options win over it")
    add_parameters(plan, Parameters, "parameters")
    plan.set_defaults(command=_plan)


def _plan(parsed: argparse.Namespace) -> int:
    parameters = parse_parameters(run_values(parsed))
    parts = planned(parameters)
    prices = parameters.endpoint.prices
    priced = any(prices.values())
    print(f"{'':<18}{'requests':>12}{'prompt tokens':>16}{'answer tokens':>16}{'USD':>10}")
    for part in (*parts, Part(name="at most", usage=sum((part.usage for part in parts), start=Usage()))):
        usage = part.usage
        counts = (usage.requests, usage.prompt_tokens, usage.completion_tokens)
        shown = [f"{count:,}".replace(",", " ") for count in counts]
        cost = f"{usage.cost_usd(**prices):.2f}" if priced else "–"
        print(f"{part.name:<18}{shown[0]:>12}{shown[1]:>16}{shown[2]:>16}{cost:>10}")
    if not priced:
        print("without llm_prompt_usd and llm_completion_usd there is no price")
    print("nothing was sent")
    return 0


def planned(parameters: Parameters) -> list[Part]:
    """The parts of a run in their order.

    Raises:
        DataError, StoreError, ConfigError: as the run would.
    """
    template = read_template(parameters.task.prompt)
    data = load_data(parameters.task, parameters.run.seed)
    parts = [Part(name="trial questions", usage=_trials(parameters))]
    if parameters.instructions.instructions:
        parts.append(Part(name="instructions", usage=_proposals(parameters, data)))
    settings, passes = parameters.optimizer, passes_of(parameters.task.baseline) * len(data.test)
    rows = min(settings.evaluation_rows or len(data.validation), len(data.validation))
    orders = (settings.order_report + 1) * rows if settings.order_report else 0
    others = passes + orders + (parts[1].usage.requests if len(parts) > 1 else 0)
    cap = parameters.caps.max_llm_requests
    affordable = max(0, cap - others) if cap else math.inf
    shown, bare = _mean_tokens(parameters, data, template)
    parts.append(Part(name="search", usage=shown.times(_searched(parameters, len(data.validation), rows, affordable))))
    if orders:
        parts.append(Part(name="order report", usage=shown.times(orders)))
    parts.append(Part(name="test set", usage=shown.times(passes - len(data.test)) + bare.times(len(data.test))))
    if parameters.publishing.publish_uri and parameters.publishing.publish_if == "better":
        parts.append(Part(name="gate", usage=shown.times(len(data.test))))
    return parts


@dataclass(frozen=True)
class _Mean:
    """Tokens of a prompt and of its answer."""

    prompt: float
    answer: float

    def times(self, requests: int) -> Usage:
        return Usage(
            requests=requests,
            prompt_tokens=round(requests * self.prompt),
            completion_tokens=round(requests * self.answer),
        )


def _searched(parameters: Parameters, validation: int, rows: int, affordable: float) -> int:
    settings = parameters.optimizer
    if settings.method in ROW_METHODS:
        return settings.answers(validation, affordable)
    evaluations = 1 if settings.method in ONE_EVALUATION else settings.budget
    return int(min(evaluations * rows, affordable))


def _trials(parameters: Parameters) -> Usage:
    asked = [TRIAL_PROMPT, *(PROBE_PROMPTS if parameters.endpoint.llm_refresh == "probe" else ())]
    tokens = sum(map(estimated_tokens, asked))
    return Usage(requests=len(asked), prompt_tokens=tokens, completion_tokens=8 * len(asked))


def _proposals(parameters: Parameters, data: TaskData) -> Usage:
    wanted = parameters.instructions.instructions
    texts = [exemplar_text(row) for row in data.pool]
    shown = parameters.instructions.instruction_exemplars
    prompts = proposal_prompts(texts, min(wanted, PROPOSALS), shown, rng(parameters.run.seed, "instruction proposals"))
    mean = sum(map(estimated_tokens, prompts)) / len(prompts)
    return _Mean(mean, PROPOSAL_TOKENS).times(wanted)


def _mean_tokens(parameters: Parameters, data: TaskData, template: PromptTemplate) -> tuple[_Mean, _Mean]:
    """Of prompts with exemplars, and of prompts without."""
    settings = parameters.optimizer
    space = SequenceSpace(len(data.pool), min(settings.k, len(data.pool)), min(settings.shortest, len(data.pool)))
    drawn = as_tuples(space.sample(rng(parameters.run.seed, "estimate"), SEQUENCES)) or [()]
    sequences = [[data.pool[position] for position in sequence] for sequence in drawn]
    queries = data.validation[:QUERIES]
    answer = _mean(estimated_tokens(row.output) for row in data.validation) + parameters.endpoint.llm_thinking_tokens
    return _Mean(_mean_of(template, sequences, queries), answer), _Mean(_mean_of(template, [[]], queries), answer)


def _mean_of(template: PromptTemplate, sequences: Sequence[Sequence[Exemplar]], queries: Sequence[Exemplar]) -> float:
    return _mean(estimated_tokens(template.render(sequence, row)) for sequence in sequences for row in queries)


def _mean(values: Iterator[int]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
