"""Models that think before they answer: every request has tokens for it; what was cut is said, counted and shown."""

import json
import re
from pathlib import Path

import pytest

from ease_lib import errors
from ease_lib.artifacts import contracts
from ease_lib.artifacts.tables import read_document
from ease_lib.cli import __main__ as cli
from ease_lib.config.parsing import parse_parameters, without_unread
from ease_lib.reporting.result_text import result_text
from ease_lib.running.graph import modules_between
from ease_lib.running.inline import Workspace
from ease_lib.running.prerequisites import PROBE_PROMPTS
from ease_lib.search.task import read_instructions
from ease_lib.stages import build_dataset, optimize, prefilter, propose_instructions
from tests.support.faulty_endpoint import MODEL as PLAIN
from tests.support.faulty_endpoint import faulty_endpoint, finish, message
from tests.support.runs import check, checked, findings, planned, run_stages
from tests.support.thinking_endpoint import FORMS, MODEL, thinking_endpoint

SMALL = {
    "task": "table",
    "input_columns": "question",
    "output_column": "answer",
    "pool_size": 12,
    "validation_size": 8,
    "test_size": 10,
    "method": "best_of_n",
    "budget": 4,
    "k": 2,
    "evaluation_rows": 0,
    "llm_model": MODEL,
}
THINKING, THINKING_TOKENS = 700, 1000
PROPOSAL = "The instruction was to"


def said(prompt):
    if prompt.endswith(PROPOSAL):
        return "count the letters"
    if "<answer>" in prompt:
        return "It says what is expected. 5"
    numbers = re.findall(r"\d+", prompt)
    return "odd" if numbers and int(numbers[-1]) % 2 else "even"


