"""Does `EASE` find better demonstrations than DSPy's optimizers? `python -m tests.benchmarks.dspy_optimizers`

One program, `dspy.Predict("input -> output")`, one LM, and equal numbers of requests to it, bootstrapping counted. The
LM is the simulated in-context learner behind an endpoint of its own; it knows what its prompt shows and nothing else,
so instructions can only cost. 30 % of the labels that may be shown are wrong. All show five demonstrations at most.

DSPy's optimizers get about as many requests as they may take, counted at the endpoint; the table has what they took.
`BootstrapFewShotWithRandomSearch` draws one candidate set after the other until the next would be too many; its
validation rows are fewer than the others', since all of them would leave it a handful of candidates. `MIPROv2` is run
a second time, with another number of trials, where the first did not take about what it may.

    .venv/bin/pip install "dspy[optuna]>=3.4,<4"
    .venv/bin/python -m tests.benchmarks.dspy_optimizers                 # all: some hours
    .venv/bin/python -m tests.benchmarks.dspy_optimizers --calls 500 --seeds 2 --optimizers labelled random_search ease

Each cell is the mean score on rows that nobody saw, its standard error over seeds, the requests taken, and what
the optimizer's own score of its program is above that.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import math
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.metrics import METRICS
from ease_lib.running.task_data import load_data
from tests.simulation import in_context_learner
from tests.support.dspy_endpoint import fields, outputs_of
from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served

TASKS = {"customer_feedback": (70, 70, 90), "lr": (100, 100, 200), "lp_variant": (100, 100, 200)}
"""With the rows of pool, validation and test set; the first has 230 in all."""
NOISE = 0.3
K, BOOTSTRAPPED = 5, 4
MINIBATCH = 35
"""As MIPROv2 has it."""
NEAR = 0.9
"""Share of the calls from which on a second run is not worth while."""
MODEL = "in-context-learner"
PROPOSED = "Answer the input as the examples show."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--calls", type=int, nargs="+", default=[500, 1000, 3000])
    parser.add_argument("--seeds", type=int, default=5, help="draws of each task (default: 5)")
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=[*OPTIMIZERS])
    parser.add_argument("--processes", type=int, default=1, help="at once (default: 1)")
    parser.add_argument("--threads", type=int, default=8, help="of each optimizer (default: 8)")
    arguments = parser.parse_args()
    print(f"| Task | Calls | {' | '.join(arguments.optimizers)} |\n|---|--:|{'--:|' * len(arguments.optimizers)}")
    with ProcessPoolExecutor(arguments.processes) as processes:
        for task, calls in product(arguments.tasks, arguments.calls):
            cells = []
            for name in arguments.optimizers:
                made = [(name, task, calls, seed, arguments.threads) for seed in range(arguments.seeds)]
                cells.append(_cell(list(processes.map(measured, made))))
            print(f"| {task} | {calls} | {' | '.join(cells)} |", flush=True)
    return 0


@dataclass(frozen=True)
class Measured:
    """Score on unseen rows, requests that it took, and the optimizer's own estimate of the score, if it has one."""

    score: float
    requests: int
    estimate: float | None


def _cell(found: list[Measured]) -> str:
    scores = np.array([each.score for each in found])
    error = scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else math.nan
    requests = np.mean([each.requests for each in found])
    over = [each.estimate - each.score for each in found if each.estimate is not None]
    own = f", {np.mean(over):+.3f}" if over else ""
    return f"{scores.mean():.3f} ± {error:.3f} ({requests:.0f}{own})"


def measured(made: tuple[str, str, int, int, int]) -> Measured:
    """What one optimizer finds in one draw of a task."""
    import dspy

    name, task, calls, seed, threads = made
    random.seed(seed)
    np.random.seed(seed)  # the global streams, which optuna and DSPy may draw from
    sets = _sets(task, seed)
    logging.disable(logging.CRITICAL)  # a line for each trial
    with _learner() as server:
        model = dspy.LM(f"openai/{MODEL}", api_base=server.base_url, api_key="none", cache=False, max_tokens=100)
        with dspy.context(lm=model), _silence():
            found, estimate = OPTIMIZERS[name](Run(sets["pool"], sets["validation"], calls, seed, threads, server))
            requests = server.requests
            result = dspy.Evaluate(devset=sets["test"], metric=_metric, num_threads=threads)(found)
    return Measured(result.score / 100, requests, estimate)


@dataclass(frozen=True)
class Run:
    """What an optimizer is given."""

    pool: list[Any]
    validation: list[Any]
    calls: int
    seed: int
    threads: int
    server: Learner

    @property
    def program(self) -> Any:
        import dspy

        return dspy.Predict("input -> output")

    @property
    def few_rows(self) -> list[Any]:
        """As many validation rows as candidates, about, at equal calls."""
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


OPTIMIZERS: Mapping[str, Callable[[Run], Found]] = {
    "labelled": labelled,
    "random_search": random_search,
    "mipro_demos": lambda run: mipro(run, proposes=False),
    "mipro": mipro,
    "ease": ease,
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


class Learner(OpenAIRoutesServer):
    """Serves the learner behind `ChatAdapter`'s prompts; `requests` counts them."""

    requests = 0


class LearnerHandler(OpenAIRoutesHandler):
    server: Learner

    def answer_request(self, request: Mapping[str, Any], prompt: str) -> None:
        self.server.requests += 1
        messages = request["messages"]
        answers = dict.fromkeys(outputs_of(messages), PROPOSED)
        if "output" in answers:
            answers["output"] = in_context_learner.answer(plain_prompt(messages))
        text = "".join(f"[[ ## {name} ## ]]\n{answer}\n\n" for name, answer in answers.items())
        self.reply(200, self.completion(prompt, f"{text}[[ ## completed ## ]]"))


def plain_prompt(messages: list[Mapping[str, str]]) -> str:
    """The same demonstrations and query as the learner reads them."""
    blocks, shown = [], ""
    for message in messages[1:]:
        said = fields(message["content"])
        if message["role"] == "user":
            shown = f"Input: {said.get('input', '')}\nOutput:"
        else:
            blocks.append(f"{shown} {said.get('output', '')}")
    return "\n\n".join([*blocks, shown])


@contextmanager
def _learner() -> Iterator[Learner]:
    server = Learner({MODEL: str})
    server.RequestHandlerClass = LearnerHandler
    with served(server):
        yield server


@contextmanager
def _silence() -> Iterator[None]:
    """DSPy's optimizers print what they do, and draw bars."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


if __name__ == "__main__":
    raise SystemExit(main())
