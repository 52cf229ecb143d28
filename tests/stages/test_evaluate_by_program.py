"""Whole runs in which a program evaluates rows, in the place of endpoint, prompt and metric."""

import asyncio
import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ease_lib
from ease_lib.black_box.in_process import OwnProgram, ProgramClient
from ease_lib.cli import __main__ as cli
from ease_lib.cli.forget import EXIT_LEFT
from ease_lib.cli.prompt_exports.writing import prompt_document
from ease_lib.config.parsing import changed_parameters, flat_parameters, parse_parameters
from ease_lib.errors import ConfigError, DataError, EndpointError, ProgramFailed
from ease_lib.notes import Notes
from ease_lib.prompts.messages import Handed
from ease_lib.prompts.template import PromptTemplate
from ease_lib.tasks.base import Exemplar

KINDS = {"broken": "support", "invoice": "billing", "price": "sales"}
ROWS = [
    {"text": f"{word} {number}", "team": team, "tags": [number, None], "vip": number % 2 == 0}
    for number in range(20)
    for word, team in KINDS.items()
]
SETTINGS = {"output_column": "team", "input_columns": "text", "test_size": 12, "k": 3, "max_llm_requests": 300}


def right(exemplars, row):
    """Whether an exemplar of the same word is shown."""
    return any(each["text"].split()[0] == row["text"].split()[0] for each in exemplars)


def optimized(evaluate=right, rows=ROWS, **more):
    return ease_lib.optimize(rows, evaluate=evaluate, **{"progress": False, "method": "halving", **SETTINGS, **more})


# --- from Python ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A run, its folder, and all that the program was given."""
    folder, given = tmp_path_factory.mktemp("run"), []

    def evaluate(exemplars, row):
        given.append((exemplars, row))
        return ease_lib.Evaluated(right(exemplars, row), answer="<b>said</b>", prompt_tokens=7, cost_usd=0.01)

    return optimized(evaluate, output_dir=folder), folder, given


def test_a_function_of_exemplars_and_a_row_in_place_of_a_model(found):
    result, _, given = found
    assert result.test_score == 1.0
    assert {each["team"] for each in result.exemplars} == set(KINDS.values())
    assert len(given) - 1 <= 300, "the trial aside, no more than the cap"
    assert any(exemplars == [] for exemplars, _ in given), "no exemplars, on the test set"


def test_it_is_given_rows_as_json_holds_them(found):
    _, _, given = found
    for exemplars, row in given:
        assert all(each in ROWS for each in (*exemplars, row))


def test_what_it_says_of_tokens_and_cost_is_counted(found):
    result, _, given = found
    llm = result.report["llm"]
    assert llm["requests"] == len(given) - 1
    assert llm["prompt_tokens"] == 7 * llm["requests"]
    assert llm["cost_usd"] == pytest.approx(0.01 * llm["requests"])


def test_results_hold_the_exemplars_and_no_prompt(found):
    result, folder, _ = found
    names = {path.name for path in folder.iterdir()}
    assert {"exemplars.json", "prompt.txt", "report.html"} <= names
    assert not {"messages.json", "request.json"} & names
    assert json.loads((folder / "exemplars.json").read_text()) == result.exemplars
    assert [json.loads(line) for line in (folder / "prompt.txt").read_text().splitlines()] == result.exemplars
    with pytest.raises(DataError, match="this run searched for a program"):
        result.messages("price 99")


def test_the_page_shows_exemplars_where_it_would_show_the_prompt(found):
    _, folder, _ = found
    page = (folder / "report.html").read_text()
    for said in ("as this sequence", "The exemplars, in order", "<th>Calls</th>", "This sequence"):
        assert said in page, said
    for said in ("The prompt", "this prompt", "LLM requests", "which may not be a language model", "<b>said</b>"):
        assert said not in page, said


