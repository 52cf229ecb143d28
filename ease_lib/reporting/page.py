"""The report page: one HTML file that holds everything it shows.

Exemplars, answers and labels are data from outside; the template engine escapes every value.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup, escape

from ease_lib import __version__
from ease_lib.evaluation.statistics import mean_interval
from ease_lib.prompts.template import shown_inputs
from ease_lib.reporting.charts import front_chart, search_curve, usd
from ease_lib.reporting.counted_answers import fields_of, labels_of
from ease_lib.reporting.summary import (
    cut_too_often,
    decision,
    few_answers,
    not_as_expected,
    said_of_labels,
    without_listed,
    words_of,
)
from ease_lib.search.mean_scores import prompt_of
from ease_lib.search.optimizers.problem import BUDGET
from ease_lib.tasks.base import Exemplar, row_hash
from ease_lib.words import grouped

MOST_MISTAKES = 25
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ScoreInterval:
    """A score and its 95 % interval, one line of the comparison chart.

    Args:
        is_winner: of the prompt that the page is of.
    """

    name: str
    score: float
    interval: Sequence[float]
    is_winner: bool = False


def render_page(
    report: Mapping[str, Any],
    history: Rows,
    prompt: str,
    predictions: Rows,
    harmful: Rows = (),
    mislabelled: Rows = (),
    *,
    marks: Sequence[str] = ("{input}",),
    test: Mapping[int, Exemplar] | None = None,
    forms: Mapping[str, str] | None = None,
) -> str:
    """The page of a run.

    Args:
        report: what `summarise` gives.
        history, predictions: rows of the contracts of these names.
        harmful, mislabelled: the report's exemplars of these lists, with their texts.
        prompt: the winning prompt with placeholders for the query; of a program the exemplars, a line each.
        marks: these placeholders; none of a program.
        test: the test rows by their numbers.
        forms: what else the prompt is shown as, by name.
    """
    answered = [row for row in predictions if row["sequence"] == "best"]
    scored = [row for row in answered if row["score"] is not None]
    test = test or {}
    mistakes = _mistakes(scored, predictions, test)
    script = script_of("copy.js")
    refused = [row for row in answered if row["failure"]]
    return page_template("page.html.j2").render(
        report=report,
        history=history,
        words=words_of(report["metric"]),
        decision=decision(report["verdict"], words_of(report["metric"]).found),
        measured=measured(report, predictions),
        not_as_expected=not_as_expected(report["best"]),
        script=script,
        query=cost_of_query(report, history),
        forms={"Text": prompt, **(forms or {})},
        winners_labels=winners_labels(report),
        curve=Markup(search_curve(history, report["random"]["validation_score"])),  # noqa: S704 our own numbers
        marks=marks,
        rows=sorted(
            {row_hash(text) for text in _shown(report["best"], mistakes, [*harmful, *mislabelled]) if text.strip()}
        ),
        harmful=harmful,
        mislabelled=mislabelled,
        doubtful={each["exemplar_id"] for each in mislabelled},
        said_of_labels=said_of_labels(report),
        without_listed=without_listed(report),
        labels=labels_of(scored, report["metric"]),
        fields=fields_of(scored),
        cut_too_often=cut_too_often(report),
        few_answers=few_answers(report["method"], report["answers"] + report["recalled_answers"])
        if report["stopped"] == BUDGET
        else "",
        mistakes=mistakes,
        has_inputs=bool(test),
        origins={number: row.origin for number, row in test.items()},
        wrong=sum(row["score"] < 1 for row in scored),
        refused=refused,
        front=Markup(front_chart(report["token_front"])),  # noqa: S704 our own numbers
        version=__version__,
    )


def measured(report: Mapping[str, Any], predictions: Rows) -> list[ScoreInterval]:
    """The scores from the test set and the search, the best reason to use the prompt first."""
    best, name = report["best"], f"This {words_of(report['metric']).found}"
    lines = [
        ScoreInterval(name=name, score=best["test_score"], interval=best["test_interval"], is_winner=True),
        ScoreInterval(
            name=f"{name}, as the search expected",
            score=best["estimate"],
            interval=best["estimate_interval"],
            is_winner=True,
        ),
    ]
    if published := report["published"].get("measured"):
        now = f"Published now, on {published['rows']} of these rows"
        lines.append(ScoreInterval(name=now, score=published["latest_score"], interval=published["latest_interval"]))
    rivals = {"Your baseline": "baseline", "Exemplars picked at random": "random", "No exemplars": "zero_shot"}
    for rival, sequence in rivals.items():
        if scores := _by_row(predictions, sequence):
            means = list(scores.values())
            lines.append(ScoreInterval(name=rival, score=fmean(means), interval=mean_interval(means)))
    return lines


def _by_row(predictions: Rows, name: str) -> dict[int, float]:
    """Mean score of each test row over the sequences of a name; `random` has several."""
    scores: dict[int, list[float]] = {}
    for row in predictions:
        if row["sequence"].split(" ")[0] == name and row["score"] is not None:
            scores.setdefault(row["exemplar_id"], []).append(row["score"])
    return {number: fmean(each) for number, each in scores.items()}


def _mistakes(scored: Rows, predictions: Rows, test: Mapping[int, Exemplar]) -> list[dict[str, Any]]:
    """Answers that are not fully right, first those that most random exemplars also get wrong."""
    by_chance = _by_row(predictions, "random")
    wrong = [
        {**row, "input": test[number].input if number in test else "", "by_chance": by_chance.get(number)}
        for row in scored
        if row["score"] < 1
        for number in [row["exemplar_id"]]
    ]
    return sorted(wrong, key=lambda row: (row["by_chance"] or 0.0, row["outputs"][0], row["exemplar_id"]))[
        :MOST_MISTAKES
    ]


def cost_of_query(report: Mapping[str, Any], history: Rows) -> dict[str, float] | None:
    """Mean tokens of a prompt and an answer with the winner, and their price in USD.

    None if they were not counted: all answers were kept ones, or a judge's requests are among them.
    """
    found = report["best"]["found_at_evaluation"]
    if (
        not found
        or found > len(history)
        or report["judge"]
        or (report["requirement"] and report["requirement"]["judge"])
    ):
        return None

    asked = [row for row in history if prompt_of(row) == prompt_of(history[found - 1]) and row["llm_requests"]]
    requests = sum(row["llm_requests"] for row in asked)
    if not requests:
        return None
    names = ("prompt_tokens", "completion_tokens", "cost_usd")
    return {name: sum(row[name] for row in asked) / requests for name in names}


def winners_labels(report: Mapping[str, Any]) -> dict[str, int]:
    """Number of the winner's exemplars with each label."""
    shown = [exemplar["outputs"][0] for exemplar in report["best"]["exemplars"]]
    return {label: shown.count(label) for label in report["dataset"]["classes"]}


