"""Score one answer against the accepted outputs of its row, in [0, 1].

`exact_match`, `exact_set`, `contains` and `token_f1` are those of Instruction Induction (Honovich et al., 2022).
`number`, `option_letter` and `boxed` read the result at the end of a chain of reasoning. `instruction_induction` scores
exactly like the authors' code, by its rule for the task, except that hidden reasoning, which that code does not know,
is removed.

Normalisation is stricter than in the authors' code, which changes meaning: "3.5" stays 3.5 (theirs: 3), "-4" keeps its
sign, "U.S." keeps its first dot, a hyphen stays, and a lone "!" is not empty. Their code also ignores text after the
first full stop, punctuation within words ("its" is "it's", "cat, dog" is "cat dog"), " and " and "Sentence 1:"; use
`instruction_induction` for that. Punctuation at the end of a sentence is recognised in any script. As in their code,
only the first line of an answer counts if it is compared as a whole. If an accepted output spans lines, or if words are
searched, the whole answer counts. In scripts without blanks between words, characters are words.
"""

from __future__ import annotations

import itertools
import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import regex as unicode_regex
from rapidfuzz.distance import LCSseq, Levenshtein

from ease_lib.config.sections import AS_PUBLISHED
from ease_lib.equality import as_read, folded, same_written, seen, visible
from ease_lib.errors import DataError
from ease_lib.evaluation.numbers import KEPT_TEXTS, MOST_DIGITS, final_number, last_box, same_quantity
from ease_lib.prompts.messages import without_reasoning

Metric = Callable[[str, Sequence[str]], float]
LABEL = "label"
"""The metric that knows the task's labels."""

