"""Use of exemplars by the in-context learner: rules found, noise that misleads, prompts that must not break it.

Its constants are protected by the last tests: random sequences must stay as different as the studies need them.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ease_lib.artifacts.sources import Sources
from ease_lib.config.comparison import plan
from ease_lib.config.named_sets import read_parameter_set
from ease_lib.config.parsing import parse_parameters
from ease_lib.evaluation.metrics import exact_match
from ease_lib.prompts.template import PromptTemplate
from ease_lib.reporting.figures import Figures
from ease_lib.running.task_data import load_data
from ease_lib.search.candidates.sampling import SequenceSpace
from ease_lib.seeding import rng
from ease_lib.tasks.base import Exemplar, Row, TaskSource
from ease_lib.tasks.catalog import customer_feedback
from ease_lib.tasks.generated import linear_rule, pig_latin_variant, translate
from ease_lib.tasks.noise import inject_noise
from ease_lib.tasks.splits import deal
from tests.simulation.in_context_learner import (
    Rewriting,
    answer,
    best_line,
    count_votes,
    explain,
    line_confidence,
    read_prompt,
    word_confidence,
)

CLEAN = [("3", "-6"), ("480", "-1914"), ("120", "-474"), ("350", "-1394"), ("20", "-74")]  # y = -4x + 6
NOISY = ("200", "992")  # y = 5x - 8
SENTENCES = [
    "Tom opened the heavy door today.",
    "Alice bought an orange at noon!",
    "The old teacher asked three strangers again?",
    "Ivan found a strange stone on Friday.",
    "Grandma sold every ticket before breakfast.",
]


def render_prompt(exemplars, query, instruction=""):
    return PromptTemplate().render(exemplars, Exemplar(-1, query, ("",)), instruction)


def shown(*pairs: tuple[str, str]) -> list[Exemplar]:
    return [Exemplar(i, before, (after,)) for i, (before, after) in enumerate(pairs)]


def answers(pairs: Sequence[tuple[str, str]], queries: Sequence[str]) -> list[str]:
    return [answer(render_prompt(shown(*pairs), query)) for query in queries]


def share_on_line(pairs: Sequence[tuple[str, str]], slope: int = -4, intercept: int = 6) -> float:
    queries = range(1, 500, 2)
    given = answers(pairs, [str(x) for x in queries])
    return float(np.mean([text == str(slope * x + intercept) for x, text in zip(queries, given, strict=True)]))


def share_translated(pairs: Sequence[tuple[str, str]], rule: Callable[[str], str] = translate) -> float:
    """Share of single words, of sentences not shown, that are rewritten by the rule."""
    rows = pig_latin_variant(rows=60, seed=7).rows
    words = [
        (rule(before), after)
        for row, given in zip(rows, answers(pairs, [row.input for row in rows]), strict=True)
        for before, after in zip(row.input.split(), given.split(), strict=True)
    ]
    return float(np.mean([wanted == after for wanted, after in words]))


# --- a line -----------------------------------------------------------------------------------------------------------


def test_clean_consistent_exemplars_give_the_right_line() -> None:
    x, y, weight = np.array([(float(a), float(b), 1.0) for a, b in CLEAN]).T
    line = best_line(x, y, weight)
    assert (line.slope, line.intercept, line.lead) == pytest.approx((-4, 6, 1))
    assert share_on_line(CLEAN) > 0.6


def test_fractional_lines_are_answered_with_the_decimals_shown() -> None:
    pairs = [(str(x), f"{0.5 * x + 1:.1f}") for x in (0, 90, 5, 70, 101)]
    assert "20.5" in answers(pairs, ["39", "39.0", "+39"])


def test_a_late_noisy_exemplar_hurts_more_than_an_early_one_and_both_hurt() -> None:
    assert share_on_line([*CLEAN[1:], NOISY]) < share_on_line([NOISY, *CLEAN[1:]]) < share_on_line(CLEAN)


def test_a_majority_of_noisy_exemplars_misleads() -> None:
    noisy = [(str(x), str(5 * x - 8)) for x in (10, 460, 240)]
    assert share_on_line([*CLEAN[:2], *noisy]) < 0.1
    assert share_on_line([*CLEAN[:2], *noisy], slope=5, intercept=-8) > 0.1


def test_bunched_inputs_and_far_queries_lower_the_confidence() -> None:
    weight = np.ones(4)

    def confidence(x: Sequence[float], query: float) -> float:
        inputs = np.array(x)
        return line_confidence(best_line(inputs, 2 * inputs, weight), inputs, weight, query)

    wide, bunched = (0.0, 100.0, 300.0, 400.0), (180.0, 190.0, 210.0, 220.0)
    assert confidence(wide, 200) > confidence(wide, 900) > confidence(wide, 3000)
    assert confidence(wide, 200) > confidence(bunched, 200)


def test_one_point_is_no_line() -> None:
    assert share_on_line(CLEAN[:1]) < 0.05


# --- a rewriting ------------------------------------------------------------------------------------------------------


def test_pig_latin_is_learned_from_exemplars() -> None:
    assert share_translated([(sentence, translate(sentence)) for sentence in SENTENCES]) > 0.75


def test_copying_is_learned_from_noisy_exemplars() -> None:
    copies = [(sentence, sentence) for sentence in SENTENCES]
    assert share_translated(copies, rule=str) == 1
    assert share_translated(copies) == 0


def test_late_copying_exemplars_hurt_more_than_early_ones_and_both_hurt() -> None:
    right = [(sentence, translate(sentence)) for sentence in SENTENCES[:3]]
    copied = [("Nobody carried apples once more.", "Nobody carried apples once more.")] * 5
    shares = share_translated([*right, *copied]), share_translated([*copied, *right]), share_translated(right)
    assert shares[0] < shares[1] < shares[2]


def test_rewritings_other_than_pig_latin_are_learned_too() -> None:
    texts = ["one two three", "black old apples", "seven small eggs", "green ideas sleep", "every stone rolls"]
    pairs = [(text, " ".join(f"{word}xo" for word in text.split())) for text in texts]
    given = answers(pairs, ["red ants walk", "blue iron drips", "any tree falls", "small oxen graze"])
    assert sum(word.endswith("xo") for text in given for word in text.split()) >= 9


@pytest.mark.parametrize(
    ("before", "after", "rewriting"),
    [
        ("apple", "appleay", Rewriting(suffix="ay")),
        ("Tom", "Omtay", Rewriting("onset", suffix="ay")),
        ("strange", "angestray", Rewriting("onset", suffix="ay")),
        ("strange", "trangesay", Rewriting("first", suffix="ay")),
        ("do", "undo", Rewriting(prefix="un")),
        ("snow", "snow", Rewriting()),
        ("snow", "rain", None),
    ],
)
def test_a_word_pair_is_explained_by_the_simplest_rewriting(before: str, after: str, rewriting: Rewriting) -> None:
    assert explain(before, after) == rewriting


def test_a_word_class_without_evidence_takes_the_vote_of_the_most_similar_one() -> None:
    pairs = [
        (f"{word} {word}", f"{word[1:]}{word[0]}ay {word[1:]}{word[0]}ay") for word in ("door", "rice", "sun", "bat")
    ]
    given = answers(pairs, [f"stone {word}" for word in "abcdefgh"])
    assert any(text.startswith("onestay") for text in given)


def test_punctuation_alone_votes_for_nothing() -> None:
    assert not count_votes(read_prompt("Input: - -\nOutput: - -\n\nInput: - a\nOutput:").exemplars)


def test_confidence_in_a_word_grows_with_evidence_and_falls_with_contradiction() -> None:
    assert word_confidence(4, 0) > word_confidence(0.5, 0) > 0
    assert word_confidence(4, 0) > word_confidence(4, 2) > word_confidence(4, 4) == 0


# --- a selection, a label, a neighbour --------------------------------------------------------------------------------


def test_a_selection_keeps_words_like_those_kept_before() -> None:
    pairs = [
        ("horse, table, hat", "horse"),
        ("lamp, donkey, shoe", "donkey"),
        ("cat, chair, sock", "cat"),
        ("window, sheep, scarf", "sheep"),
    ]
    queries = ["donkeys, tables, hats", "lamps, cats, shoes", "chairs, horses, socks", "scarfs, windows, sheeps"]
    given = answers(pairs, queries)
    assert sum(text in {"donkeys", "cats", "horses", "sheeps"} for text in given) >= 3
    assert all(text in query.split(", ") for text, query in zip(given, queries, strict=True))


def test_only_labels_seen_are_answered() -> None:
    rows = customer_feedback().rows
    exemplars = shown(*((row.input, row.outputs[0]) for row in rows[:8]))
    labels = {exemplar.output for exemplar in exemplars}
    assert {answer(render_prompt(exemplars, row.input)) for row in rows[8:]} <= labels


def test_labels_of_equally_similar_exemplars_are_told_apart_by_recency() -> None:
    pairs = [("a b c d", "yes"), ("e f g h", "no"), ("e f g i", "no"), ("a b c j", "yes")]
    assert answers(pairs, ["k l m n"]) == ["yes"]
    assert answers([pairs[0], pairs[3], pairs[1], pairs[2]], ["k l m n"]) == ["no"]


TOPICS = {
    "World": "The army of Iraq and rebels in Gaza began talks with the minister",
    "Sports": "The champion scored in the final of the tennis tournament",
    "Business": "Shares fell as investors sold stocks of the bank after weak profits",
    "Sci/Tech": "A new browser and desktop software run on the chips of Intel and Linux",
}
SHIFTED = dict(zip(TOPICS, [*list(TOPICS)[1:], "World"], strict=True))


def topics_answered(labels: dict[str, str], inputs: dict[str, str] = TOPICS) -> list[str]:
    """Answers about teams, to prompts whose exemplars have these labels and are in different orders."""
    orders = itertools.permutations([(inputs[topic], label) for topic, label in labels.items()])
    return [answer(render_prompt(shown(*order), "The coach of the team praised the players")) for order in orders]


def test_a_known_label_keeps_its_meaning_where_exemplars_agree_with_it() -> None:
    assert set(topics_answered({topic: topic for topic in TOPICS})) == {"Sports"}


def test_clear_exemplars_that_contradict_persuade_of_another_meaning_and_unclear_ones_do_not() -> None:
    assert topics_answered(SHIFTED).count("Business") > 12
    unclear = {topic: f"This is number {place}" for place, topic in enumerate(TOPICS)}
    assert set(topics_answered(SHIFTED, unclear)) == {"Sports"}


def test_half_of_the_exemplars_persuade_nobody() -> None:
    half = SHIFTED | {"World": "World", "Business": "Business"}
    assert set(topics_answered(half)) == {"Sports"}


def test_labels_that_are_not_all_known_are_learned_from_exemplars_alone() -> None:
    assert "Teams" in topics_answered({**SHIFTED, "Sports": "Teams"})


def test_without_a_rule_the_most_similar_exemplar_is_answered() -> None:
    pairs = [
        ("the sun in May", "a warm and sunny month of spring"),
        ("snow on roofs", "how cold it is to live up there"),
    ]
    assert answers(pairs, ["the sun in March"]) == [pairs[0][1]]


# --- prompts ----------------------------------------------------------------------------------------------------------


def test_equal_prompts_give_equal_answers_in_another_process_too() -> None:
    pairs = [(row.input, row.outputs[0]) for row in customer_feedback().rows[:6]]
    prompts = [
        render_prompt(shown(*CLEAN), "77"),
        render_prompt(shown(*((text, translate(text)) for text in SENTENCES)), "Mary wrote questions today."),
        render_prompt(shown(*pairs), "Do you sell lamps?"),
        render_prompt(shown(("horse, hat", "horse"), ("lamp, cat", "cat")), "shoe, sheep"),
    ]
    code = f"from tests.simulation.in_context_learner import answer\nfor p in {prompts!r}: print(answer(p))"
    once, again = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert once.stdout.splitlines() == again.stdout.splitlines() == [answer(prompt) for prompt in prompts]


def test_a_prompt_is_taken_apart_as_it_was_rendered() -> None:
    pairs = [("one\ntwo", "2"), ("says Output: no in a line", "1"), ("the [INPUT]\n\nbelow", "x"), ("", "empty")]
    lesson = read_prompt(render_prompt(shown(*pairs), "what\nnow?", instruction="Count.\n\nSlowly."))
    assert [(exemplar.input, exemplar.output) for exemplar in lesson.exemplars] == pairs
    assert lesson.query == "what\nnow?"


def test_later_exemplars_weigh_more() -> None:
    weights = [exemplar.weight for exemplar in read_prompt(render_prompt(shown(*CLEAN), "1")).exemplars]
    assert weights == sorted(set(weights))
    assert weights[-1] == 1


@pytest.mark.parametrize(
    "exemplars",
    [
        shown(),
        shown(("", "")),
        shown(("same", "1"), ("same", "2")),
        shown(("7", "1"), ("7", "2"), ("7", "2")),
        shown(("0", "0"), ("-0", "0.0")),
        shown(("1e5", "nan"), ("inf", "99999999999999999999")),
        shown(("an Output: inside", "yes"), ("a line\nOutput: of it", "no")),
        shown(("the [INPUT] stays", "the [OUTPUT] stays")),
        shown(("Größe 東京 🙂", "Größeay 東京ay 🙂"), ("İstanbul ﬁne ǅ", "ay ay ay")),
        shown(("- ... -", "- ... -"), ("?", "!")),
        shown(("a, b, c", "a"), (", ,", ","), ("a, b", "b, a")),
        shown(*((str(x), str(x * x)) for x in range(50))),
        shown(*((f"{text} {i}", translate(text)) for i, text in enumerate(SENTENCES * 10))),
    ],
)
@pytest.mark.parametrize(
    "query", ["", "7", "Output:", "an Output: inside", "a, b", "東京 🙂 Tom's", "\n\nInput: x", "one two 3"]
)
def test_every_prompt_gets_an_answer(exemplars: list[Exemplar], query: str) -> None:
    assert isinstance(answer(render_prompt(exemplars, query, instruction="Do as shown.")), str)


@pytest.mark.parametrize(
    "prompt", ["", "\n", "Input:", "Output:", "Input: a\nOutput:", "hello there", "Instruction: go\n\nInput:"]
)
def test_texts_that_are_no_prompts_get_an_answer_too(prompt: str) -> None:
    assert isinstance(answer(prompt), str)


def test_a_zero_shot_prompt_echoes_the_first_word() -> None:
    assert answer(render_prompt([], "Tom sang.", instruction="Translate.")) == "Tom"


# --- calibration ------------------------------------------------------------------------------------------------------


def score_matrix(source: TaskSource, *, noise: float, sequences: int, queries: int) -> np.ndarray:
    """(sequences, queries) marks of random sequences of five."""
    data = deal(source, pool_size=100, validation_size=queries, test_size=0, seed=0)
    pool = inject_noise(data.pool, noise, source.noise_rule, 0, exact_match)
    drawn = SequenceSpace(100, 5).sample(rng(0, "test"), sequences)
    return np.array([marks([pool[i] for i in sequence], data.validation) for sequence in drawn])


def marks(exemplars: Sequence[Exemplar], validation: Sequence[Exemplar]) -> list[float]:
    prefix = render_prompt(exemplars, "").removesuffix("Input: \nOutput:")
    return [exact_match(answer(f"{prefix}Input: {row.input}\nOutput:"), row.outputs) for row in validation]


def halves_agree(scores: np.ndarray) -> float:
    """Correlation of the sequences' scores on two disjoint validation sets: the systematic part of the differences."""
    half = scores.shape[1] // 2
    return float(np.corrcoef(scores[:, :half].mean(axis=1), scores[:, half:].mean(axis=1))[0, 1])


