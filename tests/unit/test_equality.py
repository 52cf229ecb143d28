"""Texts that are equal to a reader, and texts that are not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ease_lib.equality import as_read, same_written, seen, unseen_difference, visible

FLAG = "\U0001f3f4\U000e0067\U000e0062{}\U000e007f"
ENGLAND, SCOTLAND = FLAG.format("\U000e0065\U000e006e\U000e0067"), FLAG.format("\U000e0073\U000e0063\U000e0074")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shipping\u200b", "shipping"),
        ("e\u200b\u0301", "é"),  # what is not seen does not keep characters apart
        ("é", "e\u0301"),
        ("한글", unicodedata.normalize("NFD", "한글")),
        ("ＡＢＣ１", "abc1"),
        ("ﬁne", "fine"),
        ("a\u3000 \u2009b", "A b"),
        ("bill\u00ading", "billing"),
        ("\ufeffa", "a"),
        ("a\u200db\u200c", "ab"),
        ("\u202babc\u202c\u200e", "abc"),
        ("\u2066abc\u2069", "abc"),
        ("a\0\x1bb", "ab"),
        ("x\U000e0067", "x"),
        ("葛\U000e0100", "葛"),
        ("non\u2011spam", "non-spam"),
        ("don’t", "don't"),
        ("❤️", "❤"),
        ("❤️\u200d🔥", "❤\u200d🔥"),
        ("#\ufe0f\u20e3", "#\u20e3"),
        ("STRASSE", "straße"),
        ("ΣΙΣΥΦΟΣ", "σισυφος"),
        ("İSTANBUL", "istanbul"),
        ("I\u0307zmir", "izmir"),
        ("د\u200cا", "دا"),  # they do not join anyway
        ("ها\u200c", "ها"),
        ("می\u200c\u200cخواهم", "می\u200cخواهم"),
        ("می\u200b\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_texts_that_look_the_same_are_equal(one, other):
    assert as_read(one) == as_read(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("می\u200cخواهم", "میخواهم"),  # Persian
        ("क्\u200dष", "क्ष"),  # Hindi: a half form
        ("क्\u200cष", "क्ष"),
        ("ක්\u200dෂ", "ක්ෂ"),  # Sinhala
        ("ന്\u200d", "ന്"),  # Malayalam
        ("র\u200d্য", "র্য"),  # Bengali
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("👍🏽\u200d❤", "👍🏽❤"),
        (ENGLAND, SCOTLAND),
        ("5²", "52"),
        ("½", "12"),
        ("é", "e"),
        ("spam", "not spam"),
        ("10", "1 0"),
    ],
)
def test_texts_that_look_different_are_not_equal(one, other):
    assert as_read(one) != as_read(other)


def test_case_stays_where_it_counts():
    assert same_written("Ｅ\u0301te\u0301\u200b  x") == "Été x"
    assert same_written("US") != same_written("us")


def test_the_difference_that_nobody_sees_is_named():
    assert unseen_difference("shipping", "shipping\u200b") == "U+200B (zero width space) in the second"
    assert unseen_difference("é", "e\u0301") == (
        "U+00E9 (latin small letter e with acute) in the first; U+0065 (latin small letter e), "
        "U+0301 (combining acute accent) in the second"
    )
    assert unseen_difference("Yes", "yes ") == unseen_difference("yes", "no") == ""


@given(st.text())
def test_what_equal_texts_have_in_common_is_equal_to_them(text):
    assert as_read(as_read(text)) == as_read(text)
    assert as_read(unicodedata.normalize("NFD", text)) == as_read(unicodedata.normalize("NFC", text))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text):
    assert visible(text) == seen(text) == text
