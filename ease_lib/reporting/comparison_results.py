"""The numbers of a comparison, as data, Markdown and a page.

A row is a task at a noise ratio on an endpoint; its cells are means over repeats with standard errors. The method with
the best mean is marked as best only if it beats every other one over the repeats by an exact test of paired differences
(sign flips, two-sided, p < 0.05 after Bonferroni's correction for the number of others); else all that cannot be told
from it count as tied. Few repeats can prove nothing: `repeats_needed` says how many could.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import stdtrit

from ease_lib import __version__
from ease_lib.config.comparison import ANSWERS_PER_POINT, cell_name
from ease_lib.evaluation.statistics import SIGNIFICANCE, mean_and_error, paired_p_value
from ease_lib.reporting.charts import Curve, curves_chart, curves_key, gaps_chart
from ease_lib.reporting.figures import TEST, VALIDATION, Figures
from ease_lib.reporting.page import page_template, script_of
from ease_lib.reporting.summary import estimate_held
from ease_lib.tasks.base import row_hash

SCORES = {"test_score": TEST, "validation_score": VALIDATION}
"""Scores by the split whose published scores are next to them."""
RANDOM_SEARCH = "best_of_n"
POWER = 0.8
MOST_CHARACTERS = 2_000_000
"""Largest number of characters in the prompts that a page shows."""
UNEQUAL = 0.25
"""Relative difference in requests of two methods from which on it is reported."""

Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """A task at a noise ratio on an endpoint, with its finished cells by method, in order of repeats."""

    task: str
    noise_ratio: float
    endpoint: str
    cells: dict[str, list[Mapping[str, Any]]]

    def scores(self, method: str, score: str) -> dict[int, float]:
        """Scores of a method by repeat."""
        return {cell["repeat"]: cell[score] for cell in self.cells.get(method, ())}

    def best(self, score: str) -> list[str]:
        """The best method alone, or all that are tied with it."""
        means = self._means(score)
        first = max(means, key=lambda method: means[method])
        return [method for method in means if method == first or not self._beats(first, method, score)]

    @property
    def baseline(self) -> float | None:
        """Mean test score of the current prompt, over the repeats, each of which has its own test set."""
        scores = {cell["repeat"]: cell["baseline_test_score"] for cells in self.cells.values() for cell in cells}
        known = [score for score in scores.values() if score is not None]
        return _mean(known) if known else None

    @property
    def random(self) -> float | None:
        """Mean test score of random exemplars, over the runs."""
        scores = [cell["random_test_score"] for cells in self.cells.values() for cell in cells]
        known = [score for score in scores if score is not None]
        return _mean(known) if known else None

    def has_highest_mean(self, method: str, score: str) -> bool:
        """Whether no other method has a higher mean, as the paper counts "best-performing tasks" (Tab. 1)."""
        means = self._means(score)
        return method in means and means[method] == max(means.values())

    def is_tied(self, method: str, score: str) -> bool:
        best = self.best(score)
        return len(best) > 1 and method in best

    def _means(self, score: str) -> dict[str, float]:
        return {method: mean_and_error([cell[score] for cell in cells])[0] for method, cells in self.cells.items()}

    def _beats(self, method: str, other: str, score: str) -> bool:
        p = paired_p_value(*paired(self.scores(method, score), self.scores(other, score)))
        return corrected(p, len(self.cells)) < SIGNIFICANCE


def corrected(p: float, methods: int) -> float:
    """A p-value of one method against another, corrected for the number of others it is compared with (Bonferroni)."""
    return min(1.0, p * max(1, methods - 1))


def repeats_needed(methods: int) -> int:
    """Minimum number of repeats that can show one of so many methods to be the best: n equal signs have p = 2 / 2^n."""
    return next(repeats for repeats in itertools.count(1) if corrected(2 / 2**repeats, methods) < SIGNIFICANCE)


def paired(one: Mapping[Any, float], other: Mapping[Any, float]) -> tuple[list[float], list[float]]:
    """The values under the keys that both have."""
    keys = [key for key in one if key in other]
    return [one[key] for key in keys], [other[key] for key in keys]


def rows_of(cells: Cells) -> list[MethodRow]:
    """Rows of the table in the order in which the cells first name them."""
    grouped: dict[tuple[str, float, str], dict[str, list[Mapping[str, Any]]]] = {}
    for cell in sorted(cells, key=lambda cell: int(cell["repeat"])):
        key = cell["task"], cell["noise_ratio"], cell["endpoint"]
        grouped.setdefault(key, {}).setdefault(cell["method"], []).append(cell)
    return [
        MethodRow(task=task, noise_ratio=noise, endpoint=endpoint, cells=by_method)
        for (task, noise, endpoint), by_method in grouped.items()
    ]


def methods_of(cells: Cells) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in cells))


def summarise_methods(rows: Sequence[MethodRow], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Counts of best and tied tasks, mean scores, requests and cost of each method.

    `optimism` is what the searches expected
    of their winners on new rows less what these scored on the test set; `estimates_held` see `estimate_held`;
    `highest_test_score` counts rows as the paper does, which has no test: those where no other mean is higher.
    `better_than_random` counts the `runs` whose winner is better than random exemplars on its test set, beyond chance.
    """
    summary = []
    for method in methods:
        cells = [cell for row in rows for cell in row.cells.get(method, ())]
        summary.append(
            {
                "method": method,
                "rows": sum(method in row.cells for row in rows),
                **{f"best_{score}": sum(row.best(score) == [method] for row in rows) for score in SCORES},
                **{f"tied_{score}": sum(row.is_tied(method, score) for row in rows) for score in SCORES},
                **{f"highest_{score}": sum(row.has_highest_mean(method, score) for row in rows) for score in SCORES},
                **{score: mean_and_error([cell[score] for cell in cells])[0] for score in SCORES},
                "optimism": _mean(cell["estimate"] - cell["test_score"] for cell in cells),
                "estimates_held": _mean(float(estimate_held(cell)) for cell in cells),
                "runs": len(cells),
                "better_than_random": sum(cell["better_than_random"] for cell in cells),
                "exemplars": _mean(cell["exemplars"] for cell in cells),
                "evaluations": _mean(cell["evaluations"] for cell in cells),
                "llm_requests": _mean(cell["llm_requests"] for cell in cells),
                "cost_usd": _mean(_cost_alone(cell) for cell in cells),
                "search_seconds": _mean(cell["search_seconds"] for cell in cells),
            }
        )
    return summary


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """The mean test score of the method with the highest one, minus another's.

    Args:
        over: what the pairs are: `tasks`, whose means over repeats are compared, or the `repeats` of a single one.
        mean, error: of the pairs; standard error where there are several.
        interval: of the mean, 95 % together with those of the other methods (Student's t, Bonferroni); None of so few
            pairs as can show nothing by the exact test, which assumes less.
        p: of the exact test, corrected for the number of methods.
        needed: about how many pairs would show a difference of this size in four of five comparisons; None if it is
            shown already, and where two pairs that differ are not there to judge by.
        requests: the other's, as a share of the method's.
    """

    method: str
    other: str
    over: str
    mean: float
    error: float | None
    interval: tuple[float, float] | None
    p: float
    needed: int | None
    requests: float

    @property
    def is_shown(self) -> bool:
        """Whether the lead is significant."""
        return self.p < SIGNIFICANCE and self.mean > 0

    @property
    def is_reversed(self) -> bool:
        """Whether the other is better beyond chance, on tasks that some of the methods lack."""
        return self.p < SIGNIFICANCE and self.mean < 0


