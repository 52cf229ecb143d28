"""Score one answer against the accepted outputs of its row, in [0, 1] (metrics of Instruction Induction, and two more).

Normalisation differs from the authors' code where theirs changes meaning: "3.5" stays 3.5 (theirs: 3), "-4" keeps its
sign, "U.S." keeps its first dot, a hyphen stays.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

Metric = Callable[[str, Sequence[str]], float]

_QUOTES = "\"'`“”‘’«»"
_TRAILING = ".,;:!?"
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+")
_OPTION = re.compile(r"\b([A-Z])\b")
_MARKED_OPTION = re.compile(r"(?:answer|option|choice)\s*(?:is|:|-)?\s*\(?([A-Z])\b", re.IGNORECASE)


def normalise(text: str) -> str:
    """NFKC, first line with text, lower case, no surrounding quotes or trailing punctuation, single blanks."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.lower().split())
    previous = None
    while line != previous:
        previous = line
        line = line.strip(_QUOTES + " ").rstrip(_TRAILING)
    return line


def exact_match(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer is one of the outputs."""
    return float(normalise(answer) in map(normalise, outputs))


def exact_set(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer has the same words as an output, in any order."""
    return float(_word_set(answer) in map(_word_set, outputs))


def contains(answer: str, outputs: Sequence[str]) -> float:
    """1 when an output stands in the answer as whole words."""
    text = normalise(answer)
    return float(any(re.search(rf"(?<!\w){re.escape(normalise(output))}(?!\w)", text) for output in outputs))


def token_f1(answer: str, outputs: Sequence[str]) -> float:
    """Harmonic mean of the precision and recall of words; the best over the outputs."""
    return max(_f1(normalise(answer).split(), normalise(output).split()) for output in outputs)


def number(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's final number equals an output's; `#### 12` and `\\boxed{12}` are taken where present."""
    found = final_number(answer)
    return float(found is not None and any(found == final_number(output) for output in outputs))


def option_letter(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's option letter (A, B, ...) is an output's."""
    found = final_option(answer)
    return float(found is not None and any(found == final_option(output) for output in outputs))


def final_number(text: str) -> Decimal | None:
    """The number after `####`, in the last `\\boxed{}`, or the last one in the text."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    marked = re.findall(r"####([^\n]*)", text) or re.findall(r"\\boxed\{([^{}]*)\}", text)
    numbers = _NUMBER.findall(marked[-1] if marked else text)
    try:
        return Decimal(numbers[-1].replace(",", "")) if numbers else None
    except InvalidOperation:
        return None


def final_option(text: str) -> str | None:
    """The letter after the last "answer", "option" or "choice", or the last capital letter that stands alone."""
    found = _MARKED_OPTION.findall(text) or _OPTION.findall(text.strip().upper() if len(text.strip()) <= 3 else text)
    return str(found[-1]).upper() if found else None


METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "exact_set": exact_set,
    "contains": contains,
    "token_f1": token_f1,
    "number": number,
    "option_letter": option_letter,
}


def _word_set(text: str) -> frozenset[str]:
    return frozenset(normalise(text).replace(",", " ").split())


def _f1(answer: list[str], output: list[str]) -> float:
    if not answer or not output:
        return float(answer == output)
    common = sum((Counter(answer) & Counter(output)).values())
    return 2 * common / (len(answer) + len(output))
