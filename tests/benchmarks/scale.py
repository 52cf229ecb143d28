"""How does the search step grow? `.venv/bin/python -m tests.benchmarks.scale`

One iteration of EASE (`ask`, training included) on random unit-length embeddings of 384 dimensions, each point in a
process of its own, for its peak memory (Linux). One of q, n, k, |D_V| and T grows at a time, from the paper's sizes.
Prints a table with the exponent of a power law through the points, and writes `tests/benchmarks/results/scale.svg`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PAPER = {"q": 50_000, "n": 100, "k": 5, "m": 20, "t": 165}
AXES = {
    "q": (10_000, 50_000, 200_000, 1_000_000),
    "n": (100, 1_000, 10_000, 100_000, 1_000_000),
    "k": (1, 5, 20, 50),
    "m": (20, 100, 300, 1_000),
    "t": (40, 165, 500, 2_000),
}
NAMES = {"q": "q, sampled sequences", "n": "n, pool", "k": "k, exemplars", "m": "|D_V|", "t": "T, observations"}
DIMENSION = 384
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure(**json.loads(arguments.point))))
        return 0
    print("| Growing | seconds and peak memory of an iteration | exponent, time | memory |\n|---|---|--:|--:|")
    curves = {}
    for axis, values in AXES.items():
        curves[axis] = [(value, *in_process({**PAPER, axis: value})) for value in values]
        print(f"| {NAMES[axis].replace('|', chr(92) + '|')} | {described(curves[axis])} |", flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "scale.svg").write_text(plot(curves))
    return 0


def in_process(point):
    """Seconds and MiB of one point."""
    command = [sys.executable, "-m", "tests.benchmarks.scale", "--point", json.dumps(point)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(q, n, k, m, t):
    """Seconds of an iteration, and MiB that it needs beyond what was there before (embeddings and interpreter)."""
    import torch

    from ease_lib.search.candidates.sampling import SequenceSpace
    from ease_lib.search.optimizers.ease import Ease
    from ease_lib.search.optimizers.history import Candidate, Observation
    from ease_lib.search.optimizers.problem import Problem
    from ease_lib.search.surrogate.representations import PositionalRepresentation
    from ease_lib.seeding import rng

    torch.set_num_threads(1)
    draw = rng(0, "scale")
    vectors = draw.standard_normal((n + m, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    space = SequenceSpace(n, k)
    problem = Problem(
        space=space,
        representation=PositionalRepresentation(vectors[:n], vectors[:n]),
        pool=vectors[:n],
        validation=vectors[n:],
        exemplars=[],
        inputs=[],
        validation_inputs=[],
        outputs=[],
        validation_outputs=[],
        seed=0,
    )
    optimizer = Ease(problem, initial_design=1, sampled_candidates=q, shortlist_size=1_000, nu=0.1, ridge=0.1)
    for sequence in space.sample(draw, t).tolist():
        candidate = Candidate(sequence=tuple(sequence), phase="initial")
        optimizer.tell(Observation(candidate=candidate, score=float(draw.random()), validation_rows=m))
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of making the vectors
    before = resident_mebibytes("VmRSS")
    start = time.perf_counter()
    optimizer.ask(t)
    return time.perf_counter() - start, resident_mebibytes("VmHWM") - before


def resident_mebibytes(field):
    """Resident memory of this process: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def described(curve):
    values, seconds, mebibytes = (np.array(column, dtype=float) for column in zip(*curve, strict=True))
    points = ", ".join(f"{value:,.0f}: {taken:.2f} s {used:.0f} MiB".replace(",", " ") for value, taken, used in curve)
    time_exponent = np.polyfit(np.log(values), np.log(seconds), 1)[0]
    memory_exponent = np.polyfit(np.log(values), np.log(np.maximum(mebibytes, 1)), 1)[0]
    return f"{points} | {time_exponent:.2f} | {memory_exponent:.2f}"


def plot(curves):
    """A panel for each axis, seconds (blue) and MiB (red), both scales logarithmic."""
    panels = []
    for number, (axis, curve) in enumerate(curves.items()):
        left, top, width, height = 50 + 310 * (number % 3), 30 + 250 * (number // 3), 240, 170
        values = np.log10([value for value, *_ in curve])
        x = left + (values - values[0]) / (values[-1] - values[0]) * width
        panels.append(f'<text x="{left}" y="{top - 8}" font-weight="bold">{NAMES[axis]}</text>')
        panels.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#dde3ea"/>')
        lines = []
        for place, (low, high, unit, color) in enumerate(((-2, 2, "s", "#1f6feb"), (0, 4, "MiB", "#c2410c")), 1):
            scaled = (np.log10([max(point[place], 10**low) for point in curve]) - low) / (high - low)
            labels = [f"{point[place]:.2f} {unit}" if unit == "s" else f"{point[place]:.0f} {unit}" for point in curve]
            lines.append((top + height * (1 - np.minimum(scaled, 1)), labels, color))
        for y, labels, color in lines:
            points = " ".join(f"{a:.0f},{b:.0f}" for a, b in zip(x, y, strict=True))
            panels.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
            for a, b, label in zip(x, y, labels, strict=True):
                panels.append(f'<circle cx="{a:.0f}" cy="{b:.0f}" r="3" fill="{color}"><title>{label}</title></circle>')
            for end, anchor in ((0, "start"), (-1, "end")):  # beyond both lines, not between them
                away = -7 if y[end] <= min(line[end] for line, *_ in lines) else 16
                place = f'x="{x[end]:.0f}" y="{y[end] + away:.0f}"'
                panels.append(f'<text {place} fill="{color}" text-anchor="{anchor}">{labels[end]}</text>')
        for a, (value, *_) in zip(x, curve, strict=True):
            panels.append(f'<text x="{a:.0f}" y="{top + height + 16}" text-anchor="middle">{value:,}</text>')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 510" font-family="sans-serif" font-size="11">'
        f'<rect width="960" height="510" fill="white"/>{"".join(panels)}</svg>'
    )


if __name__ == "__main__":
    sys.exit(main())
