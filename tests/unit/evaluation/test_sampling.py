from ease_lib.config.sections import EndpointConfig
from ease_lib.evaluation.sampling import answer_sampling
from ease_lib.tasks.base import Exemplar


def test_answers_of_several_lines_end_at_the_blank_line():
    def stop(output):
        return answer_sampling([Exemplar(0, "q", (output,))], EndpointConfig()).stop

    assert stop("first\nsecond") == "\n\n"
    assert stop("one line\n") == "\n"


def test_answers_may_be_twice_as_long_as_the_longest_output_unless_a_limit_is_set():
    pool = [Exemplar(0, "q", ("word " * 400,)), Exemplar(1, "q", ("yes",))]
    assert answer_sampling(pool, EndpointConfig()).max_tokens == 1000
    assert answer_sampling(pool[1:], EndpointConfig()).max_tokens == 64
    assert answer_sampling(pool, EndpointConfig(llm_max_tokens=8)).max_tokens == 8
    thinking = EndpointConfig(llm_max_tokens=8, llm_thinking_tokens=2000)
    assert answer_sampling(pool, thinking).max_tokens == 2008
