"""Is a sequence as good on a task's test rows as on validation rows? `python -m tests.benchmarks.other_rows INDUCTION`

Random sequences of five are scored, by the simulated in-context learner, on two hundreds of validation rows and on a
hundred test rows, which are another file. The tenth that is best on the first hundred was chosen by these: what it
loses on the second hundred is luck, and what it loses on the test rows beyond that is another kind of rows. Standard
errors count the rows as drawn, and every answer to a row as one with the others to it.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.metrics import METRICS
from ease_lib.prompts.template import PromptTemplate
from ease_lib.running.task_data import load_data
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar
from tests.simulation.in_context_learner import answer

TASKS = {"larger_animal_v1": 0.3}
"""Share of corrupted pool rows by task; most other tasks have too few validation rows."""
SEQUENCES, K, ROWS = 50, 5, 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="INDUCTION", help="tasks in the format of Instruction Induction")
    parser.add_argument("--seeds", type=int, default=5, help="draws of the pool, 50 sequences each (default: 5)")
    arguments = parser.parse_args()
    print("| | a hundred validation rows | a hundred others | test rows |\n|---|--:|--:|--:|")
    for name, noise in TASKS.items():
        drawn = [answered(arguments.folder, name, noise, seed) for seed in range(arguments.seeds)]
        right, rows = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        best = np.argsort(-right[:, 0].mean(-1), kind="stable")[: len(right) // 10]
        for group, chosen in (("all", np.arange(len(right))), ("best tenth", best)):
            cells = (mean_and_error(right[chosen, place], rows[chosen, place]) for place in range(3))
            print(
                f"| {name}, {group} | {' | '.join(f'{mean:.3f} ± {error:.3f}' for mean, error in cells)} |", flush=True
            )
    return 0


def answered(folder: str, name: str, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether random sequences answer rightly and which rows, (n, 3, 100): validation rows, others, test rows."""
    values = {"task": "instruction_induction", "task_uri": folder, "task_name": name, "noise_ratio": noise}
    sizes = {"pool_size": 100, "validation_size": 2 * ROWS, "test_size": ROWS}
    task = load_data(parse_parameters({**values, **sizes}).task, seed, Sources())
    draw = rng(seed, "random sequences")
    sequences = [draw.permutation(len(task.pool))[:K] for _ in range(SEQUENCES)]
    places = (task.validation[:ROWS], task.validation[ROWS:], task.test)
    right = np.array([[scores([task.pool[i] for i in each], rows) for rows in places] for each in sequences])
    return right, np.broadcast_to([[row.input for row in rows] for rows in places], right.shape)


def scores(exemplars: Sequence[Exemplar], rows: Sequence[Exemplar]) -> list[float]:
    metric, template = METRICS["exact_match"], PromptTemplate()
    return [metric(answer(template.render(exemplars, row)), row.outputs) for row in rows]


def mean_and_error(right: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error, where answers to the same row may go together."""
    mean = right.mean()
    _, row = np.unique(rows, return_inverse=True)
    sums = np.bincount(row.ravel(), (right - mean).ravel())
    return mean, np.sqrt((sums**2).sum()) / right.size


if __name__ == "__main__":
    raise SystemExit(main())