def test_the_same_program_is_not_asked_again_and_a_changed_one_is(tmp_path):
    calls = []
    text = "def evaluate(exemplars, row):\n    note()\n    return {}right(exemplars, row)\n"

    def of(path, start):
        path.write_text(text.format(start))
        given = {"right": right, "note": lambda: calls.append(1)}
        exec(compile(path.read_text(), str(path), "exec"), given)
        return given["evaluate"]

    first = optimized(of(tmp_path / "one.py", ""), store_uri=str(tmp_path / "store"))
    asked = len(calls)
    again = optimized(of(tmp_path / "one.py", ""), store_uri=str(tmp_path / "store"))
    assert len(calls) - asked == 1, "the trial question"
    assert again.best == first.best
    changed = optimized(of(tmp_path / "two.py", "not "), store_uri=str(tmp_path / "store"))
    assert len(calls) > asked + 100
    assert changed.test_score == 1.0
    assert changed.exemplars == [], "it is right where nothing like it is shown"


def test_coroutine_functions_are_awaited_side_by_side_in_the_loop_of_the_caller():
    loops, under_way, most = set(), [0], [0]

    async def evaluate(exemplars, row):
        loops.add(asyncio.get_running_loop())
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await asyncio.sleep(0.001)
        under_way[0] -= 1
        return right(exemplars, row)

    async def main():
        found = await ease_lib.optimize_async(
            ROWS, evaluate=evaluate, progress=False, method="halving", llm_concurrency=6, **SETTINGS
        )
        assert loops == {asyncio.get_running_loop()}
        return found

    assert asyncio.run(main()).test_score == 1.0
    assert 1 < most[0] <= 6


def test_functions_are_called_in_as_many_threads_as_calls_may_be_under_way():
    under_way, most, lock = [0], [0], threading.Lock()

    def evaluate(exemplars, row):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.002)
        with lock:
            under_way[0] -= 1
        return right(exemplars, row)

    optimized(evaluate, llm_concurrency=4, max_llm_requests=150)
    assert 1 < most[0] <= 4


@pytest.mark.parametrize("changed", [{"noise_ratio": 0.5}, {"label_remapping": "support=S;billing=B;sales=P"}])
def test_outputs_that_were_changed_are_seen_in_their_column(changed):
    original = {row["text"]: row["team"] for row in ROWS}
    seen = {}

    def evaluate(exemplars, row):
        seen.update({each["text"]: each["team"] for each in exemplars})
        return right(exemplars, row)

    optimized(evaluate, max_llm_requests=200, **changed)
    different = sum(original[text] != team for text, team in seen.items()) / len(seen)
    assert 0.2 < different < 0.8 if "noise_ratio" in changed else different == 1


# --- what it raises or returns ----------------------------------------------------------------------------------------


def failing_at(word):
    def evaluate(exemplars, row):
        if row["text"] == word:
            raise LookupError(f"nothing found for {row['text']}")
        return right(exemplars, row)

    return evaluate


def test_a_row_that_it_fails_at_ends_the_run_unless_such_rows_may_be_left_out():
    tested = optimized(max_llm_requests=150).test_rows[0]
    name = json.loads(dict(tested.fields)["text"])
    with pytest.raises(
        EndpointError, match=f"evaluate failed: LookupError: nothing found for {name}.* Set llm_failures"
    ):
        optimized(failing_at(name), max_llm_requests=150)
    skipped = optimized(failing_at(name), max_llm_requests=150, llm_failures="skip", llm_coverage=0.5)
    assert skipped.report["failed_rows"] == {"validation": 0, "test": 1}
    assert skipped.report["best"]["test_rows"] == 11


def test_what_it_raises_at_every_row_is_raised_with_its_own_frames():
    def evaluate(exemplars, row):
        return row["no such column"]

    with pytest.raises(ConfigError, match="evaluate failed: KeyError: 'no such column'") as raised:
        optimized(evaluate)
    assert isinstance(raised.value.__cause__, KeyError)
    assert any("evaluate was given" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("right", "returned str; return a score from 0"),
        (None, "returned NoneType; return a score from 0"),
        (1.5, "returned score 1.5; return a score from 0"),
        (float("nan"), "returned score nan; return a score from 0"),
        (ease_lib.Evaluated(-1), "returned score -1; return a score from 0"),
    ],
)
def test_what_is_no_score_is_refused(returned, message):
    with pytest.raises(EndpointError, match=message):
        scored(lambda exemplars, row: returned)


