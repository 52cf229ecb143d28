from decimal import Decimal

import pytest

from ease_lib.evaluation.metrics import METRICS, final_expression, final_number, final_option, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Positive.", "positive"),
        ('"Berlin!"', "berlin"),
        ("3.5", "3.5"),
        ("-4", "-4"),
        ("\u22124", "-4"),
        ("1,000", "1,000"),
        ("U.S.", "u.s"),
        ("mother-in-law", "mother-in-law"),
        ("two  words\nand a second line", "two words"),
        ("\n\n yes", "yes"),
        ("\uff11\uff12", "12"),
        ("", ""),
        ("?!", "?!"),
        ("!", "!"),
        ("'", "'"),
        ("12.", "12"),
        ("-.5", "-.5"),
        ("e.g.", "e.g"),
        ("don\u2019t", "don't"),
        ("\u201cyes\u201d!", "yes"),
        ("12 km", "12 km"),
        ("5\u00b2", "5\u00b2"),
        ("2\u00bd", "2\u00bd"),
    ],
)
def test_normalisation_keeps_what_has_meaning(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("metric", "answer", "outputs", "score"),
    [
        ("exact_match", " Sports.", ["sports"], 1),
        ("exact_match", "3", ["3.5"], 0),
        ("exact_match", "4", ["-4"], 0),
        ("exact_match", "Zeiten", ["Zeit", "Zeiten"], 1),
        ("exact_match", "Omtay isay otnay.", ["Omtay isay otnay."], 1),
        ("exact_set", "spider, cow", ["cow, spider"], 1),
        ("exact_set", "spider", ["cow, spider"], 0),
        ("exact_match", "!", ["?"], 0),
        ("exact_match", "", ["?"], 0),
        ("exact_set", "cow; spider.", ["spider, cow"], 1),
        ("exact_set", "cow and spider", ["spider, cow"], 1),
        ("exact_set", "1,000", ["000, 1"], 0),
        ("contains", "nothing of it", ["!"], 0),
        ("token_f1", "car, red!", ["red car"], 1),
        ("contains", "a big house", ["house", "hut"], 1),
        ("contains", "a lighthouse", ["house"], 0),
        ("token_f1", "the red car", ["red car"], 0.8),
        ("number", "so 3 + 4 = 7 apples.", ["Answer: #### 7"], 1),
        ("number", r"we get \boxed{1,200} in 2024", ["#### 1200"], 1),
        ("number", "-3.50", ["#### -3.5"], 1),
        ("number", "I do not know", ["#### 7"], 0),
        ("option_letter", "The answer is (C).", ["C"], 1),
        ("option_letter", "c", ["C"], 1),
        ("option_letter", "Correct answer - A", ["A"], 1),
        ("option_letter", "I have a cat", ["A"], 0),
    ],
)
def test_scores(metric, answer, outputs, score):
    assert METRICS[metric](answer, outputs) == pytest.approx(score)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is $1,234.50", "1234.50"),
        ("72.", "72"),
        ("-3", "-3"),
        ("\u22123", "-3"),
        ("-$3", "-3"),
        ("10-3=7", "7"),
        ("between 3-5", "5"),
        ("= 18 dollars", "18"),
        ("x = .5", "0.5"),
        ("Rs.54", "54"),
        ("25 m\u00b2", "25"),
        ("\uff11\uff12", "12"),
        ("1,2345", "2345"),
        ("12\n####\n-7", "-7"),
        ("12\n#### none", None),
        (r"\boxed{n} for n = 4", "4"),
        ("none", None),
    ],
)
def test_the_final_number_is_found(text, expected):
    assert final_number(text) == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is (C).", "C"),
        ("c) 12", "C"),
        ("C. 12", "C"),
        ("b.", "B"),
        ("（C）", "C"),
        ("so the correct option is B", "B"),
        ("**Answer: D**", "D"),
        ("**Answer:** D", "D"),
        ("the final answer is: **B) 12**", "B"),
        (r"Answer: \boxed{E}", "E"),
        (r"The answer is $\boxed{\text{(B)}}$.", "B"),
        ("ANSWER:C", "C"),
        ("Answer: Option D", "D"),
        ("answer is option (c)", "C"),
        ("so, the answer is\nC", "C"),
        ("12 / 3 = 4\nC", "C"),
        ("B is the correct answer.", "B"),
        ("Answer: A because it fits", "A"),
        ("The answer is C. Option A is wrong.", "C"),
        ("A train travels 60 km, so it is B", "B"),
        ("A train travels at 60. The answer is B", "B"),
        ("I think A is too small, so (D)", "D"),
        ("My answer is I think B", "B"),
        ("Options: A) 3 B) 4. So B", "B"),
        ("We get the answer\nP=40\nOption B", "B"),
        ("I have a cat", None),
        ("A train travels 60 km", None),
        ("The answer is a car", None),
        ("", None),
    ],
)
def test_the_option_an_answer_names_is_found(text, expected):
    assert final_option(text) == expected


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (r"so $\boxed{\left(3, \frac{\pi}{2} \right)}$.", r"\boxed{(3,\frac{\pi}{2})}"),
        (r"first \boxed{1}, then $\boxed{\dfrac{1}{2}}$", r"\boxed{\frac{1}{2}}"),
        (r"\boxed{\frac12}", "0.5"),
        ("-1/2", r"\boxed{-\frac{1}{2}}"),
        (".5", r"\boxed{0.50}"),
        ("1,000", r"\boxed{1000}"),
        (r"\boxed{1{,}000}", "1000"),
        (r"\boxed 7", "7"),
        (r"\boxed{2x+\{1\}}", r"2x + \{1\}"),
        (r"\boxed{\text{Evelyn}}", "Evelyn"),
        (r"\boxed{10\text{ cm}}", "10"),
        (r"\boxed{90^\circ}", "90"),
        (r"\boxed{\$3.50}", "3.5"),
        (r"The answer is $x = 5$. I hope it is correct.", r"\boxed{5}"),
        ("The answer is 5.", r"\boxed{5}"),
        ("2 + 3\n#### 5", r"\boxed{5}"),
        ("2 + 3\nis 5?\n5.", r"\boxed{5}"),
    ],
)
def test_expressions_that_mean_the_same_are_equal(answer, output):
    assert METRICS["boxed"](answer, [output]) == 1


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("5", "-5"),
        (r"\boxed{5} or \boxed{6}", "5"),
        ("", r"\boxed{1}"),
        (r"\leftarrow", "arrow"),
        ("1.5", "15"),
        ("x", "X"),
    ],
)
def test_expressions_that_differ_stay_different(answer, output):
    assert METRICS["boxed"](answer, [output]) == 0


def test_an_answer_that_repeats_itself_without_end_is_read_in_no_time():
    for text in (r"\boxed{" * 20_000, "answer is " * 10_000, "\n" * 10_000, r"\frac" * 10_000):
        for read in (final_number, final_option, final_expression):
            read(text)
