from dataclasses import replace

import pytest

from ease_lib.errors import ConfigError, DataError
from ease_lib.evaluation.metrics import METRICS, exact_match
from ease_lib.tasks.base import Exemplar, Row, TaskSource
from ease_lib.tasks.noise import inject_noise
from ease_lib.tasks.remapping import remap_labels

LABELS = ("World", "Sports", "Business", "Technology")
POOL = [Exemplar(number, f"text {number}", (LABELS[number % 4],), False) for number in range(100)]


@pytest.mark.parametrize("ratio", [0, 0.1, 0.15, 0.5, 1])
def test_every_row_that_is_marked_really_changed(ratio):
    noisy = inject_noise(POOL, ratio, None, seed=3, score=exact_match)
    changed = [after.outputs != before.outputs for before, after in zip(POOL, noisy, strict=True)]
    assert sum(changed) == round(ratio * 100)
    assert [row.is_noisy for row in noisy] == changed
    assert all(row.output in LABELS for row in noisy)


def test_noise_of_a_rule():
    noisy = inject_noise(POOL, 0.2, lambda text: text.upper(), seed=0, score=exact_match)
    assert all((row.output == row.input.upper()) == bool(row.is_noisy) for row in noisy)


def test_a_wrong_output_is_none_of_several_right_ones():
    pool = [
        Exemplar(0, "time", ("Zeit", "Mal"), None),
        Exemplar(1, "times", ("Mal",), None),
        Exemplar(2, "dog", ("Hund",), None),
    ]
    noisy = inject_noise(pool, 1, None, seed=0, score=exact_match)
    assert noisy[0].output == "Hund"


@pytest.mark.parametrize(
    ("metric", "outputs"),
    [
        ("exact_match", ("Cow", "cow.", "dog")),
        ("exact_set", ("cow, dog", "dog, cow", "dog and cow", "spider")),
        ("contains", ("rest", "a long rest", "sleep")),
        ("token_f1", ("red car", "car red", "the red car")),
        ("number", ("2 + 2 = 4\n#### 4", "8 / 2 = 4\n#### 4.0", "#### 5")),
        ("option_letter", ("First.\nThe answer is C.", "Second.\nThe answer is C.", "The answer is D.")),
        ("boxed", (r"\boxed{0.5}", r"so \boxed{\frac12}", r"\boxed{2}")),
    ],
)
def test_an_injected_output_is_wrong_by_the_metric(metric, outputs):
    pool = [Exemplar(number, f"text {number}", (output,), False) for number, output in enumerate(outputs * 5)]
    noisy = inject_noise(pool, 1, None, seed=1, score=METRICS[metric])
    assert all(METRICS[metric](after.output, before.outputs) < 1 for before, after in zip(pool, noisy, strict=True))
    assert all(row.is_noisy for row in noisy)


def test_outputs_that_are_all_right_leave_nothing_to_inject():
    pool = [Exemplar(number, "text", (output,), False) for number, output in enumerate(("a, b", "b, a"))]
    with pytest.raises(DataError, match="no wrong one is left to inject"):
        inject_noise(pool, 1, None, seed=0, score=METRICS["exact_set"])


def test_a_rule_that_is_right_by_the_metric_is_refused():
    with pytest.raises(DataError, match="gives pool row 0 its right output 'WORLD'; lower noise_ratio"):
        inject_noise(POOL[:1], 1, lambda text: "WORLD", seed=0, score=exact_match)


def test_rows_of_unknown_state_stay_unknown():
    noisy = inject_noise([replace(row, is_noisy=None) for row in POOL], 0.1, None, seed=0, score=exact_match)
    assert {row.is_noisy for row in noisy} == {None, True}


def test_equal_outputs_leave_nothing_to_inject():
    with pytest.raises(DataError, match="no wrong one is left to inject; set noise_ratio=0"):
        inject_noise([replace(row, outputs=("same",)) for row in POOL], 0.1, None, seed=0, score=exact_match)


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
        ("rotate", "must be shift, reverse, or old=new"),
        ("a=x", "not covered ['b'], not in the data []"),
        ("a=x;b=y;c=z", "not in the data ['c']"),
        ("reverse:a,c", "but the labels are ['a', 'b']"),
    ],
)
def test_mappings_that_do_not_fit_are_refused(spec, message):
    with pytest.raises(ConfigError) as caught:
        remap_labels(source("a", "b"), spec)
    assert message in str(caught.value)


def test_labels_that_are_merged_are_mentioned_and_one_named_twice_is_refused():
    merged = remap_labels(source("1", "2", "3"), "1=A;2=A;3=B")
    assert [row.outputs[0] for row in merged.rows] == ["A", "A", "B"]
    assert merged.notices == ("label_remapping gives one label, 'A', to '1' and '2'",)
    assert remap_labels(source("1", "2"), "shift").notices == ()
    with pytest.raises(ConfigError, match="renames a label twice"):
        remap_labels(source("1", "2"), "1=A;2=B;1=C")


def test_free_text_is_no_label():
    with pytest.raises(ConfigError, match="has 101 different outputs"):
        remap_labels(source(*map(str, range(101))), "shift")
