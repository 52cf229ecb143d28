"""Deal the rows of a source into pool, validation and test set, by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ease_lib.errors import DataError
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar, Row, TaskData, TaskSource


def deal(source: TaskSource, *, pool_size: int, validation_size: int, test_size: int, seed: int) -> TaskData:
    """Draw the three sets without replacement; no row is in two of them unless the source repeats it, which is noted.

    Args:
        pool_size: rows of the pool; 0 takes all that remain. The two other sets are drawn first, so that their rows
            do not depend on `pool_size`.

    Raises:
        DataError: naming the split, the rows wanted and the rows there are.
    """
    free = [int(index) for index in rng(seed, "splits", "rows").permutation(len(source.rows))]
    shared_needs = (0 if source.test is not None else test_size) + (
        0 if source.validation is not None else validation_size
    )
    if len(source.rows) < shared_needs + max(pool_size, 1):
        raise DataError(
            f"{source.name} has {len(source.rows)} rows for splits that need {shared_needs + max(pool_size, 1)}; "
            f"lower pool_size={pool_size}, validation_size={validation_size} or test_size={test_size}"
        )

    def draw(split: str, own: Sequence[Row] | None, size: int) -> list[Row]:
        if own is None:
            taken, free[:] = free[:size], free[size:]
            return [source.rows[index] for index in taken]
        if len(own) < size:
            raise DataError(
                f"{source.name} has {len(own)} {split} rows, fewer than {split}_size={size}; lower {split}_size"
            )
        order: np.ndarray = rng(seed, "splits", split).permutation(len(own))
        return [own[int(index)] for index in order[:size]]

    test = draw("test", source.test, test_size)
    validation = draw("validation", source.validation, validation_size)
    pool = draw("pool", None, pool_size or len(free))
    return TaskData(
        name=source.name,
        metric=source.metric,
        pool=_numbered(pool, 0),
        validation=_numbered(validation, len(pool)),
        test=_numbered(test, len(pool) + len(validation)),
        notices=tuple(_repetitions(pool, validation, test)),
    )


def _numbered(rows: Sequence[Row], start: int) -> tuple[Exemplar, ...]:
    return tuple(Exemplar(start + i, row.input, row.outputs, row.is_noisy) for i, row in enumerate(rows))


def _repetitions(pool: Sequence[Row], validation: Sequence[Row], test: Sequence[Row]) -> list[str]:
    inputs = {
        "pool": [row.input for row in pool],
        "validation": [row.input for row in validation],
        "test": [row.input for row in test],
    }
    notices = []
    for first, second in (("pool", "validation"), ("pool", "test"), ("validation", "test")):
        seen = set(inputs[first])
        repeated = sum(text in seen for text in inputs[second])
        if repeated:
            notices.append(
                f"{repeated} of {len(inputs[second])} {second} inputs also stand in the {first}, as in the source"
            )
    return notices
