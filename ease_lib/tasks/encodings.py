"""Decoding of a file's bytes: by its byte order mark, by the named encoding, or by the places of zeros."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from operator import methodcaller
from typing import IO

MARK = "\ufeff"
"""Byte order mark as a character. It is never content: joined files have it in the middle."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
_LOOKED_AT = 4096
"""Number of bytes examined in a file without a mark."""
_LAST_PLANE = 0x10
"""Last plane of Unicode: the second byte of a UTF-32 character is no larger."""
_FEWEST_ZEROS = 1 / 20
"""Share of bytes; UTF-16 has a zero in each delimiter and line break, other text has none."""
_OF_EITHER_ORDER = ("utf-16", "utf-32")
"""Encodings whose byte order follows from a mark, or from the places of zeros."""


def text_encoding(content: IO[bytes], named: str = "") -> str:
    """Return the encoding of a file's byte order mark; without one the named encoding, else UTF-8, 16 or 32."""
    begins = content.read(_LOOKED_AT)
    content.seek(0)
    marked = next((encoding for mark, encoding in _MARKS if begins.startswith(mark)), "")
    if marked or (named and codecs.lookup(named).name not in _OF_EITHER_ORDER):
        return marked or named
    return _by_zeros(begins)


def _by_zeros(begins: bytes) -> str:
    """Return the encoding of text without a mark, by the places of zeros in units of four bytes."""
    units = len(begins) // 4
    is_filled_up = bytes(8) in begins  # where writing it was cut off; no text of Unicode has so many zeros in a row
    if is_filled_up or begins.count(0) < max(1, _FEWEST_ZEROS * len(begins)):
        return "utf-8"
    zeros = [begins[place::4].count(0) for place in range(4)]
    if units and zeros[3] >= units and max(begins[2::4]) <= _LAST_PLANE:
        return "utf-32-le"
    if units and zeros[0] >= units and max(begins[1::4]) <= _LAST_PLANE:
        return "utf-32-be"
    return "utf-16-le" if zeros[1] + zeros[3] > zeros[0] + zeros[2] else "utf-16-be"


def without_marks(texts: Iterable[str]) -> Iterator[str]:
    """Remove the byte order marks from lines or other parts of a text."""
    return map(methodcaller("replace", MARK, ""), texts)
