"""The number that an answer ends with, read as a whole.

A run of digits and separators is one thing: digits grouped as somewhere in the world (1,234.5, 1.234,5, 1 234, 1'234,
12,34,567, 1,2345,6789, ۱٬۲۳۴٫۵), with its word of size (1.2 million, 3 lakh, $5m, 10k) and its percent sign. What is
not a single number (a date, a time, a ratio, a range, a version, a telephone number, digits grouped as nowhere) is
compared as a whole, and none of its parts is a number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from ease_lib.equality import visible
from ease_lib.prompts.messages import without_reasoning

KEPT_TEXTS = 1024
"""Size of the cache of numbers in texts, since outputs and answers are read again and again."""
Quantity = Fraction | tuple[object, ...]
"""A number; or the parts of what is not a single number, which are equal only as a whole."""


class Percentage(Fraction):
    """A number with a percent sign: 50 % is 50, as a column of percentages has it, and 0.5."""

    __slots__ = ()


_SIZES = {
    "hundred": 2,
    **dict.fromkeys(("k", "thousand", "千"), 3),
    **dict.fromkeys(("万", "萬", "만"), 4),
    **dict.fromkeys(("lakh", "lac"), 5),
    **dict.fromkeys(("m", "mm", "mn", "mln", "mio", "million"), 6),
    **dict.fromkeys(("crore", "cr"), 7),
    **dict.fromkeys(("亿", "億", "억"), 8),
    **dict.fromkeys(("b", "bn", "bln", "mrd", "milliard", "billion"), 9),
    **dict.fromkeys(("t", "trillion"), 12),
}
"""Power of ten by which a word behind a number multiplies it."""
_WORD = (
    r"(?i:hundred|thousand|lakhs?|lacs?|millions?|mln|mio|mn|crores?|cr|billions?|milliards?|mrd|bln|bn|trillions?)\b"
)
_SIZE = rf"""(?P<size> (?: [ -]?{_WORD} | [ ]?[千万萬만亿億억] )+
                     | [kKMB](?!\w) | (?(currency) [ ]?(?i:mm|[kmbt])(?!\w) | (?!) ) )"""
"""M and B are millions and billions behind a digit; small ones only of money, for 5m may be metres or minutes."""
_FIGURE = r"""(?P<figure> (?<!/)(?<!/[ ])(?:\d+[ ])?\d+[ ]?/[ ]?\d+ (?! \d | [ ]?[/:][ ]?\d | [.,]\d )
                        | \d{1,3}(?:[ ]\d{3})+ (?:[.,]\d+)? (?! [ ]?\d | [,.'/:-]\d )
                        | \d+(?:[ ]\d+){2,} (?! [ ]?\d | [ ]?[,.'/:-]\d )
                        | \d+(?:[,.']\d+)* | (?<![\w.])\.\d+ )"""
_POWER = r"(?P<power> [eE][+-]?\d+(?!\w) | (?:[ ]?[×x*·][ ]?10)?\^\{?[+-]?\d+\}? )"
_ATOM = rf"{_FIGURE} {_POWER}? {_SIZE}? (?P<percent>[ ]?(?:\\?%|(?i:per[ ]?cent|pct)\b))?"
_CURRENCY = r"(?:[$€£¥₹₩₽]|\b(?:USD|EUR|GBP|INR|CHF|Rs\.?))[ ]?"
_BETWEEN = (
    r"[ ]?[–~/±][ ]?|[ ][-:][ ](?=\d)|[-—:]|[ ]?[×x][ ]?(?=\d)"
    r"|[年月년월时時点點시][ ]?(?=\d)|(?<=[千万萬만亿億억])[ ]?(?=\d)"
)
"""Text between two numbers that makes them a range, a ratio, an area, a date or a time; not the empty text between the
parts of 1億2000万."""
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _ATOM)
_NUMBER = re.compile(
    rf"""
    (?P<stamp> (?<!\w) \d{{4}}-\d{{1,2}}-\d{{1,2}} [T ] \d{{1,2}}:\d{{2}} (?: :\d{{2}} )? )
    | (?P<phone> (?: (?<![\w+]) \+\d{{1,3}}[ .-]? )? \(\d{{2,5}}\)[ .-]?\d{{2,}}(?:[ .-]\d{{2,}})+
      | (?<![\w+)]) \+(?!\d{{1,3}}(?:[ ]\d{{3}})+(?![ .-]?\d)) \d{{1,3}}(?:[ .-]\(?\d{{1,8}}\)?){{2,}} ) (?!\d)
    | (?: (?<![\w).]) (?P<minus>[-–]) )? (?P<currency>{_CURRENCY} (?P<inner>-)? )?
      (?P<run> {_UNNAMED} (?: (?:{_BETWEEN}) (?:{_CURRENCY})? {_UNNAMED} )* )
    """,
    re.VERBOSE,
)
_PART = re.compile(
    rf"(?P<currency>{_CURRENCY})? {_ATOM}".replace("(?(currency)", "(?:").replace("| (?!)", ""), re.VERBOSE
)
_JOINT = re.compile(_BETWEEN)
MOST_DIGITS = 400
"""Largest number of digits, and largest power of ten; more is never meant, and Python refuses to read 4 300 digits."""
_GROUPS = re.compile(r"(?!0)(?:\d{1,3}(?:[,'. ]\d{3})+|\d{1,2}(?:[,' ]\d{2})+[,' ]\d{3}|\d{1,4}(?:[,']\d{4})+)")
"""Digits grouped by thousands, as in India, as in China; of one separator."""
_SIGNS = str.maketrans("٫٬،٪⁄∕〜‒", ".',%//~-")
_VULGAR = re.compile(r" ?([\u00bc-\u00be\u2150-\u215e])")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(-?)(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_ANSWER = re.compile(r"answer(?:\s+is|\s*[:=])(.*?)(?:[.!?;](?=\s|\Z)|\n|\Z)", re.IGNORECASE)
_REASON = re.compile(r"\b(?:because|since|due to|not(?=\s+\W?\d)|instead of|rather than)\b", re.IGNORECASE)
_CONCLUSION = re.compile(r"=|\b(?:so|thus|hence|therefore|total)\b", re.IGNORECASE)


@lru_cache(KEPT_TEXTS)
def final_number(text: str) -> Quantity | None:
    r"""The last number after `####`, else in the last `\boxed{}`, else where it says "the answer is", else in the text.

    A reason that is given behind a number is not read: "7 because 3 + 4" is 7. Fractions, mixed numbers, exponents and
    `× 10^3` are numbers. Where two customs read a text differently, the English one is taken: "1,234" and "1 234" are a
    thousand and more, "1.234" is less than two; a comma that cannot part groups is a decimal one ("3,5", "0,123").
    """
    text = plain_numbers(without_reasoning(text))
    marked = re.findall(r"####\s*([^\n]*)", text)
    if marked:
        return _last_quantity(marked[-1])
    for part in (last_box(text), *_ANSWER.findall(text)[:-2:-1]):
        found = _last_quantity(_without_reason(part)) if part else None
        if found is not None:
            return found
    return _last_quantity(_without_reason(text))


def same_quantity(one: Quantity, other: Quantity) -> bool:
    """Whether two quantities are equal; a percentage also equals its hundredth, unless that is a percentage too."""
    if isinstance(one, Percentage) == isinstance(other, Percentage):
        return one == other
    percentage, number = (one, other) if isinstance(one, Percentage) else (other, one)
    assert isinstance(percentage, Percentage)
    return number in (percentage, percentage / 100)


def plain_numbers(text: str) -> str:
    """Return the text with digits, separators and fractions of all scripts and of LaTeX as ASCII has them."""
    text = visible(text)
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(int(digit.group())), text).translate(_SIGNS)
        text = _VULGAR.sub(lambda sign: " " + unicodedata.normalize("NFKC", sign[1]).replace("\u2044", "/"), text)
        text = re.sub(r"(?<=10)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda raised: "^" + raised.group().translate(_RAISED), text)
    if "\\" in text or "{,}" in text or "_" in text:
        text = (
            re.sub(r"(?<=\d)(?:\{,\}|\\,|_(?=\d{3}))(?=\d)", ",", text).replace(r"\times", "×").replace(r"\cdot", "·")
        )
        text = _LATEX_FRACTION.sub(r"\1\2/\3", re.sub(r"(?<=\d)(?=\\[dt]?frac)", " ", text))
    return text


def last_box(text: str) -> str | None:
    """The content of the last box; `\\boxed 5` and a box that is cut off before its end count too."""
    marks = list(re.finditer(r"\\f?box(?:ed)?(?:\s*\{|\s+([^\s$.]+))", text))
    if not marks or marks[-1].group(1):
        return str(marks[-1].group(1)) if marks else None
    start, depth = marks[-1].end(), 1
    for brace in re.finditer(r"\\.|[{}]", text[start:]):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if not depth:
            return text[start : start + brace.start()]
    return text[start:]


def _without_reason(text: str) -> str:
    """The text before a reason, where a number is before it and no conclusion behind it."""
    reason = _REASON.search(text)
    if not reason or _CONCLUSION.search(text, reason.end()) or not _NUMBER.search(text, 0, reason.start()):
        return text
    return text[: reason.start()]


def _last_quantity(text: str) -> Quantity | None:
    found = [quantity for match in _NUMBER.finditer(text) if (quantity := _quantity(match)) is not None]
    return found[-1] if found else None


def _quantity(match: re.Match[str]) -> Quantity | None:
    if len(match.group()) > MOST_DIGITS:
        return None
    if match["stamp"]:
        return tuple(map(int, re.findall(r"\d+", match["stamp"])))
    if match["phone"]:
        return "+", re.sub(r"\D", "", match["phone"])
    values, joints = _parts(match["run"])
    if match["minus"] or match["inner"]:
        values[0] = -values[0] if isinstance(values[0], Fraction) else values[0]
    if None in values:
        return None
    if {" - ", " : "} & {*joints} and not _begins_line(match):
        return values[-1]  # "Step 3 - 42"
    return _joined(values, [joint.strip().translate(_JOINTS) for joint in joints])


_JOINTS = str.maketrans("–—~x年月년월時时点點시", "---×----:::::")
"""One way to write what is between numbers."""


def _begins_line(match: re.Match[str]) -> bool:
    return not match.string[: match.start()].rpartition("\n")[2].strip(" \t*_$(\"'")


def _parts(run: str) -> tuple[list[Quantity | None], list[str]]:
    """Values of a run, None for what is not a number, and what is between them; a size after a range applies to
    all."""
    found = [_PART.match(run)]
    joints = []
    while (part := found[-1]) and part.end() < len(run):
        joint = _JOINT.match(run, part.end())
        assert joint is not None
        joints.append(joint.group())
        found.append(_PART.match(run, joint.end()))
    parts = [part for part in found if part is not None]
    common = parts[-1]["size"] if len(parts) > 1 and not any(part["size"] for part in parts[:-1]) else None
    return [_value(part, common if joints and "/" not in joints[0] else None) for part in parts], joints


def _value(part: re.Match[str], common_size: str | None) -> Quantity | None:
    value = _figure(part["figure"])
    if not isinstance(value, Fraction):
        return value
    if part["power"]:
        power = int(re.findall(r"[+-]?\d+", part["power"])[-1])
        if abs(power) > MOST_DIGITS or (power < 0 and not value):
            return None
        value = value**power if part["power"].startswith("^") else value * Fraction(10) ** power
    for word in re.findall(r"[A-Za-z]+|[^\W\d_]", part["size"] or common_size or ""):
        value *= 10 ** _SIZES[word.lower() if word.lower() in _SIZES else word.lower().removesuffix("s")]
    return Percentage(value) if part["percent"] else value


def _figure(text: str) -> Quantity | None:
    """The number that digits and separators form; if they form none, their parts."""
    if "/" in text:
        whole, _, over = text.partition("/")[0].strip().rpartition(" ")
        under = int(text.partition("/")[2])
        return int(whole or 0) + Fraction(int(over), under) if under else None
    separators = re.sub(r"\d", "", text)
    if separators in ("", "."):
        return Fraction(text)
    head, last, tail = text.rpartition(separators[-1])
    if _GROUPS.fullmatch(text) and len(set(separators)) == 1:
        return Fraction(re.sub(r"\D", "", text))
    is_whole = head.isdecimal() or (bool(_GROUPS.fullmatch(head)) and len(set(separators[:-1])) == 1)
    if last in ".," and last not in separators[:-1] and is_whole:
        return Fraction(re.sub(r"\D", "", head) + "." + tail)
    return _joined([Fraction(digits) for digits in re.findall(r"\d+", text)], list(separators))


def _joined(values: Sequence[Quantity | None], joints: Sequence[str]) -> Quantity | None:
    """One number, a fraction, or all parts; those of a date are equal however it is written."""
    if not joints:
        return values[0]
    if set(joints) == {""}:
        return sum((value for value in values if isinstance(value, Fraction)), Fraction())
    if list(joints) == ["/"] and all(isinstance(value, Fraction) for value in values):
        over, under = values
        return over / under if under else None  # type: ignore[operator]
    is_date = len(joints) == 2 and set(joints) in ({"-"}, {"/"}, {"."})
    return tuple(values) if is_date else (*values, *joints)
