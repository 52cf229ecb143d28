"""What does ranking a large pool cost? `.venv/bin/python -m tests.benchmarks.prefilter`

Stages `rank_pool` and `prefilter` over pools of n texts and 20 validation rows, each measurement in a process of its
own (Linux): seconds, and peak memory beyond that of the interpreter with its libraries. BM25 of a whole pool, of one of
eight shards, and rank-bm25's own loop where that ends in a minute, with the exponent of growth; cosine of one of 30
shards of the largest pool (its time is the embedder's); and the merge of all shards' tops.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_exemplars, write_exemplars
from ease_lib.config.parsing import stage_config
from ease_lib.search.pool_retrieval import shard_range
from ease_lib.stages import prefilter, rank_pool
from ease_lib.tasks.base import Exemplar
from tests.benchmarks.scale import resident_mebibytes
from tests.support.runs import opened_run

SIZES = (10_000, 100_000, 1_000_000)
PLAIN_UP_TO = 100_000
SHARDS = 8
RETAINED, VALIDATION_ROWS, WORDS_PER_TEXT, VOCABULARY = 1_000, 20, 12, 30_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure(**json.loads(arguments.point))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        compare(Path(name))
    return 0


def compare(folder):
    print("| BM25, n | whole pool | one shard of 8 | rank-bm25's loop |\n|--:|--:|--:|--:|")
    seconds = []
    for size in SIZES:
        write_exemplars(folder / "validation", contracts.VALIDATION_SET, exemplars(VALIDATION_ROWS, seed=1))
        write_exemplars(folder / "pool", contracts.EXEMPLAR_POOL, exemplars(size, seed=0))
        whole = in_process(folder, kind="bm25")
        shards = [
            in_process(folder, kind="bm25", shard=shard, shards=8) for shard in range(8 if size == SIZES[-1] else 1)
        ]
        plain = in_process(folder, kind="plain") if size <= PLAIN_UP_TO else None
        seconds.append(whole[0])
        print(f"| {size:,} | {text(whole)} | {text(shards[0])} | {text(plain)} |".replace(",", " "), flush=True)
    exponent = np.polyfit(np.log(SIZES), np.log(seconds), 1)[0]
    print(f"\nTime of a whole pool grows with n to the power of {exponent:.2f}.")
    print(f"Merging the tops of all shards and taking the rows: {text(in_process(folder, kind='merge', shards=8))}.")
    cosine = in_process(folder, kind="cosine", shards=30)
    texts = len(shard_range(size, 0, 30))
    print(f"Cosine, one shard of 30: {text(cosine)}, {texts / cosine[0]:.0f} texts of {WORDS_PER_TEXT} words a second.")


def text(point):
    return f"{point[0]:.1f} s {point[1]:.0f} MiB" if point else "not run"


def in_process(folder, **point):
    """Seconds and MiB of one point."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.prefilter",
        "--point",
        json.dumps({"folder": str(folder), **point}),
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(folder, kind, shard=0, shards=1):
    """Seconds of one stage, and MiB beyond those of the interpreter with its libraries."""
    folder = Path(folder)
    values = {"prefilter": "cosine" if kind == "cosine" else "bm25", "retained": RETAINED, "pool_size": 0}
    pool, tops = str(folder / "pool"), [str(folder / f"tops-{part}") for part in range(shards)]
    before = resident_mebibytes("VmRSS")
    start = time.perf_counter()
    if kind == "plain":
        plainly(folder)
    elif kind == "merge":
        config = stage_config(prefilter.Config, {**values, "shards": shards})
        with opened_run() as run:
            prefilter.run(
                prefilter.Inputs(pool=pool, tops=tops), prefilter.Outputs(kept=str(folder / "kept")), config, run
            )
    else:
        config = stage_config(rank_pool.Config, {**values, "shard": shard, "shards": shards})
        inputs = rank_pool.Inputs(pool=pool, validation=str(folder / "validation"))
        with opened_run() as run:
            rank_pool.run(inputs, rank_pool.Outputs(tops=tops[shard]), config, run)
    return time.perf_counter() - start, resident_mebibytes("VmHWM") - before


def plainly(folder):
    """The library as its README uses it."""
    pool = read_exemplars(folder / "pool", contracts.EXEMPLAR_POOL)
    index = BM25Okapi([row.input.split() for row in pool])
    for row in read_exemplars(folder / "validation", contracts.VALIDATION_SET):
        np.argsort(-index.get_scores(row.input.split()), kind="stable")[:RETAINED]


def exemplars(count, seed):
    """Texts of words whose frequencies fall off as in language."""
    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(1, VOCABULARY + 1)
    drawn = draw.choice(VOCABULARY, (count, WORDS_PER_TEXT), p=shares / shares.sum())
    return [
        Exemplar(seed * 10**9 + index, " ".join(f"w{word}" for word in words), ("a",), None)
        for index, words in enumerate(drawn.tolist())
    ]


if __name__ == "__main__":
    sys.exit(main())
