"""A small in-context learner that stands in for an LLM where a study needs thousands of evaluations.

It sees one prompt (`prompts/template.py`), knows no task and no answer key, and infers the rule from the exemplars:

    a line        numbers to numbers; the line through two exemplars that explains most of the others
    a selection   outputs that keep some of the input's words; words like those kept are kept
    a rewriting   sentences whose words are rewritten one by one, in the manner seen for words of the same class
    a label       a few short outputs; the label of the most similar exemplars. Of labels that it knows (topics of news,
                  degrees of sentiment) it gives its own, `opinions.py`, unless clear exemplars contradict that
    a neighbour   none of these: the output of the most similar exemplar

Later exemplars weigh more, noisy ones mislead, and thin or contradictory evidence makes it slip as a weak model does.
Its chance is a hash of the prompt: equal prompts get equal answers, on every machine. It is no model of any real LLM.
Its constants are set by one column of the paper alone, the scores that random exemplars reach with gpt-3.5-turbo-1106
on LR, LP-variant, AG News Remap and SST5 Reverse with 0 to 90 % of the pool corrupted ("random exemplars on new tasks"
of `paper_figures.csv`): it is within five points of each of these 24, from 0.46 to 0.005. What the methods make of it
was not looked at for that.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ease_lib.arrays import Floats
from tests.simulation.opinions import Opinion, family_of

RECENCY = 0.8
"""How fast exemplars fade: one that is followed by n others weighs (1 + n) ** -RECENCY."""
LEAST_FIT = 0.5
"""Weighted share of the exemplars that a kind of rule must fit to be tried."""
LINE_BEST = 0.8
"""Probability of the right number with the best of exemplars."""
LINE_DOUBT = 0.8
"""How much exemplars off the line shake the trust in it (exponent of the support's lead)."""
LINE_SPREAD = 0.37
"""Standard deviation of the inputs, relative to the largest seen, from which on they count as well spread."""
LINE_BUNCHING = 2.0
"""How much inputs bunched together hurt (exponent of the relative spread)."""
LINE_REACH = 0.12
"""How much a query far from the inputs hurts (per squared standard deviation of theirs)."""
LINE_THIN = 0.5
"""Doubt about a line through two exemplars; each further one on it multiplies the doubt by as much."""
LINE_TEMPTED = 0.3
"""Probability that a slip follows the rival line, per weighted share of the exemplars that are on it."""
LINE_SLIPS = (1, 2, 3, 5, 10, 20)
"""How far other slips are off."""
WORD_BEST = 0.99
"""Probability that one word is rewritten rightly after ample, unanimous evidence."""
WORD_DOUBT = 0.15
"""How much votes for another rewriting shake the trust in the winner (exponent of its lead)."""
WORD_AMPLE = 0.25
"""Weight of evidence for a class of words that leaves 1/e of the doubt that there is without any."""
WORD_BORROWED = 0.2
"""Weight of a word of a similar class, compared with one of the same class."""
WORD_COPIED = 0.1
"""Weight of a repeated word as evidence for repeating, compared with a rewritten one."""
WORD_AFFIX = 4
"""Most letters that a rewriting may add to a word."""
SELECTION_BEST = 0.95
"""Probability that an item is judged as the votes have it."""
LABEL_WORDS = 3
"""Most words of an output that may be a label."""
LABEL_ONCE = 0.5
"""How well a short output passes for a label if it is seen only once."""
LABEL_SHARPNESS = 2.0
"""How much more the most similar exemplars count (exponent of the similarity)."""
MANNER_VALUE, WORD_VALUE, TRIPLE_VALUE = 3.0, 1.0, 0.2
"""Similarity of two texts that open or end alike, share a word, or share three letters of a word."""

MEMORY = 2**14
"""Words whose analysis is kept: the same exemplars are asked about many queries."""


_BLOCK = re.compile(r"(?:\A|\n\n)Input:[ ]?")
_OUTPUT = re.compile(r"\nOutput:[ ]?")
_NUMBER = re.compile(r"[-+−]?\d{1,12}(?:\.\d{1,6})?")
_TOKEN = re.compile(r"(\W*)(\w(?:.*\w)?)?(\W*)", re.DOTALL)
_ONSET = re.compile(r"[^aeiou\W\d][^aeiouy\W\d]*", re.IGNORECASE)
_FEATURE = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Shown:
    """One exemplar as the prompt shows it, with its weight: 1 for the last one, less for those before."""

    input: str
    output: str
    weight: float


@dataclass(frozen=True)
class Lesson:
    """A prompt taken apart; `chance` gives a number in [0, 1) for each purpose, the same for equal prompts."""

    exemplars: tuple[Shown, ...]
    query: str
    digest: bytes

    def chance(self, *purpose: str | int) -> float:
        address = "/".join(map(str, purpose)).encode()
        return int.from_bytes(hashlib.sha256(self.digest + address).digest()[:8], "big") / 2**64

    def share(self, fits: Iterable[float]) -> float:
        """The weighted share of the exemplars that fit, in [0, 1]."""
        total = sum(shown.weight for shown in self.exemplars)
        return sum(shown.weight * fit for shown, fit in zip(self.exemplars, fits, strict=True)) / total


def answer(prompt: str) -> str:
    """The learner's completion; equal prompts give equal answers.

    A prompt without exemplars gets the first word of its query, one without a query an empty answer.
    """
    lesson = read_prompt(prompt)
    if not lesson.exemplars:
        return next(iter(lesson.query.split()), "")
    fits = [(fit(lesson), respond) for fit, respond in _RULES]
    best, respond = max(fits, key=lambda pair: pair[0])
    return respond(lesson) if best >= LEAST_FIT else _neighbours_output(lesson)


def read_prompt(prompt: str) -> Lesson:
    """Split at blocks that begin with `Input:`; a block's output begins at its last line that says `Output:`.

    What is before the first block (an instruction) is passed over; a text without blocks is all query.
    """
    blocks = _BLOCK.split(prompt.rstrip())
    *before, query = blocks if len(blocks) > 1 else ("", blocks[0])
    pairs = [pair for block in before[1:] if (pair := _input_and_output(block))]
    exemplars = tuple(Shown(*pair, (1 + age) ** -RECENCY) for age, pair in zip(_ages(len(pairs)), pairs, strict=True))
    return Lesson(exemplars, query.removesuffix("\nOutput:").strip(), hashlib.sha256(prompt.encode()).digest())


def _ages(count: int) -> range:
    return range(count - 1, -1, -1)


def _input_and_output(block: str) -> tuple[str, str] | None:
    marks = list(_OUTPUT.finditer(block))
    return (block[: marks[-1].start()].strip(), block[marks[-1].end() :].strip()) if marks else None


# --- a line -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The line that explains most, and what speaks for it."""

    slope: float
    intercept: float
    lead: float
    """Weighted share of the exemplars on it, less that of the rival: the line that explains most of the others."""
    explained: NDArray[np.bool_]
    rival: tuple[float, float]
    """Slope and intercept of the rival line; without one, of any line."""
    rival_share: float

    def at(self, x: float) -> float:
        return self.slope * x + self.intercept


def _line_fit(lesson: Lesson) -> float:
    if _number(lesson.query) is None:
        return 0.0
    return lesson.share(float(None not in (_number(shown.input), _number(shown.output))) for shown in lesson.exemplars)


def _answer_by_line(lesson: Lesson) -> str:
    points = [
        (x, y, shown.weight)
        for shown in lesson.exemplars
        if (x := _number(shown.input)) is not None and (y := _number(shown.output)) is not None
    ]
    x, y, weight = np.array(points).T
    query = _number(lesson.query) or 0.0
    line = best_line(x, y, weight)
    value = line.at(query)
    if lesson.chance("line") >= line_confidence(line, x, weight, query):
        value = _slip(lesson, line, query)
    return _written(value, decimals=max(_decimals(shown.output) for shown in lesson.exemplars))


def best_line(x: Floats, y: Floats, weight: Floats) -> Line:
    """Try the line through every two points; two that explain the same weight are told apart by the later points.

    Args:
        x, y, weight: (n,) inputs, outputs and weights of the exemplars, the latest last.
    """
    later, earlier = np.tril_indices(len(x), -1)
    usable = x[later] != x[earlier]
    later, earlier = later[usable][::-1], earlier[usable][::-1]
    if not len(later):  # one exemplar, or one input throughout: its last output, moved along with the input
        return Line(1.0, float(y[-1] - x[-1]), 0.0, x == x[-1], (1.0, float(y[-1] - x[-1])), 0.0)
    slopes = (y[later] - y[earlier]) / (x[later] - x[earlier])
    intercepts = y[later] - slopes * x[later]
    tolerance = 1e-9 * (1 + np.abs(y) + np.abs(slopes[:, None] * x))
    explained = np.abs(slopes[:, None] * x + intercepts[:, None] - y) <= tolerance
    parts = weight / weight.sum()
    best = int(np.argmax(np.round(explained @ parts, 9)))
    against = np.round((explained & ~explained[best]) @ parts, 9)
    rival = int(np.argmax(against))
    return Line(
        slope=float(slopes[best]),
        intercept=float(intercepts[best]),
        lead=max(0.0, float(explained[best] @ parts - against[rival])),
        explained=explained[best],
        rival=(float(slopes[rival]), float(intercepts[rival])),
        rival_share=float(against[rival]),
    )


def line_confidence(line: Line, x: Floats, weight: Floats, query: float) -> float:
    """Probability, in [0, 1), that the learner follows the line at `query`.

    High when many exemplars agree on it, their inputs are spread widely and the query lies among them.
    """
    inputs, parts = x[line.explained], weight[line.explained] / weight[line.explained].sum()
    centre = float(inputs @ parts)
    variance = float(np.square(inputs - centre) @ parts)
    if not variance:
        return 0.0
    corroborated: float = 1 - LINE_THIN ** (len(inputs) - 1)
    largest = float(np.abs(np.append(x, query)).max())
    spread = min(1.0, math.sqrt(variance) / largest / LINE_SPREAD)
    nearness = math.exp(-LINE_REACH * (query - centre) ** 2 / variance)
    confidence: float = LINE_BEST * corroborated * line.lead**LINE_DOUBT * spread**LINE_BUNCHING * nearness
    return confidence


def _slip(lesson: Lesson, line: Line, query: float) -> float:
    """A wrong number: the rival line's where there is one and chance has it, else one that is slightly off."""
    value = line.at(query)
    if lesson.chance("rival") < LINE_TEMPTED * line.rival_share:
        return line.rival[0] * query + line.rival[1]
    step = LINE_SLIPS[int(lesson.chance("step") * len(LINE_SLIPS))]
    return value + (step if lesson.chance("sign") < 0.5 else -step)


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text.replace("−", "-")) if _NUMBER.fullmatch(text) else None


