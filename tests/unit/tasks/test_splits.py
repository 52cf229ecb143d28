import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.base import Row, TaskSource
from ease_lib.tasks.splits import deal


def source(rows=30, **own):
    return TaskSource(
        name="t", metric="exact_match", rows=[Row(f"row {number}", ("a",)) for number in range(rows)], **own
    )


def dealt(source, pool_size=10, seed=0):
    return deal(source, pool_size=pool_size, validation_size=5, test_size=5, seed=seed)


def inputs(split):
    return [row.input for row in split]


def test_no_row_is_in_two_splits_and_ids_are_unique():
    data = dealt(source())
    everything = [*data.pool, *data.validation, *data.test]
    assert len(set(inputs(everything))) == len({row.exemplar_id for row in everything}) == 20
    assert data.notices == ()


def test_seeds_give_other_splits_and_equal_seeds_the_same():
    assert dealt(source(), seed=1) == dealt(source(), seed=1)
    assert inputs(dealt(source(), seed=1).test) != inputs(dealt(source(), seed=2).test)


def test_validation_and_test_do_not_depend_on_the_pool_size():
    small, large = dealt(source(), pool_size=5), dealt(source(), pool_size=20)
    assert inputs(small.validation) == inputs(large.validation)
    assert inputs(small.test) == inputs(large.test)
    assert inputs(large.pool)[:5] == inputs(small.pool)


def test_pool_size_zero_takes_all():
    assert len(dealt(source(), pool_size=0).pool) == 20


def test_own_splits_of_the_source_are_kept_apart():
    data = dealt(
        source(10, validation=[Row(f"v{n}", ("a",)) for n in range(9)], test=[Row(f"t{n}", ("a",)) for n in range(5)])
    )
    assert all(text.startswith("v") for text in inputs(data.validation))
    assert sorted(inputs(data.test)) == [f"t{n}" for n in range(5)]


def test_repetitions_of_the_source_are_reported():
    data = dealt(source(10, validation=[Row(f"row {n}", ("a",)) for n in range(5)]), pool_size=5)
    shared = len(set(inputs(data.pool)) & set(inputs(data.validation)))
    assert f"{shared} of 5 validation inputs also stand in the pool, as in the source" in data.notices


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (source(19), "t has 19 rows for splits that need 20; lower pool_size=10"),
        (source(30, test=[Row("x", ("a",))]), "t has 1 test rows, fewer than test_size=5"),
    ],
)
def test_too_few_rows(given, message):
    with pytest.raises(DataError, match=message):
        dealt(given)
