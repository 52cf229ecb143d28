"""The numbers of a comparison, as data, Markdown and a page.

A row is a task at a noise ratio on an endpoint; its cells are means over repeats with standard errors. The method with
the best mean is marked as best only if it beats every other one over the repeats by an exact test of paired differences
(sign flips, two-sided, p < 0.05 after Bonferroni's correction for the number of others); else all that cannot be told
from it count as tied. Few repeats can prove nothing: `repeats_needed` says how many could.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ease_lib import __version__
from ease_lib.config.comparison import cell_name
from ease_lib.evaluation.statistics import SIGNIFICANCE, mean_and_error, paired_p_value
from ease_lib.reporting.charts import curves_chart, gaps_chart
from ease_lib.reporting.page import page_template

SCORES = ("test_score", "validation_score")
RANDOM_SEARCH = "best_of_n"
UNEQUAL = 0.25
"""Share by which requests of two methods differ that is worth saying."""

Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A task at a noise ratio on an endpoint, with its finished cells by method, in order of repeats."""

    task: str
    noise_ratio: float
    endpoint: str
    cells: dict[str, list[Mapping[str, Any]]]

    def scores(self, method: str, score: str) -> dict[int, float]:
        """By repeat."""
        return {cell["repeat"]: cell[score] for cell in self.cells.get(method, ())}

    def best(self, score: str) -> list[str]:
        """The best method alone, or all that are tied with it."""
        means = self._means(score)
        first = max(means, key=lambda method: means[method])
        return [method for method in means if method == first or not self._beats(first, method, score)]

    @property
    def baseline(self) -> float | None:
        """Mean test score of the prompt in use now, over the repeats; each has a test set of its own."""
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
    """The fewest repeats that can show one of so many methods to be the best: n equal signs have p = 2 / 2^n."""
    return next(repeats for repeats in itertools.count(1) if corrected(2 / 2**repeats, methods) < SIGNIFICANCE)


def paired(one: Mapping[Any, float], other: Mapping[Any, float]) -> tuple[list[float], list[float]]:
    """The values under the keys that both have."""
    keys = [key for key in one if key in other]
    return [one[key] for key in keys], [other[key] for key in keys]


def rows_of(cells: Cells) -> list[Row]:
    """In the order in which the cells name them first."""
    grouped: dict[tuple[str, float, str], dict[str, list[Mapping[str, Any]]]] = {}
    for cell in sorted(cells, key=lambda cell: int(cell["repeat"])):
        key = cell["task"], cell["noise_ratio"], cell["endpoint"]
        grouped.setdefault(key, {}).setdefault(cell["method"], []).append(cell)
    return [
        Row(task=task, noise_ratio=noise, endpoint=endpoint, cells=by_method)
        for (task, noise, endpoint), by_method in grouped.items()
    ]


def methods_of(cells: Cells) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in cells))


