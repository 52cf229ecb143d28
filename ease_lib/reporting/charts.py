"""Charts of the report page as inline SVG: no script, no font, no file beside the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ease_lib.evaluation.statistics import Z_95

WIDTH, HEIGHT = 860, 300
COLORS = (
    *("#1f6feb", "#c2410c", "#15803d", "#9333ea", "#111827", "#0891b2", "#db2777", "#65a30d", "#94a3b8", "#ca8a04"),
    *("#7f1d1d", "#134e4a", "#f97316", "#818cf8"),
)
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34


def search_curve(history: Sequence[Mapping[str, Any]], random_mean: float | None) -> str:
    """Score of every evaluation (grey: initial design, blue: proposed), the incumbent's line, the random mean.

    Of a sequence that is evaluated in parts, a dot is the mean of all rows that it was asked until then, the larger the
    more they are.
    """
    plot = _Plot(len(history))
    so_far = _so_far(history)
    most = max(1, *(rows for _, rows in so_far))
    dots = "".join(
        _dot(plot, index, row, score, rows, most)
        for index, (row, (score, rows)) in enumerate(zip(history, so_far, strict=True))
    )
    steps = [f"{plot.x(0):.1f},{plot.y(history[0]['incumbent_score']):.1f}"]
    for index in range(1, len(history)):
        before, now = history[index - 1]["incumbent_score"], history[index]["incumbent_score"]
        steps += [f"{plot.x(index):.1f},{plot.y(before):.1f}", f"{plot.x(index):.1f},{plot.y(now):.1f}"]
    line = "" if random_mean is None else _level(plot.y(random_mean))
    design = sum(row["phase"] == "initial" for row in history)
    border = (plot.x(design - 1) + plot.x(design)) / 2 if 0 < design < len(history) else None
    split = (
        f'<line class="split" x1="{border:.1f}" x2="{border:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>' if border else ""
    )
    curve = f'<polyline class="incumbent" points="{" ".join(steps)}"/>'
    return plot.framed(split + line + dots + curve, "Validation score of every evaluation, in order")


def curves_chart(curves: Mapping[str, Sequence[float]], thick: str) -> str:
    """The incumbent's score after every 20 answers, a line for each label and a dot where there is only one."""
    plot = _Plot(max(map(len, curves.values())))
    lines, key = [], []
    for number, (label, scores) in enumerate(curves.items()):
        color, name = COLORS[number % len(COLORS)], escape(label)
        points = " ".join(f"{plot.x(index):.1f},{plot.y(score):.1f}" for index, score in enumerate(scores))
        style = f'fill="none" stroke="{color}" stroke-width="{3 if label == thick else 1.5}"'
        title = f"<title>{name}: {scores[-1]:.3f}</title>"
        if len(scores) > 1:
            lines.append(f'<polyline {style} points="{points}">{title}</polyline>')
        else:
            place = f'cx="{plot.x(0):.1f}" cy="{plot.y(scores[0]):.1f}"'
            lines.append(f'<circle {place} r="4" fill="{color}">{title}</circle>')
        key.append(f'<span><i style="background: {color}"></i>{name} {scores[-1]:.3f}</span>')
    chart = plot.framed(
        "".join(lines[::-1]), "Validation score of the incumbent after every 20 answers", axis="20 answers"
    )
    return f'{chart}<figcaption class="key">{" ".join(key)}</figcaption>'


def gaps_chart(entries: Sequence[Mapping[str, Any]]) -> str:
    """How much better one method is than another, for each endpoint in order, with standard errors."""
    scores = [(name, color) for name, color in (("test_score", COLORS[0]), ("validation_score", COLORS[1]))]
    reach = max([0.1, *(abs(entry[name]) + (entry[f"{name}_error"] or 0) for entry in entries for name, _ in scores)])
    middle, unit = (TOP + HEIGHT - BOTTOM) / 2, (HEIGHT - TOP - BOTTOM) / 2 / reach
    step = (WIDTH - LEFT - RIGHT) / max(1, len(entries))
    parts = []
    for tick in (-reach, -reach / 2, 0.0, reach / 2, reach):
        y = middle - tick * unit
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:+.2f}</text>')
    for shift, (name, color) in zip((-8, 8), scores, strict=True):
        points = []
        for number, entry in enumerate(entries):
            x, y = LEFT + (number + 0.5) * step + shift, middle - entry[name] * unit
            error = (entry[f"{name}_error"] or 0) * unit
            points.append(f"{x:.1f},{y:.1f}")
            parts.append(
                f'<line stroke="{color}" x1="{x:.1f}" x2="{x:.1f}" y1="{y - error:.1f}" y2="{y + error:.1f}"/>'
            )
            parts.append(f'<circle fill="{color}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append(f'<polyline fill="none" stroke="{color}" points="{" ".join(points)}"/>')
    for number, entry in enumerate(entries):
        x = LEFT + (number + 0.5) * step
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(entry["endpoint"])}</text>')
    key = "".join(f'<span><i style="background: {color}"></i>{name.replace("_", " ")}</span>' for name, color in scores)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Difference by endpoint">{"".join(parts)}</svg>'
        f'<figcaption class="key">{key}</figcaption>'
    )


