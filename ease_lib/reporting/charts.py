"""Charts of the report page as inline SVG: no script, no font, no file next to the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ease_lib.evaluation.statistics import Z_95, wilson_interval
from ease_lib.search.mean_scores import MeanScores, prompt_of

WIDTH, HEIGHT = 860, 300
SMALL = 400, 220
"""Width and height of one of several charts next to each other."""
COLORS = (
    *("#1f6feb", "#c2410c", "#15803d", "#9333ea", "#64748b", "#0891b2", "#db2777", "#65a30d", "#94a3b8", "#ca8a04"),
    *("#7f1d1d", "#134e4a", "#f97316", "#818cf8"),
)
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34
LINE = 14
"""Height of a line of text below an axis."""
MOST_SHADES = 5
"""Largest number of shaded intervals behind lines: more would hide each other."""
MOST_NUMBERS, NUMBER_WIDTH = 10, 34
"""Largest number of numbers on an axis, and the width of each."""
COST_WIDTH = 52
"""Width of an amount in USD."""
Rows = Sequence[Mapping[str, Any]]


def search_curve(history: Rows, random_mean: float | None) -> str:
    """Score of every evaluation (grey: initial design, blue: proposed), the incumbent's line, the random mean.

    From left to right are the answers given until then, and below them what they cost, where prices are known. Of a
    sequence that is evaluated in parts, a dot is the mean of all rows that it was asked until then, the larger the more
    they are.
    """
    given = list(itertools.accumulate(row["validation_rows"] for row in history))
    plot = _Plot(0, given[-1])
    spent = list(itertools.accumulate(row["cost_usd"] for row in history))
    so_far = _so_far(history)
    most = max(1, *(rows for _, rows in so_far))
    parts = []
    design = sum(row["phase"] == "initial" for row in history)
    if 0 < design < len(history):
        border = plot.x(given[design - 1])
        parts.append(_line('class="split"', border, border, TOP, HEIGHT - BOTTOM))
    if random_mean is not None:
        parts.append(_level('class="random"', plot.y(random_mean)))
    for index, (row, (score, rows)) in enumerate(zip(history, so_far, strict=True)):
        low, high = wilson_interval(score, rows) if rows else (0.0, 1.0)
        title = f"evaluation {index + 1}: {score:.3f} of {rows} rows ({low:.2f} to {high:.2f}); incumbent "
        title += f"{row['incumbent_score']:.3f} after {given[index]} answers"
        title += f", ${usd(spent[index])}" if spent[-1] else ""
        radius = 1.4 + 1.8 * (rows / most) ** 0.5
        parts.append(_dot(f'class="{row["phase"]}"', plot.x(given[index]), plot.y(score), title, radius))
    best = [plot.y(row["incumbent_score"]) for row in history]
    steps = [(plot.x(given[index]), y) for index in range(1, len(best)) for y in best[index - 1 : index + 1]]
    parts.append(_curve('class="incumbent"', [(plot.x(given[0]), best[0]), *steps]))
    title = "Validation score of every evaluation, by the answers given until then"
    if not spent[-1]:
        return plot.framed(parts, title, axis="answers")
    return plot.framed(parts, title, axis="answers, and USD", below=lambda count: f"${usd(_at(count, given, spent))}")


def usd(cost: float) -> str:
    """Format a cost as `0.0042` or `12.30`."""
    return f"{cost:.2f}" if cost >= 1 else f"{cost:.4f}"


def _at(count: int, given: Sequence[int], spent: Sequence[float]) -> float:
    """Cost of so many answers; interpolated between evaluations."""
    return float(np.interp(count, [0, *given], [0.0, *spent]))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Means, and half the widths of their 95 % intervals; none where they are not known."""

    means: Sequence[float]
    reach: Sequence[float] = ()


def curves_chart(curves: Mapping[str, Curve], *, thick: str, step: int, is_small: bool = False) -> str:
    """The incumbent's score by the answers given, a line for each label and a dot where there is only one point.

    Args:
        thick: label of the line that is drawn thicker.
        step: answers between two points.
        is_small: one of several next to each other, which have one key (`curves_key`) together.
    """
    size = SMALL if is_small else (WIDTH, HEIGHT)
    plot = _Plot(0, step * max(len(curve.means) for curve in curves.values()), *size)
    lines, bands = [], []
    for color, (label, curve) in zip(itertools.cycle(COLORS), curves.items(), strict=False):
        title = f"{escape(label)}: {curve.means[-1]:.3f}"
        xs = [plot.x(step * number) for number in range(1, len(curve.means) + 1)]
        points = [(x, plot.y(mean)) for x, mean in zip(xs, curve.means, strict=True)]
        if len(points) > 1:
            style = f'stroke="{color}" stroke-width="{3 if label == thick else 1.5}"'
            lines.append(_curve(style, points, title))
        else:
            lines.append(_dot(f'fill="{color}"', *points[0], title))
        if curve.reach and not is_small and len(curves) <= MOST_SHADES:
            ends = list(zip(curve.means, curve.reach, strict=True))
            above = [(x, plot.y(min(1.0, mean + reach))) for x, (mean, reach) in zip(xs, ends, strict=True)]
            below = [(x, plot.y(max(0.0, mean - reach))) for x, (mean, reach) in zip(xs, ends, strict=True)]
            bands.append(f'<polygon fill="{color}" fill-opacity="0.14" points="{_points([*above, *below[::-1]])}"/>')
    title = "Validation score of the incumbent by the answers given until then"
    return plot.framed([*bands, *lines[::-1]], title, axis="answers")


def curves_key(curves: Mapping[str, Curve]) -> str:
    """Legend of `curves_chart`, with the last mean of each line."""
    colors = itertools.cycle(COLORS)
    return _key([(f"{escape(label)} {curve.means[-1]:.3f}", next(colors)) for label, curve in curves.items()])