class Script(NamedTuple):
    """A script of a page, and its digest for the content security policy."""

    text: Markup
    sha256: str


def script_of(name: str) -> Script:
    """File among EASE's templates."""
    text = resources.files("ease_lib.reporting").joinpath(f"templates/{name}").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), digest)  # noqa: S704


def _shown(best: Mapping[str, Any], mistakes: Rows, exemplars: Rows) -> Iterator[str]:
    """Every text that may be a row; `ease forget` finds the page by their hashes in its head."""
    yield best["instruction"]
    for exemplar in best["exemplars"]:
        yield from (exemplar["input"], *exemplar["outputs"])
    for row in mistakes:
        yield from (row["input"], row["prediction"], *shown_inputs(row["prediction"]), *row["outputs"])
    for row in exemplars:
        yield from (row["input"], row["output"])


def page_template(name: str) -> Template:
    """A template of this package; every value that one of HTML shows is escaped."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    """Templates, compiled once for all pages, because compiling takes longer than filling."""
    environment = Environment(
        loader=PackageLoader("ease_lib.reporting"),
        autoescape=select_autoescape(disabled_extensions=("md.j2",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = lambda value: " ".join(str(value).replace("|", r"\|").split())
    environment.filters["score"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["in_pre"] = lambda text: Markup("\n") + Markup(str(escape(text)).replace("\r", "&#13;"))  # noqa: S704
    environment.filters["usd"] = usd
    environment.filters["whole"] = grouped
    return environment
