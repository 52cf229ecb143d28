from collections import Counter
from dataclasses import replace

import pytest

from ease_lib.equality import as_read
from ease_lib.errors import DataError
from ease_lib.evaluation.metrics import METRICS
from ease_lib.tasks.base import Row, TaskSource
from ease_lib.tasks.labels import label_notices, split_notices
from ease_lib.tasks.splits import classes_of, deal


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


def own_splits(validation=9, test=9):
    """A source whose pool has rows 0 to 29, the validation set 20 to 28, the test set 28 to 36 of the same."""
    every_row = [Row(f"row {number}", ("ab"[number % 2],)) for number in range(60)]
    return source(30, validation=every_row[20 : 20 + validation], test=every_row[28 : 28 + test])


def test_in_file_order_every_split_of_the_source_gives_its_first_rows():
    rows = [Row("twice", ("a",)), *source(30).rows[:28], Row("twice", ("a",))]
    given = replace(own_splits(test=2), rows=rows, test=[Row("t", ("a",)), Row("t", ("a",))])
    data = deal(given, pool_size=30, validation_size=3, test_size=2, seed=7, in_file_order=True, keep_leaks=True)
    assert inputs(data.pool) == [row.input for row in rows]
    assert inputs(data.validation) == ["row 20", "row 21", "row 22"]
    assert inputs(data.test) == ["t", "t"]


def test_in_file_order_one_table_gives_the_pool_its_first_rows_and_the_test_set_its_last():
    data = deal(source(30), pool_size=10, validation_size=5, test_size=7, seed=7, in_file_order=True)
    numbers = [[int(text.split()[1]) for text in inputs(split)] for split in (data.pool, data.validation, data.test)]
    assert numbers == [list(range(10)), list(range(18, 23)), list(range(23, 30))]


