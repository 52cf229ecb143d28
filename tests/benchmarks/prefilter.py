"""What does ranking a large pool cost? `.venv/bin/python -m tests.benchmarks.prefilter`

BM25 over n texts and 20 validation rows: seconds and peak memory of a whole pool, and of one of eight shards, each in a
process of its own (Linux), with the exponent of growth; beside it rank-bm25's own loop, where that ends in a minute.
Cosine is the embedder's time: texts a second, and the peak memory of a shard of 32 768.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = (10_000, 100_000, 1_000_000)
PLAIN_UP_TO = 100_000
RETAINED, VALIDATION_ROWS, WORDS_PER_TEXT, VOCABULARY = 1_000, 20, 12, 30_000
EMBEDDED = 32_768


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure(**json.loads(arguments.point))))
        return 0
    print("| BM25, n | whole pool | one shard of 8 | rank-bm25's loop |\n|--:|--:|--:|--:|")
    seconds = []
    for size in SIZES:
        whole, shard = in_process(kind="bm25", size=size), in_process(kind="bm25", size=size, shards=8)
        plain = in_process(kind="plain", size=size) if size <= PLAIN_UP_TO else None
        seconds.append(whole[0])
        print(f"| {size:,} | {text(whole)} | {text(shard)} | {text(plain)} |".replace(",", " "), flush=True)
    exponent = np.polyfit(np.log(SIZES), np.log(seconds), 1)[0]
    print(f"\nTime of a whole pool grows with n to the power of {exponent:.2f}.")
    taken, memory = in_process(kind="cosine", size=EMBEDDED)
    print(f"Cosine: {EMBEDDED / taken:.0f} texts of {WORDS_PER_TEXT} words a second, {memory:.0f} MiB.")
    return 0


def text(point):
    return f"{point[0]:.1f} s, {point[1]:.0f} MiB" if point else "not run"


def in_process(**point):
    """Seconds and MiB of one point."""
    command = [sys.executable, "-m", "tests.benchmarks.prefilter", "--point", json.dumps(point)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(kind, size, shards=1):
    """Seconds of ranking shard 0, and MiB beyond those of the interpreter with its libraries."""
    from ease_lib.artifacts import contracts
    from ease_lib.artifacts.tables import write_exemplars
    from ease_lib.config import parse_parameters, parse_stage_config, stage_parameters
    from ease_lib.stages import rank_pool
    from tests.benchmarks.scale import resident_mebibytes

    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("pool", "validation")}
        validation = exemplars(VALIDATION_ROWS, seed=1)
        write_exemplars(Path(files["validation"]), contracts.VALIDATION_SET, validation)
        write_exemplars(Path(files["pool"]), contracts.EXEMPLAR_POOL, exemplars(size, seed=0))
        values = {"prefilter": "cosine" if kind == "cosine" else "bm25", "retained": RETAINED, "shards": shards}
        values["pool_size"] = 0
        config = parse_stage_config(rank_pool.Config, stage_parameters(rank_pool.Config, parse_parameters(values)))
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of making the pool
        before = resident_mebibytes("VmRSS")
        start = time.perf_counter()
        if kind == "plain":
            plainly(files, validation)
        else:
            rank_pool.run(rank_pool.Inputs(**files), rank_pool.Outputs(tops=f"{folder}/tops"), config)
        return time.perf_counter() - start, resident_mebibytes("VmHWM") - before


def plainly(files, validation):
    """The library as its README uses it."""
    from rank_bm25 import BM25Okapi

    from ease_lib.artifacts import contracts
    from ease_lib.artifacts.tables import read_exemplars

    pool = read_exemplars(Path(files["pool"]), contracts.EXEMPLAR_POOL)
    index = BM25Okapi([row.input.split() for row in pool])
    for row in validation:
        np.argsort(-index.get_scores(row.input.split()), kind="stable")[:RETAINED]


def exemplars(count, seed):
    """Texts of words whose frequencies fall off as in language."""
    from ease_lib.tasks.base import Exemplar

    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(1, VOCABULARY + 1)
    drawn = draw.choice(VOCABULARY, (count, WORDS_PER_TEXT), p=shares / shares.sum())
    return [
        Exemplar(seed * 10**9 + index, " ".join(f"w{word}" for word in words), ("a",), None)
        for index, words in enumerate(drawn.tolist())
    ]


if __name__ == "__main__":
    sys.exit(main())
