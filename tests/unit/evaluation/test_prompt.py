from ease_lib.evaluation.prompt import render_prompt
from ease_lib.tasks.base import Exemplar


def exemplars(*pairs):
    return [Exemplar(number, text, (output,)) for number, (text, output) in enumerate(pairs)]


def test_template_of_the_paper():
    prompt = render_prompt(exemplars(("a", "1"), ("b", "2")), "c", "Count.")
    assert prompt == "Instruction: Count.\n\nInput: a\nOutput: 1\n\nInput: b\nOutput: 2\n\nInput: c\nOutput:"


def test_without_instruction_there_is_no_instruction_line():
    assert render_prompt(exemplars(("a", "1")), "c") == "Input: a\nOutput: 1\n\nInput: c\nOutput:"


def test_placeholders_in_exemplars_corrupt_nothing():
    nasty = exemplars(("[INPUT] {input} [full_DEMO]", "Output: %s {0}"))
    assert render_prompt(nasty, "{query}") == (
        "Input: [INPUT] {input} [full_DEMO]\nOutput: Output: %s {0}\n\nInput: {query}\nOutput:"
    )