def differences(rows: Sequence[MethodRow], methods: Sequence[str]) -> list[ScoreDifference]:
    """Lead of the method with the highest mean test score over each other one, the smallest first.

    The highest is that over the rows which all methods have, where there are any; a pair is compared on all that both
    have.
    """
    common = [row for row in rows if all(row.cells.get(method) for method in methods)] or rows
    means = {
        method: _mean(cell["test_score"] for row in common for cell in row.cells.get(method, ())) for method in methods
    }
    first = max(means, key=lambda method: means[method])
    found = []
    for other in methods:
        pairs = _pairs(rows, first, other)
        if other == first or not pairs:
            continue
        ahead = [one - two for one, two in pairs]
        mean, error = mean_and_error(ahead)
        reach = float(stdtrit(len(ahead) - 1, 1 - SIGNIFICANCE / 2 / max(1, len(methods) - 1))) * (error or 0.0)
        can_show = len(ahead) >= repeats_needed(len(methods))
        p = corrected(paired_p_value(*zip(*pairs, strict=True)), len(methods))
        is_shown = p < SIGNIFICANCE and mean > 0
        shared = [row for row in rows if row.cells.get(first) and row.cells.get(other)]
        requests = _requests(shared, first)
        found.append(
            ScoreDifference(
                method=first,
                other=other,
                over="repeats" if len(rows) == 1 else "tasks",
                mean=mean,
                error=error,
                interval=(mean - reach, mean + reach) if can_show else None,
                p=p,
                needed=None if is_shown or not error else pairs_needed(mean, error * len(ahead) ** 0.5, len(methods)),
                requests=_requests(shared, other) / requests if requests else 1.0,
            )
        )
    return sorted(found, key=lambda each: each.mean)