@pytest.mark.parametrize("returned", [True, 1, 1.0, ease_lib.Evaluated(1, answer="a"), pa.scalar(1).as_py()])
def test_what_is_a_score_is_taken(returned):
    assert scored(lambda exemplars, row: returned).score == 1.0


def scored(function):
    async def main():
        client = ProgramClient(OwnProgram("mine", function, ""), 2, Notes())
        try:
            row = Exemplar(1, "a", ("b",))
            return await client.complete(PromptTemplate(exemplars="rows").render([row], row))
        finally:
            await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"answer": None}, "returned an answer that is NoneType; return its text"),
        ({"cost_usd": -1}, "returned cost_usd -1; return cost_usd from 0 on"),
        ({"cost_usd": float("nan")}, "returned cost_usd nan"),
        ({"prompt_tokens": 3.5}, "returned prompt_tokens 3.5"),
    ],
)
def test_what_it_says_beside_the_score_is_checked(said, message):
    with pytest.raises(EndpointError, match=message):
        scored(lambda exemplars, row: ease_lib.Evaluated(1, **said))


def test_numbers_of_any_kind_are_kept_as_plain_ones():
    said = ease_lib.Evaluated(np.float32(1), prompt_tokens=np.int64(3), cost_usd=Decimal("0.5"))
    found = scored(lambda exemplars, row: said)
    assert (found.score, found.prompt_tokens, found.cost_usd) == (1.0, 3, 0.5)
    assert {type(found.score), type(found.cost_usd), type(found.prompt_tokens)} == {float, int}


@pytest.mark.parametrize("raised", [StopIteration("x"), asyncio.CancelledError("x"), FileNotFoundError("rubric.txt")])
def test_what_no_future_can_hold_or_what_is_of_a_disk_is_a_failure_of_the_program(raised):
    def evaluate(exemplars, row):
        raise raised

    with pytest.raises(ProgramFailed, match=f"mine failed: .*{raised.args[0]}"):
        scored(evaluate)


def test_what_it_asks_itself_and_does_not_get_names_no_parameter_of_llms():
    def evaluate(exemplars, row):
        raise TimeoutError

    with pytest.raises(EndpointError, match="mine did not answer in time; give what evaluate calls more time"):
        scored(evaluate)


def test_the_first_row_too_may_be_one_that_is_left_out():
    asked = []

    def first(exemplars, row):
        asked.append(row["text"])
        return right(exemplars, row)

    optimized(first, max_llm_requests=100)
    result = optimized(failing_at(asked[0]), max_llm_requests=150, llm_failures="skip", llm_coverage=0.5)
    assert sum(result.report["failed_rows"].values()) > 0


@pytest.mark.parametrize("evaluate", [lambda exemplars, row: 1.0, Path("x").match])
def test_what_has_no_name_of_its_own_needs_one_where_scores_are_kept(evaluate, tmp_path):
    with pytest.raises(ConfigError, match=r"evaluate is a \w+ without its own name, under"):
        optimized(evaluate, store_uri=str(tmp_path))


def test_scores_that_are_all_0_end_the_run_early():
    calls = []

    def evaluate(exemplars, row):
        calls.append(row)
        return 0

    with pytest.raises(DataError, match="scores that evaluate returned are all 0"):
        optimized(evaluate)
    assert len(calls) < 150


def test_what_it_says_that_it_costs_obeys_the_cap():
    def evaluate(exemplars, row):
        return ease_lib.Evaluated(right(exemplars, row), cost_usd=0.01)

    result = optimized(evaluate, max_llm_requests=0, max_cost_usd=2.0)
    assert result.report["stopped"] == "max_cost_usd=2"
    assert result.report["llm"]["cost_usd"] <= 2.2


