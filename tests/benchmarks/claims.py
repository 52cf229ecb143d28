"""Which of the paper's claims hold with the simulated learner? `python -m tests.benchmarks.claims [INDUCTION]`

With INDUCTION, a folder of tasks in the format of Instruction Induction, the comparisons of `sets/claims*.yaml` are run
one after the other: a line as each run ends, and the same command goes on where it was stopped. All of them take six
hours on two cores; `--sets` chooses, and `as-coded` is `as_coded.py`, of three minutes. What they found is written to
`results/claims.csv`, a line for each run. Without INDUCTION the tables are printed from that file.

A table has the paper's mean validation score over the cells that both have, ours on validation and on test rows, and
how much better on test rows a method is than the first one, in points, with the standard error over pairs of a cell and
a repeat. Kendall's tau compares rankings of methods in one cell; that by chance is what shuffled methods give, the same
shuffle in all cells, since methods that are alike in one cell are in others.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from scipy.stats import kendalltau, rankdata
from scipy.stats import t as student

from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_table
from ease_lib.config.comparison import plan
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.evaluation.statistics import mean_and_error, paired_p_value
from ease_lib.reporting.figures import TEST, VALIDATION, Figures
from ease_lib.seeding import rng
from tests.benchmarks import as_coded

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "claims.csv"
RANKING, AS_CODED, REQUESTS = "claims", "as-coded", "claims-requests"
SETS = (
    *(RANKING, AS_CODED, REQUESTS, "claims-components", "claims-nu", "claims-budget", "claims-pools", "claims-k"),
    *("claims-range-of-k", "knowledge"),
)
BY_TASK = ("claims-pools", "claims-k", "claims-range-of-k")
"""Sets whose tasks are not to be averaged."""
BUDGETS = ("800", "1 640", "3 300")
DEFAULT = "adaptive"
SHUFFLES = 500
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A finished run of a comparison; `expected` is the score on new rows that the search expects of its winner."""

    set: str
    task: str
    endpoint: str
    method: str
    repeat: int
    validation: float
    test: float
    random: float
    expected: float
    exemplars: int

    @property
    def pair(self) -> tuple[str, str, int]:
        """Key of the pair: the parts that runs of several methods share."""
        return self.task, self.endpoint, self.repeat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="INDUCTION", nargs="?", help="run what is not finished yet, on these tasks")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="default: all")
    parser.add_argument("--repeats", type=int, help="of every set (default: the set's own)")
    parser.add_argument("--output-dir", default="runs/claims", help="for comparisons under way (default: runs/claims)")
    arguments = parser.parse_args()
    for name in arguments.sets if arguments.folder else ():
        if name == AS_CODED:
            keep(name, list(as_coded_runs(arguments.folder, arguments.repeats)))
        elif code := compared(name, arguments.folder, Path(arguments.output_dir), arguments.repeats):
            return code
    runs = kept()
    for name in arguments.sets:
        found = [run for run in runs if run.set == name]
        if found:
            print(f"\n{name}: {len(found)} runs\n")
            for line in TABLES.get(name, beside_the_paper)(name, found):
                print(line)
    return 0


def compared(name: str, folder: str, output: Path, repeats: int | None) -> int:
    """Run a set, keep what it found, and return the exit status of `ease compare`; other than 0 nothing is kept."""
    given = {"--params": set_file(name), "--task-uri": folder, "--output-dir": output / name}
    given |= {"--store-uri": output / "store"} | ({} if repeats is None else {"--repeats": repeats})
    options = [str(each) for option in given.items() for each in option]
    code = subprocess.run([sys.executable, "-m", "ease_lib.cli", "compare", *options], check=False).returncode
    if not code:
        cells = read_table(output / name / "comparison.parquet", contracts.COMPARISON).to_pylist()
        found = [
            Run(
                set=name,
                task=cell["task"] if name != "knowledge" else f"{cell['task']} {cell['noise_ratio']:g}",
                endpoint=cell["endpoint"],
                method=cell["method"],
                repeat=cell["repeat"],
                validation=cell["validation_score"],
                test=cell["test_score"],
                random=cell["random_test_score"],
                expected=cell["estimate"],
                exemplars=cell["exemplars"],
            )
            for cell in cells
        ]
        keep(name, found)
    return code


