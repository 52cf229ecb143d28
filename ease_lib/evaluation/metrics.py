"""Score one answer against the accepted outputs of its row, in [0, 1].

`exact_match`, `exact_set`, `contains` and `token_f1` are those of Instruction Induction (Honovich et al., 2022);
`number`, `option_letter` and `boxed` read the result at the end of a chain of reasoning.

Normalisation differs from the authors' code where theirs changes meaning: "3.5" stays 3.5 (theirs: 3), "-4" keeps its
sign, "U.S." keeps its first dot, a hyphen stays, a lone "!" is not nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

Metric = Callable[[str, Sequence[str]], float]

_QUOTES = "\"'`“”‘’«»"
_TRAILING = ".,;:!?"
_COMPATIBLE = re.compile(r"[^\u00b2\u00b3\u00b9\u00bc-\u00be\u2044\u2070-\u209c\u2150-\u215f]+")
"""All but superscripts, subscripts and vulgar fractions, whose compatible forms are other numbers: 5² is not 52."""
_CHARACTERS = str.maketrans("−‘’“”", "-''\"\"")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = re.compile(rf"(?:(?<![\w).])-)?[$€£]?(?:{_DIGITS}(?:\.\d+)?|(?<![\w.])\.\d+)")


def normalise(text: str) -> str:
    """NFKC, first line with text, lower case, no surrounding quotes or trailing punctuation, single blanks.

    A text of nothing but quotes and punctuation keeps them.
    """
    line = next((line for line in _characters(text).splitlines() if line.strip()), "")
    whole = line = " ".join(line.lower().split())
    previous = None
    while line != previous:
        previous = line
        line = line.strip(_QUOTES + " ").rstrip(_TRAILING)
    return line or whole


def _characters(text: str) -> str:
    """One character for each meaning: full-width digits, typographic signs and quotes become the plain ones."""
    return _COMPATIBLE.sub(lambda run: unicodedata.normalize("NFKC", run.group()), text).translate(_CHARACTERS)


def exact_match(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer is one of the outputs."""
    return float(normalise(answer) in map(normalise, outputs))