def pairs_needed(mean: float, deviation: float, methods: int) -> int | None:
    """Estimated number of pairs that show such a mean difference in four of five comparisons; None if not above 0.

    Args:
        deviation: standard deviation of the pairs' differences.
    """
    if mean <= 0:
        return None
    reach = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2 / max(1, methods - 1)) + NormalDist().inv_cdf(POWER)
    return max(repeats_needed(methods), math.ceil((reach * deviation / mean) ** 2))


def headline(found: Sequence[ScoreDifference]) -> str:
    """Sentence that names the method to take, those it beats beyond chance, and those for which that is not shown.

    Empty if there is no other method.
    """
    if not found:
        return ""
    first = found[0].method
    beaten = [each for each in found if each.is_shown]
    ahead = [each for each in found if each.is_reversed]
    level = [each for each in found if not (each.is_shown or each.is_reversed)]
    not_shown = f"not shown to be better than {_listed(level)}" if level else ""
    behind = f"on the tasks that both have it is behind {_listed(ahead)}" if ahead else ""
    if beaten:
        return f"Take {first}: better than {'; '.join(filter(None, (_listed(beaten), not_shown, behind)))}."
    highest = "no mean is higher than that of" if found[0].mean == 0 else "the highest mean is that of"
    it_is = f"it is {not_shown}" if not_shown else ""
    return f"No method is significantly better: {highest} {first}; {'; '.join(filter(None, (it_is, behind)))}."


def _listed(found: Sequence[ScoreDifference]) -> str:
    """Methods with the lead of the first one in points, and with their requests if they differ much."""
    texts = []
    for each in found:
        error = "" if each.error is None else f" ± {100 * each.error:.1f}"
        unequal = "" if 1 - UNEQUAL < each.requests < 1 + UNEQUAL else f", with {each.requests:.1f} times the requests"
        texts.append(f"{each.other} ({100 * each.mean:+.1f}{error} points{unequal})")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _requests(rows: Sequence[MethodRow], method: str) -> float:
    return _mean(cell["llm_requests"] for row in rows for cell in row.cells.get(method, ()))


def gaps(rows: Sequence[MethodRow], method: str, other: str = RANDOM_SEARCH) -> list[dict[str, Any]]:
    """Mean of `method` minus `other` over tasks and repeats, by endpoint: how much selection matters to a model."""
    found = []
    for endpoint in dict.fromkeys(row.endpoint for row in rows):
        entry: dict[str, Any] = {"endpoint": endpoint}
        for score in SCORES:
            there = [row for row in rows if row.endpoint == endpoint]
            pairs = [paired(row.scores(method, score), row.scores(other, score)) for row in there]
            differences = [a - b for one, two in pairs for a, b in zip(one, two, strict=True)]
            if differences:
                entry[score], entry[f"{score}_error"] = mean_and_error(differences)
        if len(entry) > 1:
            found.append(entry)
    return found