def as_coded_runs(folder: str, repeats: int | None) -> Iterator[Run]:
    values = {**read_parameter_set(str(set_file(RANKING))), "methods": ["best_of_n"], "task_uri": folder}
    for cell in plan(values if repeats is None else {**values, "repeats": repeats}):
        for method, (validation, test) in as_coded.searched(cell):
            print(f"{cell.task}, {method} as coded, repeat {cell.repeat + 1}: {test:.2f}", flush=True)
            none = float("nan")
            yield Run(AS_CODED, cell.task, cell.endpoint, method, cell.repeat, validation, test, none, none, 5)


def set_file(name: str) -> Path:
    return HERE / "sets" / f"{name}.yaml"


def kept() -> list[Run]:
    return read_lines(RESULTS, Run)


def keep(name: str, found: Sequence[Run]) -> None:
    """Replace what is kept of this set."""
    others = [run for run in kept() if run.set != name]
    ordered = sorted([*others, *found], key=lambda run: SETS.index(run.set))
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for field in fields(Run)])
        table.writerows(map(line_of, ordered))


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Each line of a CSV file as an object of this dataclass; none where there is no file."""
    if not path.exists():
        return []
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        return [kind(**{name: types[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def line_of(run: Any) -> list[Any]:
    """The line for such a file, numbers to four digits."""
    return [f"{value:.4g}" if isinstance(value, float) else value for value in astuple(run)]


# --- the ranking of methods -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table2:
    """Scores of the ten methods in the 24 cells, by split: theirs and ours (mean over repeats), both (24, 10)."""

    tasks: list[str]
    methods: list[str]
    theirs: dict[str, np.ndarray]
    ours: dict[str, np.ndarray]

    @property
    def columns(self) -> list[np.ndarray]:
        return [scores[split] for scores in (self.theirs, self.ours) for split in (VALIDATION, TEST)]

    def table(self, what: str, of: Callable[[np.ndarray], np.ndarray], form: str) -> Iterator[str]:
        """A line for each method, with what is made of its scores."""
        yield f"\n| {what} | theirs, validation | theirs, test | ours, validation | ours, test |"
        yield "|---|--:|--:|--:|--:|"
        made = [of(scores) for scores in self.columns]
        for place in np.argsort(ranked(self.theirs[VALIDATION]).mean(0)):
            yield f"| {self.methods[place]} | {' | '.join(form.format(each[place]) for each in made)} |"

    def change(self, scores: np.ndarray) -> np.ndarray:
        """Change from the clean cells to those with 90 % noise, in points."""
        clean, noisy = ([at for at, task in enumerate(self.tasks) if f"_{ratio}_" in task] for ratio in (0, 90))
        return np.asarray(100 * (scores[noisy].mean(0) - scores[clean].mean(0)))


def ranking(name: str, runs: Sequence[Run]) -> Iterator[str]:
    """Table 2: scores, ranks, Kendall's tau, wins, and what noise costs."""
    yield from beside_the_paper(name, runs)
    found = table_2(name, runs)
    yield from found.table("Mean rank", lambda scores: ranked(scores).mean(0), "{:.1f}")
    yield from tau_table(found)
    yield from found.table("Best or tied", wins, "{}")
    yield from found.table("From clean to 90 % noise, points", found.change, "{:+.1f}")
    random = [np.mean([run.random for run in runs if run.task == task]) for task in found.tasks]
    yield f"\nrandom exemplars on test rows, mean of {len(random)} cells: {np.mean(random):.3f}"
    yield from differences(runs, [(DEFAULT, "ease"), (DEFAULT, "best_of_n"), ("ease", "best_of_n")])


def table_2(name: str, runs: Sequence[Run]) -> Table2:
    figures = figures_of(name)
    tasks = unique(run.task for run in runs)
    methods = [method for method in unique(run.method for run in runs) if method != DEFAULT]

    def published(split: str, task: str, method: str) -> float:
        found = figures.find(task, 0.0, method, split)
        return np.nan if found is None else found.score

    def all_of(score: Callable[[str, str, str], float]) -> dict[str, np.ndarray]:
        return {
            split: np.array([[score(split, task, method) for method in methods] for task in tasks])
            for split in (VALIDATION, TEST)
        }

    return Table2(tasks, methods, all_of(published), all_of(partial(mean_score, runs)))