def _level(y: float) -> str:
    return f'<line class="random" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _so_far(history: Sequence[Mapping[str, Any]]) -> list[tuple[float, int]]:
    """Mean score of the sequence over all rows that it was asked until then, and how many they are."""
    sums: dict[tuple[int, ...], tuple[float, int]] = {}
    means = []
    for row in history:
        key = row["instruction_id"], *row["exemplar_ids"]
        total, rows = sums.get(key, (0.0, 0))
        sums[key] = total + row["score"] * row["validation_rows"], rows + row["validation_rows"]
        total, rows = sums[key]
        means.append((total / rows if rows else 0.0, rows))
    return means


def _dot(plot: _Plot, index: int, row: Mapping[str, Any], score: float, rows: int, most: int) -> str:
    radius = 1.4 + 1.8 * (rows / most) ** 0.5
    return (
        f'<circle class="{row["phase"]}" cx="{plot.x(index):.1f}" cy="{plot.y(score):.1f}" r="{radius:.1f}">'
        f"<title>evaluation {index + 1}: {score:.3f} of {rows} rows</title></circle>"
    )


def front_chart(front: Sequence[Mapping[str, Any]]) -> str:
    """Expected score, with its 95 % interval, against tokens of the prompt before the query; both from 0."""
    widest = max(1, *(point["tokens"] for point in front)) if front else 1
    plot = _Plot(2)
    parts = []
    steps = []
    for point in front:
        x = LEFT + 8 + point["tokens"] / widest * (WIDTH - LEFT - RIGHT - 16)
        low, high = (point["estimate"] + sign * Z_95 * point["error"] for sign in (-1, 1))
        steps.append(f"{x:.1f},{plot.y(point['estimate']):.1f}")
        spread = f'y1="{plot.y(max(0.0, low)):.1f}" y2="{plot.y(min(1.0, high)):.1f}"'
        parts.append(f'<line class="split" x1="{x:.1f}" x2="{x:.1f}" {spread}/>')
        parts.append(
            f'<circle class="search" cx="{x:.1f}" cy="{plot.y(point["estimate"]):.1f}" r="4">'
            f"<title>{point['tokens']} tokens, {point['exemplars']} exemplars: {point['estimate']:.3f}</title></circle>"
        )
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{point["tokens"]}</text>')
    line = f'<polyline class="incumbent" points="{" ".join(steps)}"/>'
    return plot.framed(line + "".join(parts), "Expected score against tokens", axis="tokens", marked=False)


class _Plot:
    """Evaluations from left to right, scores from 0 to 1."""

    def __init__(self, evaluations: int) -> None:
        self._last = max(1, evaluations - 1)
        self._evaluations = evaluations

    def x(self, index: int) -> float:
        return LEFT + 8 + index / self._last * (WIDTH - LEFT - RIGHT - 16)

    def y(self, score: float) -> float:
        return HEIGHT - BOTTOM - score * (HEIGHT - TOP - BOTTOM)

    def framed(self, content: str, title: str, *, axis: str = "evaluation", marked: bool = True) -> str:
        grid = "".join(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/>'
            f'<text x="{LEFT - 8}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:.2g}</text>'
            for tick in (0, 0.25, 0.5, 0.75, 1)
        )
        marks = "".join(
            f'<text x="{self.x(index):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{index + 1}</text>'
            for index in (self._ticks() if marked else ())
        )
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{grid}{marks}'
            f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{axis}</text>{content}</svg>'
        )

    def _ticks(self) -> list[int]:
        step = max(1, round(self._evaluations / 10))
        step = next(nice for nice in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 10**9) if nice >= step)
        return sorted({0, *(number - 1 for number in range(step, self._evaluations + 1, step))})
