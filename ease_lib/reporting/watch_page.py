"""The page of a search that is under way; it reloads itself."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ease_lib import __version__
from ease_lib.reporting.charts import search_curve
from ease_lib.reporting.page import page_template
from ease_lib.search.watching import Watched
from ease_lib.tasks.base import Exemplar


def watch_page(found: Watched | None, place: str, every: float, best: Sequence[Exemplar] = ()) -> str:
    """The page.

    Args:
        every: so many seconds a browser loads it again, until the search has all its answers.
        best: exemplars of the best sequence so far.
    """
    curve = Markup(search_curve(found.history, None)) if found and found.history else ""  # noqa: S704 our own numbers
    return page_template("watch.html.j2").render(
        found=found, place=place, every=max(1, round(every)), curve=curve, best=best, version=__version__
    )
