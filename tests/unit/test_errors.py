"""Errors as a terminal shows them."""

import pytest

from ease_lib.errors import message_and_remedy


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("k=0 is below 1", "k=0 is below 1"),
        ("a.csv: no such file; check the path", "a.csv: no such file\n  check the path"),
        ("a; b has two; take another", "a; b has two\n  take another"),
        ("row 3 (a; b) is empty", "row 3 (a; b) is empty"),
        ("x is none; write `a; b`", "x is none\n  write `a; b`"),
        ('"a; b" is wrong; take c (or d; e)', '"a; b" is wrong\n  take c (or d; e)'),
        ("a is wrong; ", "a is wrong; "),
        ("- k=0 is wrong; set 1\n- x; y", "- k=0 is wrong; set 1\n- x; y"),
        ("", ""),
    ],
)
def test_the_remedy_has_a_line_of_its_own(text, shown):
    assert message_and_remedy(text) == shown
