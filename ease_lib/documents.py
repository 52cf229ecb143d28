"""Typed documents from outside; one sentence describes what does not fit the type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ease_lib.words import cut

T = TypeVar("T")
LONGEST = 60
"""Characters of a value that a message shows."""


class Misfit(ValueError):
    """Error that names the first wrong field, its value and the expected type."""


def parsed(kind: type[T], content: bytes | str | None, *, extra: bool = True) -> T:
    """A JSON document as an object of a type: a dataclass, a `TypedDict`, or of what these are made of.

    No text is taken for a number, nor a boolean for one.

    Args:
        content: None as an empty one, which is not a document.
        extra: whether there may be fields that the type does not have; they are left out.

    Raises:
        Misfit: when it is not JSON, or does not fit.
    """
    with _misfits():
        fitting: T = _adapter(kind).validate_json(content or b"", strict=True, extra="ignore" if extra else "forbid")
    return fitting


def check(kind: type[Any], document: object) -> None:
    """Whether what was read already fits a `TypedDict`.

    Raises:
        Misfit: when it does not.
    """
    with _misfits():
        _adapter(kind).validate_python(document, strict=True)


def restored(kind: type[T], document: object) -> T:
    """An object of a dataclass from what `yaml` made of it, lists in the place of tuples and no other fields.

    Raises:
        Misfit: when it does not fit.
    """
    with _misfits():
        fitting: T = _adapter(kind).validate_python(document, extra="forbid")
    return fitting


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


@contextmanager
def _misfits() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise Misfit(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "it is not JSON"
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).removeprefix(".")
    field = f"field {where}" if where else "it"
    if first["type"].startswith("missing"):
        return f"{field} is missing"
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{field} is unknown"
    if first["type"] == "string_pattern_mismatch":
        return f"{field} has another form than it should, found {cut(repr(first['input']), LONGEST)}"
    wanted = re.sub(r"^.*?(?=should )", "", first["msg"]).replace(" after validation", "")
    return f"{field} {wanted}, found {cut(repr(first['input']), LONGEST)}"
