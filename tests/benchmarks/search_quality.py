"""Does the search find better sequences than drawing at random? `python -m tests.benchmarks.search_quality --help`

Runs the stages of the pipeline in this process, for tasks x methods x seeds, and prints a Markdown table: the mean
over seeds of the winner's validation and test score, of the validation rows that were asked, of the scores of the
sequences proposed late in the search, and of random sequences. With racing these last two are of the rows asked.
"""

import argparse
import concurrent.futures
import math
import statistics
import sys
import tempfile
from pathlib import Path

import torch

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_table
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import modules_between
from ease_lib.running.one_process import Artifacts
from ease_lib.stages import evaluate, optimize
from pipelines.parameter_sets import read_parameter_set

SIMULATED = {"llm_base_url": "simulated", "representation": "positional"}
TASKS = {
    "LR 10 % (simulated)": {**SIMULATED, "task": "lr", "noise_ratio": 0.1},
    "LR 50 % (simulated)": {**SIMULATED, "task": "lr", "noise_ratio": 0.5},
    "LP-variant 10 % (simulated)": {**SIMULATED, "task": "lp_variant", "noise_ratio": 0.1},
    "customer feedback, local LLM": read_parameter_set("demo"),
}
METHODS = {
    "ease": {"method": "ease"},
    "best_of_n": {"method": "best_of_n"},
    "ease, racing": {"method": "ease", "racing": True},
    "best_of_n, racing": {"method": "best_of_n", "racing": True},
}
STORE = "runs/search_quality"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["ease", "best_of_n"])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, ... (default: 5)")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (default: 1)")
    parser.add_argument(
        "--late", type=int, default=0, help="proposals from this evaluation on are averaged (default: all)"
    )
    arguments = parser.parse_args()
    cells = [
        (task, method, seed)
        for task in arguments.tasks
        for method in arguments.methods
        for seed in range(arguments.seeds)
    ]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        results = dict(zip(cells, pool.map(run, *zip(*cells, strict=True), [arguments.late] * len(cells)), strict=True))
    print(table(results, arguments))
    return 0


def run(task: str, method: str, seed: int, late: int) -> dict[str, float]:
    """One run; its journal is kept, so that the command can be stopped and started again."""
    torch.set_num_threads(1)
    parameters = parse_parameters(
        {**TASKS[task], "validation_size": 20, **METHODS[method], "seed": seed, "store_uri": STORE}
    )
    with tempfile.TemporaryDirectory() as folder:
        at = Artifacts(Path(folder))
        at.run(parameters, *modules_between("", "optimize"), optimize, evaluate)
        history = read_table(Path(at.history), contracts.HISTORY).to_pylist()
        tested = read_document(Path(at.test_scores), contracts.TEST_SUMMARY)
    initial = [row["score"] for row in history[: parameters.optimizer.initial_design]]
    proposed = [row["score"] for row in history if row["phase"] == "search" and row["iteration"] >= late]
    result = {
        "validation": history[-1]["incumbent_score"],
        "test": tested["best"]["score"],
        "rows": sum(row["validation_rows"] for row in history),
        "random": statistics.fmean(initial),
        "random_test": tested["random"]["score"],
        "proposed": statistics.fmean(proposed) if proposed else math.nan,
        "evaluations": len(history),
    }
    print(task, method, seed, {name: round(value, 3) for name, value in result.items()}, file=sys.stderr, flush=True)
    return result


def table(results: dict[tuple[str, str, int], dict[str, float]], arguments: argparse.Namespace) -> str:
    """Mean and standard error over seeds."""
    columns = ("validation", "test", "rows", "proposed", "random", "random_test")
    heads = (
        *("winner, validation", "winner, test", "rows asked", "proposed, validation"),
        *("random, validation", "random, test"),
    )
    lines = [f"| Task | Method | {' | '.join(heads)} |", "|---|---|" + "--:|" * len(heads)]
    for task in arguments.tasks:
        for method in arguments.methods:
            runs = [results[task, method, seed] for seed in range(arguments.seeds)]
            cells = [
                _mean([one[column] for one in runs if not math.isnan(one[column])], digits=0 if column == "rows" else 3)
                for column in columns
            ]
            lines.append(f"| {task} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: list[float], digits: int) -> str:
    if not values:
        return ""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