def mean_curves(rows: Sequence[MethodRow], methods: Sequence[str]) -> dict[str, Curve]:
    """Mean validation score of the incumbent after every `ANSWERS_PER_POINT` answers; a finished search keeps its last.

    Intervals are of a method's own part: what all methods share at a task and repeat is taken off before (Morey, 2008),
    so they show which curves differ, and not how much tasks do. There are none where runs are missing.
    """
    runs = {
        method: {
            (number, cell["repeat"]): cell["incumbent_scores"]
            for number, row in enumerate(rows)
            for cell in row.cells.get(method, ())
        }
        for method in methods
    }
    runs = {method: own for method, own in runs.items() if own}  # else all of them failed there
    longest = max(len(scores) for own in runs.values() for scores in own.values())
    filled = {
        method: np.array([[*own[key], *[own[key][-1]] * (longest - len(own[key]))] for key in sorted(own)])
        for method, own in runs.items()
    }
    ends = {method: max(map(len, own.values())) for method, own in runs.items()}
    count = len(next(iter(filled.values())))
    every = next(iter(runs.values())).keys()
    if count < 2 or len(filled) < 2 or any(own.keys() != every for own in runs.values()):
        return {method: Curve(means=each.mean(axis=0)[: ends[method]].tolist()) for method, each in filled.items()}
    shared = np.mean(list(filled.values()), axis=0)
    wider = math.sqrt(len(filled) / (len(filled) - 1))
    reach = float(stdtrit(count - 1, 1 - SIGNIFICANCE / 2)) * wider / math.sqrt(count)
    return {
        method: Curve(
            means=each.mean(axis=0)[: ends[method]].tolist(),
            reach=(reach * (each - shared).std(axis=0, ddof=1))[: ends[method]].tolist(),
        )
        for method, each in filled.items()
    }


def finished_of(cells: Cells) -> Cells:
    """Cells that did not fail."""
    return [cell for cell in cells if not cell["failure"]]


def render_markdown(cells: Cells, figures: Figures | None = None) -> str:
    """Both tables of scores, the table of methods, and the failures, as Markdown.

    Args:
        figures: published scores, which are in brackets next to ours.
    """
    shown = _shown(cells, figures, between=" ")
    counts = [len(own) for row in shown["rows"] for own in row.cells.values()]
    return page_template("comparison.md.j2").render(**shown, most_repeats=max(counts, default=0)).rstrip("\n") + "\n"


def render_comparison_page(cells: Cells, figures: Figures | None = None) -> str:
    """One self-contained page; `figures` see `render_markdown`."""
    shown = _shown(cells, figures, between="\n")
    rows, methods, cells = shown["rows"], shown["methods"], finished_of(cells)
    curves = mean_curves(rows, methods)
    drawn = partial(curves_chart, thick=shown["differences"][0].method if shown["differences"] else methods[0])
    prompts = _prompts(rows, methods)
    return page_template("comparison.html.j2").render(
        **shown,
        script=script_of("sort.js"),
        curves=Markup(drawn(curves, step=ANSWERS_PER_POINT)),  # noqa: S704 labels are escaped there
        key=Markup(curves_key(curves)),  # noqa: S704
        row_curves=[
            Markup(drawn(mean_curves([row], methods), step=ANSWERS_PER_POINT, is_small=True))  # noqa: S704
            for row in rows
        ],
        widest=max((abs(end) for each in shown["differences"] for end in each.interval or (each.mean,)), default=0.0),
        gap_chart=Markup(gaps_chart(shown["gaps"])) if shown["several_endpoints"] else "",  # noqa: S704
        prompts=prompts,
        prompts_left_out=sum(map(len, prompts.values())) < len(cells),
        shown_rows=sorted({row_hash(text) for cell in cells for text in _texts_of(cell) if text.strip()}),
        repeats=len({cell["repeat"] for cell in cells}),
        has_baseline=any(row.baseline is not None for row in rows),
        by_function=any(cell["answered_by_function"] for cell in cells),
        paid=sum(cell["llm_requests"] - cell["cached_responses"] for cell in cells),
        version=__version__,
    )


def found_by_comparison(cells: Cells) -> dict[str, Any]:
    """The method to take and the mean test scores, in the form of a comparison's record."""
    finished = finished_of(cells)
    rows, methods = rows_of(finished), methods_of(finished)
    failed = len(cells) - len(finished)
    alone = f"Only {methods[0]} has finished runs." if failed else "There is one method."
    sentence = headline(differences(rows, methods)) or alone
    missing = [f"{failed} of {len(cells)} runs failed and are missing here."] if failed else []
    return {
        "said": [sentence, *missing],
        "scores": {
            f"{entry['method']}, {entry['runs']} runs": f"{entry['test_score']:.3f}, mean on test sets"
            for entry in summarise_methods(rows, methods)
        },
    }


