"""Are the exemplars that a search calls harmful the corrupted ones? `python -m tests.benchmarks.harmful_exemplars`

Runs the default method with the simulated in-context learner on tasks of which so much of the pool is corrupted, and
compares its list with the truth. Precision is the share of those listed that are corrupted; recall the share of the
corrupted ones, of the whole pool and of those that the search tried, that are listed. The pool's share of corrupted
exemplars is what a list drawn at random would have for its precision.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document, read_exemplars, read_table
from ease_lib.config.parsing import parse_parameters
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.stages import optimize
from tests.simulation.models import SIMULATED
from tests.support.runs import run_stages

TASKS = ("lr", "lp_variant", "customer_feedback")
NOISE = (0.1, 0.3, 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ... (default: 3)")
    parser.add_argument("--budget", type=int, default=80, help="evaluations of 20 rows (default: 80)")
    arguments = parser.parse_args()
    heads = ("corrupted", "listed", "precision", "recall", "recall of those tried")
    print(f"| Task | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
    for task in TASKS:
        for noise in NOISE:
            runs = [compared(task, noise, seed, arguments.budget) for seed in range(arguments.seeds)]
            means = [statistics.fmean(each) for each in zip(*runs, strict=True)]
            cells = [f"{means[0]:.0%}", f"{means[1]:.0f}", *(f"{mean:.2f}" for mean in means[2:])]
            print(f"| {task} | {' | '.join(cells)} |", flush=True)
    return 0


def compared(task: str, noise: float, seed: int, budget: int) -> tuple[float, ...]:
    """Share of corrupted exemplars, number listed, precision, and recall of all and of those tried."""
    parameters = parse_parameters(
        {"task": task, "noise_ratio": noise, "seed": seed, "budget": budget, "llm_base_url": SIMULATED}
    )
    with tempfile.TemporaryDirectory() as folder:
        at = Workspace(Path(folder))
        run_stages(at, parameters, *modules_between("", "optimize"), optimize)
        pool = read_exemplars(Path(at.kept), contracts.EXEMPLAR_POOL)
        history = read_table(Path(at.history), contracts.HISTORY)
        summary = read_document(Path(at.search), contracts.SEARCH_SUMMARY)
    corrupted = {row.exemplar_id for row in pool if row.is_noisy}
    listed = {each["exemplar_id"] for each in summary["harmful_exemplars"]}
    tried = {each for sequence in history["exemplar_ids"].to_pylist() for each in sequence}
    found = len(listed & corrupted)
    return (
        len(corrupted) / len(pool),
        len(listed),
        found / max(1, len(listed)),
        found / max(1, len(corrupted)),
        found / max(1, len(corrupted & tried)),
    )


if __name__ == "__main__":
    sys.exit(main())
