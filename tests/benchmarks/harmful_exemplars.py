"""Are the exemplars that a search calls harmful, and those it calls likely mislabelled, the corrupted ones?
`python -m tests.benchmarks.harmful_exemplars`

Runs the default method with the simulated in-context learner on tasks of which so much of the pool is corrupted, and
compares its lists with the truth. Precision is the share of those listed over all seeds that are
corrupted; recall the share of the corrupted ones, of the whole pool and of those that the search tried, that are
listed. The pool's share of corrupted exemplars is what a list drawn at random would have for its precision.
"""

import argparse
import sys
import tempfile
from collections import Counter
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
LISTS = ("harmful", "mislabelled")
MEASURES = ("listed", "precision", "recall", "recall of those tried")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ... (default: 3)")
    parser.add_argument("--budget", type=int, default=80, help="evaluations of 20 rows (default: 80)")
    arguments = parser.parse_args()
    heads = ("corrupted", *(f"{name} {what}" for name in LISTS for what in MEASURES))
    print(f"| Task | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
    for task in TASKS:
        for noise in NOISE:
            runs = [compared(task, noise, seed, arguments.budget) for seed in range(arguments.seeds)]
            sums = {name: sum(run[name] for run in runs) for name in runs[0]}
            cells = [f"{sums['corrupted'] / sums['pool']:.0%}"]
            for listed in LISTS:
                length, found = sums[listed], sums[f"{listed}, corrupted"]
                tried = sums[f"{listed}, corrupted and tried"] / max(1, sums["corrupted and tried"])
                cells += [f"{length / len(runs):.1f}", f"{found / length:.2f}" if length else "–"]
                cells += [f"{found / max(1, sums['corrupted']):.2f}", f"{tried:.2f}"]
            print(f"| {task} | {' | '.join(cells)} |", flush=True)
    return 0


def compared(task: str, noise: float, seed: int, budget: int) -> Counter[str]:
    """How many exemplars there are, how many are corrupted, and how many of each list are."""
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
    tried = {each for sequence in history["exemplar_ids"].to_pylist() for each in sequence}
    found = Counter({"pool": len(pool), "corrupted": len(corrupted), "corrupted and tried": len(corrupted & tried)})
    for name in LISTS:
        listed = {each["exemplar_id"] for each in summary[f"{name}_exemplars"]}
        found[name] = len(listed)
        found[f"{name}, corrupted"] = len(listed & corrupted)
        found[f"{name}, corrupted and tried"] = len(listed & corrupted & tried)
    return found


if __name__ == "__main__":
    sys.exit(main())
