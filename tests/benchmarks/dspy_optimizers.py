"""Does `EASE` find better demonstrations than DSPy's optimizers? `python -m tests.benchmarks.dspy_optimizers [--run]`

One program, `dspy.Predict("input -> output")`, one LM, and equal numbers of requests to it, bootstrapping counted. The
LM is the simulated in-context learner behind an endpoint of its own; it knows what its prompt shows and nothing else,
so instructions can only cost. 30 % of the labels that may be shown are wrong. All show five demonstrations at most.

DSPy's optimizers get about as many requests as they may take, counted at the endpoint; the table has what they took.
`BootstrapFewShotWithRandomSearch` draws one candidate set after the other until the next would be too many; its
validation rows are fewer than the others', since all of them would leave it a handful of candidates. `MIPROv2` is run
a second time, with another number of trials, where the first did not take about what it may.

    .venv/bin/pip install "dspy[optuna]>=3.4,<4"
    .venv/bin/python -m tests.benchmarks.dspy_optimizers --run --processes 2                  # all: some hours
    .venv/bin/python -m tests.benchmarks.dspy_optimizers --run --calls 500 --seeds 2 --optimizers random_search ease

Each run is kept in `results/dspy_optimizers.csv` as it ends, and the same command goes on where it was stopped; without
`--run` the tables are printed from there. A cell is the mean score on rows that nobody saw, with its standard error
over seeds; then what the optimizer's own score of its program is above that, and how many points better `ease` is, over
pairs of a task and a seed, with the 95 % interval.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import logging
import math
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import openai

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.metrics import METRICS
from ease_lib.evaluation.statistics import mean_and_error, paired_p_value
from ease_lib.running.task_data import load_data
from tests.benchmarks.claims import line_of, mean_and_interval, read_lines, unique
from tests.simulation import in_context_learner
from tests.support.dspy_endpoint import fields as fields_of
from tests.support.dspy_endpoint import outputs_of
from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

RESULTS = Path(__file__).parent / "results" / "dspy_optimizers.csv"
TASKS = {"customer_feedback": (70, 70, 90), "lr": (100, 100, 200), "lp_variant": (100, 100, 200)}
"""Rows of pool, validation and test set by task; the first task has 230 rows in all."""
NOISE = 0.3
K, BOOTSTRAPPED = 5, 4
MINIBATCH = 35
"""Size of a minibatch, as in MIPROv2."""
NEAR = 0.9
"""Share of the calls from which on a second run is not worth while."""
MODEL = "in-context-learner"
LOCAL = "local LLM"
PROPOSED = "Answer the input as the examples show."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run what is not kept yet")
    parser.add_argument("--model", choices=[MODEL, LOCAL], default=MODEL, help=f"asked (default: {MODEL})")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--calls", type=int, nargs="+", default=[1000, 500, 3000])
    parser.add_argument("--seeds", type=int, default=5, help="draws of each task (default: 5)")
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=[*OPTIMIZERS])
    parser.add_argument("--processes", type=int, default=1, help="at once (default: 1)")
    parser.add_argument("--threads", type=int, default=8, help="of each optimizer (default: 8)")
    arguments = parser.parse_args()
    if arguments.run:
        known = {each.of for each in kept()}
        wanted = product(arguments.calls, range(arguments.seeds), arguments.tasks, arguments.optimizers)
        left = [
            of for calls, seed, task, name in wanted if (of := (arguments.model, task, calls, seed, name)) not in known
        ]
        with ProcessPoolExecutor(arguments.processes) as processes:
            for future in as_completed([processes.submit(measured, *of, arguments.threads) for of in left]):
                keep(future.result())
    for line in tables(kept()):
        print(line)
    return 0


@dataclass(frozen=True)
class Measured:
    """Result of an optimizer in one draw of a task.

    Args:
        score: on unseen rows; estimate: what the optimizer itself says of it, not a number where it says nothing.
        requests: that it took.
    """

    model: str
    task: str
    calls: int
    seed: int
    optimizer: str
    score: float
    requests: int
    estimate: float

    @property
    def of(self) -> tuple[str, str, int, int, str]:
        return self.model, self.task, self.calls, self.seed, self.optimizer


def kept() -> list[Measured]:
    return read_lines(RESULTS, Measured)


def keep(found: Measured) -> None:
    """Add a line, and print it."""
    is_new = not RESULTS.exists()
    values = line_of(found)
    with RESULTS.open("a", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        if is_new:
            lines.writerow([field.name for field in fields(Measured)])
        lines.writerow(values)
    print(*values, flush=True)


def tables(runs: Sequence[Measured]) -> Iterator[str]:
    """One for each model and number of calls."""
    for model, calls in sorted({(run.model, run.calls) for run in runs}):
        there = [run for run in runs if (run.model, run.calls) == (model, calls)]
        tasks = [task for task in TASKS if any(run.task == task for run in there)]
        columns = [*tasks, "mean", "requests", "own estimate − score", "ease − this, in points (95 %)"]
        yield f"\n| {model}, {calls} calls | {' | '.join(columns)} |"
        yield f"|---|{'--:|' * len(tasks)}--:|--:|--:|---|"
        for name in (name for name in OPTIMIZERS if any(run.optimizer == name for run in there)):
            found = [run for run in there if run.optimizer == name]
            by_task = [[run.score for run in found if run.task == task] for task in tasks]
            over = [run.estimate - run.score for run in found if not math.isnan(run.estimate)]
            cells = [
                *map(_score, by_task),
                f"{np.mean([np.mean(scores) for scores in by_task if scores]):.3f}",
                f"{np.mean([run.requests for run in found]):.0f}",
                f"{np.mean(over):+.3f}" if over else "",
                "" if name == EASE else _ahead(there, name),
            ]
            yield f"| {name} | {' | '.join(cells)} |"


def _score(scores: Sequence[float]) -> str:
    if not scores:
        return ""
    mean, error = mean_and_error(scores)
    return f"{mean:.3f}" + ("" if error is None else f" ± {error:.3f}")


def _ahead(runs: Sequence[Measured], name: str) -> str:
    """Points by which `ease` is better, over the draws that both have."""
    scores = {(run.optimizer, run.task, run.seed): run.score for run in runs}
    draws = unique((run.task, run.seed) for run in runs if run.optimizer == name)
    both = [draw for draw in draws if (EASE, *draw) in scores]
    if len(both) < 2:
        return ""
    pairs = [[scores[optimizer, *draw] for draw in both] for optimizer in (EASE, name)]
    mean, low, high = mean_and_interval([100 * (ours - theirs) for ours, theirs in zip(*pairs, strict=True)])
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f}), p = {paired_p_value(*pairs):.2g}"


def measured(model: str, task: str, calls: int, seed: int, name: str, threads: int) -> Measured:
    """Run an optimizer, and score what it found on the test set."""
    import dspy

    random.seed(seed)
    np.random.seed(seed)  # the global streams, which optuna and DSPy may draw from
    sets = _sets(task, seed)
    logging.disable(logging.CRITICAL)  # a line for each trial
    with _model(model) as server:
        lm = dspy.LM(f"openai/{MODEL}", api_base=server.base_url, api_key="none", cache=False, max_tokens=100)
        with dspy.context(lm=lm), _silence():
            found, estimate = OPTIMIZERS[name](Run(sets["pool"], sets["validation"], calls, seed, threads, server))
            requests = server.requests
            result = dspy.Evaluate(devset=sets["test"], metric=_metric, num_threads=threads)(found)
    own = math.nan if estimate is None else estimate
    return Measured(model, task, calls, seed, name, result.score / 100, requests, own)


@dataclass(frozen=True)
class Run:
    """Inputs of an optimizer."""

    pool: list[Any]
    validation: list[Any]
    calls: int
    seed: int
    threads: int
    server: Endpoint

    @property
    def program(self) -> Any:
        import dspy

        return dspy.Predict("input -> output")

    @property
    def few_rows(self) -> list[Any]:
        """Validation rows: about as many as candidates, at equal calls."""
        return self.validation[: round(1.3 * math.sqrt(self.calls))]


Found = tuple[Any, float | None]
"""A program, and what the optimizer expects of it."""


def labelled(run: Run) -> Found:
    import dspy

    return dspy.LabeledFewShot(k=K).compile(run.program, trainset=run.pool), None


def random_search(run: Run) -> Found:
    import dspy

    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=_metric,
        max_bootstrapped_demos=BOOTSTRAPPED,
        max_labeled_demos=K,
        num_candidate_programs=run.calls,
        num_threads=run.threads,
        max_errors=run.calls,
    )
    found: list[tuple[float, Any]] = []
    seed = -3  # the first of its candidates: no demonstrations; then labelled ones, then bootstrapped ones
    most = len(run.few_rows)
    while run.server.requests + most <= run.calls:
        before = run.server.requests
        program = optimizer.compile(run.program, trainset=run.pool, valset=run.few_rows, restrict={seed})
        found.append((program.candidate_programs[0]["score"] / 100, program))
        most, seed = max(most, run.server.requests - before), seed + 1
    score, best = max(found, key=lambda pair: pair[0])
    return best, score


def mipro(run: Run, *, proposes: bool = True) -> Found:
    """`MIPROv2`; without proposals it has the program's own instruction alone."""
    rows = run.validation[: 2 * len(run.few_rows)]
    minibatch = min(MINIBATCH, len(rows) // 2)
    trials = max(2, round((run.calls - 2 * len(rows)) / (minibatch + len(rows) / 5 + 5)))
    for attempt in range(2):
        before = run.server.requests
        program = _mipro(run, rows, minibatch, trials, proposes)
        taken = run.server.requests - before
        run.server.requests = taken
        if NEAR * run.calls <= taken <= run.calls / NEAR or attempt:
            break
        trials = max(2, round(trials * run.calls / taken))
    return program, program.score / 100


def _mipro(run: Run, rows: list[Any], minibatch: int, trials: int, proposes: bool) -> Any:
    import dspy

    candidates = max(4, round(trials / 1.5))  # by its own rule, trials are 1.5 for each candidate
    optimizer = dspy.MIPROv2(
        metric=_metric,
        auto=None,
        num_candidates=candidates,
        max_bootstrapped_demos=BOOTSTRAPPED,
        max_labeled_demos=K,
        num_threads=run.threads,
        max_errors=run.calls,
        seed=run.seed + 1,
    )
    aware: dict[str, bool] = {}
    if not proposes:
        optimizer.num_instruct_candidates = 1
        aware = {"program_aware_proposer": False, "data_aware_proposer": False, "tip_aware_proposer": False}
    return optimizer.compile(
        run.program,
        trainset=run.pool,
        valset=rows,
        num_trials=trials,
        minibatch_size=minibatch,
        **aware,
    )


def ease(run: Run, *, bootstrap: bool | str = "auto") -> Found:
    from ease_lib.dspy import EASE

    optimizer = EASE(
        _metric,
        k=K,
        calls=run.calls,
        num_threads=run.threads,
        bootstrap=bootstrap,
        max_errors=run.calls,
        seed=run.seed,
    )
    found = optimizer.compile(run.program, trainset=run.pool, valset=run.validation)
    return found, found.ease.expected


EASE = "ease"
OPTIMIZERS: Mapping[str, Callable[[Run], Found]] = {
    "labelled": labelled,
    "random_search": random_search,
    "mipro_demos": lambda run: mipro(run, proposes=False),
    "mipro": mipro,
    EASE: ease,
    "ease_bootstrapped": lambda run: ease(run, bootstrap=True),
}


# --- the task and its learner -----------------------------------------------------------------------------------------


def _sets(task: str, seed: int) -> dict[str, list[Any]]:
    """Pool, validation and test rows as DSPy's examples; labels are wrong in the pool alone."""
    import dspy

    sizes = dict(zip(("pool_size", "validation_size", "test_size"), TASKS[task], strict=True))
    drawn = load_data(parse_parameters({"task": task, "noise_ratio": NOISE, **sizes}).task, seed, Sources())
    return {
        name: [dspy.Example(input=row.input, output=row.outputs[0]).with_inputs("input") for row in rows]
        for name, rows in (("pool", drawn.pool), ("validation", drawn.validation), ("test", drawn.test))
    }


def _metric(example: Any, prediction: Any, trace: Any = None) -> float:
    return METRICS["exact_match"](prediction.output or "", (example.output,))


class Endpoint(OpenAIRoutesServer):
    """Serves a model; `requests` counts what it is asked."""

    requests = 0
    counting = threading.Lock()
    answer: Callable[[list[Mapping[str, str]]], str]


class Handler(OpenAIRoutesHandler):
    server: Endpoint

    def answer_request(self, request: Mapping[str, Any], prompt: str) -> None:
        with self.server.counting:
            self.server.requests += 1
        self.reply(200, self.completion(prompt, self.server.answer(request["messages"])))


def learnt_answer(messages: list[Mapping[str, str]]) -> str:
    """The learner's, in `ChatAdapter`'s form."""
    answers = dict.fromkeys(outputs_of(messages), PROPOSED)
    if "output" in answers:
        answers["output"] = in_context_learner.answer(plain_prompt(messages))
    text = "".join(f"[[ ## {name} ## ]]\n{answer}\n\n" for name, answer in answers.items())
    return f"{text}[[ ## completed ## ]]"


def plain_prompt(messages: list[Mapping[str, str]]) -> str:
    """The same demonstrations and query as the learner reads them."""
    blocks, shown = [], ""
    for message in messages[1:]:
        said = fields_of(message["content"])
        if message["role"] == "user":
            shown = f"Input: {said.get('input', '')}\nOutput:"
        else:
            blocks.append(f"{shown} {said.get('output', '')}")
    return "\n\n".join([*blocks, shown])


@contextmanager
def _model(name: str) -> Iterator[Endpoint]:
    server = Endpoint({MODEL: str})
    server.RequestHandlerClass = Handler
    if name == MODEL:
        server.answer = learnt_answer
        with served(server):
            yield server
        return
    command = [sys.executable, "-u", "-m", "ease_lib.black_box.local_llm", "--host", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as local:
        assert local.stdout
        client = openai.OpenAI(base_url=local.stdout.readline().split()[-1], api_key="none")

        def answer(messages: Any) -> str:
            said = client.chat.completions.create(model="any", messages=messages, max_tokens=100, temperature=0)
            return said.choices[0].message.content or ""

        server.answer = answer
        try:
            with served(server):
                yield server
        finally:
            local.terminate()


@contextmanager
def _silence() -> Iterator[None]:
    """DSPy's optimizers print what they do, and draw bars."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


if __name__ == "__main__":
    raise SystemExit(main())
