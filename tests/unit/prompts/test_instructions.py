import pytest

from ease_lib.prompts.instructions import distinct_instructions, instruction_of, proposal_prompts
from ease_lib.seeding import rng


def test_a_proposal_shows_random_pairs_and_ends_where_the_instruction_begins():
    texts = [f"Input: {number}\nOutput: o{number}" for number in range(20)]
    prompts = proposal_prompts(texts, 5, rng(0, "test"))
    assert len(set(prompts)) == 5
    assert all(prompt.count("Output:") == 10 for prompt in prompts)
    assert all(prompt.endswith("\n\nThe instruction was to") for prompt in prompts)


def test_a_pool_smaller_than_what_is_shown_is_shown_whole():
    assert proposal_prompts(["Input: a\nOutput: b"], 1, rng(0, "test"))[0].count("Output:") == 1


@pytest.mark.parametrize(
    ("answer", "instruction"),
    [
        (" write the antonym of the word.\n\nInput: up\nOutput: down", "Write the antonym of the word."),
        ('The instruction was to "sort the words"', "Sort the words"),
        ("Instruction: translate\nto German", "Translate to German"),
        ("  \n\n", ""),
        ("...", ""),
        ("übersetze", "Übersetze"),
    ],
)
def test_the_instruction_is_the_first_paragraph_of_an_answer(answer, instruction):
    assert instruction_of(answer) == instruction


def test_equal_instructions_count_once_and_the_empty_one_comes_first():
    proposed = ["Sort it.", "sort  it", "", "Reverse it", "Sort it"]
    assert distinct_instructions(proposed) == ["", "Sort it.", "Reverse it"]