# --- what it is given -------------------------------------------------------------------------------------------------


def test_rows_of_tasks_without_columns_have_input_output_and_all_that_are_accepted():
    prompt = PromptTemplate(exemplars="rows").render(
        [Exemplar(1, "hot", ("cold", "cool"))], Exemplar(2, "dry", ("wet",))
    )
    assert isinstance(prompt, Handed)
    assert prompt.given == (
        [{"input": "hot", "output": "cold", "outputs": ["cold", "cool"]}],
        {"input": "dry", "output": "wet", "outputs": ["wet"]},
    )


def test_a_program_may_change_what_it_is_given():
    prompt = PromptTemplate(exemplars="rows").render([], Exemplar(2, "dry", ("wet",)))
    prompt.given[1].clear()
    assert prompt.given[1]["input"] == "dry"


def test_columns_that_nothing_names_may_be_empty_and_are_given_too(tmp_path):
    table = pa.table(
        {
            "text": [row["text"] for row in ROWS],
            "team": [row["team"] for row in ROWS],
            "note": [None if number % 2 else f"note {number}" for number in range(len(ROWS))],
            "place": [{"x": number, "y": 0.5} for number in range(len(ROWS))],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    given = []

    def evaluate(exemplars, row):
        given.append(row)
        return right(exemplars, row)

    result = optimized(evaluate, None, task="table", task_uri=str(tmp_path / "rows.parquet"), max_llm_requests=200)
    assert result.report["dataset"]["unused"] == 0
    known = table.to_pylist()
    assert all(row in known for row in given)
    assert {row["note"] is None for row in given} == {True, False}


def test_bytes_that_are_no_text_come_as_base64_and_numbers_stay_numbers_with_noise(tmp_path):
    picture, number = bytes([0x89, 0x50, 0xFF]), {team: place for place, team in enumerate(KINDS.values())}
    table = pa.table(
        {
            "text": [row["text"] for row in ROWS],
            "team": [number[row["team"]] for row in ROWS],
            "picture": [picture for _ in ROWS],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    given = []

    def evaluate(exemplars, row):
        given.extend((row, *exemplars))
        return right(exemplars, row)

    uri = str(tmp_path / "rows.parquet")
    optimized(evaluate, None, task="table", task_uri=uri, max_llm_requests=150, noise_ratio=0.5)
    assert {row["picture"] for row in given} == {base64.b64encode(picture).decode()}
    assert {row["team"] for row in given} == {0, 1, 2}


def test_its_result_is_no_prompt_to_export(found, tmp_path):
    _, folder, _ = found
    with pytest.raises(ConfigError, match="this run searched for a program"):
        prompt_document(ease_lib.Result.read(folder))


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "llm_base_url": "https://llm.example.org/v1",
        "llm_max_tokens": 5,
        "llm_extra": "{}",
        "prompt": "prompt.yaml",
        "metric": "exact_match",
        "require": "characters<=9",
        "baseline": "{input}",
        "instructions": 3,
        "max_prompt_tokens": 100,
    }.items(),
)
def test_what_is_for_llms_is_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=f"{name} has no effect with evaluate"):
        parse_parameters({"evaluate": "mine.py:score", name: value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"evaluate": "mine.py"}, "evaluate=mine.py is not a function; use FILE.py:NAME"),
        ({"evaluate": "a.py:f", "llm_refresh": "probe"}, "llm_refresh=probe asks fixed prompts"),
        ({"evaluate": "a.py:f", "method": "llm_select"}, "method=llm_select asks an LLM"),
        ({"metric": "evaluate"}, "metric=evaluate and prompt=rows only work with evaluate; set it"),
        ({"prompt": "rows"}, "metric=evaluate and prompt=rows only work with evaluate; set it"),
        (
            {"evaluate": "a.py:f", "task": "table", "task_uri": "a.csv", "output_column": "a,b", "noise_ratio": 0.1},
            "output_column=a,b is several columns",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_parameters(given)


def test_parameters_travel_as_they_are_read():
    once = parse_parameters({"evaluate": "python:mine.tasks:score"})
    assert once.endpoint.program == "mine.tasks:score"
    assert once.task.of_program
    assert parse_parameters(flat_parameters(once)) == parse_parameters(changed_parameters(once)) == once


def test_a_function_that_is_not_there_is_told_before_anything_is_read(tmp_path):
    (tmp_path / "mine.py").write_text("def other(): ...")
    for named, message in (
        (f"{tmp_path}/mine.py:score", "has no function score"),
        ("python:no.such.module:score", "cannot be loaded: ModuleNotFoundError"),
    ):
        with pytest.raises(ConfigError, match=message):
            optimized(named)


# --- from the command line --------------------------------------------------------------------------------------------

PROGRAM = """
    import os
    import time
    from pathlib import Path
    
    def evaluate(exemplars, row):
        with open(Path(__file__).with_name("calls.txt"), "a") as file:
            file.write(f"{[each['text'] for each in exemplars]} {row['text']}\\n")
        time.sleep(float(os.environ.get("SECONDS_A_CALL", "0")))
        return any(each["text"].split()[0] == row["text"].split()[0] for each in exemplars)
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return [
        *(sys.executable, "-m", "ease_lib.cli"),
        *("run", "--evaluate", "mine.py:evaluate", "--task", "table", "--task-uri", "rows.jsonl"),
        *("--input-columns", "text", "--output-column", "team", "--test-size", "12", "--k", "3"),
        *("--method", "halving", "--max-llm-requests", "300", "--output-dir", "out"),
    ]


@pytest.mark.rooms("ease_lib/black_box/in_process.py", "ease_lib/search/ask_tell.py", "ease_lib/running/trial.py")
def test_a_killed_run_continues_and_evaluates_nothing_twice_but_what_was_under_way(tmp_path, command):
    slow = {**os.environ, "SECONDS_A_CALL": "0.05"}
    process = subprocess.Popen(command, cwd=tmp_path, env=slow, stdout=subprocess.DEVNULL, start_new_session=True)
    calls = tmp_path / "calls.txt"
    until = time.monotonic() + 120
    while (not calls.exists() or len(calls.read_text().splitlines()) < 80) and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    made = calls.read_text().splitlines()
    trials = 2
    assert len(made) - len(set(made)) <= 20 + trials, "at most llm_concurrency were under way"
    assert "Winning sequence" in done.stdout
    assert "calls" in done.stdout
    assert not (set(done.stdout.split()) & {"Winning prompt", "LLM requests"})


def test_sequences_are_published_compared_and_forgotten_like_prompts(tmp_path, command, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*more):
        assert cli.main([*command[3:], "--max-llm-requests", "150", "--publish-uri", "prompts", *more]) == 0
        return json.loads(Path("prompts/latest.json").read_text())["version"]

    first = run()
    assert run("--seed", "1", "--publish-if", "better", "--output-dir", "two") == first, "both are right everywhere"
    folder = Path("prompts/versions") / first
    shown = json.loads((folder / "exemplars.json").read_text())
    assert [json.loads(line) for line in (folder / "prompt.txt").read_text().splitlines()] == shown
    capsys.readouterr()
    forgotten = ["forget", "--row", shown[0]["text"], "--in", "out", "--in", "two", "--in", "prompts", "--remove"]
    assert cli.main(forgotten) == EXIT_LEFT, "the table itself"
    said = capsys.readouterr().out
    again = next(line for line in said.splitlines() if line.startswith(".venv/bin/ease run") and "--seed" not in line)
    assert "--evaluate mine.py:evaluate" in again
    assert not {"--metric", "--prompt"} & set(again.split()), "they follow from it"
    assert not (folder / "exemplars.json").exists()
    assert run(*shlex.split(again)[2:], "--output-dir", "out-again") != first
    assert shown[0] not in json.loads(Path("out-again/exemplars.json").read_text())
