"""Every library's way to mark a missing value, and values that look like it and are not."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from ease_lib.tasks.columns import is_empty
from ease_lib.tasks.missing import is_missing, plain_value

MASKED = np.ma.array([1, 2], mask=[True, False])


class Unsure:
    """Compares as `pandas.NA` does: neither equal nor different."""

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


MISSING = [
    Unsure(),
    Decimal("sNaN"),
    np.ma.array(1, mask=True),
    MASKED[0],
    np.ma.masked,
    np.array(np.nan),
    np.datetime64("NaT"),
    np.timedelta64("NaT", "s"),
    np.float32("nan"),
    Decimal("NaN"),
    pa.scalar(None, pa.timestamp("ns")),
    pa.scalar(float("nan")),
    float("nan"),
    complex("nan"),
    None,
]


@pytest.mark.parametrize("value", MISSING, ids=lambda value: type(value).__name__)
def test_a_value_that_is_missing_is_known_whatever_library_made_it(value):
    assert is_missing(value)
    assert plain_value(value) is None
    assert is_empty(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (MASKED, [None, 2]),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        (pa.array([1, None]), [1, None]),
        (pa.scalar({"a": None}), {"a": None}),
        (MASKED[1], 2),
        (np.float64(0), 0.0),
        (np.array([]), []),
        ([float("nan")], None),
        (Decimal("0"), None),
        ("NaN", None),
        ("", None),
        (False, None),
    ],
)
def test_a_value_is_not_missing_for_what_it_holds(value, plain):
    assert not is_missing(value)
    assert plain_value(value) == (value if plain is None else plain)


@pytest.mark.parametrize(
    ("library", "made"),
    [
        ("pandas", lambda pandas: [pandas.NA, pandas.NaT, pandas.Timedelta("NaT"), pandas.Series([None, 1.0])[0]]),
        ("polars", lambda polars: [polars.Series([None, 1])[0], polars.Series([float("nan")])[0]]),
    ],
)
def test_what_data_frames_hold_for_nothing_is_missing(library, made):
    installed = pytest.importorskip(library)
    assert all(map(is_missing, made(installed)))
    series = installed.Series([None, 1.0])
    assert not is_missing(series)
    assert plain_value(series) == [None, 1.0]


@pytest.mark.parametrize("text", ["", " \t\n", "\u00a0", "\u200b", "\ufeff \u2800", "\u3164", b" \0"])
def test_a_cell_of_which_nobody_sees_anything_is_empty(text):
    assert is_empty(text)
    assert not is_empty(["N/A", "nan", "None", "-", ".", "\u200b0", "ㅋ"])


def test_a_list_with_an_item_that_is_missing_is_not_filled():
    assert is_empty(["a", np.datetime64("NaT")])
    assert not is_empty(["a", 0])
