"""Time and memory of `build_dataset` for a table of any size; memory in addition to the interpreter with its libraries.

    python -m tests.benchmarks.large_table --gigabytes 5 [--suffix jsonl] [--pool-size 0] [--folder DIR]

makes the file (texts of about 60 words, four labels), runs the stage in a process of its own, and removes the file.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.simulation.models import SIMULATED
from tests.support.runs import opened_run

WORDS = [f"{first}{second}" for first in ("be", "do", "ka", "lu", "mi", "ro", "sa", "te") for second in "abcdefghijklm"]
DISTINCT = 20_000
WORDS_PER_TEXT = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--suffix", choices=("csv", "jsonl"), default="csv")
    parser.add_argument("--pool-size", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the file is made; default: the system's temporary folder")
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure, options.pool_size)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / f"table.{options.suffix}"
        rows = make_table(path, int(options.gigabytes * 1e9))
        command = [sys.executable, "-m", "tests.benchmarks.large_table", "--measure", str(path)]
        done = subprocess.run(
            [*command, "--pool-size", str(options.pool_size)], stdout=subprocess.PIPE, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{path.stat().st_size / 1e9:.2f} GB, {rows:,} rows, pool_size={options.pool_size}: ".replace(",", " "),
            end="",
        )
        print(f"{found['seconds']:.1f} s, {found['added']:.0f} MiB added, {found['peak']:.0f} MiB at most")


def make_table(path: Path, size: int) -> int:
    """Write a table of at least this many bytes; the number of its rows."""
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(WORDS, WORDS_PER_TEXT)) for _ in range(DISTINCT)]
    written = rows = 0
    with path.open("w") as file:
        if path.suffix == ".csv":
            written += file.write("text,label\n")
        while written < size:
            lines = [line(path.suffix, f"{rows + place} {text}", place % 4) for place, text in enumerate(texts)]
            written += file.write("".join(lines))
            rows += len(lines)
    return rows


def line(suffix: str, text: str, kind: int) -> str:
    if suffix == ".csv":
        return f"{text},kind {kind}\n"
    return json.dumps({"text": text, "label": f"kind {kind}"}) + "\n"


def measured(path: str, pool_size: int) -> dict[str, float]:
    """Run the stage in this process; MiB and seconds."""
    from ease_lib.config.parsing import flat_parameters, parse_parameters, stage_config
    from ease_lib.stages import build_dataset

    values = {"task": "table", "task_uri": path, "input_columns": "text", "output_column": "label"}
    parameters = parse_parameters({**values, "pool_size": pool_size, "llm_base_url": SIMULATED})
    config = stage_config(build_dataset.Config, flat_parameters(parameters))
    with tempfile.TemporaryDirectory() as folder:
        outputs = build_dataset.Outputs(
            **{name: f"{folder}/{name}" for name in ("pool", "validation", "test", "summary")}
        )
        before, start = peak(), time.perf_counter()
        with opened_run() as run:
            build_dataset.run(build_dataset.Inputs(), outputs, config, run)
        return {"seconds": time.perf_counter() - start, "added": peak() - before, "peak": peak()}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
