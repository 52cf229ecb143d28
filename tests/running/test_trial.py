"""The trial question is the run's own first prompt: what would be refused of every request is met before a search."""

import json

import pytest

from ease_lib.config.parsing import parse_parameters, without_unread
from tests.support.openai_routes import OpenAIRoutesHandler, OpenAIRoutesServer, served
from tests.support.runs import findings

SYSTEM = "Answer with one word."
ROWS = [{"text": "word " * number, "label": ("even", "odd")[number % 2]} for number in range(1, 61)]
MODEL = "picky"


class Refusing(OpenAIRoutesHandler):
    """Refuses what `refuses` gives a status and words for; notes all requests."""

    def answer_request(self, request, prompt):
        self.server.requests.append(request)
        refused = self.server.refuses(request, prompt)
        if refused:
            self.reply_error(refused[0], "refused", refused[1])
        else:
            self.answer_prompt(prompt)


def tried(tmp_path, refuses, answer="even", **values):
    """Problems and notices about the endpoint of a run, and the requests that were sent for them."""
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "prompt.yaml").write_text(f"system: {SYSTEM}\nstop: ['###']\n")
    server = OpenAIRoutesServer({MODEL: lambda prompt: answer})
    server.RequestHandlerClass, server.refuses, server.requests = Refusing, refuses, []
    given = {
        "task": "table",
        "task_uri": str(tmp_path / "t.jsonl"),
        "input_columns": "text",
        "output_column": "label",
        "prompt": str(tmp_path / "prompt.yaml"),
        "k": 3,
        "llm_model": MODEL,
        "llm_base_url": server.base_url,
        **values,
    }
    with served(server):
        found = [each for each in findings(parse_parameters(without_unread(given))) if each.what == "endpoint"]
    return found[0].problems, found[0].notice, server.requests


def healthy(request, prompt):
    return None


def of_system(status):
    return lambda request, prompt: (
        (status, "System role not supported") if request["messages"][0]["role"] == "system" else None
    )


def of_length(request, prompt):
    return (500, "exceeds the available context size") if len(prompt) > 400 else None


def of_word(request, prompt):
    return (400, "flagged by moderation") if "word" in prompt else None


def test_it_is_one_request_written_as_the_runs_own_prompts(tmp_path):
    extra = {"seed": 1}
    problems, notice, requests = tried(tmp_path, healthy, llm_extra=json.dumps(extra), llm_max_tokens=7)
    assert (problems, notice, len(requests)) == ((), "", 1)
    (request,) = requests
    assert request["messages"][0] == {"role": "system", "content": SYSTEM}
    assert (request["stop"], request["max_tokens"], request["seed"]) == (["###"], 7, 1)
    prompt = request["messages"][1]["content"]
    assert prompt.count("Input: ") == 4
    shown = [len(part.split()) for part in prompt.split("Input: ")[1:-1]]
    assert shown == sorted(shown, reverse=True), "the longest of the pool"
    assert min(shown) > 40


def test_it_keeps_within_max_prompt_tokens(tmp_path):
    _, _, (request,) = tried(tmp_path, healthy, max_prompt_tokens=150)
    assert len(request["messages"][1]["content"]) < 150 * 4


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_template_that_every_request_is_refused_for_is_told_by_name(status, tmp_path):
    problems, _, _ = tried(tmp_path, of_system(status))
    assert "System role not supported" in problems[0]
    assert "change prompt" in problems[0]


def test_an_extra_that_every_request_is_refused_for_is_told_by_name(tmp_path):
    def of_extra(request, prompt):
        return (400, "enable_thinking must be false for non-streaming calls") if "enable_thinking" in request else None

    problems, _, _ = tried(tmp_path, of_extra, llm_extra='{"enable_thinking": true}')
    assert "change enable_thinking in llm_extra" in problems[0]


def test_exemplars_that_do_not_fit_are_told_before_the_search(tmp_path):
    problems, _, _ = tried(tmp_path, of_length)
    assert "lower k or max_prompt_tokens" in problems[0]
    problems, notice, _ = tried(tmp_path, of_length, llm_failures="skip")
    assert problems == ()
    assert "llm_failures=skip decides how such rows are handled" in notice
    assert tried(tmp_path, of_length, max_prompt_tokens=80)[:2] == ((), "")


def test_what_only_rows_are_refused_for_is_a_notice(tmp_path):
    problems, notice, requests = tried(tmp_path, of_word)
    assert (problems, len(requests)) == ((), 2)
    assert "with rows of this run, is refused, while a harmless question is answered" in notice


def test_an_endpoint_that_refuses_everything_is_not_blamed_on_the_prompt(tmp_path):
    problems, _, _ = tried(tmp_path, lambda request, prompt: (403, "no"))
    assert "check EASE_LLM_API_KEY" in problems[0]
    assert "change prompt" not in problems[0]