def tau_table(found: Table2) -> Iterator[str]:
    """Kendall's tau in each cell, by kind of task, in the mean, and by chance."""
    yield "\n| Kendall's tau | validation | test |"
    yield "|---|--:|--:|"
    pairs = [(found.theirs[split], found.ours[split]) for split in (VALIDATION, TEST)]
    cells = np.array([taus(*pair) for pair in pairs]).T
    for task, each in zip(found.tasks, cells, strict=True):
        yield f"| {task} | {' | '.join(f'{tau:.2f}' for tau in each)} |"
    for kind in unique(map(kind_of, found.tasks)):
        there = np.nanmean(
            [each for task, each in zip(found.tasks, cells, strict=True) if kind_of(task) == kind], axis=0
        )
        yield f"| *{kind}* | {' | '.join(f'{tau:.2f}' for tau in there)} |"
    yield f"| **mean (95 %)** | {' | '.join(tau_said(*pair) for pair in pairs)} |"
    yield f"| by chance (95 %) | {' | '.join(tau_by_chance(*pair) for pair in pairs)} |"


def kind_of(task: str) -> str:
    """Kind of a task: `linear_4` for `linear_4_10_noisy`."""
    return task.rsplit("_", 2)[0]


def wins(scores: np.ndarray) -> np.ndarray:
    """Number of cells in which a method is the best, ties included."""
    return np.asarray((scores >= scores.max(1, keepdims=True) - 1e-9).sum(0))


def ranked(scores: np.ndarray) -> np.ndarray:
    """Ranks within rows, 1 for the highest; equal scores share."""
    return np.asarray(rankdata(-np.round(scores, 9), axis=1))


