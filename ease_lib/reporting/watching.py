"""The page of a search that is under way; it loads itself anew."""

from __future__ import annotations

from markupsafe import Markup

from ease_lib import __version__
from ease_lib.reporting.charts import search_curve
from ease_lib.reporting.page import page_template
from ease_lib.search.watching import Watched


def watch_page(found: Watched | None, place: str, every: float) -> str:
    """The page; `every` so many seconds a browser loads it again, until the search has all its answers."""
    curve = Markup(search_curve(found.history, None)) if found and found.history else ""  # noqa: S704 numbers of ours
    return page_template("watch.html.j2").render(
        found=found, place=place, every=max(1, round(every)), curve=curve, version=__version__
    )
