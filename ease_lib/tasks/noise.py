"""Corrupt the outputs of a share of the pool, on purpose (paper, Sec. on noisy exemplars).

An injected output is wrong by the task's own metric: another order of the right words, or another rationale with the
right number, is not noise. Difference from the published files: every row that is claimed to change does change. Those
draw swapped labels with replacement, so that "10 %" changes 6 % of the AG News labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar, NoiseRule

Score = Callable[[str, Sequence[str]], float]
"""Function that scores an answer against the accepted outputs, in [0, 1]."""


def inject_noise(
    pool: Sequence[Exemplar], ratio: float, rule: NoiseRule | None, seed: int, score: Score
) -> tuple[Exemplar, ...]:
    """Corrupt `round(ratio * n)` rows and mark them `is_noisy`; the other rows keep their mark.

    Args:
        ratio: share of rows in [0, 1].
        rule: the task's systematic error; without one a row takes the output of another row that is wrong for it.
        score: the task's metric; a wrong output scores less than 1.

    Raises:
        DataError: when a chosen row cannot be given a wrong output.
    """
    corrupted = list(pool)
    chosen = rng(seed, "noise", "rows").permutation(len(pool))[: round(ratio * len(pool))]
    outputs = [row.output for row in pool]
    for index in map(int, chosen):
        row = pool[index]
        wrong = rule(row.input) if rule else _other_output(row, outputs, seed, score)
        if not _is_wrong(wrong, row, score):
            raise DataError(f"the noise rule gives pool {row.named} its right output {wrong!r}; lower noise_ratio")
        corrupted[index] = row.with_output(wrong, is_noisy=True)
    return tuple(corrupted)


def _is_wrong(output: str, row: Exemplar, score: Score) -> bool:
    return output not in row.outputs and score(output, row.outputs) < 1


def _other_output(row: Exemplar, outputs: Sequence[str], seed: int, score: Score) -> str:
    """The output of a random other row that is wrong for this one, proportional to how often each occurs."""
    draw = rng(seed, "noise", "output", row.exemplar_id)
    for _ in range(64):
        candidate = outputs[int(draw.integers(len(outputs)))]
        if _is_wrong(candidate, row, score):
            return candidate
    wrong = sorted({output for output in outputs if _is_wrong(output, row, score)})
    if not wrong:
        raise DataError(
            f"every output of the pool is accepted for {row.named} ({row.output!r}): "
            "no wrong one is left to inject; set noise_ratio=0"
        )
    return wrong[int(draw.integers(len(wrong)))]
