"""Wrong documents get one sentence; no text is taken for a number."""

from dataclasses import dataclass, field
from typing import NotRequired

import pytest
from typing_extensions import TypedDict

from ease_lib.documents import Misfit, check, parsed, restored


@dataclass(frozen=True)
class Part:
    name: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Whole:
    count: int
    share: float = 0.0
    parts: tuple[Part, ...] = ()
    names: dict[str, str] = field(default_factory=dict)


class Shape(TypedDict):
    count: int
    part: NotRequired[dict[str, str] | None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", "it should be an object, found []"),
        (b"{}", "field count is missing"),
        (b'{"count": "3"}', "field count should be a valid integer, found '3'"),
        (b'{"count": true}', "field count should be a valid integer, found True"),
        (b'{"count": 3, "share": false}', "field share should be a valid number, found False"),
        (b'{"count": 3, "parts": [{"name": "a"}, {}]}', "field parts[1].name is missing"),
        (
            b'{"count": 3, "parts": [{"name": "a", "rows": [1, null]}]}',
            "field parts[0].rows[1] should be a valid integer",
        ),
        (b'{"count": 3, "names": {"a": 1}}', "field names.a should be a valid string, found 1"),
        (b'{"count": [' + b"1, " * 1000 + b"1]}", "found [1, 1, 1"),
    ],
)
def test_what_does_not_fit_is_named(content, message):
    with pytest.raises(Misfit) as caught:
        parsed(Whole, content)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 140


def test_what_fits_is_an_object_of_the_type():
    found = parsed(Whole, '{"count": 3, "share": 1, "parts": [{"name": "é", "rows": [1, 2]}], "more": 0}')
    assert found == Whole(count=3, share=1.0, parts=(Part("é", (1, 2)),))
    assert restored(Whole, {"count": 3, "parts": [{"name": "é", "rows": [1, 2]}]}).parts == found.parts


def test_fields_that_a_type_does_not_have_are_left_out_or_refused():
    with pytest.raises(Misfit, match="field more is unknown"):
        parsed(Whole, '{"count": 3, "more": 0}', extra=False)
    with pytest.raises(Misfit, match="field more is unknown"):
        restored(Whole, {"count": 3, "more": 0})
    check(Shape, {"count": 3, "more": 0})


@pytest.mark.parametrize("part", [3, {"a": 1}, ["a"]])
def test_what_was_read_already_is_checked(part):
    check(Shape, {"count": 1, "part": None})
    with pytest.raises(Misfit, match="field part"):
        check(Shape, {"count": 1, "part": part})
