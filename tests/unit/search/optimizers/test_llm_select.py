from dataclasses import replace

from ease_lib.search.optimizers.llm_select import LlmSelect, parse_selection, selection_prompt
from tests.support.objectives import ordered_sum


def select(answer, n=20, k=3):
    prompts = []
    problem = replace(ordered_sum(n=n, k=k).problem, ask_llm=lambda prompt: (prompts.append(prompt), answer)[1])
    return LlmSelect(problem).ask(0).sequence, prompts


def test_the_model_is_asked_once_about_the_numbered_pool():
    sequence, prompts = select("7, 2 and 19.")
    assert sequence == (6, 1, 18)
    assert len(prompts) == 1
    assert "Example 20\nInput: exemplar 19\nOutput: yes" in prompts[0]


def test_numbers_that_do_not_exist_or_come_twice_are_passed_over():
    assert parse_selection("0, 3, 21, 3, 99999999999, 5", 20) == [2, 4]


def test_a_useless_answer_is_filled_up_at_random():
    sequence, _ = select("I cannot help; maybe 4?")
    assert sequence[0] == 3
    assert len(set(sequence)) == 3
    assert select("")[0] == select("nothing")[0]


def test_the_prompt_ends_where_the_numbers_begin():
    assert selection_prompt(["Input: a\nOutput: b"], 1).endswith("\nNumbers:")