def exact_set(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer has the same words as an output, in any order; "and" is none of them."""
    return float(_word_set(answer) in map(_word_set, outputs))


def contains(answer: str, outputs: Sequence[str]) -> float:
    """1 when an output stands in the answer as whole words."""
    text = normalise(answer)
    return float(any(re.search(rf"(?<!\w){re.escape(normalise(output))}(?!\w)", text) for output in outputs))


def token_f1(answer: str, outputs: Sequence[str]) -> float:
    """Harmonic mean of the precision and recall of words; the best over the outputs."""
    return max(_f1(_words(answer), _words(output)) for output in outputs)


def number(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's final number equals an output's; `#### 12` and `\\boxed{12}` are taken where present."""
    return _same(final_number, answer, outputs)


def option_letter(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's option letter (A, B, ...) is an output's."""
    return _same(final_option, answer, outputs)


def boxed(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's final expression is an output's, after light LaTeX normalisation (MATH)."""
    return _same(final_expression, answer, outputs)


def _same(read: Callable[[str], object], answer: str, outputs: Sequence[str]) -> float:
    found = read(answer)
    return float(found is not None and any(found == read(output) for output in outputs))


# --- the final number -------------------------------------------------------------------------------------------------


def final_number(text: str) -> Decimal | None:
    """The last number after `####`, else in the last `\\boxed{}` if it has one, else in the text."""
    text = _characters(text)
    marked = re.findall(r"####\s*([^\n]*)", text)
    numbers = _NUMBER.findall(marked[-1] if marked else _last_box(text) or "")
    numbers = numbers or ([] if marked else _NUMBER.findall(text))
    return Decimal(re.sub("[,$€£]", "", numbers[-1])) if numbers else None


# --- the option letter ------------------------------------------------------------------------------------------------

_OPEN, _CLOSE = r"[\s*_$({\[\"'~]*", r"(?![\w~]|'\w|\s*[=+*/^<>])"
_LETTER = rf"(?:(?-i:[A-Z]){_CLOSE}|[a-j](?=[)\]}}]|[\s.*_$\"']*(?:\n|\Z)))"
"""A capital that stands alone; a small letter only in brackets or at the end of its line."""
_PRONOUN = r"(?!(?-i:I)\s+(?!is\b)[a-z])"
_LINK = r"(?:is|was|be|must|should|will|would|the|correct|right|option|choice|letter|\\\w+)\b|[:=\-–>.]"
_LINKS = rf"(?:{_OPEN}(?:{_LINK}))*"


def _after(mark: str) -> re.Pattern[str]:
    return re.compile(rf"\b{mark}\b{_LINKS}{_OPEN}{_PRONOUN}({_LETTER})", re.IGNORECASE)


_OPTION_MARKS = (
    re.compile(r"(?:\A|\n)\W*(?:\\\w+\W*)*([A-Z]|[a-z](?=\W*\Z))\W*\Z"),  # the last line is a letter
    re.compile(r"\\boxed\W*(?:\\\w+\W*)*([A-Z])\b"),
    _after(r"(?:answer|ans|(?:correct|right)\s+(?:option|choice))"),
    re.compile(r"\b([A-Z])\b[)\]*\"']*\s+is\s+(?:thus\s+|therefore\s+)?(?:the\s+)?(?:correct|right|answer|best)"),
    _after(r"(?:option|choice)"),
    re.compile(r"\A\W*([A-Za-z])\s?[).:](?:\*\*)?\s[^\n]*\Z"),  # C) 12
    re.compile(r"[(\[]([A-Z])[)\]]"),
    re.compile(rf"\b(?![AI]\s+[a-z])([A-J]){_CLOSE}"),
)
"""How an option is named, the clearest first; of several namings of one kind the last counts."""


def final_option(text: str) -> str | None:
    """The option an answer names, as a capital letter; the words "A" and "I" of a sentence are none."""
    text = _characters(text).strip()
    found = next((named for mark in _OPTION_MARKS if (named := mark.findall(text))), [])
    return str(found[-1]).upper() if found else None


# --- the final expression ---------------------------------------------------------------------------------------------

_PLAIN_NUMBER = re.compile(rf"-?(?:{_DIGITS}(?:\.\d*)?|\.\d+)")
_PLAIN_FRACTION = re.compile(r"(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}")
_LATEX = (  # what to replace by what, in this order
    (r"\\text\s*\{\s+[^{}]*\}\.?\s*\Z", ""),  # a unit behind the value
    (r"\\(?:text|textbf|textit|mbox|mathrm|mathbf)\s*\{([^{}]*)\}", r"\1"),
    (r"\\(?:left|right)(?![a-z])|\\[!,;: ]|\\?%|\\\$|\^\s*(?:\\circ|\{\s*\\circ\s*\})|~", ""),
    (r"\{,\}", ","),
    (r"\\[dt]frac", r"\\frac"),
    (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
    (r"\s+", ""),
    (r"\A\$*(.*?)\.?\$*\.?\Z", r"\1"),
    (r"\A[a-zA-Z]=", ""),
    (r"\A(-?)(\d+)/(\d+)\Z", r"\1\\frac{\2}{\3}"),
)


def final_expression(text: str) -> str | None:
    """What the last `\\boxed{}` holds, else what follows the last "answer is" or `####`, else the last line.

    Blanks, sizes of brackets and fractions, units, a lone `x=` and the way to write a number make no difference.
    """
    text = _characters(text).strip()
    box = _last_box(text)
    if box is not None:
        return _plain_latex(box)
    marked = re.findall(r"(?:answer\s+is:?|####)\s*(\$[^$\n]+\$|[^\n]+)", text, re.IGNORECASE)
    lines = marked or [line for line in text.splitlines() if line.strip()]
    return _plain_latex(lines[-1]) if lines else None


def _last_box(text: str) -> str | None:
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


def _plain_latex(text: str) -> str:
    text = text.strip()
    for pattern, replacement in _LATEX:
        text = re.sub(pattern, replacement, text) or text
    if _PLAIN_NUMBER.fullmatch(text):
        return str(Fraction(text.replace(",", "").rstrip(".")))
    fraction = _PLAIN_FRACTION.fullmatch(text)
    if fraction and int(fraction[3]):
        return str(Fraction(int(fraction[2]), int(fraction[3])) * (-1 if fraction[1] else 1))
    return text


METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "exact_set": exact_set,
    "contains": contains,
    "token_f1": token_f1,
    "number": number,
    "option_letter": option_letter,
    "boxed": boxed,
}


def _words(text: str) -> list[str]:
    """The words of a text, each without the punctuation around it; a comma parts words unless digits surround it."""
    return [normalise(word) for word in re.sub(r",(?!\d)|(?<!\d),", " ", normalise(text)).split()]


def _word_set(text: str) -> frozenset[str]:
    words = frozenset(_words(text))
    return words - {"and"} or words


def _f1(answer: list[str], output: list[str]) -> float:
    if not answer or not output:
        return float(answer == output)
    common = sum((Counter(answer) & Counter(output)).values())
    return 2 * common / (len(answer) + len(output))
