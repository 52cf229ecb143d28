"""How much memory does each stage take with a million rows? `python -m tests.benchmarks.memory`

Makes a table of `--rows` texts of 12 words, takes all of it as the pool, keeps 1 000 by BM25, and searches with the
simulated LLM; each stage in a process of its own (Linux). "Added" is its peak beside interpreter and libraries.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ease_lib.config.parsing import parse_parameters
from ease_lib.config.sections import Parameters
from ease_lib.running.graph import RUN, STAGES
from ease_lib.running.inline import Workspace
from ease_lib.seeding import rng
from tests.benchmarks.scale import resident_mebibytes
from tests.simulation.models import SIMULATED
from tests.support.runs import opened_run

WORDS_PER_TEXT = 12
DISTINCT_WORDS = 5_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--stage", nargs=2, metavar=("STAGE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        print(json.dumps(measured(*arguments.stage)))
        return 0
    print("| Stage | seconds | added, MiB | at most, MiB |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        make_table(Path(folder, "table.csv"), arguments.rows)
        for stage in RUN:
            command = [sys.executable, "-m", "tests.benchmarks.memory", "--stage", stage.name, folder]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, added, most = json.loads(said.splitlines()[-1])
            print(f"| {stage.name} | {seconds:.1f} | {added:.0f} | {most:.0f} |", flush=True)
    return 0


def make_table(path: Path, rows: int) -> None:
    draw = rng(0, "memory")
    with path.open("w") as file:
        file.write("text,label\n")
        for start in range(0, rows, 10_000):
            words = draw.integers(DISTINCT_WORDS, size=(min(10_000, rows - start), WORDS_PER_TEXT)).tolist()
            file.writelines(
                f"{' '.join(f'w{word}' for word in row)} {start + n},kind {n % 4}\n" for n, row in enumerate(words)
            )


def parameters_of(folder: str) -> Parameters:
    return parse_parameters(
        {
            **{"task": "table", "task_uri": f"{folder}/table.csv", "input_columns": "text", "output_column": "label"},
            **{"pool_size": 0, "prefilter": "bm25", "retained": 1_000, "llm_base_url": SIMULATED, "budget": 50},
            **{"store_uri": f"{folder}/store"},
        }
    )


def measured(name: str, folder: str) -> tuple[float, float, float]:
    """Seconds, and MiB: added, and at the peak."""
    stage = STAGES[name].module
    before, start = resident_mebibytes("VmHWM"), time.perf_counter()
    with opened_run(parameters_of(folder)) as run:
        Workspace(Path(folder)).perform(parameters_of(folder), run, stage)
    peak = resident_mebibytes("VmHWM")
    return time.perf_counter() - start, peak - before, peak


if __name__ == "__main__":
    sys.exit(main())