def test_in_file_order_equal_inputs_stay_in_one_split():
    rows = [*source(10).rows, Row("row 0", ("a",)), Row("ROW  0", ("a",))]
    given = replace(source(0), rows=rows)
    data = deal(given, pool_size=0, validation_size=2, test_size=2, seed=0, in_file_order=True)
    assert inputs(data.test) == ["row 8", "row 9"]
    assert sorted(text.lower().split()[1] for text in inputs(data.pool)) == ["0", "0", "0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_leak_is_what_stands_among_the_rows_that_are_drawn(keep):
    """Not what is among those that nobody is asked."""
    sizes = {"pool_size": 0, "validation_size": 2, "test_size": 1}
    data = deal(own_splits(), **sizes, seed=0, in_file_order=True, keep_leaks=keep)
    leaks = {"row 20", "row 21", "row 28"}
    assert set(inputs(data.pool)) == {f"row {number}" for number in range(30)} - (set() if keep else leaks)
    what = "were kept (leaks=keep), though" if keep else "were left out:"
    assert data.notices[-1] == f"3 pool rows {what} their inputs also occur in the validation or test set"


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
        "5 validation rows were left out: their inputs also occur in the test set",
        "8 pool rows were left out: their inputs also occur in the validation or test set",
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
            {as_read(text) for text in inputs(split)} for split in (data.pool, data.validation, data.test)
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
    """A row of it in the test set alone could only be answered wrongly."""
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


@pytest.mark.parametrize(
    ("rows", "pool", "guiding", "tested"),
    [(30, 10, 10, 10), (100, 45, 22, 33), (200, 90, 44, 66), (900, 100, 200, 100)],
)
def test_sizes_that_nobody_set_follow_the_data(rows, pool, guiding, tested):
    data = deal(source(rows), pool_size=-1, validation_size=-1, test_size=-1, seed=0)
    assert (len(data.pool), len(data.validation), len(data.test)) == (pool, guiding, tested)


def test_own_test_rows_are_all_taken_unless_a_size_is_asked_for():
    own = {"test": [Row(f"t{n}", ("a",)) for n in range(30)], "validation": [Row(f"v{n}", ("a",)) for n in range(12)]}
    data = deal(source(40, **own), pool_size=-1, validation_size=-1, test_size=-1, seed=0)
    assert (len(data.pool), len(data.validation), len(data.test)) == (40, 12, 30)


def test_two_rows_are_too_few():
    with pytest.raises(DataError, match="t has 2 rows"):
        deal(source(2), pool_size=-1, validation_size=-1, test_size=-1, seed=0)


@pytest.mark.parametrize(("own", "guiding"), [(20, 20), (90, 90), (500, 200)])
def test_validation_rows_of_the_source_all_guide_the_search_unless_a_size_is_asked_for(own, guiding):
    given = source(50, validation=[Row(f"v{n}", ("a",)) for n in range(own)])
    data = deal(given, pool_size=0, validation_size=-1, test_size=20, seed=0)
    assert (len(data.validation), len(data.pool)) == (guiding, 30)


def test_odd_labels_are_mentioned():
    rows = [Row(f"row {n}", ("shipping",)) for n in range(40)]
    rows += [
        Row("a", ("Shipping",), origin="t.csv, line 42"),
        Row("b", ("shiping",)),
        Row("c", ("billing",)),
        Row("ROW 1", ("billing",)),
    ]
    said = " ".join(label_notices([*rows, *[Row(f"x {n}", ("returns",)) for n in range(20)]]))
    assert "'shipping' (40 times) and 'Shipping' (1 times, first at t.csv, line 42) look alike" in said
    assert "'shipping' (40 times) and 'shiping' (1 times) look alike" in said
    assert "inputs that occur with different outputs: 1\n  'row 1' → 'shipping'\n  'ROW 1' → 'billing'" in said
    assert "returns" not in said


def test_outputs_of_json_differ_in_few_characters_and_are_no_slips():
    rows = [Row(f"row {n}", ('{"team": "billing", "urgent": false}',)) for n in range(60)]
    rows += [Row(f"other {n}", ('{"team": "billing", "urgent": true}',)) for n in range(4)]
    assert list(label_notices(rows)) == []


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


def of_customers(rows, **given):
    """Rows of (customer, text, moment); the given values are of the source."""
    made = [Row(text, ("a",), group=customer, moment=moment) for customer, text, moment in rows]
    columns = {"group_column": "customer" if any(row.group for row in made) else ""}
    return TaskSource(name="t", metric="exact_match", rows=made, **{**columns, **given})


def texts(split):
    return {row.input for row in split}


@pytest.mark.parametrize("seed", range(10))
def test_rows_of_a_group_are_in_one_split(seed):
    data = dealt(of_customers([(f"c{n % 12}", f"c{n % 12} row {n}", None) for n in range(60)]), pool_size=0, seed=seed)
    customers = [{row.input.split()[0] for row in split} for split in (data.pool, data.validation, data.test)]
    assert not customers[0] & customers[1]
    assert not customers[0] & customers[2]
    assert not customers[1] & customers[2]
    assert [len(each) for each in customers] == [10, 1, 1], "whole groups, where they fit in"
    assert data == dealt(
        of_customers([(f"c{n % 12}", f"c{n % 12} row {n}", None) for n in range(60)]), pool_size=0, seed=seed
    )


@pytest.mark.parametrize("seed", range(10))
def test_what_equal_inputs_and_equal_groups_link_stays_together(seed):
    """c0 and c1 have a text in common, and c1 and c2 another one: of case and blanks."""
    rows = [("c0", "Hi", None), ("c1", "hi ", None), ("c1", "Bye", None), ("c2", "BYE", None), ("c2", "third", None)]
    data = dealt(of_customers([*rows, *((f"d{n}", f"row {n}", None) for n in range(30))]), pool_size=0, seed=seed)
    linked = {"Hi", "hi ", "Bye", "BYE", "third"}
    assert sum(bool(texts(split) & linked) for split in (data.pool, data.validation, data.test)) == 1


def test_a_large_group_does_not_fill_the_test_set():
    rows = [("large", f"large {n}", None) for n in range(50)] + [(f"c{n}", f"row {n}", None) for n in range(30)]
    for seed in range(10):
        data = dealt(of_customers(rows), pool_size=0, seed=seed)
        assert len(data.pool) == 70
        assert not any(text.startswith("large") for text in texts(data.test) | texts(data.validation))


def test_three_groups_make_three_splits():
    data = dealt(of_customers([(f"c{n % 3}", f"row {n}", None) for n in range(60)]), pool_size=0)
    assert (len(data.pool), len(data.validation), len(data.test)) == (20, 5, 5)


@pytest.mark.parametrize(("groups", "said"), [(1, "1 group,"), (2, "2 groups,")])
def test_fewer_groups_than_splits_are_named(groups, said):
    given = of_customers([(f"c{n % groups}", f"row {n}", None) for n in range(60)])
    with pytest.raises(DataError, match=f"t: group_column=customer puts all rows into {said} .*3 splits need one each"):
        dealt(given)


def test_too_few_rows_of_whole_groups_say_how_many_groups_there_are():
    with pytest.raises(DataError, match=r"60 rows with 60 different inputs in 3 groups of customer .*; lower a size"):
        deal(
            of_customers([(f"c{n % 3}", f"row {n}", None) for n in range(60)]),
            pool_size=0,
            validation_size=5,
            test_size=30,
            seed=0,
        )


@pytest.mark.rooms("ease_lib/tasks")
def test_a_huge_number_of_groups_is_dealt():
    """A loop over all pairs of groups would outlast the limit of a test."""
    rows = [(f"c{n // 2}", f"row {n}", None) for n in range(200_000)]
    data = deal(of_customers(rows), pool_size=1000, validation_size=200, test_size=1000, seed=0)
    assert (len(data.pool), len(data.test)) == (1000, 1000)


def test_groups_and_classes_go_together():
    rows = [Row(f"row {n}", ("ab"[n % 4 == 0],), group=f"c{n // 3}") for n in range(300)]
    data = deal(
        TaskSource(name="t", metric="exact_match", rows=rows, group_column="customer"),
        pool_size=0,
        validation_size=20,
        test_size=40,
        seed=0,
    )
    assert data.classes["b"][1:] == (5, 10)
    assert (len(data.validation), len(data.test)) == (20, 40)


def test_a_group_of_the_source_s_own_test_set_is_left_out_of_the_pool():
    test = [Row(f"t{n}", ("a",), group="c0") for n in range(5)]
    data = dealt(of_customers([(f"c{n % 4}", f"row {n}", None) for n in range(40)], test=test), pool_size=0)
    assert len(data.pool) == 20, "of two customers, the third is the validation set"
    assert (
        data.notices[0]
        == "10 pool rows were left out: their inputs or customer also occur in the validation or test set"
    )


def test_by_time_the_newest_rows_are_the_test_set():
    rows = [("", f"row {n}", n) for n in range(40)]
    for seed in (0, 1):
        data = dealt(of_customers(rows, time_column="when"), pool_size=10, seed=seed)
        assert texts(data.test) == {f"row {n}" for n in range(35, 40)}
        assert texts(data.validation) == {f"row {n}" for n in range(30, 35)}
        assert len(data.pool) == 10
    assert texts(data.pool) != texts(dealt(of_customers(rows, time_column="when"), pool_size=10, seed=2).pool)


def test_equal_times_are_parted_by_seed():
    rows = [("", f"row {n}", 7) for n in range(40)]
    first, again, other = (dealt(of_customers(rows, time_column="when"), seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert texts(first.test) != texts(other.test)


def test_a_group_is_as_new_as_its_newest_row():
    """So nothing in the pool is newer than all that the test set has of a group."""
    rows = [(f"c{n % 10}", f"row {n}", n) for n in range(40)]
    data = deal(of_customers(rows, time_column="when"), pool_size=0, validation_size=4, test_size=4, seed=0)
    assert texts(data.test) == {f"row {n}" for n in (9, 19, 29, 39)}
    assert texts(data.validation) == {f"row {n}" for n in (8, 18, 28, 38)}
    assert len(data.pool) == 32


def test_with_an_own_test_set_time_parts_the_others():
    test = [Row(f"t{n}", ("a",), moment=0) for n in range(5)]
    data = dealt(of_customers([("", f"row {n}", n) for n in range(40)], time_column="when", test=test), pool_size=0)
    assert texts(data.validation) == {f"row {n}" for n in range(35, 40)}


def test_rows_of_a_group_whose_output_is_no_class_are_dealt_too():
    """The second output of an input is in no count of classes."""
    rows = [Row(f"row {n // 2}", ("xy"[n // 2 % 2] if n % 2 == 0 else "slip",), group=f"c{n // 2}") for n in range(120)]
    data = deal(
        TaskSource(name="t", metric="exact_match", rows=rows, group_column="customer"),
        pool_size=0,
        validation_size=20,
        test_size=40,
        seed=0,
    )
    assert (len(data.pool), len(data.validation), len(data.test)) == (60, 20, 40)


def test_of_groups_that_are_all_large_several_are_in_each_split():
    rows = [(f"c{n % 10}", f"c{n % 10} row {n}", None) for n in range(5000)]
    data = deal(of_customers(rows), pool_size=100, validation_size=60, test_size=90, seed=0)
    assert (len(data.pool), len(data.validation), len(data.test)) == (100, 60, 90)
    customers = [Counter(row.input.split()[0] for row in split) for split in (data.pool, data.validation, data.test)]
    assert [len(each) for each in customers] == [4, 3, 3]
    assert sorted(customers[2].values()) == [30, 30, 30]
    assert len(set().union(*customers)) == 10, "and none in two"


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_hold_a_class_each_fill_the_sets_all_the_same(seed):
    """The rows of `a` with c0 come first, the others have no other class: proportions cannot be had."""
    rows = [Row(f"row {n}", ("ab"[n >= 50],), group="c0") for n in range(100)]
    rows += [Row(f"other {n}", ("a",), group=f"c{1 + n % 3}") for n in range(300)]
    data = deal(
        TaskSource(name="t", metric="exact_match", rows=rows, group_column="customer"),
        pool_size=20,
        validation_size=30,
        test_size=60,
        seed=seed,
    )
    assert (len(data.pool), len(data.validation), len(data.test)) == (20, 30, 60)


UNSEEN = "shipping\u200b"


def test_labels_that_are_equal_to_a_reader_are_one_class():
    assert classes_of(["shipping"] * 5 + [UNSEEN] * 3 + ["bug"] * 6) == {
        "shipping": "shipping",
        UNSEEN: "shipping",
        "bug": "bug",
    }
    rows = [Row(f"row {n}", (("shipping", UNSEEN, "bug", "bug")[n % 4],)) for n in range(80)]
    data = deal(
        TaskSource(name="t", metric="exact_match", rows=rows), pool_size=40, validation_size=20, test_size=20, seed=0
    )
    assert data.classes == {"bug": (20, 10, 10), "shipping": (20, 10, 10)}


def test_what_is_not_seen_in_a_label_is_named_by_its_code_point():
    rows = [Row(f"row {n}", (("shipping", UNSEEN, "Été", "E\u0301te\u0301")[n % 4],)) for n in range(40)]
    said = list(label_notices(rows))
    assert len(said) == 2
    assert said[0].endswith(
        "count as one label, because they differ only in invisible characters: U+200B (zero width space) in the "
        "second; "
        "write them in one way"
    )
    assert "U+00C9 (latin capital letter e with acute)" in said[1]
    assert "U+0301 (combining acute accent)" in said[1]


@pytest.mark.parametrize(("one", "other"), [("1.0", "1"), ("True", "1"), ("true", "yes"), ("0", "False"), ("١", "1")])
def test_labels_of_one_value_that_the_pool_writes_in_two_ways_are_mentioned(one, other):
    said = notices_of([one, one, other, "x"], ["x"])[0]
    assert "rows of the pool have an output that other rows of the pool write differently" in said
    assert said.partition("write both the same way\n  ")[2] in (f"{other!r} and {one!r}", f"{one!r} and {other!r}")


def notices_of(pool, test, metric="exact_match"):
    own = [Row(f"t {n}", (output,)) for n, output in enumerate(test * 10)]
    rows = [Row(f"r {n}", (output,)) for n, output in enumerate(pool * 20)]
    data = deal(
        TaskSource(name="t", metric=metric, rows=rows, test=own), pool_size=-1, validation_size=-1, test_size=-1, seed=0
    )
    return list(split_notices(data, METRICS[metric]))


@pytest.mark.parametrize(
    ("pool", "test", "example"),
    [
        (["1.0", "2.0"], ["1", "2"], "'1' and '1.0', '2' and '2.0'"),
        (["True", "False"], ["1", "0"], "'1' and 'True', '0' and 'False'"),
        (["yes", "no"], ["true", "false"], "'true' and 'yes', 'false' and 'no'"),
        ([f"{n}.0" for n in range(30)], [f"{n}" for n in range(30)], ".0'"),  # numbers, not labels
    ],
)
def test_outputs_that_the_splits_write_apart_are_mentioned_before_anything_is_asked(pool, test, example):
    (said,) = notices_of(pool, test)
    assert said.startswith(
        f"{10 * len(test) if len(test) < 10 else 100} rows of the test set have an output that rows of the pool write"
    )
    assert "write both the same way" in said
    assert example in said.partition("\n")[2], "texts of rows follow the first line, which alone is kept"


def test_a_label_that_the_pool_lacks_is_mentioned():
    (said,) = notices_of(["billing", "sales"], ["billing", "sales", "refund"])
    assert said == (
        "the test set has 1 label that no row of the pool has, so no exemplar shows it; add such rows to the pool, or "
        "correct the test set\n  'refund' (10 rows)"
    )


@pytest.mark.parametrize(
    ("metric", "pool", "test"),
    [
        ("number", ["1.0", "2.0"], ["1", "2"]),
        ("exact_match", ["Yes", "No"], ["yes", "no"]),
        ("exact_match", ["Été", "Oui"], ["E\u0301te\u0301", "oui\u200b"]),
        ("exact_match", ["billing.", "sales."], ["billing", "sales"]),
        ("exact_match", [f"text {n}" for n in range(40)], [f"other {n}" for n in range(40)]),
        ("json_equal", ['{"a": 1.0}', '{"a": 2}'], ['{"a": 1}', '{"a": 3}']),
    ],
)
def test_outputs_that_the_metric_holds_equal_and_answers_of_their_own_are_not_mentioned(metric, pool, test):
    assert notices_of(pool, test, metric) == []


@pytest.mark.parametrize(
    "other",
    ["e\u0301te\u0301 CASE", "été\u200b case", "été \u00a0case", "ｅ\u0301té case", "\ufeffété case", "été c\u00adase"],
)
def test_a_row_that_looks_like_one_of_the_test_set_is_a_leak(other):
    rows = [Row(f"row {n}", ("a",)) for n in range(10)]
    data = deal(
        TaskSource(name="t", metric="exact_match", rows=[*rows, Row(other, ("a",))], test=[Row("été case", ("a",))]),
        pool_size=-1,
        validation_size=2,
        test_size=1,
        seed=0,
    )
    assert other not in {row.input for row in (*data.pool, *data.validation)}
    assert "1 pool rows were left out" in data.notices[0]