@pytest.mark.rooms("tests/simulation", "ease_lib/tasks")
def test_linear_rule_with_little_noise_separates_good_from_bad_sequences() -> None:
    scores = score_matrix(linear_rule(rows=300, seed=0), noise=0.1, sequences=100, queries=60)
    first_twenty = scores[:, :20].mean(axis=1)
    assert 0.2 < first_twenty.mean() < 0.45
    assert first_twenty.std() > 0.15
    assert first_twenty.max() > 0.7
    assert halves_agree(scores) > 0.75


def test_linear_rule_with_much_noise_is_hard_but_not_hopeless() -> None:
    scores = score_matrix(linear_rule(rows=300, seed=0), noise=0.5, sequences=165, queries=20)
    assert scores.mean() < 0.15
    assert scores.mean(axis=1).max() > 0.4


@pytest.mark.rooms("tests/simulation", "ease_lib/tasks")
def test_pig_latin_separates_good_from_bad_sequences() -> None:
    scores = score_matrix(pig_latin_variant(rows=300, seed=0), noise=0.1, sequences=100, queries=60)
    first_twenty = scores[:, :20].mean(axis=1)
    assert 0.1 < first_twenty.mean() < 0.5
    assert first_twenty.std() > 0.1
    assert first_twenty.max() > 0.4
    assert halves_agree(scores) > 0.6


