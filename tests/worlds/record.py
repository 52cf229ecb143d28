"""Ask the local LLM about many sequences of a task, once, and save its answers.
`python -m tests.worlds.record NAME`

Random sequences of 0 to k exemplars first; then the neighbours of those that did best, each asked the same rows as the
sequence that it comes from, so that it can be told whether what a sequence has of its own is shared by its neighbours.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ease_lib.black_box.budget_ledger import SEARCH
from ease_lib.black_box.usage import Usage
from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.evaluation.evaluator import Evaluator, Question
from ease_lib.evaluation.objective import Objective, answer_sampling
from ease_lib.evaluation.rows import row_order
from ease_lib.prompts.template import PromptTemplate
from ease_lib.running.run import Run, open_host, open_run, run_of
from ease_lib.running.stage import logger
from ease_lib.search.candidates.sampling import Positions, SequenceSpace, as_tuples
from ease_lib.seeding import rng
from ease_lib.tasks.splits import classes_of
from tests.studies import offline

FOLDER = Path(__file__).parent / "recorded"
TASKS: dict[str, dict[str, Any]] = {
    "customer_feedback": {"task": "customer_feedback", "noise_ratio": 0.15},
    "larger_animal": {"task": "instruction_induction", "task_name": "larger_animal_v1", "noise_ratio": 0.2},
    "rhymes": {"task": "instruction_induction", "task_name": "rhymes_v1"},
}
SIZES = {"pool_size": 60, "validation_size": 120, "test_size": 20, "k": 5, "k_min": 0, "llm_base_url": "local"}
RANDOM, RANDOM_ROWS = 200, 20
BEST, BEST_ROWS = 12, 32
"""Sequences whose neighbours are asked, and the rows of each of them."""
DIMENSIONS = 32
"""Dimensions of the embeddings that are saved."""

Answer = tuple[Positions, list[int], list[float | None]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TASKS)}; none for all")
    parser.add_argument("--data", default="", help="folder in the Instruction Induction format")
    arguments = parser.parse_args()
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.setLevel(logging.INFO)
    for name in arguments.names or TASKS:
        task = TASKS[name] | ({"task_uri": arguments.data} if "task_name" in TASKS[name] else {})
        parameters = parse_parameters({**SIZES, **task, "store_uri": f"runs/worlds/{name}"})
        with open_host() as host, open_run(host, *run_of(parameters)) as run:
            recording = recorded(parameters, run)
        recording["command"] = f"python -m tests.worlds.record {name}"
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(as_text(recording), encoding="utf-8")
    return 0


def recorded(parameters: Parameters, run: Run) -> dict[str, Any]:
    """Answers of the LLM, and what a search may know of the task."""
    data = offline.prepared(parameters, run)
    template = PromptTemplate.of(data.dataset["template"])
    metric = run.metric(data.dataset["metric"], data.dataset["metric_sha256"]).score
    order = row_order([row.output for row in data.validation], parameters.run.seed)
    answers: list[Answer] = []
    with run.llm(parameters, answer_sampling(data.pool, parameters.endpoint, template), SEARCH) as black_box:
        black_box.meter.allow_beside(Usage())
        objective = Objective(
            Evaluator(black_box.client, data.validation, metric=metric, template=template), black_box.loop
        )
        for sequence, rows in asked(len(data.pool), parameters.optimizer.k, order, parameters.run.seed, answers):
            question = Question(exemplars=[data.pool[each] for each in sequence], rows=rows, whole=True)
            answers.append((sequence, rows, list(objective.evaluate(question).scores)))
            if len(answers) % 20 == 0:
                logger.info("%s: %d sequences asked", data.dataset["task"], len(answers))
        model = black_box.asked.model
    pool, validation = reduced(data.embeddings.pool, data.embeddings.validation)
    classes = classes_of([row.output for row in data.pool])
    return {
        "task": data.dataset["task"],
        "model": model,
        "date": datetime.now(UTC).date().isoformat(),
        "k": parameters.optimizer.k,
        "classes": len(classes),
        "pool_class": class_numbers([row.output for row in data.pool], classes),
        "validation_class": class_numbers([row.output for row in data.validation], classes),
        "pool": pool.round(3).tolist(),
        "validation": validation.round(3).tolist(),
        "answers": [[list(sequence), list(rows), scores] for sequence, rows, scores in answers],
    }


def asked(
    n: int, k: int, order: Sequence[int], seed: int, answers: Sequence[Answer]
) -> Iterator[tuple[Positions, list[int]]]:
    """Sequences and their rows; those of the second part depend on the answers to the first."""
    place = 0

    def stretch(rows: int) -> list[int]:
        nonlocal place
        place += rows
        return [order[each % len(order)] for each in range(place - rows, place)]

    space = SequenceSpace(n, k, 0)
    for sequence in dict.fromkeys(as_tuples(space.sample(rng(seed, "recorded"), RANDOM))):
        yield sequence, stretch(RANDOM_ROWS)
    known = {sequence for sequence, *_ in answers}
    longer = [each for each in answers if len(each[0]) >= 3]
    best = sorted(longer, key=lambda each: -np.mean([score or 0.0 for score in each[2]]))[:BEST]
    for sequence, rows, _ in best:
        others = [row for row in order if row not in rows]
        chosen = others[:BEST_ROWS]
        yield sequence, chosen
        for changed in CHANGES.values():
            neighbour = changed(sequence, rng(seed, "neighbour", *sequence), n)
            if neighbour not in known:
                known.add(neighbour)
                yield neighbour, chosen


def _another(sequence: Positions, draw: np.random.Generator, n: int) -> int:
    return int(draw.choice([each for each in range(n) if each not in sequence]))


Change = Callable[[Positions, np.random.Generator, int], Positions]
CHANGES: dict[str, Change] = {
    "first replaced": lambda each, draw, n: (_another(each, draw, n), *each[1:]),
    "last replaced": lambda each, draw, n: (*each[:-1], _another(each, draw, n)),
    "first left out": lambda each, draw, n: each[1:],
    "last left out": lambda each, draw, n: each[:-1],
    "first two swapped": lambda each, draw, n: (each[1], each[0], *each[2:]),
    "last two swapped": lambda each, draw, n: (*each[:-2], each[-1], each[-2]),
    "reversed": lambda each, draw, n: each[::-1],
}


def reduced(pool: NDArray[np.floating], validation: NDArray[np.floating]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Coordinates along the directions in which both sets have most of their length; of unit length."""
    both = np.concatenate([pool, validation]).astype(np.float64)
    *_, directions = np.linalg.svd(both, full_matrices=False)
    coordinates = both @ directions[:DIMENSIONS].T
    coordinates /= np.linalg.norm(coordinates, axis=1, keepdims=True)
    return coordinates[: len(pool)], coordinates[len(pool) :]


def class_numbers(outputs: Sequence[str], classes: Sequence[str]) -> list[int]:
    """-1 of an output that is no class."""
    return [classes.index(output) if output in classes else -1 for output in outputs]


def as_text(recording: dict[str, Any]) -> str:
    """JSON with a line for each field, exemplar, row and sequence."""
    lines = []
    for name, value in recording.items():
        if isinstance(value, list) and value and isinstance(value[0], list):
            inner = ",\n".join(json.dumps(each, separators=(",", ":")) for each in value)
            lines.append(f"{json.dumps(name)}: [\n{inner}\n]")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