def taus(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of each cell: of (cells, methods) both."""
    return np.array([kendalltau(*pair).statistic for pair in zip(theirs, np.round(ours, 9), strict=True)])


def tau_said(theirs: np.ndarray, ours: np.ndarray) -> str:
    found = taus(theirs, ours)
    mean, low, high = mean_and_interval(found[~np.isnan(found)].tolist())
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def tau_by_chance(theirs: np.ndarray, ours: np.ndarray) -> str:
    draw = rng(0, "shuffled methods")
    means = [np.nanmean(taus(theirs, ours[:, draw.permutation(ours.shape[1])])) for _ in range(SHUFFLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{low:.2f} to {high:.2f}"


def ranking_as_coded(_name: str, runs: Sequence[Run]) -> Iterator[str]:
    """The same tables with two baselines as the authors' code has them."""
    replaced = {run.method for run in runs}
    others = [run for run in kept() if run.set == RANKING and run.method not in replaced]
    yield from beside_the_paper(RANKING, runs)
    found = table_2(RANKING, [*others, *runs])
    yield from found.table("Mean rank", lambda scores: ranked(scores).mean(0), "{:.1f}")
    yield from tau_table(found)


# --- other tables -----------------------------------------------------------------------------------------------------


def beside_the_paper(name: str, runs: Sequence[Run]) -> Iterator[str]:
    """Each method's mean scores beside the paper's, of all tasks together or of each."""
    figures = figures_of(name)
    every = unique(run.task for run in runs)
    groups = {task: [task] for task in every} if name in BY_TASK else {f"{len(every)} cells": every}
    for what, tasks in groups.items():
        there = [run for run in runs if run.task in tasks]
        first, *_ = methods = unique(run.method for run in there)
        yield f"| {what} | theirs, validation | ours, validation | ours, test | test − {first}, points | exemplars |"
        yield "|---|--:|--:|--:|--:|--:|"
        for method in methods:
            of_method = [run for run in there if run.method == method]
            found = [figures.find(task, 0.0, method, VALIDATION) for task in unique(run.task for run in of_method)]
            known = [each.score for each in found if each is not None]
            less = "" if method == first else said(gains(there, method, first))
            values = [
                f"{np.mean(known):.3f}" if known else "–",
                f"{np.mean([run.validation for run in of_method]):.3f}",
                f"{np.mean([run.test for run in of_method]):.3f}",
                less,
                f"{np.mean([run.exemplars for run in of_method]):.1f}",
            ]
            yield f"| {method} | {' | '.join(values)} |"


def requests(_name: str, runs: Sequence[Run]) -> Iterator[str]:
    """EASE beside the default and Best-of-N, at each number of requests."""
    methods = ("ease", DEFAULT, "best_of_n")
    yield f"| Requests | {' | '.join(f'{method}: test | expected − test' for method in methods)} |"
    yield f"|--:|{'--:|--:|' * len(methods)}"
    for budget in BUDGETS:
        found = [[run for run in runs if run.method == f"{method} with {budget}"] for method in methods]
        cells = [
            f"{np.mean([run.test for run in each]):.3f} | {np.mean([run.expected - run.test for run in each]):+.3f}"
            for each in found
        ]
        yield f"| {budget} | {' | '.join(cells)} |"
    yield ""
    for budget in BUDGETS:
        ease, default, search = (f"{method} with {budget}" for method in methods)
        yield from differences(runs, [(default, ease), (default, search), (ease, search)])


def knowledge(_name: str, runs: Sequence[Run]) -> Iterator[str]:
    """EASE minus Best-of-N, by what a model knows."""
    yield "| Model | ease − best_of_n, test | ease − best_of_n, validation |"
    yield "|---|--:|--:|"
    for endpoint in unique(run.endpoint for run in runs):
        there = [run for run in runs if run.endpoint == endpoint]
        cells = [said(gains(there, "ease", "best_of_n", split)) for split in (TEST, VALIDATION)]
        yield f"| {endpoint} | {' | '.join(cells)} |"


def differences(runs: Sequence[Run], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Test score of one method minus that of another: over cells, each the mean of its repeats, and by kind of task."""
    tasks = unique(run.task for run in runs)
    for one, other in pairs:
        cells = [mean_score(runs, TEST, task, one) - mean_score(runs, TEST, task, other) for task in tasks]
        mean, low, high = mean_and_interval([100 * each for each in cells])
        p = paired_p_value(cells, [0.0] * len(cells))
        kinds: dict[str, list[float]] = {}
        for task, each in zip(tasks, cells, strict=True):
            kinds.setdefault(kind_of(task), []).append(100 * each)
        by_kind = ", ".join(f"{kind} {np.mean(of_kind):+.1f}" for kind, of_kind in kinds.items())
        yield f"{one} − {other}: {mean:+.1f} points ({low:+.1f} to {high:+.1f}), p = {p:.2g}; {by_kind}"


def mean_and_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean with its 95 % interval, as of independent values."""
    mean, error = mean_and_error(values)
    reach = float(student.ppf(0.975, len(values) - 1)) * (error or 0.0)
    return mean, mean - reach, mean + reach


TABLES: dict[str, Callable[[str, Sequence[Run]], Iterator[str]]] = {
    RANKING: ranking,
    AS_CODED: ranking_as_coded,
    REQUESTS: requests,
    "knowledge": knowledge,
}


def gains(runs: Sequence[Run], one: str, other: str, split: str = TEST) -> list[float]:
    """Differences in score, one for each pair of a cell and a repeat that both methods have."""
    scores = {(run.method, run.pair): score_of(run, split) for run in runs}
    pairs = unique(run.pair for run in runs if run.method == one)
    return [scores[one, pair] - scores[other, pair] for pair in pairs if (other, pair) in scores]


def said(values: Sequence[float]) -> str:
    if not values:
        return "–"
    mean, error = mean_and_error(values)
    return f"{100 * mean:+.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def mean_score(runs: Sequence[Run], split: str, task: str, method: str) -> float:
    return float(np.mean([score_of(run, split) for run in runs if run.task == task and run.method == method]))


def score_of(run: Run, split: str) -> float:
    return run.test if split == TEST else run.validation


def figures_of(name: str) -> Figures:
    named = str(read_parameter_set(str(set_file(name))).get("figures", ""))
    return Figures.read(named) if named else Figures(origin="", scores={})


def unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


if __name__ == "__main__":
    raise SystemExit(main())
