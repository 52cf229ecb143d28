"""Corrupt the outputs of a share of the pool, on purpose (paper, Sec. on noisy exemplars).

Difference from the published files: every row that is claimed to change does change. Those draw swapped labels with
replacement, so that "10 %" changes 6 % of the AG News labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar, NoiseRule


def inject_noise(pool: Sequence[Exemplar], ratio: float, rule: NoiseRule | None, seed: int) -> tuple[Exemplar, ...]:
    """Corrupt `round(ratio * n)` rows and mark them `is_noisy`; the other rows keep their mark.

    Args:
        ratio: share of rows in [0, 1].
        rule: the task's systematic error; without one a row takes the output of another row that really differs.

    Raises:
        DataError: when a chosen row cannot be given a wrong output.
    """
    corrupted = list(pool)
    chosen = rng(seed, "noise", "rows").permutation(len(pool))[: round(ratio * len(pool))]
    outputs = [row.output for row in pool]
    for index in map(int, chosen):
        row = pool[index]
        wrong = rule(row.input) if rule else _other_output(row, outputs, seed)
        if wrong in row.outputs:
            raise DataError(
                f"the noise rule gives pool row {row.exemplar_id} its right output {wrong!r}; lower noise_ratio"
            )
        corrupted[index] = row.with_output(wrong, is_noisy=True)
    return tuple(corrupted)


def _other_output(row: Exemplar, outputs: Sequence[str], seed: int) -> str:
    """The output of a random other row, proportional to how often each occurs, that is none of this row's."""
    draw = rng(seed, "noise", "output", row.exemplar_id)
    for _ in range(64):
        candidate = outputs[int(draw.integers(len(outputs)))]
        if candidate not in row.outputs:
            return candidate
    different = sorted({output for output in outputs if output not in row.outputs})
    if not different:
        raise DataError(
            f"every output of the pool is accepted for row {row.exemplar_id} ({row.output!r}): "
            "there is no wrong one to inject; set noise_ratio=0"
        )
    return different[int(draw.integers(len(different)))]
