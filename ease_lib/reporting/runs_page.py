"""The page that lists runs and comparisons, with a link to each."""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib import __version__
from ease_lib.lineage.runs import RunEntry, link_to
from ease_lib.reporting.page import page_template, script_of


def runs_page(found: Sequence[RunEntry]) -> str:
    """The page, in the order given."""
    return page_template("runs.html.j2").render(
        runs=[(each, link_to(each.page) if each.page else "") for each in found],
        script=script_of("sort.js"),
        version=__version__,
    )