def _decimals(text: str) -> int:
    return len(text.strip().partition(".")[2]) if _number(text) is not None else 0


def _written(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


# --- a selection ------------------------------------------------------------------------------------------------------


def _selection_fit(lesson: Lesson) -> float:
    return lesson.share(float(_keeps_some(_items(shown.input), _items(shown.output))) for shown in lesson.exemplars)


def _keeps_some(items: Sequence[str], kept: Sequence[str]) -> bool:
    return 0 < len(kept) < len(items) and not Counter(kept) - Counter(items)


def _answer_by_selection(lesson: Lesson) -> str:
    """Keep the items that resemble those kept; exactly as many as always, where that number never changed."""
    judged = [
        (_triples(item), shown.weight if item in _items(shown.output) else -shown.weight)
        for shown in lesson.exemplars
        for item in _items(shown.input)
    ]
    items = _items(lesson.query)
    votes = {item: _doubted(lesson, item, _resemblance(item, judged)) for item in items}
    numbers = {len(_items(shown.output)) for shown in lesson.exemplars}
    ranked = sorted(items, key=lambda item: -votes[item])
    kept = ranked[: numbers.pop()] if len(numbers) == 1 else [item for item in items if votes[item] > 0]
    separator = ", " if any("," in shown.input for shown in lesson.exemplars) else " "
    return separator.join(kept or ranked[:1])


def _resemblance(item: str, judged: Sequence[tuple[frozenset[str], float]]) -> float:
    """How much more the words like this one were kept than dropped, in [-1, 1]."""
    letters = _triples(item)
    likeness = [(_overlap(letters, known) ** 2, weight) for known, weight in judged]
    total = sum(like * abs(weight) for like, weight in likeness)
    return sum(like * weight for like, weight in likeness) / total if total else 0.0


def _doubted(lesson: Lesson, item: str, vote: float) -> float:
    """The vote, turned round where the learner slips."""
    return vote if lesson.chance("item", item) < SELECTION_BEST else -vote


def _items(text: str) -> list[str]:
    parts = text.split(",") if "," in text else text.split()
    return [part.strip() for part in parts if part.strip()]


# --- a rewriting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordClass:
    """Class of a word that decides how it is rewritten, mainly its beginning."""

    start: str
    capitalised: bool
    punctuated: bool

    def likeness(self, other: WordClass) -> int:
        return (
            4 * (self.start == other.start)
            + (self.capitalised == other.capitalised)
            + (self.punctuated == other.punctuated)
        )


@dataclass(frozen=True)
class Rewriting:
    """Move the first letters behind the word ("onset": all leading consonants), then add to both ends."""

    moved: str = ""
    prefix: str = ""
    suffix: str = ""

    def apply(self, word: str) -> str:
        turned = self.prefix + _turned(word, self.moved) + self.suffix
        return turned[:1].upper() + turned[1:] if word[:1].isupper() else turned


Votes = dict[Rewriting, float]
COPY = Rewriting()


def _rewriting_fit(lesson: Lesson) -> float:
    return lesson.share(map(_rewritten_share, lesson.exemplars))


def _rewritten_share(shown: Shown) -> float:
    """Share of an exemplar's words that a rewriting explains; 0 when inputs and outputs differ in number."""
    pairs = _aligned(shown)
    return sum(explain(_core(before), _core(after)) is not None for before, after in pairs) / max(1, len(pairs))


def _answer_by_rewriting(lesson: Lesson) -> str:
    votes = count_votes(lesson.exemplars)
    return " ".join(_rewrite(token, votes, lesson, place) for place, token in enumerate(lesson.query.split()))


def count_votes(exemplars: Iterable[Shown]) -> dict[WordClass, Votes]:
    """The weight of evidence for each rewriting of each class of words."""
    votes: dict[WordClass, Votes] = defaultdict(lambda: defaultdict(float))
    for shown in exemplars:
        for before, after in _aligned(shown):
            rewriting = explain(_core(before), _core(after))
            if rewriting is not None:
                votes[_word_class(before)][rewriting] += shown.weight * (WORD_COPIED if rewriting == COPY else 1.0)
    return votes


def word_confidence(weight: float, against: float) -> float:
    """Probability, in [0, 1), that a word follows the winner, from the votes for that and for the runner-up."""
    lead = (weight - against) / (weight + against)
    confidence: float = WORD_BEST * lead**WORD_DOUBT * (1 - math.exp(-(weight + against) / WORD_AMPLE))
    return confidence


@lru_cache(MEMORY)
def explain(before: str, after: str) -> Rewriting | None:
    """The simplest rewriting that makes `after` of `before`, or None."""
    after = after.lower()
    for moved in ("", "onset", "first"):
        turned = _turned(before, moved).lower()
        if after.startswith(turned) and len(after) - len(turned) <= WORD_AFFIX:
            return Rewriting(moved, suffix=after[len(turned) :])
    same = before.lower()
    if after.endswith(same) and len(after) - len(same) <= WORD_AFFIX:
        return Rewriting(prefix=after[: len(after) - len(same)])
    return None


def _rewrite(token: str, votes: dict[WordClass, Votes], lesson: Lesson, place: int) -> str:
    """One word, rewritten as most like it were, or else as the runner-up has it (a copy, if there is none)."""
    lead, word, tail = _taken_apart(token)
    if not word:
        return token
    tally = _tally(_word_class(token), votes)
    (winner, weight), (second, against) = _two_best(tally)
    chosen = winner if lesson.chance("word", place) < word_confidence(weight, against) else second
    return lead + chosen.apply(word) + tail


def _tally(wanted: WordClass, votes: dict[WordClass, Votes]) -> Votes:
    """The votes of a class, with a little of those of classes that begin alike; never seen: of the most similar one."""
    alike = [known for known in votes if known.start == wanted.start]
    if not alike:
        alike = sorted(votes, key=wanted.likeness)[-1:]
    tally: Votes = defaultdict(float)
    for known in alike:
        for rewriting, weight in votes[known].items():
            tally[rewriting] += weight * (1.0 if known == wanted else WORD_BORROWED)
    return tally


def _two_best(tally: Votes) -> list[tuple[Rewriting, float]]:
    """The two rewritings with most votes; a copy without any where there is only one."""
    return [*sorted(tally.items(), key=lambda vote: -vote[1]), (COPY, 0.0)][:2]


def _aligned(shown: Shown) -> list[tuple[str, str]]:
    """Words of the input and of the output, punctuation that is alone left out; none if their numbers differ."""
    before, after = shown.input.split(), shown.output.split()
    return [pair for pair in zip(before, after, strict=True) if _core(pair[0])] if len(before) == len(after) else []


@lru_cache(MEMORY)
def _word_class(token: str) -> WordClass:
    _, word, tail = _taken_apart(token)
    start = ("vowel", "consonant", "cluster")[min(len(_onset(word)), 2)] if word[:1].isalpha() else "no letter"
    return WordClass(start, word[:1].isupper(), bool(tail))


def _turned(word: str, moved: str) -> str:
    count = {"": 0, "first": 1, "onset": len(_onset(word))}[moved]
    return word[count:] + word[:count].lower()


def _onset(word: str) -> str:
    found = _ONSET.match(word)
    return found.group() if found else ""


def _core(token: str) -> str:
    return _taken_apart(token)[1]


@lru_cache(MEMORY)
def _taken_apart(token: str) -> tuple[str, str, str]:
    """Leading punctuation, word, trailing punctuation."""
    found = _TOKEN.fullmatch(token)
    return (found[1], found[2] or "", found[3]) if found else ("", token, "")


# --- a label, a neighbour ---------------------------------------------------------------------------------------------


def _label_fit(lesson: Lesson) -> float:
    seen = Counter(shown.output for shown in lesson.exemplars)
    return lesson.share(_passes_for_label(shown, seen[shown.output]) for shown in lesson.exemplars)


def _passes_for_label(shown: Shown, times: int) -> float:
    """1 for a short output that recurs, less for one that is merely much shorter than its input, else 0."""
    words = len(shown.output.split())
    if not 0 < words <= LABEL_WORDS:
        return 0.0
    if times > 1:
        return 1.0
    return LABEL_ONCE if len(shown.input.split()) >= 2 * words else 0.0


def _answer_by_label(lesson: Lesson) -> str:
    """The label with most similar, recent exemplars; the later one where two have as many.

    Of labels that it knows the learner's own, with the more chance the less the exemplars speak against it.
    """
    family = family_of(shown.output for shown in lesson.exemplars)
    kin = [False] * len(lesson.exemplars)
    if family:
        own, held = family.opinion(lesson.query), [family.opinion(shown.input) for shown in lesson.exemplars]
        if lesson.chance("persuaded") >= persuasion(lesson, held, family.stubborn):
            return own.label
        kin = [other.label == own.label for other in held]
    votes: dict[str, float] = defaultdict(float)
    for shown, likeness, is_kin in zip(lesson.exemplars, _similarities(lesson), kin, strict=True):
        votes[shown.output] += shown.weight * (likeness**LABEL_SHARPNESS + is_kin)
    latest = {shown.output: place for place, shown in enumerate(lesson.exemplars)}
    return max(votes, key=lambda label: (round(votes[label], 9), latest[label]))


def persuasion(lesson: Lesson, held: Sequence[Opinion], stubborn: float) -> float:
    """Probability, in [0, 1], that the learner gives up its own labels: exemplars contradict what it clearly thinks.

    Args:
        held: what it thinks of each exemplar's input by itself.
    """
    against = [
        each.clarity * (-1 if each.label == shown.output else 1)
        for shown, each in zip(lesson.exemplars, held, strict=True)
    ]
    return max(0.0, lesson.share(against)) ** stubborn


def _neighbours_output(lesson: Lesson) -> str:
    """The later one's where two are equally similar."""
    likeness = _similarities(lesson)
    nearest = max(range(len(likeness)), key=lambda place: (round(likeness[place], 9), place))
    return lesson.exemplars[nearest].output


def _similarities(lesson: Lesson) -> list[float]:
    """How much each exemplar's input has in common with the query, in [0, 1]; what many inputs share counts little."""
    query = _features(lesson.query)
    texts = [_features(shown.input) for shown in lesson.exemplars]
    common = Counter(feature for text in texts for feature in text)

    def value(features: Iterable[tuple[str, float]]) -> float:
        return math.fsum(worth / (1 + common[name, worth]) for name, worth in features)  # exact: sets have no order

    return [value(query & text) / math.sqrt((value(query) * value(text)) or 1.0) for text in texts]


def _features(text: str) -> frozenset[tuple[str, float]]:
    """Words, marks, the letter triples of the words, and the manner: its first word and the mark that ends it."""
    words = _FEATURE.findall(text.lower())
    manner = [words[0], "" if words[-1].isalnum() else words[-1]] if words else []
    return frozenset(
        [
            *((name, MANNER_VALUE) for name in manner),
            *((word, WORD_VALUE) for word in words),
            *((triple, TRIPLE_VALUE) for word in words for triple in _triples(word)),
        ]
    )


@lru_cache(MEMORY)
def _triples(word: str) -> frozenset[str]:
    padded = f"<{word.lower()}>"
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))


_RULES: tuple[tuple[Callable[[Lesson], float], Callable[[Lesson], str]], ...] = (
    (_line_fit, _answer_by_line),
    (_selection_fit, _answer_by_selection),
    (_rewriting_fit, _answer_by_rewriting),
    (_label_fit, _answer_by_label),
)
"""How well each kind of rule fits the exemplars, and its answer; of equals, the first is taken."""
