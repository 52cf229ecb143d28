"""The report page: one HTML file that holds everything it shows.

Exemplars, answers and labels are data from outside; the template engine escapes every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup

from ease_lib import __version__
from ease_lib.prompts.template import shown_inputs
from ease_lib.reporting.answers import fields_of, labels_of
from ease_lib.reporting.charts import front_chart, search_curve
from ease_lib.reporting.summary import cut_too_often, few_answers
from ease_lib.tasks.base import row_hash

MOST_MISTAKES = 25
Rows = Sequence[Mapping[str, Any]]


def render_page(
    report: Mapping[str, Any],
    history: Rows,
    prompt: str,
    predictions: Rows,
    harmful: Rows = (),
    mislabelled: Rows = (),
    *,
    marks: Sequence[str] = ("{input}",),
) -> str:
    """The page of a run.

    Args:
        report: what `summarise` gives.
        history, predictions: rows of the contracts of these names.
        harmful, mislabelled: the report's exemplars of these lists, with their texts.
        prompt: the winning prompt with placeholders for the query.
        marks: these placeholders.
    """
    answered = [row for row in predictions if row["sequence"] == "best"]
    scored = [row for row in answered if row["score"] is not None]
    mistakes = [row for row in scored if row["score"] < 1][:MOST_MISTAKES]
    refused = [row for row in answered if row["failure"]]
    return page_template("page.html.j2").render(
        report=report,
        history=history,
        curve=Markup(search_curve(history, report["random"]["validation_score"])),  # noqa: S704 numbers of ours
        prompt=prompt,
        marks=marks,
        rows=sorted(
            {row_hash(text) for text in _shown(report["best"], mistakes, [*harmful, *mislabelled]) if text.strip()}
        ),
        test_rows=sorted({row["exemplar_id"] for row in [*mistakes, *refused]}),
        harmful=harmful,
        mislabelled=mislabelled,
        labels=labels_of(scored),
        fields=fields_of(scored),
        cut_too_often=cut_too_often(report),
        few_answers=few_answers(report["method"], report["answers"] + report["recalled_answers"]),
        mistakes=mistakes,
        wrong=sum(row["score"] < 1 for row in scored),
        refused=refused,
        front=Markup(front_chart(report["token_front"])),  # noqa: S704 numbers of ours
        version=__version__,
    )


def _shown(best: Mapping[str, Any], mistakes: Rows, exemplars: Rows) -> Iterator[str]:
    """Every text that may be a row: by their hashes in its head `ease forget` finds the page."""
    yield best["instruction"]
    for exemplar in best["exemplars"]:
        yield from (exemplar["input"], *exemplar["outputs"])
    for row in mistakes:
        yield from (row["prediction"], *shown_inputs(row["prediction"]), *row["outputs"])
    for row in exemplars:
        yield from (row["input"], row["output"])


def page_template(name: str) -> Template:
    """A template of this package; every value that one of HTML shows is escaped."""
    environment = Environment(
        loader=PackageLoader("ease_lib.reporting"),
        autoescape=select_autoescape(disabled_extensions=("md.j2",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = lambda value: " ".join(str(value).replace("|", r"\|").split())
    environment.filters["score"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["whole"] = lambda value: f"{value:,.0f}".replace(",", " ")
    return environment.get_template(name)
