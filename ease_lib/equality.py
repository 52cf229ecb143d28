"""Equality of texts to a reader: one rule for labels, splits, metrics, JSON, patterns and deletions.

Composed and decomposed characters, compatible forms (full width, ligatures), typographic quotes and hyphens, case, the
width of blanks and invisible characters make no difference. Superscripts and fractions do: 5² is not 52.

An invisible character stays where it changes what is seen: a joiner or a non-joiner between letters that it parts or
joins (Persian می‌خواهم, Indic half forms), a joiner and the tags within an emoji sequence.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter

import regex as unicode_regex

_UNSEEN = re.compile(
    "[\0-\b\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls but for blanks, what Unicode calls default ignorable, and marks of annotations."""
_BLANK = re.compile(rf"(?:\s|\u2800|{_UNSEEN.pattern})*")
_TURKISH = re.compile("i\u0307+")
"""Result of `casefold` for İ: an i with a second dot, which is invisible."""
_REPEATED = re.compile("([\u200c\u200d])[\u200c\u200d]+")
_JOINERS = unicode_regex.compile(
    r"""
      (?<= \p{jt=D} \p{jt=T}*+ ) \u200c (?= \p{jt=T}*+ [\p{jt=D}\p{jt=R}] )  # letters that would join otherwise
    | (?<= \p{ccc=Virama} ) (?: \u200d | \u200c (?=\p{L}) )
    | [\u200c\u200d] (?= \p{ccc=Virama} )
    | (?<= [\p{Extended_Pictographic}\p{Emoji_Modifier}] ) \u200d (?= \p{Extended_Pictographic} )
    | (?<= \U0001F3F4 [\U000E0020-\U000E007F]* ) [\U000E0020-\U000E007F]  # the flag of a part of a country
    | (?<= \p{Mongolian} ) \u180e (?= \p{Mongolian} )
    """,
    unicode_regex.VERBOSE,
)
"""Invisible characters that change what is seen."""
_DEPENDENT = frozenset("\u200c\u200d\u180e") | frozenset(map(chr, range(0xE0020, 0xE0080)))
"""Invisible characters that may change what is seen, by what is around them."""
_COMPATIBLE = re.compile(r"[^\u00b2\u00b3\u00b9\u00bc-\u00be\u2044\u2070-\u209c\u2150-\u215f]+")
"""All but superscripts, subscripts and vulgar fractions, whose compatible forms are other numbers: 5² is not 52."""
_ALIKE = str.maketrans("−‐‘’ʼ“”\u2800", "--'''\"\" ")


def visible(text: str) -> str:
    """Return the text with one character for each visible one, and without invisible ones; case stays."""
    if text.isascii():
        return text if text.isprintable() else _UNSEEN.sub("", text)
    return _COMPATIBLE.sub(lambda run: unicodedata.normalize("NFKC", run.group()), seen(text)).translate(_ALIKE)


def seen(text: str) -> str:
    """Return the text without its invisible characters; the others stay as they are written."""
    if not _UNSEEN.search(text):
        return text
    text = _REPEATED.sub(r"\1", _UNSEEN.sub(lambda unseen: unseen.group() * (unseen.group() in _DEPENDENT), text))
    kept = {match.start() for match in _JOINERS.finditer(text)}
    return _UNSEEN.sub(lambda unseen: unseen.group() if unseen.start() in kept else "", text)


def is_blank(text: str) -> bool:
    """Return whether a reader sees nothing of a text: it is empty, or holds blanks and invisible characters alone."""
    if "!" <= text[:1] <= "~":  # most texts
        return False
    return _BLANK.fullmatch(text) is not None


def folded(text: str) -> str:
    """Return a visible text without its case, on one line with single blanks."""
    line = " ".join(text.casefold().split())
    return line if line.isascii() else unicodedata.normalize("NFC", _TURKISH.sub("i", line))


def as_read(text: str) -> str:
    """Return a canonical form: two texts are equal if, and only if, their forms are."""
    return folded(visible(text))


def same_written(text: str) -> str:
    """Return a canonical form that keeps case."""
    return " ".join(visible(text).split())


def equality_key(text: str) -> bytes:
    """Return 16 bytes in the place of `as_read`, of which large tables would keep a copy of every text."""
    return hashlib.blake2b(as_read(text).encode(errors="surrogatepass"), digest_size=16).digest()


def unseen_difference(one: str, other: str) -> str:
    """Return the code points in which two equal texts differ; empty if a reader sees the difference: case, blanks.

    `U+200B (zero width space) in the second`
    """
    if as_read(one) != as_read(other) or " ".join(one.casefold().split()) == " ".join(other.casefold().split()):
        return ""
    counts = Counter(one), Counter(other)
    more = (counts[0] - counts[1], "first"), (counts[1] - counts[0], "second")
    return "; ".join(f"{', '.join(map(code_point, extra))} in the {which}" for extra, which in more if extra)


def code_point(character: str) -> str:
    """Return a name for a character that may be invisible: `U+200B (zero width space)`."""
    return f"U+{ord(character):04X} ({unicodedata.name(character, 'a control character').lower()})"