def _prompts(rows: Sequence[MethodRow], methods: Sequence[str]) -> dict[tuple[int, str], list[Mapping[str, Any]]]:
    """The cells whose winning prompts the page shows, by row and method; beyond `MOST_CHARACTERS` it shows no more."""
    prompts, left = {}, MOST_CHARACTERS
    for number, row in enumerate(rows):
        for method in methods:
            found = row.cells.get(method, [])
            left -= sum(len(cell["prompt"]) for cell in found)
            if found and left >= 0:
                prompts[number, method] = found
    return prompts


def _texts_of(cell: Mapping[str, Any]) -> list[str]:
    """Texts of the page that may be rows of the data."""
    return [cell["instruction"], *cell["input"], *cell["outputs"]]


def _shown(cells: Cells, figures: Figures | None, *, between: str) -> dict[str, Any]:
    """Values that both templates show.

    Args:
        between: our score and a published one.
    """
    finished = finished_of(cells)
    rows, methods = rows_of(finished), methods_of(finished)
    several = len({cell["endpoint"] for cell in cells}) > 1
    failed = [(_name_of(cell, with_endpoint=several), cell["failure"]) for cell in cells if cell["failure"]]
    found = differences(rows, methods)
    there = [(row.task, row.noise_ratio, method) for row in rows for method in methods]
    return {
        "rows": rows,
        "methods": methods,
        "differences": found,
        "headline": headline(found),
        "summary": summarise_methods(rows, methods),
        "titles": {"test_score": "Test score", "validation_score": "Validation score of the winner"},
        "cell": partial(_cell, repeats=len({cell["repeat"] for cell in cells}), figures=figures, between=between),
        "about_figures": {score: figures.note(there, split) if figures else "" for score, split in SCORES.items()},
        "best": {score: [row.best(score) for row in rows] for score in SCORES},
        "gaps": gaps(rows, methods[0]),
        "several_endpoints": several,
        "needed": repeats_needed(len(methods)),
        "failed": failed,
        "refused": sum(cell["failed_rows"] for cell in finished),
        "random_search": RANDOM_SEARCH,
    }


def _pairs(rows: Sequence[MethodRow], one: str, other: str) -> list[tuple[float, float]]:
    """Test scores of two methods: means of each row that has both; of a single row its repeats."""
    scores = [paired(row.scores(one, "test_score"), row.scores(other, "test_score")) for row in rows]
    if len(rows) == 1:
        return list(zip(*scores[0], strict=True))
    return [(sum(a) / len(a), sum(b) / len(b)) for a, b in scores if a]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _cost_alone(cell: Mapping[str, Any]) -> float:
    """The cost if no answers were shared with other cells, at the mean price of the paid ones."""
    paid = cell["llm_requests"] - cell["cached_responses"]
    return float(cell["cost_usd"] * cell["llm_requests"] / paid) if paid else 0.0


def _name_of(cell: Mapping[str, Any], *, with_endpoint: bool) -> str:
    endpoint = cell["endpoint"] if with_endpoint else ""
    return cell_name(cell["task"], cell["noise_ratio"], cell["method"], cell["repeat"], endpoint)


def _cell(row: MethodRow, method: str, score: str, *, repeats: int, figures: Figures | None, between: str) -> str:
    figure = figures.find(row.task, row.noise_ratio, method, SCORES[score]) if figures else None
    cells = row.cells.get(method)
    mean, error = mean_and_error([cell[score] for cell in cells]) if cells else (0.0, None)
    published = ""
    if figure is not None:
        published = f"{between}{'≠ ' * (bool(cells) and figure.is_beyond(mean, error))}[{figure}]"
    if not cells:
        return f"–{published}"
    capped = sum("=" in cell["stopped"] for cell in cells)
    marks = [f"{len(cells)} of {repeats}"] * (len(cells) < repeats) + [f"{capped} capped"] * bool(capped)
    own = (f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}") + f" ({', '.join(marks)})" * bool(marks)
    return own + published
