import pytest

from ease_lib.evaluation.metrics import METRICS, normalise


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
        ("?!", ""),
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