def gaps_chart(entries: Rows) -> str:
    """Lead of one method over another, for each endpoint in order, with standard errors."""
    scores = [(name, color) for name, color in (("test_score", COLORS[0]), ("validation_score", COLORS[1]))]
    reach = max([0.1, *(abs(entry[name]) + (entry[f"{name}_error"] or 0) for entry in entries for name, _ in scores)])
    middle, unit = (TOP + HEIGHT - BOTTOM) / 2, (HEIGHT - TOP - BOTTOM) / 2 / reach
    step = (WIDTH - LEFT - RIGHT) / max(1, len(entries))
    middles = [LEFT + (number + 0.5) * step for number in range(len(entries))]
    parts = [_tick(middle - tick * unit, f"{tick:+.2f}") for tick in (-reach, -reach / 2, 0.0, reach / 2, reach)]
    for shift, (name, color) in zip((-8, 8), scores, strict=True):
        points = [(x + shift, middle - entry[name] * unit) for x, entry in zip(middles, entries, strict=True)]
        for (x, y), entry in zip(points, entries, strict=True):
            error = (entry[f"{name}_error"] or 0) * unit
            parts += [_line(f'stroke="{color}"', x, x, y - error, y + error), _dot(f'fill="{color}"', x, y)]
        parts.append(_curve(f'stroke="{color}"', points))
    parts += [_text(x, HEIGHT - 12, escape(entry["endpoint"])) for x, entry in zip(middles, entries, strict=True)]
    return _svg(parts, "Difference by endpoint") + _key([(name.replace("_", " "), color) for name, color in scores])


def front_chart(front: Rows) -> str:
    """Expected score, with its 95 % interval, against tokens of the prompt before the query; both from 0."""
    plot = _Plot(0, max((point["tokens"] for point in front), default=0))
    xs = [plot.x(point["tokens"]) for point in front]
    marked = -math.inf
    parts = [_curve('class="incumbent"', [(x, plot.y(point["estimate"])) for x, point in zip(xs, front, strict=True)])]
    for x, point in zip(xs, front, strict=True):
        low, high = (point["estimate"] + sign * Z_95 * point["error"] for sign in (-1, 1))
        title = f"{point['tokens']} tokens, {point['exemplars']} exemplars: {point['estimate']:.3f}"
        parts.append(_line('class="split"', x, x, plot.y(max(0.0, low)), plot.y(min(1.0, high))))
        parts.append(_dot('class="search"', x, plot.y(point["estimate"]), title))
        if x - marked >= NUMBER_WIDTH:
            parts.append(_text(x, HEIGHT - BOTTOM + 18, str(point["tokens"])))
            marked = x
    return plot.framed(parts, "Expected score against tokens", axis="tokens", marked=False)


def _so_far(history: Rows) -> list[tuple[float, int]]:
    """Mean score of the sequence over all rows that it was asked until then, and how many they are."""
    scores = MeanScores()
    return [scores.add(prompt_of(row), row["score"], row["validation_rows"]) for row in history]


class _Plot:
    """Axes: a count from left to right, scores from 0 to 1."""

    def __init__(self, first: int, last: int, width: int = WIDTH, height: int = HEIGHT) -> None:
        self._first, self._last = first, max(first + 1, last)
        self._width, self._height = width, height

    def x(self, count: float) -> float:
        return LEFT + 8 + (count - self._first) / (self._last - self._first) * (self._width - LEFT - RIGHT - 16)

    def y(self, score: float) -> float:
        return self._height - BOTTOM - score * (self._height - TOP - BOTTOM)

    def framed(
        self,
        parts: Sequence[str],
        title: str,
        *,
        axis: str = "evaluation",
        marked: bool = True,
        below: Callable[[int], str] | None = None,
    ) -> str:
        grid = [_tick(self.y(tick), f"{tick:.2g}", self._width) for tick in (0, 0.25, 0.5, 0.75, 1)]
        most = MOST_NUMBERS * self._width / WIDTH
        steps = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
        step = next(step for step in steps if step * most >= self._last - self._first)
        numbers = sorted({self._first, *range(step, self._last + 1, step)}) if marked else []
        marks = [_text(self.x(number), self._height - BOTTOM + 18, str(number)) for number in numbers]
        height = self._height + (LINE if below else 0)
        if below:
            last = self._width - COST_WIDTH / 2  # what stands below the end of the axis is not cut off
            marks += [
                _text(min(self.x(number), last), self._height - BOTTOM + 18 + LINE, below(number)) for number in numbers
            ]
        named = _text(self._width - RIGHT, height - 2, axis, "end")
        return _svg([*grid, *marks, named, *parts], title, self._width, height)


def _svg(parts: Sequence[str], title: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _key(labels: Sequence[tuple[str, str]]) -> str:
    """Legend of colours."""
    shown = " ".join(f'<span><i style="background: {color}"></i>{label}</span>' for label, color in labels)
    return f'<figcaption class="key">{shown}</figcaption>'


def _line(style: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line {style} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _level(style: str, y: float, width: int = WIDTH) -> str:
    return _line(style, LEFT, width - RIGHT, y, y)


def _tick(y: float, text: str, width: int = WIDTH) -> str:
    return _level('class="grid"', y, width) + _text(LEFT - 8, y + 4, text, "end")


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _dot(style: str, x: float, y: float, title: str = "", radius: float = 4) -> str:
    return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{_titled(title)}</circle>'


def _curve(style: str, points: Sequence[tuple[float, float]], title: str = "") -> str:
    return f'<polyline fill="none" {style} points="{_points(points)}">{_titled(title)}</polyline>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _titled(title: str) -> str:
    return f"<title>{title}</title>" if title else ""
