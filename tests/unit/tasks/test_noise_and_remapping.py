from dataclasses import replace

import pytest

from ease_lib.errors import ConfigError, DataError
from ease_lib.tasks.base import Exemplar, Row, TaskSource
from ease_lib.tasks.noise import inject_noise
from ease_lib.tasks.remapping import remap_labels

LABELS = ("World", "Sports", "Business", "Technology")
POOL = [Exemplar(number, f"text {number}", (LABELS[number % 4],), False) for number in range(100)]


@pytest.mark.parametrize("ratio", [0, 0.1, 0.15, 0.5, 1])
def test_every_row_that_is_marked_really_changed(ratio):
    noisy = inject_noise(POOL, ratio, None, seed=3)
    changed = [after.outputs != before.outputs for before, after in zip(POOL, noisy, strict=True)]
    assert sum(changed) == round(ratio * 100)
    assert [row.is_noisy for row in noisy] == changed
    assert all(row.output in LABELS for row in noisy)


def test_noise_of_a_rule():
    noisy = inject_noise(POOL, 0.2, lambda text: text.upper(), seed=0)
    assert all((row.output == row.input.upper()) == bool(row.is_noisy) for row in noisy)


def test_a_wrong_output_is_none_of_several_right_ones():
    pool = [
        Exemplar(0, "time", ("Zeit", "Mal"), None),
        Exemplar(1, "times", ("Mal",), None),
        Exemplar(2, "dog", ("Hund",), None),
    ]
    noisy = inject_noise(pool, 1, None, seed=0)
    assert noisy[0].output == "Hund"


def test_rows_of_unknown_state_stay_unknown():
    noisy = inject_noise([replace(row, is_noisy=None) for row in POOL], 0.1, None, seed=0)
    assert {row.is_noisy for row in noisy} == {None, True}


def test_equal_outputs_leave_nothing_to_inject():
    with pytest.raises(DataError, match="there is no wrong one to inject; set noise_ratio=0"):
        inject_noise([replace(row, outputs=("same",)) for row in POOL], 0.1, None, seed=0)


def source(*labels):
    return TaskSource(name="t", metric="exact_match", rows=[Row(str(n), (label,)) for n, label in enumerate(labels)])


@pytest.mark.parametrize(
    ("labels", "spec", "renamed"),
    [
        (("0", "1", "2"), "reverse", ["2", "1", "0"]),
        (("10", "9", "1"), "shift", ["1", "10", "9"]),
        (LABELS, f"shift:{','.join(LABELS)}", ["Sports", "Business", "Technology", "World"]),
        (("1", "2"), "1=World;2=Sports", ["World", "Sports"]),
        (("a", "b"), "", ["a", "b"]),
    ],
)
def test_labels_are_renamed(labels, spec, renamed):
    assert [row.outputs[0] for row in remap_labels(source(*labels), spec).rows] == renamed


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rotate", "is none of shift, reverse, or old=new"),
        ("a=x", "not covered ['b'], not in the data []"),
        ("a=x;b=y;c=z", "not in the data ['c']"),
        ("reverse:a,c", "but the labels are ['a', 'b']"),
    ],
)
def test_mappings_that_do_not_fit_are_refused(spec, message):
    with pytest.raises(ConfigError) as caught:
        remap_labels(source("a", "b"), spec)
    assert message in str(caught.value)


def test_free_text_is_no_label():
    with pytest.raises(ConfigError, match="has 101 different outputs"):
        remap_labels(source(*map(str, range(101))), "shift")