def parameters_of(folder, server, **values):
    rows = [{"question": f"number {number} ?", "answer": ("even", "odd")[number % 2]} for number in range(30)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    places = {"task_uri": str(folder / "rows.jsonl"), "store_uri": str(folder / "store")}
    return parse_parameters(without_unread({**SMALL, **places, "llm_base_url": server.base_url, **values}, kept=values))


def ran(folder, parameters):
    """The report of a whole run, from the check of what it needs."""
    at = Workspace(folder / "run")
    stages = (*modules_between("", "optimize"), optimize, *modules_between("optimize", "publish"))
    run_stages(at, checked(parameters), *stages)
    return at, read_document(Path(at.numbers), contracts.REPORT)


# --- the trial --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_that_was_cut_is_a_notice_and_not_an_end(form, tmp_path, caplog, capsys):
    notice = "used up its 64 tokens before it answered; raise llm_thinking_tokens"
    with thinking_endpoint(said, thinking=THINKING, form=form) as server, caplog.at_level("INFO", "ease"):
        parameters = parameters_of(tmp_path, server)
        (trial,) = check(parameters).values()
        options = ("--llm-base-url", server.base_url, "--llm-model", MODEL, "--output-dir", str(tmp_path / "out"))
        assert cli.main(["doctor", *options]) == 0
    assert trial.model == MODEL
    (line,) = (line for line in caplog.messages if line.startswith("notice: the trial question"))
    assert line.endswith(notice)
    shown = capsys.readouterr().out
    assert "ok    endpoint" in shown
    assert notice in shown
    assert "all checks passed" in shown


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_with_tokens_to_think_has_nothing_to_say(form, tmp_path):
    with thinking_endpoint(said, thinking=THINKING, form=form) as server:
        found = findings(parameters_of(tmp_path, server, llm_thinking_tokens=THINKING_TOKENS))
    assert [finding for finding in found if finding.problems or finding.notice] == []


def test_a_trial_whose_text_was_cut_is_a_notice_too(tmp_path):
    with faulty_endpoint(said, finish("length", "First we look at")) as server:
        found = findings(parameters_of(tmp_path, server, llm_model=PLAIN))
    (notice,) = (finding.notice for finding in found if finding.notice)
    assert notice.startswith("the answer to the trial question was cut at 64 tokens")


def test_the_longest_answer_reaches_the_trial(tmp_path):
    with thinking_endpoint(said, thinking=THINKING) as server:
        check(parameters_of(tmp_path, server, llm_max_tokens=900))
        assert server.requests[0]["max_tokens"] == 900


def test_a_probe_that_was_cut_tells_nothing_of_the_model_and_ends_no_run(tmp_path, caplog):
    with thinking_endpoint(said, thinking=THINKING) as server, caplog.at_level("INFO", "ease"):
        checked(parameters_of(tmp_path, server, llm_refresh="probe"))
        assert "notice: llm_refresh=probe learns nothing from a prompt that is cut" in caplog.text
        caplog.clear()
        checked(parameters_of(tmp_path, server, llm_refresh="probe", llm_thinking_tokens=THINKING_TOKENS))
        checked(parameters_of(tmp_path, server, llm_refresh="probe", budget=5))
    assert "put aside" not in caplog.text, "the model is the same, with and without tokens to think"


# --- every request ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_request_of_a_run_has_tokens_to_think(form, tmp_path):
    """Trial, probe, proposals of instructions, search, test set and the judge's."""
    with thinking_endpoint(said, thinking=THINKING, form=form) as server:
        values = {"llm_thinking_tokens": THINKING_TOKENS, "llm_refresh": "probe", "instructions": 3, "metric": "judge"}
        prices = {"llm_prompt_usd": 1, "llm_completion_usd": 2, "judge_prompt_usd": 3, "judge_completion_usd": 4}
        _, report = ran(tmp_path, parameters_of(tmp_path, server, **values, **prices))
        requests = server.requests
    own = {request["max_tokens"] - THINKING_TOKENS for request in requests}
    assert own == {16, 64, 128, 1024}
    prompts = {request["messages"][-1]["content"]: request["max_tokens"] for request in requests}
    trial = next(prompt for prompt in prompts if prompt.startswith("Input: number"))
    assert prompts[trial] == 64 + THINKING_TOKENS
    assert all(prompts[probe] == 16 + THINKING_TOKENS for probe in PROBE_PROMPTS)
    assert {limit for prompt, limit in prompts.items() if prompt.endswith(PROPOSAL)} == {128 + THINKING_TOKENS}
    llm = report["llm"]
    assert llm["cut_answers"] == 0
    answers = llm["requests"] - llm["judge_requests"]
    assert llm["completion_tokens"] >= (THINKING + 1) * answers > 0, "what was thought is paid for"
    assert llm["judge_completion_tokens"] == (THINKING + 6) * llm["judge_requests"] > 0


def test_the_question_of_llm_select_has_tokens_to_think_too(tmp_path):
    with thinking_endpoint(
        lambda prompt: "3, 5" if "number" not in prompt.splitlines()[-1] else said(prompt)
    ) as server:
        values = {"method": "llm_select", "llm_thinking_tokens": 100}
        at = Workspace(tmp_path / "run")
        run_stages(at, parameters_of(tmp_path, server, **values), *modules_between("", "optimize"), optimize)
        assert {request["max_tokens"] for request in server.requests} == {64 + 100}


def test_what_is_thought_is_in_the_estimate_of_every_part(tmp_path):
    with thinking_endpoint(said) as server:
        values = {"instructions": 3, "metric": "judge", "judge_base_url": server.base_url, "judge_model": MODEL}
        plain = planned(parameters_of(tmp_path, server, **values))
        thoughtful = planned(parameters_of(tmp_path, server, llm_thinking_tokens=100, **values))
    for without, thinking in zip(plain.values(), thoughtful.values(), strict=True):
        answers = thinking.requests - thinking.judge_requests
        assert thinking.completion_tokens == without.completion_tokens + 100 * answers
        judged = thinking.judge_completion_tokens - without.judge_completion_tokens
        assert judged == 100 * thinking.judge_requests


# --- what is cut ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_run_without_tokens_to_think_ends_at_its_first_row_with_what_to_do(form, tmp_path):
    with (
        thinking_endpoint(said, thinking=THINKING, form=form) as server,
        pytest.raises(
            errors.AnswerCut, match=r"row \d+ \(.*\): .* its 64 tokens before it answered.*; raise llm_thinking_tokens"
        ),
    ):
        ran(tmp_path, parameters_of(tmp_path, server, llm_concurrency=1))
    assert len(server.requests) == 1 + 1


def test_the_limit_of_llm_extra_is_named_where_it_is_the_one(tmp_path):
    with thinking_endpoint(said, thinking=THINKING) as server:
        extra = {"llm_extra": '{"max_completion_tokens": 300}', "llm_thinking_tokens": THINKING_TOKENS}
        found = findings(parameters_of(tmp_path, server, **extra))
    (notice,) = (finding.notice for finding in found if finding.notice)
    assert notice.endswith("used up its 300 tokens before it answered; raise max_completion_tokens in llm_extra")


def asks_3(prompt):
    """Whether the query is the row of the number 3."""
    return prompt.rpartition("number ")[2].startswith("3 ")


def long_at_3(prompt):
    return "even " * 100 if asks_3(prompt) else said(prompt)


def test_answers_that_were_cut_are_counted_and_shown(tmp_path, caplog):
    with thinking_endpoint(long_at_3, thinking=50) as server, caplog.at_level("INFO", "ease"):
        parameters = parameters_of(tmp_path, server, llm_thinking_tokens=50)
        at, report = ran(tmp_path, parameters)
        cut = sum(asks_3(request["messages"][-1]["content"]) for request in server.requests)
        _, again = ran(tmp_path, parameters)
    assert report["llm"]["cut_answers"] == again["llm"]["cut_answers"] == cut > 0, "kept answers are as short"
    assert "was cut at its token limit" in caplog.text
    assert f"{cut} answer" in re.sub(r"\s+", " ", Path(at.page).read_text())
    assert f"{cut}; raise llm_max_tokens or llm_thinking_tokens" in result_text(Path(at.results), 1.0)
    summaries = read_document(Path(at.search), contracts.SEARCH_SUMMARY)["llm"]["cut_answers"]
    assert summaries + read_document(Path(at.test_scores), contracts.TEST_SUMMARY)["llm"]["cut_answers"] == cut


def test_answers_that_were_cut_before_they_said_anything_are_counted_too(tmp_path):
    """A row that is thought about for long is refused by `skip`, and its tokens are paid for."""
    with thinking_endpoint(said, thinking=50) as server:
        server.thinking_of = lambda prompt: 500 if asks_3(prompt) else 50
        values = {"llm_failures": "skip", "llm_coverage": 0.5, "llm_thinking_tokens": 50, "llm_concurrency": 1}
        _, report = ran(tmp_path, parameters_of(tmp_path, server, **values))
        cut = [request for request in server.requests if asks_3(request["messages"][-1]["content"])]
    assert report["llm"]["cut_answers"] == len(cut) > 0
    asked = report["llm"]["requests"] - len(cut)
    assert report["llm"]["completion_tokens"] == 51 * asked + (64 + 50) * len(cut)


def test_a_verdict_that_was_cut_is_said_to_be(tmp_path):
    def verdict(prompt):
        return "Well, " * 2000 + "5" if "<answer>" in prompt else said(prompt)

    with thinking_endpoint(verdict, thinking=10) as server:
        values = {"metric": "judge", "judge_base_url": server.base_url, "judge_model": MODEL}
        found = findings(parameters_of(tmp_path, server, **values))
        server.thinking_of = lambda prompt: 5000
        silent = findings(parameters_of(tmp_path, server, **values))
    (notice,) = (finding.notice for finding in found if finding.what == "judge")
    assert "gave no score on its scale; it was cut (raise llm_thinking_tokens) and ended with" in notice
    (notice,) = (finding.notice for finding in silent if finding.what == "judge")
    assert "the judge: " in notice
    assert "used up its 1024 tokens before it answered; raise llm_thinking_tokens" in notice
    assert [finding.problems for finding in (*found, *silent) if finding.problems] == []


# --- proposals of instructions ----------------------------------------------------------------------------------------


def proposed(folder, server, **values):
    at = Workspace(folder / "run")
    parameters = parameters_of(folder, server, llm_model=PLAIN, instructions=6, **values)
    run_stages(at, parameters, build_dataset, prefilter, propose_instructions)
    return read_instructions(at.instructions)


USED = {"prompt_tokens": 30, "completion_tokens": 500, "total_tokens": 530}
REFUSED = message(usage=USED, content=None, refusal="No.")
EMPTY = message(usage=USED, content=None)


def test_an_instruction_that_is_not_proposed_is_passed_over_and_paid_for(tmp_path, caplog):
    with faulty_endpoint(said, REFUSED, EMPTY) as server, caplog.at_level("INFO", "ease"):
        found = proposed(tmp_path, server, llm_failures="skip", llm_concurrency=1)
        assert server.script.requests == 7
    assert found.texts == ["", "Count the letters"]
    assert (found.usage.requests, found.usage.retries) == (6, 1)
    assert found.usage.completion_tokens == 5 * 3 + 500 + 500
    assert "notice: 1 of 6 instructions were not proposed" in caplog.text


@pytest.mark.parametrize("kind", ["stop", "skip"])
def test_a_model_that_proposes_nothing_ends_the_stage(kind, tmp_path):
    with faulty_endpoint(said, *[REFUSED] * 6) as server, pytest.raises(errors.ContentRefused) as caught:
        proposed(tmp_path, server, llm_failures=kind)
    assert ("Set llm_failures to skip" in str(caught.value)) == (kind == "stop")