RANDOM_EXEMPLARS = Figures.read("random exemplars on new tasks")
TABLE_2 = read_parameter_set("tests/benchmarks/sets/claims.yaml") | {"methods": ["best_of_n"], "repeats": 1}
CELLS = {cell.task: cell.parameters for cell in plan({**TABLE_2, "task_uri": "INDUCTION"})}
"""The parameters of the 24 cells of the paper's table 2, by its names."""


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.rooms("tests/simulation", "ease_lib/tasks")
def test_random_exemplars_reach_what_the_paper_says(name: str, request: pytest.FixtureRequest) -> None:
    config = parse_parameters(CELLS[name]).task
    if config.task_uri:
        config = replace(config, task_uri=str(request.getfixturevalue("real_data") / "instruction_induction"))
    found = RANDOM_EXEMPLARS.find(name, 0.0, "random", "validation")
    assert found is not None
    scores = []
    for seed in range(3):
        data = load_data(replace(config, repeat_data="drawn"), seed, Sources())
        for place, sequence in enumerate(SequenceSpace(len(data.pool), 5).sample(rng(seed, "test"), 100)):
            scores += marks([data.pool[i] for i in sequence], data.test[place % 10 :: 10])
    assert np.mean(scores) == pytest.approx(found.score, abs=0.05)