_OPENING = unicode_regex.compile(r"""[\s"'`\p{Pi}\p{Pf}„‚「」『』《》〈〉〝〞〟¿¡]*+""")
_CLOSING = unicode_regex.compile(r"""(?r)[\s"'`\p{Pi}\p{Pf}„‚「」『』《》〈〉〝〞〟\p{Terminal_Punctuation}]*""")
"""Quotes of any script, and behind the text what ends sentences and their parts."""
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_FENCED = re.compile(r"\A\s*```[^\n`]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@lru_cache(KEPT_TEXTS)
def normalise(text: str) -> str:
    """The first line as readers see it (`equality`), without case, quotes around and trailing punctuation (。 too).

    A text of nothing but quotes and punctuation keeps them. Hidden reasoning and a code fence do not count.
    """
    line = next((line for line in _lines(text) if line.strip()), "")
    return _bare(folded(line))


@lru_cache(KEPT_TEXTS)
def normalise_whole(text: str) -> str:
    """Normalise the text like `normalise`, but keep all lines with text, each with its indentation: `- b` below `- a`
    is not `  - b`."""
    lines = [line for line in _lines(text) if line.strip()]
    kept = [line[: len(line) - len(line.lstrip())] + folded(line) for line in lines]
    return _bare("\n".join(kept).strip())


def spans_lines(output: str) -> bool:
    return len(visible(output).strip().splitlines()) > 1


def _lines(text: str) -> list[str]:
    text = visible(without_reasoning(text))
    fenced = _FENCED.match(text)
    return (fenced.group(1) if fenced else text).splitlines()


def _bare(text: str) -> str:
    """The text without surrounding quotes and trailing punctuation, unless nothing else would be left."""
    begins, ends = _OPENING.match(text), _CLOSING.match(text)
    assert begins is not None
    assert ends is not None
    return text[begins.end() : ends.start()] or text


def _alike(answer: str, output: str) -> tuple[str, str]:
    """Both normalised: their first lines, or all of them where the output spans lines."""
    read = normalise_whole if spans_lines(output) else normalise
    return read(answer), read(output)


def exact_match(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer is one of the outputs."""
    return float(any(given == wanted for given, wanted in _pairs(answer, outputs)))


def exact_set(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer has the same words as an output, in any order; "and" is ignored."""
    return float(any(_word_set(given) == _word_set(wanted) for given, wanted in _pairs(answer, outputs)))


def case_sensitive_match(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer is one of the outputs, with the same upper and lower case."""
    return float(any(given == wanted for given, wanted in (_as_written(answer, output) for output in outputs)))


def regex(answer: str, outputs: Sequence[str]) -> float:
    """1 when an output, read as a regular expression, is found in the answer as a reader sees it; case counts.

    Raises:
        DataError: on an output that is not one.
    """
    text = without_reasoning(answer)
    try:
        return float(any(_is_found(output, text) for output in outputs))
    except re.error as error:
        raise DataError(f"metric=regex: an output is not a regular expression ({error}); correct it") from error


def _is_found(output: str, text: str) -> bool:
    """Whether a pattern is in a text as it is written, apart from invisible characters, or in its compatible form."""
    written, compatible = _patterns(output)
    if text.isascii() and text.isprintable():
        return bool(compatible.search(text))
    return bool(written.search(_composed(text)) or compatible.search(visible(text)))


@lru_cache(KEPT_TEXTS)
def _patterns(output: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """An output as a pattern, as it is written and in its compatible form.

    What becomes a sign of patterns by its compatible form, as a full-width bracket does, stays a character.
    """
    written = _composed(output)
    compatible = re.sub(r"[^\x00-\x7f]+", lambda run: _literal(visible(run.group())), written)
    return re.compile(written), re.compile(compatible)


def _composed(text: str) -> str:
    return text if text.isascii() and text.isprintable() else unicodedata.normalize("NFC", seen(text))


def _literal(text: str) -> str:
    return re.sub(r"[.^$*+?{}\[\]\\|()\-]", r"\\\g<0>", text)


def json_equal(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's JSON value equals an output's, whatever the order of keys and blanks; case counts."""
    return float(any(given is not None and _same_json(given[0], wanted) for given, wanted in _values(answer, outputs)))


def json_fields(answer: str, outputs: Sequence[str]) -> float:
    """Share of an output's fields that the answer has with the same value; additional fields count as wrong."""
    return max((_share(given, wanted) for given, wanted in _field_pairs(answer, outputs)), default=0.0)


def json_set(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's JSON list has the same items as an output's, in any order and however often."""
    return float(any(given is not None and _same_items(given[0], wanted) for given, wanted in _values(answer, outputs)))


def fields_right(answer: str, outputs: Sequence[str]) -> dict[str, bool]:
    """Correctness of each field of the best-fitting output; False for additional fields of the answer."""
    fields, wanted = max(_field_pairs(answer, outputs), key=lambda pair: _share(*pair))
    return {name: _same_field(fields, wanted, name) for name in (*wanted, *(set(fields) - set(wanted)))}


def rouge_l(answer: str, outputs: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words (Lin, 2004); the best over the outputs."""
    given = _words(answer)
    return max(_sequence_f1(given, _words(output)) for output in outputs)


def edit_similarity(answer: str, outputs: Sequence[str]) -> float:
    """1 minus the edit distance of characters (Levenshtein) divided by the longer length; the best over the outputs."""
    return max(_edit_similarity(given, wanted) for given, wanted in _pairs(answer, outputs))


def contains(answer: str, outputs: Sequence[str]) -> float:
    """1 when an output is in the answer as whole words, in any of its lines."""
    given = _running(answer)
    return float(any(unicode_regex.search(_as_word(_running(output)), given) for output in outputs))


def label(answer: str, outputs: Sequence[str], labels: Sequence[str] = ()) -> float:
    """1 when an output is in the answer as a word, and no other label of the task: "Sure! It is **billing**."

    Of labels that overlap the longest counts: `not spam` is not `spam`. Letters of scripts that part no words by blanks
    need none around a label.

    Args:
        labels: all of the task; `label_metric` knows them.
    """
    known = {_shown(each): each for each in (*labels, *outputs)}
    every = "|".join(_as_word(each) for each in sorted(known, key=len, reverse=True) if each)
    found = {match.group() for match in unicode_regex.finditer(every, _shown(answer))} if every else set()
    return float(bool(found) and found <= {_shown(output) for output in outputs})


def label_metric(labels: Iterable[str]) -> Metric:
    """`label` for a task with these labels."""
    return partial(label, labels=tuple(dict.fromkeys(labels)))


def _shown(text: str) -> str:
    return as_read(without_reasoning(text))


_UNPARTED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
"""Scripts whose words are not parted by blanks."""
_NO_BOUNDARY = unicode_regex.compile(rf"[{_UNPARTED}\p{{Hangul}}]")
"""Matches unparted scripts, and Hangul, which joins endings to words."""


def _as_word(wanted: str) -> str:
    """A pattern of the text where no word goes on before or behind it; `_spam_` holds spam, `not_spam` does not."""
    wanted_and_beyond = ((wanted[:1], r"(?<![^\W_]_?)"), (wanted[-1:], r"(?!_?[^\W_])"))
    before, after = ("" if _NO_BOUNDARY.match(edge) else boundary for edge, boundary in wanted_and_beyond)
    return f"{before}{unicode_regex.escape(wanted, special_only=True)}{after}"


def token_f1(answer: str, outputs: Sequence[str]) -> float:
    """Harmonic mean of the precision and recall of words; the best over the outputs."""
    given = _words(answer)
    return max(_f1(given, _words(output)) for output in outputs)


def _pairs(answer: str, outputs: Sequence[str]) -> Iterator[tuple[str, str]]:
    return (_alike(answer, output) for output in outputs)


def number(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's final number equals an output's (`final_number`); 50 % is 50 and 0.5."""
    found = final_number(answer)
    wanted = map(final_number, outputs)
    return float(found is not None and any(each is not None and same_quantity(found, each) for each in wanted))


def option_letter(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's option letter (A, B, ...) is an output's."""
    return _same(final_option, answer, outputs)


def boxed(answer: str, outputs: Sequence[str]) -> float:
    """1 when the answer's final expression is an output's, after light LaTeX normalisation (MATH)."""
    return _same(final_expression, answer, outputs)


def _same(read: Callable[[str], object], answer: str, outputs: Sequence[str]) -> float:
    found = read(answer)
    return float(found is not None and any(found == read(output) for output in outputs))


# --- the option letter ------------------------------------------------------------------------------------------------

_OPEN, _CLOSE = r"[\s*_$({\[\"'~]*", r"(?![\w~]|'\w|\s*[=+*/^<>])"
_LETTER = rf"(?:(?-i:[A-Z]){_CLOSE}|[a-j](?=[)\]}}]|[\s.*_$\"']*(?:\n|\Z)))"
"""A capital letter by itself; a small letter only in brackets or at the end of its line."""
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
"""Patterns of a named option, the clearest first; of several matches of one pattern the last counts."""


def final_option(text: str) -> str | None:
    """The option an answer names, as a capital letter; the words "A" and "I" of a sentence do not count."""
    text = visible(without_reasoning(text)).strip()
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
    """Content of the last `\\boxed{}`, else the text after the last "answer is" or `####`, else the last line.

    Blanks, sizes of brackets and fractions, units, a lone `x=` and the way to write a number make no difference.
    """
    text = visible(without_reasoning(text)).strip()
    box = last_box(text)
    if box is not None:
        return _plain_latex(box)
    marked = re.findall(r"(?:answer\s+is:?|####)\s*(\$[^$\n]+\$|[^\n]+)", text, re.IGNORECASE)
    lines = marked or [line for line in text.splitlines() if line.strip()]
    return _plain_latex(lines[-1]) if lines else None


def _plain_latex(text: str) -> str:
    text = text.strip()
    for pattern, replacement in _LATEX:
        text = re.sub(pattern, replacement, text) or text
    if len(text) > MOST_DIGITS:
        return text
    if _PLAIN_NUMBER.fullmatch(text):
        return str(Fraction(text.replace(",", "").rstrip(".")))
    fraction = _PLAIN_FRACTION.fullmatch(text)
    if fraction and int(fraction[3]):
        return str(Fraction(int(fraction[2]), int(fraction[3])) * (-1 if fraction[1] else 1))
    return text


# --- JSON -------------------------------------------------------------------------------------------------------------


MOST_NESTED = 100
"""Levels of a JSON value that is compared."""


_JSON = re.compile(r"""\s*(?:[{\["\d-]|true|false|null)""")
"""Beginning of a JSON value."""


def final_json(text: str, kind: tuple[type, ...] = ()) -> tuple[Any] | None:
    """The last JSON value that an answer gives, alone in a tuple, for it may be false; or None.

    The whole answer if it is a value; else of the objects and lists in it those of the kind that is expected, if there
    are any, and of these those in a code block or on lines of their own: neither the `[3]` of "As in [3], it is
    {...}" nor that of "{...}, as in [3]" is the value. A value of more than `MOST_NESTED` levels does not count.

    Args:
        kind: what `_kind` says of the output.
    """
    text = without_reasoning(text)
    text = text if text.isascii() else re.sub(r"[^\S\n\r]", " ", seen(text))
    try:
        if _JSON.match(text):
            with suppress(ValueError):
                return _flat_enough(json.loads(text))
        found = list(_json_values(text))
    except RecursionError:
        return None
    alike = ([place for place in found if _kind(place[0])[:depth] == kind[:depth]] for depth in (2, 1))
    of_kind = next(filter(None, alike), found)
    set_off = [place for place in of_kind if _is_set_off(text, *place[1:])] or of_kind
    return _flat_enough(set_off[-1][0]) if set_off else None


def _kind(value: Any) -> tuple[type, ...]:
    """The type of a value, and of a list the type of its first item: `[3]` in prose is not a list of texts."""
    first = value[:1] if isinstance(value, list) else []
    return (type(value), *(float if type(item) is int else type(item) for item in first))


def _json_values(text: str) -> Iterator[tuple[Any, int, int]]:
    """The objects and lists of a text that are in no other one, with where each begins and ends."""
    decoder, end = json.JSONDecoder(), 0
    for start in re.finditer(r"[{\[]", text):
        if start.start() >= end:
            with suppress(ValueError):
                value, end = decoder.raw_decode(text, start.start())
                yield value, start.start(), end


def _is_set_off(text: str, start: int, end: int) -> bool:
    """Whether nothing else is on the lines of a value, but for the marks of a code block."""
    line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    around = text[line_start:start] + text[end : line_end if line_end >= 0 else len(text)]
    return not around.strip(" \t\r`*.") or around.strip(" \t\r`").lower() == "json"


def _flat_enough(value: Any) -> tuple[Any] | None:
    level = [value]
    for _ in range(MOST_NESTED):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = list(itertools.chain.from_iterable(inner))
        if not level:
            return (value,)
    return None


@lru_cache(KEPT_TEXTS)
def _wanted(output: str) -> Any:
    """Value of an output, which must not be changed.

    Raises:
        DataError: on an output that is not JSON, or too deep.
    """
    try:
        value = json.loads(output)
        is_flat = _flat_enough(value) is not None
    except RecursionError:
        is_flat = False
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise DataError("an output has a number of thousands of digits; write it as a text") from error
        raise DataError(f"an output is not JSON ({error}); correct it, or choose another metric") from error
    if not is_flat:
        raise DataError(
            f"an output has more than {MOST_NESTED} levels of JSON; choose another metric, or use a part of it"
        )
    return value


def _values(answer: str, outputs: Sequence[str]) -> Iterator[tuple[tuple[Any] | None, Any]]:
    """The answer's value, of the kind of each output, and that output."""
    found: dict[tuple[type, ...], tuple[Any] | None] = {}
    for wanted in map(_wanted, outputs):
        kind = _kind(wanted)
        if kind not in found:
            found[kind] = final_json(answer, kind)
        yield found[kind], wanted


def _field_pairs(answer: str, outputs: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    return (
        (_fields(given[0]) if given is not None else {}, _fields(wanted)) for given, wanted in _values(answer, outputs)
    )


def _same_json(one: Any, other: Any) -> bool:
    """1 and 1.0 are equal, 1 and true are not; texts and names are equal but for case if they are to a reader."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = _fields(one), _fields(other)
        return one.keys() == other.keys() and all(_same_json(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return one == other or same_written(one) == same_written(other)
    return bool(one == other)


def _same_items(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list):
        return False
    return all(any(_same_json(item, there) for there in to) for of, to in ((one, other), (other, one)) for item in of)


def _fields(value: Any) -> dict[str, Any]:
    """Fields of an object by their normalised names; any other value alone, without a name."""
    if not isinstance(value, dict):
        return {"": value}
    return {same_written(name): item for name, item in value.items()}


def _share(given: dict[str, Any], wanted: dict[str, Any]) -> float:
    names = given.keys() | wanted.keys()
    return sum(_same_field(given, wanted, name) for name in names) / len(names) if names else 1.0


def _same_field(given: dict[str, Any], wanted: dict[str, Any], name: str) -> bool:
    return name in given and name in wanted and _same_json(given[name], wanted[name])


# --- as the authors of Instruction Induction score --------------------------------------------------------------------


_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _as_their_code_reads(text: str) -> str:
    """Up to the first full stop of the first line, without " and ", punctuation of ASCII, and upper case.

    So "3.5" is "3", and blanks at the end count. What a model thought aloud is left out, which theirs never did.
    """
    for left_out in (" and ", "Sentence 1:", "Sentence 2:"):
        text = text.replace(left_out, " ")
    line = text.strip().split("\n")[0].split(".")[0]
    return line.lower().replace("-", " ").translate(_ASCII_PUNCTUATION)


def _as_they_score(score: Callable[[str, str], float]) -> Metric:
    """The best over the outputs of a score of two texts, both as their code reads them."""

    def best(answer: str, outputs: Sequence[str]) -> float:
        given = _as_their_code_reads(without_reasoning(answer))
        return max(float(score(given, _as_their_code_reads(output))) for output in outputs)

    return best


def _their_f1(given: str, wanted: str) -> float:
    """Token F1 in their order of operations; 0 if neither text has a word."""
    said, expected = given.split(), wanted.split()
    same = sum((Counter(said) & Counter(expected)).values())
    if not same:
        return 0.0
    precision, recall = same / len(said), same / len(expected)
    return 2 * precision * recall / (precision + recall)


METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "case_sensitive_match": case_sensitive_match,
    "exact_set": exact_set,
    "contains": contains,
    LABEL: label,
    "token_f1": token_f1,
    "rouge_l": rouge_l,
    "edit_similarity": edit_similarity,
    "regex": regex,
    "json_equal": json_equal,
    "json_fields": json_fields,
    "json_set": json_set,
    "number": number,
    "option_letter": option_letter,
    "boxed": boxed,
    AS_PUBLISHED: _as_they_score(lambda given, wanted: given == wanted),
    f"{AS_PUBLISHED}_set": _as_they_score(lambda given, wanted: set(given.split()) == set(wanted.split())),
    f"{AS_PUBLISHED}_contains": _as_they_score(lambda given, wanted: bool(re.search(rf"\b({wanted})\b", given))),
    f"{AS_PUBLISHED}_f1": _as_they_score(_their_f1),
}


def metric_that_fits(answers: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, int]:
    """Return the metric that finds most right answers, among those that read an answer out of a longer text, and how
    many it finds.

    Args:
        answers: with the accepted outputs of their rows.
    """
    counts = dict.fromkeys(("label", "number", "option_letter", "boxed", "json_equal"), 0)
    for name in counts:
        try:
            counts[name] = sum(METRICS[name](answer, outputs) == 1 for answer, outputs in answers)
        except DataError:
            continue  # the outputs are nothing that it reads
    best = max(counts, key=lambda name: counts[name])
    return best, counts[best]


_WORD = unicode_regex.compile(rf"[{_UNPARTED}]\p{{M}}*|[^{_UNPARTED}]+")


def _words(text: str) -> list[str]:
    """The words of all lines of a text, as `normalise` writes them; a comma parts words unless digits surround it."""
    parts = re.sub(r",(?!\d)|(?<!\d),", " ", _running(text)).split()
    return [word for part in parts for word in _words_of(_bare(part))]


def _words_of(part: str) -> Iterable[str]:
    """Words in a text without blanks: the text itself, or each character of a script that does not separate words, and
    what is between them."""
    words = [_bare(word) for word in _WORD.findall(part)]
    return words if len(words) == 1 else (word for word in words if any(map(str.isalnum, word)))


def _running(text: str) -> str:
    """Normalise the text like `normalise`, but join all lines into one."""
    return _bare(folded(" ".join(_lines(text))))


def _word_set(text: str) -> frozenset[str]:
    words = frozenset(_words(text))
    return words - {"and"} or words


def _as_written(answer: str, output: str) -> tuple[str, str]:
    """Both without quotes around, trailing punctuation and needless blanks, their case as it is."""
    if spans_lines(output):
        return "\n".join(_indented(answer)).strip(), "\n".join(_indented(output)).strip()
    first = [next((line for line in _lines(text) if line.strip()), "") for text in (answer, output)]
    return _bare(" ".join(first[0].split())), _bare(" ".join(first[1].split()))


def _indented(text: str) -> Iterator[str]:
    """The lines of a text with single blanks between words; what they begin with stays."""
    return (line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in _lines(text))


def _sequence_f1(answer: list[str], output: list[str]) -> float:
    if not answer or not output:
        return float(answer == output)
    return 2 * LCSseq.similarity(answer, output) / (len(answer) + len(output))


MOST_COMPARED = 10_000
"""Number of characters compared one by one; the time grows with its square, and answers wait for it."""


def _edit_similarity(one: str, other: str) -> float:
    """Similarity by edits; text beyond `MOST_COMPARED` characters is compared as a whole."""
    beyond = one[MOST_COMPARED:], other[MOST_COMPARED:]
    rest = max(map(len, beyond)) if beyond[0] != beyond[1] else 0
    distance = Levenshtein.distance(one[:MOST_COMPARED], other[:MOST_COMPARED]) + rest
    return 1 - distance / max(len(one), len(other), 1)


def _f1(answer: list[str], output: list[str]) -> float:
    if not answer or not output:
        return float(answer == output)
    common = sum((Counter(answer) & Counter(output)).values())
    return 2 * common / (len(answer) + len(output))