def summarise_methods(rows: Sequence[Row], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Per method: how often best or tied, its mean lead over the others, what it asks and costs.

    `lead` is the first method's mean test score less this one's, over the same rows and repeats, with its standard
    error and corrected p-value over rows; of a single row, over its repeats. `optimism` is what the searches expected
    of their winners on new rows less what these scored on the test set; `estimates_held` see `estimate_held`;
    `highest_test_score` counts rows as the paper does, which has no test: those where no other mean is higher.
    `better_than_random` counts the `runs` whose winner is better than random exemplars on its test set, beyond luck.
    """
    summary = []
    for method in methods:
        cells = [cell for row in rows for cell in row.cells.get(method, ())]
        pairs = _pairs(rows, methods[0], method)
        first, own = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        lead, error = mean_and_error([a - b for a, b in pairs]) if pairs else (0.0, None)
        summary.append(
            {
                "method": method,
                "rows": sum(method in row.cells for row in rows),
                **{f"best_{score}": sum(row.best(score) == [method] for row in rows) for score in SCORES},
                **{f"tied_{score}": sum(row.is_tied(method, score) for row in rows) for score in SCORES},
                **{f"highest_{score}": sum(row.has_highest_mean(method, score) for row in rows) for score in SCORES},
                **{score: mean_and_error([cell[score] for cell in cells])[0] for score in SCORES},
                "lead": lead,
                "lead_error": error,
                "lead_p": corrected(paired_p_value(first, own), len(methods)),
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


def headline(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Which method to take, in a sentence: whom it beats beyond luck, and against whom there is no evidence.

    The method is the one with the highest mean test score over all rows; differences and p-values are those of
    `summarise_methods` with this method as the first. Empty for a single method.
    """
    means = {
        method: _mean(cell["test_score"] for row in rows for cell in row.cells.get(method, ())) for method in methods
    }
    if len(means) < 2:
        return ""
    first = max(means, key=lambda method: means[method])
    others = summarise_methods(rows, [first, *(method for method in methods if method != first)])
    requests = others[0]["llm_requests"]
    beaten = [entry for entry in others[1:] if entry["lead_p"] < SIGNIFICANCE and entry["lead"] > 0]
    level = [entry for entry in others[1:] if entry not in beaten]
    against = f"no evidence against {_listed(level, requests)}" if level else ""
    if not beaten:
        return f"No method is shown to be better: {first} has the highest mean, and there is {against}."
    return f"Take {first}: better than {_listed(beaten, requests)}{f'; {against}' if against else ''}."


def _listed(entries: Sequence[Mapping[str, Any]], requests: float) -> str:
    """Methods with the points that the first leads by; where they asked much more or less than it did, how much."""
    texts = []
    for entry in entries:
        error = "" if entry["lead_error"] is None else f" ± {100 * entry['lead_error']:.1f}"
        share = entry["llm_requests"] / requests if requests else 1.0
        unequal = "" if 1 - UNEQUAL < share < 1 + UNEQUAL else f", with {share:.1f} times the requests"
        texts.append(f"{entry['method']} ({100 * entry['lead']:+.1f}{error} points{unequal})")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def estimate_held(cell: Mapping[str, Any]) -> bool:
    """Whether expected and test score differ by no more than their 95 % intervals allow together."""
    low, high = cell["estimate_interval"]
    test_low, test_high = cell["test_interval"]
    allowed = math.hypot((high - low) / 2, (test_high - test_low) / 2)
    return abs(float(cell["estimate"]) - float(cell["test_score"])) <= allowed + 1e-9


def gaps(rows: Sequence[Row], method: str, other: str = RANDOM_SEARCH) -> list[dict[str, Any]]:
    """Per endpoint, the mean of `method` less `other` over tasks and repeats: how much selection matters to a model."""
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


def mean_curves(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, list[float]]:
    """Mean incumbent's validation score after every 20 answers; a search that ended keeps its last."""
    curves = {}
    for method in methods:
        runs = [cell["incumbent_scores"] for row in rows for cell in row.cells.get(method, ())]
        if runs:  # else all of them failed there
            longest = max(map(len, runs))
            filled = [[*run, *[run[-1]] * (longest - len(run))] for run in runs]
            curves[method] = [sum(scores) / len(scores) for scores in zip(*filled, strict=True)]
    return curves


def finished_of(cells: Cells) -> Cells:
    """Those that have results: they did not fail."""
    return [cell for cell in cells if not cell["failure"]]


def render_markdown(cells: Cells) -> str:
    """Both tables of scores and the table of methods, and what failed."""
    shown = _shown(cells)
    counts = [len(own) for row in shown["rows"] for own in row.cells.values()]
    return page_template("comparison.md.j2").render(**shown, most_repeats=max(counts, default=0)).rstrip("\n") + "\n"


def render_comparison_page(cells: Cells) -> str:
    """One self-contained page."""
    shown = _shown(cells)
    rows, methods, cells = shown["rows"], shown["methods"], finished_of(cells)
    return page_template("comparison.html.j2").render(
        **shown,
        curves=Markup(curves_chart(mean_curves(rows, methods), methods[0])),  # noqa: S704 labels are escaped there
        row_curves=[Markup(curves_chart(mean_curves([row], methods), methods[0])) for row in rows],  # noqa: S704
        gap_chart=Markup(gaps_chart(shown["gaps"])) if shown["several_endpoints"] else "",  # noqa: S704
        repeats=len({cell["repeat"] for cell in cells}),
        has_baseline=any(row.baseline is not None for row in rows),
        by_function=any(cell["answered_by_function"] for cell in cells),
        paid=sum(cell["llm_requests"] - cell["cached_responses"] for cell in cells),
        version=__version__,
    )


def _shown(cells: Cells) -> dict[str, Any]:
    """What both templates show."""
    finished = finished_of(cells)
    rows, methods = rows_of(finished), methods_of(finished)
    name_of = operator.itemgetter("task", "noise_ratio", "method", "repeat")
    failed = [(cell_name(*name_of(cell)), cell["failure"]) for cell in cells if cell["failure"]]
    return {
        "rows": rows,
        "methods": methods,
        "headline": headline(rows, methods),
        "summary": summarise_methods(rows, methods),
        "titles": {"test_score": "Test score", "validation_score": "Validation score of the winner"},
        "cell": _cell,
        "best": {score: [row.best(score) for row in rows] for score in SCORES},
        "gaps": gaps(rows, methods[0]),
        "several_endpoints": len({row.endpoint for row in rows}) > 1,
        "needed": repeats_needed(len(methods)),
        "failed": failed,
        "refused": sum(cell["failed_rows"] for cell in finished),
        "random_search": RANDOM_SEARCH,
    }


def _pairs(rows: Sequence[Row], one: str, other: str) -> list[tuple[float, float]]:
    """Test scores of two methods: means of each row that has both; of a single row its repeats."""
    scores = [paired(row.scores(one, "test_score"), row.scores(other, "test_score")) for row in rows]
    if len(rows) == 1:
        return list(zip(*scores[0], strict=True))
    return [(sum(a) / len(a), sum(b) / len(b)) for a, b in scores if a]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _cost_alone(cell: Mapping[str, Any]) -> float:
    """The cost if no other cell had paid for answers in common, at the mean price of those it paid for."""
    paid = cell["llm_requests"] - cell["cached_responses"]
    return float(cell["cost_usd"] * cell["llm_requests"] / paid) if paid else 0.0


def _cell(row: Row, method: str, score: str) -> str:
    cells = row.cells.get(method)
    if not cells:
        return "–"
    mean, error = mean_and_error([cell[score] for cell in cells])
    most = max(map(len, row.cells.values()))
    missing = "" if len(cells) == most else f" ({len(cells)} of {most})"
    return (f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}") + missing
