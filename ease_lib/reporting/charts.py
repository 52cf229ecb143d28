"""Charts of the report page as inline SVG: no script, no font, no file beside the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ease_lib.evaluation.statistics import Z_95, wilson_interval

WIDTH, HEIGHT = 860, 300
COLORS = (
    *("#1f6feb", "#c2410c", "#15803d", "#9333ea", "#64748b", "#0891b2", "#db2777", "#65a30d", "#94a3b8", "#ca8a04"),
    *("#7f1d1d", "#134e4a", "#f97316", "#818cf8"),
)
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34
MOST_NUMBERS, NUMBER_WIDTH = 10, 34
"""Of an axis, and what one of them takes."""
Rows = Sequence[Mapping[str, Any]]


def search_curve(history: Rows, random_mean: float | None) -> str:
    """Score of every evaluation (grey: initial design, blue: proposed), the incumbent's line, the random mean.

    From left to right are the answers given until then. Of a sequence that is evaluated in parts, a dot is the mean of
    all rows that it was asked until then, the larger the more they are.
    """
    given = list(itertools.accumulate(row["validation_rows"] for row in history))
    plot = _Plot(0, given[-1])
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
        radius = 1.4 + 1.8 * (rows / most) ** 0.5
        parts.append(_dot(f'class="{row["phase"]}"', plot.x(given[index]), plot.y(score), title, radius))
    best = [plot.y(row["incumbent_score"]) for row in history]
    steps = [(plot.x(given[index]), y) for index in range(1, len(best)) for y in best[index - 1 : index + 1]]
    parts.append(_curve('class="incumbent"', [(plot.x(given[0]), best[0]), *steps]))
    return plot.framed(parts, "Validation score of every evaluation, by the answers given until then", axis="answers")


def curves_chart(curves: Mapping[str, Sequence[float]], thick: str) -> str:
    """The incumbent's score after every 20 answers, a line for each label and a dot where there is only one."""
    plot = _Plot(1, max(map(len, curves.values())))
    lines, key = [], []
    for place, (label, scores) in enumerate(curves.items()):
        color = COLORS[place % len(COLORS)]
        title = f"{escape(label)}: {scores[-1]:.3f}"
        points = [(plot.x(number), plot.y(score)) for number, score in enumerate(scores, start=1)]
        if len(points) > 1:
            style = f'stroke="{color}" stroke-width="{3 if label == thick else 1.5}"'
            lines.append(_curve(style, points, title))
        else:
            lines.append(_dot(f'fill="{color}"', *points[0], title))
        key.append((f"{escape(label)} {scores[-1]:.3f}", color))
    title = "Validation score of the incumbent after every 20 answers"
    return plot.framed(lines[::-1], title, axis="20 answers") + _key(key)


def gaps_chart(entries: Rows) -> str:
    """How much better one method is than another, for each endpoint in order, with standard errors."""
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
    sums: dict[tuple[int, ...], tuple[float, int]] = {}
    means = []
    for row in history:
        key = row["instruction_id"], *row["exemplar_ids"]
        total, rows = sums.get(key, (0.0, 0))
        total, rows = sums[key] = total + row["score"] * row["validation_rows"], rows + row["validation_rows"]
        means.append((total / rows if rows else 0.0, rows))
    return means


class _Plot:
    """Some count from left to right, scores from 0 to 1."""

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, max(first + 1, last)

    def x(self, count: float) -> float:
        return LEFT + 8 + (count - self._first) / (self._last - self._first) * (WIDTH - LEFT - RIGHT - 16)

    def y(self, score: float) -> float:
        return HEIGHT - BOTTOM - score * (HEIGHT - TOP - BOTTOM)

    def framed(self, parts: Sequence[str], title: str, *, axis: str = "evaluation", marked: bool = True) -> str:
        grid = [_tick(self.y(tick), f"{tick:.2g}") for tick in (0, 0.25, 0.5, 0.75, 1)]
        steps = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
        step = next(step for step in steps if step * MOST_NUMBERS >= self._last - self._first)
        numbers = sorted({self._first, *range(step, self._last + 1, step)}) if marked else []
        marks = [_text(self.x(number), HEIGHT - BOTTOM + 18, str(number)) for number in numbers]
        return _svg([*grid, *marks, _text(WIDTH - RIGHT, HEIGHT - 2, axis, "end"), *parts], title)


def _svg(parts: Sequence[str], title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _key(labels: Sequence[tuple[str, str]]) -> str:
    """Which color is what."""
    shown = " ".join(f'<span><i style="background: {color}"></i>{label}</span>' for label, color in labels)
    return f'<figcaption class="key">{shown}</figcaption>'


def _line(style: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line {style} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _level(style: str, y: float) -> str:
    return _line(style, LEFT, WIDTH - RIGHT, y, y)


def _tick(y: float, text: str) -> str:
    return _level('class="grid"', y) + _text(LEFT - 8, y + 4, text, "end")


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _dot(style: str, x: float, y: float, title: str = "", radius: float = 4) -> str:
    return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{_titled(title)}</circle>'


def _curve(style: str, points: Sequence[tuple[float, float]], title: str = "") -> str:
    listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" {style} points="{listed}">{_titled(title)}</polyline>'


def _titled(title: str) -> str:
    return f"<title>{title}</title>" if title else ""
