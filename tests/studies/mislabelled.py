"""`python -m tests.studies.mislabelled`: how many wrong labels are found, and how many of those listed are right.

Labels of random pools of the shipped task are changed at random; `--csv FILE` does the same with another table without
header, the label in its first column (AG News, as it is distributed). Minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.embedding.models import load_embedder
from ease_lib.running.task_data import load_data
from ease_lib.search.mislabelled import checked_labels

MOST_ROWS = 2_000
"""Of a table, drawn at random."""


def shipped_rows() -> list[tuple[str, str]]:
    sizes = {"pool_size": 60, "validation_size": 90, "test_size": 80, "noise_ratio": 0}
    data = load_data(parse_parameters({"task": "customer_feedback", **sizes}).task, 0, Sources())
    return [(row.input, row.output) for row in (*data.pool, *data.validation, *data.test)]


def rows_of(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(". ".join(row[1:]), row[0]) for row in csv.reader(file)]
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return [rows[place] for place in chosen]


def measured(points, labels, *, pool, validation, wrong, seed):
    """Share of the changed labels that are listed, and the share of the list that was not changed."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(labels))
    chosen, others = order[:pool], order[pool : pool + validation]
    given = [labels[place] for place in chosen]
    classes = sorted(set(labels))
    changed = set(draw.choice(pool, round(wrong * pool), replace=False).tolist())
    for place in changed:
        given[place] = str(draw.choice([label for label in classes if label != given[place]]))
    found = checked_labels(
        points[chosen], given, points[others], [labels[place] for place in others], list(range(pool))
    )
    listed = {each["exemplar_id"] for each in found.listed} if found else set()
    return len(listed & changed) / max(1, len(changed)), len(listed - changed) / max(1, len(listed))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.studies.mislabelled", description=__doc__)
    parser.add_argument("--csv", type=Path, help="a table without header, the label in its first column")
    parser.add_argument("--seeds", type=int, default=30, help="random pools of each kind (default: 30)")
    arguments = parser.parse_args()
    rows = rows_of(arguments.csv) if arguments.csv else shipped_rows()
    points = load_embedder("bundled-minilm").embed([text for text, _ in rows])
    print("| pool | validation | changed | found | false in the list |\n|---|---|---|---|---|")
    for pool in (60, 100, 500):
        for validation in (50, 90, 200):
            if pool + validation > len(rows):
                continue
            for wrong in (0.15, 0.3, 0.5):
                each = [
                    measured(
                        points, [label for _, label in rows], pool=pool, validation=validation, wrong=wrong, seed=seed
                    )
                    for seed in range(arguments.seeds)
                ]
                found, false = np.mean(each, axis=0)
                print(f"| {pool} | {validation} | {wrong:.0%} | {found:.0%} | {false:.0%} |", flush=True)


if __name__ == "__main__":
    main()
