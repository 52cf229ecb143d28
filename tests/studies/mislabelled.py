"""`python -m tests.studies.mislabelled`: how many wrong labels are found, and how many of those listed are right.

Labels of random pools of the shipped task are changed at random; `--csv FILE` does the same with another table without
header, the label in its first column (AG News, as it is distributed). `--raw FOLDER` takes the noisy files of EASE's
authors as they are: pool and noise of `induce`, validation rows of `execute`. Minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from ease_lib.artifacts.sources import Sources
from ease_lib.config.parsing import parse_parameters
from ease_lib.embedding.models import load_embedder
from ease_lib.running.task_data import load_data
from ease_lib.search.mislabelled import checked_labels

MOST_ROWS = 2_000
"""Number of rows drawn at random from a table."""


def shipped_rows() -> list[tuple[str, str]]:
    sizes = {"pool_size": 60, "validation_size": 90, "test_size": 80, "noise_ratio": 0}
    data = load_data(parse_parameters({"task": "customer_feedback", **sizes}).task, 0, Sources())
    return [(row.input, row.output) for row in (*data.pool, *data.validation, *data.test)]


def rows_of(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(". ".join(row[1:]), row[0]) for row in csv.reader(file)]
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return [rows[place] for place in chosen]


AUTHORS = {
    "ag_news_textlabel_redirect1": (10, 50),
    "sst5_reverse": (10,),
}
"""Files of theirs, with the noise in percent that their names say."""


def of_authors(raw: Path, name: str, noise: int, validation: int) -> tuple[int, int, int]:
    """How many labels they changed, how many of those are listed, and how long the list is."""

    def rows(part: str, percent: int) -> list[tuple[str, str]]:
        document = json.loads((raw / part / f"{name}_{percent}_noisy.json").read_text(encoding="utf-8"))
        examples = document["examples"].values()
        return [(row["input"], output if isinstance(output := row["output"], str) else output[0]) for row in examples]

    pool, clean, others = rows("induce", noise), dict(rows("induce", 0)), rows("execute", noise)[:validation]
    embedder = load_embedder("bundled-minilm")
    points, known = (embedder.embed([text for text, _ in each]) for each in (pool, others))
    found = checked_labels(
        points, [label for _, label in pool], known, [label for _, label in others], range(len(pool))
    )
    changed = {number for number, (text, label) in enumerate(pool) if clean[text] != label}
    listed = {each["exemplar_id"] for each in found.listed} if found else set()
    return len(changed), len(listed & changed), len(listed)


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
    parser.add_argument("--raw", type=Path, help="folder of the authors' repository that holds induce and execute")
    arguments = parser.parse_args()
    if arguments.raw:
        print("| file | validation | changed | found | listed |\n|---|---|---|---|---|")
        for name, ratios in AUTHORS.items():
            for noise in ratios:
                for validation in (20, 50, 90):
                    changed, found, listed = of_authors(arguments.raw, name, noise, validation)
                    print(f"| {name}, {noise} % | {validation} | {changed} | {found} | {listed} |", flush=True)
        return
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
