from collections import Counter

import pytest

from ease_lib.errors import DataError
from ease_lib.tasks.base import Row, TaskSource
from ease_lib.tasks.labels import label_notices
from ease_lib.tasks.splits import deal, same_input


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


def test_a_row_of_another_split_of_the_source_is_left_out_of_the_pool():
    """The test set is untouched; what is in it guides no search, and what guides the search is no exemplar."""
    data = deal(
        source(
            30,
            validation=[Row(f"ROW  {n}", ("a",)) for n in range(8)],
            test=[Row(f"row {n}", ("a",)) for n in range(5)],
        ),
        pool_size=0,
        validation_size=3,
        test_size=5,
        seed=0,
    )
    assert sorted(inputs(data.validation)) == ["ROW  5", "ROW  6", "ROW  7"]
    assert len(data.pool) == 22
    assert data.notices == (
        "5 validation rows were left out: their inputs stand in the test set too",
        "8 pool rows were left out: their inputs stand in the validation or test set too",
    )


def test_no_input_is_in_two_splits_however_often_the_source_repeats_it():
    """60 rows with 12 different inputs, some written with other blanks, case or forms of characters."""
    spellings = ("Row {}", "row  {}", "ROW {}", "\uff52ow {}", " row {} ")
    rows = [Row(spellings[n // 12].format(n % 12), (str(n % 12),)) for n in range(60)]
    for seed in range(20):
        data = deal(
            TaskSource(name="t", metric="exact_match", rows=rows),
            pool_size=0,
            validation_size=5,
            test_size=10,
            seed=seed,
        )
        pool, validation, test = (
            {same_input(text) for text in inputs(split)} for split in (data.pool, data.validation, data.test)
        )
        assert not pool & validation
        assert not (pool | validation) & test
        assert (len(data.validation), len(data.test)) == (5, 10)


def labelled(**counts):
    rows = [Row(f"{label} {n}", (label,)) for label, count in counts.items() for n in range(count)]
    return TaskSource(name="t", metric="exact_match", rows=rows)


@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_in_every_split_in_its_proportion(seed):
    data = deal(
        labelled(a=150, b=90, c=40, d=20, e=8, f=4), pool_size=100, validation_size=20, test_size=100, seed=seed
    )
    for split in (data.pool, data.validation, data.test):
        counts = Counter(row.output for row in split)
        assert set(counts) == set("abcdef")
        assert counts["a"] / len(split) == pytest.approx(0.48, abs=0.1)
    assert data.classes["f"] == (1, 1, 1)
    assert [sum(split) for split in zip(*data.classes.values(), strict=True)] == [100, 20, 100]
    assert data.unused == 312 - 220


def test_a_class_of_too_few_rows_for_every_split_is_left_to_the_pool():
    """In the test set alone it could only be answered wrongly."""
    data = deal(labelled(a=100, b=90, slip=1, rare=2), pool_size=0, validation_size=20, test_size=50, seed=0)
    assert data.classes["slip"] == (1, 0, 0)
    assert data.classes["rare"] == (1, 1, 0)


def test_outputs_that_are_answers_of_their_own_are_no_classes():
    data = deal(labelled(**{f"label{n}": 2 for n in range(30)}), pool_size=10, validation_size=5, test_size=5, seed=0)
    assert data.classes == {}


def test_a_set_too_small_for_all_classes_has_the_larger_ones():
    data = deal(labelled(a=40, b=20, c=10), pool_size=10, validation_size=2, test_size=2, seed=0)
    assert {row.output for row in data.validation} == {"a", "b"}


@pytest.mark.parametrize(("rows", "taken"), [(312, 212), (600, 500), (700, 100)])
def test_a_small_table_is_taken_whole_unless_a_size_is_asked_for(rows, taken):
    data = deal(source(rows), pool_size=-1, validation_size=20, test_size=80, seed=0)
    assert len(data.pool) == taken
    assert data.unused == rows - 100 - taken


@pytest.mark.parametrize(("rows", "guiding"), [(160, 20), (190, 30), (400, 100), (2000, 200)])
def test_a_third_of_what_the_test_set_leaves_guides_the_search_unless_a_size_is_asked_for(rows, guiding):
    data = deal(source(rows), pool_size=0, validation_size=-1, test_size=100, seed=0)
    assert (len(data.validation), len(data.test), len(data.pool)) == (guiding, 100, rows - 100 - guiding)


@pytest.mark.parametrize(("own", "guiding"), [(20, 20), (90, 90), (500, 200)])
def test_validation_rows_of_the_source_all_guide_the_search_unless_a_size_is_asked_for(own, guiding):
    given = source(50, validation=[Row(f"v{n}", ("a",)) for n in range(own)])
    data = deal(given, pool_size=0, validation_size=-1, test_size=20, seed=0)
    assert (len(data.validation), len(data.pool)) == (guiding, 30)


def test_odd_labels_are_mentioned(caplog):
    caplog.set_level("INFO", "ease")
    rows = [Row(f"row {n}", ("shipping",)) for n in range(40)]
    rows += [Row("a", ("Shipping",)), Row("b", ("shiping",)), Row("c", ("billing",)), Row("ROW 1", ("billing",))]
    said = " ".join(label_notices([*rows, *[Row(f"x {n}", ("returns",)) for n in range(20)]]))
    assert "'Shipping' (1 times) and 'shipping' (40 times) look alike" in said
    assert "'shiping' (1 times) and 'shipping' (40 times) look alike" in said
    assert "inputs that stand there with different outputs: 1" in said
    assert caplog.messages == ["an input with several outputs: 'row 1'"]
    assert "returns" not in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (source(19), "t has 19 rows with 19 different inputs|lower a size"),
        (source(30, test=[Row("x", ("a",))]), "t has 1 test rows, fewer than test_size=5"),
    ],
)
def test_too_few_rows(given, message):
    with pytest.raises(DataError, match=message):
        dealt(given)
