"""Missing values, in cells of files and in values of programs, from any library."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

CONTENTS = ("as_py", "tolist", "to_list")
"""Methods of Arrow, numpy, pandas and polars that return a value as Python's own."""


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, `pandas.NA`, a masked value, a null of Arrow.

    Compared with itself, such a value is not equal or cannot tell. Lists and arrays are values, whatever they hold.
    """
    if value is None:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling one cannot be compared
    numpy = sys.modules.get("numpy")  # a program that has its values has loaded it
    if numpy and isinstance(value, numpy.ndarray):
        return value is numpy.ma.masked or (value.ndim == 0 and is_missing(value[()]))
    if hasattr(value, "as_py"):
        return is_missing(value.as_py())
    if hasattr(value, "__len__"):
        return False
    try:
        return bool(value != value)
    except TypeError:  # `pandas.NA`
        return True


def plain_value(value: Any) -> Any:
    """Return a value of another library as Python's own, with None for missing ones; any other value unchanged."""
    if is_missing(value):
        return None
    for method in CONTENTS:
        if hasattr(value, method):
            return _plain_items(getattr(value, method)())
    return value


def _plain_items(value: Any) -> Any:
    return [_plain_items(item) for item in value] if isinstance(value, list) else plain_value(value)