def tickets() -> TaskSource:
    """Labels whose inputs share words, as topics do; shipped feedback, short and of many topics, shares none."""
    topics = {"shipping": ("parcel", "courier", "tracking", "depot"), "billing": ("invoice", "refund", "card", "fee")}
    phrases = (
        "where is the",
        "my",
        "a problem with the",
        "please check this",
        "again the",
        "no sign of the",
        "and the",
    )
    rows = [
        Row(f"{phrase} {one} and {other}", (label,), is_noisy=False)
        for label, words in topics.items()
        for phrase in phrases
        for one in words
        for other in words
        if one != other
    ]
    return TaskSource(name="tickets", metric="exact_match", rows=rows)


def test_labels_are_answered_better_than_always_one_and_worse_than_perfect() -> None:
    source = tickets()
    scores = score_matrix(source, noise=0.0, sequences=40, queries=60)
    labels = Counter(row.outputs for row in source.rows)
    always_one = labels.most_common(1)[0][1] / labels.total()
    assert scores.mean() > always_one + 0.05
    assert scores.mean(axis=1).max() < 0.95


@pytest.mark.parametrize("source", [linear_rule(rows=300, seed=0), pig_latin_variant(rows=300, seed=0)])
def test_the_order_of_a_sequence_with_one_noisy_exemplar_matters(source: TaskSource) -> None:
    data = deal(source, pool_size=100, validation_size=20, test_size=0, seed=0)
    pool = inject_noise(data.pool, 0.1, source.noise_rule, 0, exact_match)
    chosen = [row for row in pool if not row.is_noisy][:4] + [row for row in pool if row.is_noisy][:1]
    assert np.std([np.mean(marks(order, data.validation)) for order in itertools.permutations(chosen)]) > 0.05
