"""The search as a program calls it: rows, a function and a metric in, a prompt out."""

import asyncio
import enum
import functools
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import openai
import pyarrow as pa
import pytest
import requests

import ease_lib
from ease_lib.black_box.in_process import FunctionClient, OwnFunction
from ease_lib.errors import (
    AuthenticationFailed,
    BadRequest,
    ConfigError,
    DataError,
    EndpointError,
    Notice,
    Overloaded,
    QuotaExhausted,
    RateLimited,
)
from ease_lib.lineage.chain import follow
from ease_lib.notes import Notes
from tests.support.faulty_endpoint import MODEL, faulty_endpoint

KINDS = {"broken": "support", "invoice": "billing", "price": "sales"}
ROWS = [{"text": f"{word} {number}", "team": team} for number in range(20) for word, team in KINDS.items()]
SETTINGS = {"output_column": "team", "input_columns": "text", "test_size": 12, "k": 3, "max_llm_requests": 300}


def learner(messages):
    """Answers right where an exemplar of the same word is in the prompt."""
    text, _, query = messages[-1]["content"].rpartition("Input: ")
    word = query.split()[0]
    return KINDS[word] if f"Output: {KINDS.get(word)}" in text else "no idea"


def optimized(llm=learner, rows=ROWS, **more):
    return ease_lib.optimize(rows, llm, **{"progress": False, **SETTINGS, **more})


def test_a_function_and_a_metric_of_the_program():
    asked = []

    def llm(messages):
        asked.append(messages)
        return learner(messages)

    result = optimized(llm, metric=lambda answer, outputs: float(answer == outputs[0]))
    assert result.test_score == 1.0
    assert result.test_interval[0] < result.test_score == result.test_interval[1]
    assert {entry["outputs"][0] for entry in result.exemplars} == set(KINDS.values())
    assert result.messages("price 99")[0]["content"].endswith("\n\nInput: price 99\nOutput:")
    assert result.messages("price 99")[0]["content"] == result.prompt({"input": "price 99"})
    assert len(asked) - 1 <= 300, "the trial question aside, no more than the cap"
    assert sum(len(entry["row_ids"]) for entry in result.history) <= 300
    assert "price" in result._repr_html_()
    assert len(result.test_rows) == 12


def test_a_coroutine_function_in_a_running_event_loop_as_in_a_notebook():
    async def llm(messages):
        await asyncio.sleep(0)
        return learner(messages)

    async def cell():
        return optimized(llm)

    assert asyncio.run(cell()).exemplars == optimized().exemplars


def test_nothing_is_left_behind_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    optimized()
    assert list(tmp_path.iterdir()) == []


def test_a_second_call_asks_nothing_and_the_folder_is_a_run(tmp_path):
    asked = []

    def llm(messages):
        asked.append(messages)
        return learner(messages)

    first = optimized(llm, output_dir=tmp_path / "out")
    count = len(asked)
    again = optimized(llm, output_dir=tmp_path / "out")
    assert len(asked) == count + 1, "the trial question"
    read = ease_lib.Result.read(str(tmp_path / "out"))
    assert read.exemplars == again.exemplars == first.exemplars
    assert read.lineage_sha256 == again.lineage_sha256 != ""


def test_what_the_function_raises_ends_the_search_with_its_own_words():
    def llm(messages):
        raise ZeroDivisionError("no more tokens")

    with pytest.raises((EndpointError, ConfigError), match="llm failed: ZeroDivisionError: no more tokens"):
        optimized(llm)


def test_a_broken_connection_is_tried_again():
    failures = iter([ConnectionResetError("peer")] * 3)

    def llm(messages):
        if error := next(failures, None):
            raise error
        return learner(messages)

    assert optimized(llm).test_score == 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": ["a", "b"]}, r"row 0 is str, not a mapping of columns; of a pandas DataFrame"),
        ({"rows": []}, "has no rows"),
        ({"llm": lambda messages: None}, "returned NoneType; return the answer's text"),
        ({"metric": lambda answer, outputs: 7}, r"metric=function:<lambda> returned 7 for an answer"),
        ({"bugdet": 3}, "did you mean budget"),
        ({"llm": "function"}, "llm_base_url=function is set by ease_lib.optimize"),
    ],
)
def test_mistakes_are_named(wrong, message):
    with pytest.raises((ConfigError, DataError, EndpointError), match=message):
        optimized(**wrong)


def test_a_query_without_a_column_is_named():
    result = optimized(prompt={"query": "{text}?\n", "answer": "{output}"}, metric="contains", max_zero_answers=0)
    with pytest.raises(DataError, match="the query lacks text; the prompt needs text"):
        result.messages("price 1")


def test_a_folder_without_a_result_is_named(tmp_path):
    with pytest.raises(DataError, match=r"holds no result: there is no best_sequence\.json"):
        ease_lib.Result.read(str(tmp_path))


def what_it_was(folder):
    """Identity of a run: its id, its result, and the records that two equal runs share."""
    chain = follow(str(folder))
    (run_id,) = {step.record["run"]["id"] for step in chain.everything}
    records = [
        (
            step.stage,
            step.record["state"],
            {name: value for name, value in step.record["parameters"].items() if name not in OWN},
            [(part["name"], part["sha256"]) for part in step.record["inputs"] if part["name"] in SAME_BYTES],
            sorted(map(len, step.record["entries"].values())),
            (step.record["llm"] or {}).get("answered_by"),
            sorted(file["sha256"] for file in step.record["files_read"]),
        )
        for step in chain.everything
    ]
    return run_id, ease_lib.Result.read(str(folder)).exemplars, records


OWN = ("ledger", "store_uri", "lineage_uri", "task_uri")
"""Parameters that name the run or its folder."""
SAME_BYTES = ("pool", "validation", "test", "summary", "tops", "instructions", "embeddings", "best_sequence")


def test_two_searches_at_once_give_each_what_it_gives_alone(tmp_path):
    """The two have other functions, metrics and stores: neither answers, scores, notes or names anything of the
    other."""
    at_once = threading.Barrier(2, timeout=60)
    asked_by = {"a": set(), "b": set()}

    def searched(name, folder, meeting):
        def llm(messages):
            if not asked_by[name] and meeting:
                at_once.wait()  # both are in the middle of their runs
            asked_by[name].add(threading.current_thread().name)
            return learner(messages) if name == "a" else learner(messages).upper()

        def metric(answer, outputs):
            return float(answer == (outputs[0] if name == "a" else outputs[0].upper()))

        llm.__name__ = f"llm_{name}"
        asked_by[name].clear()
        optimized(llm, metric=metric, seed=ord(name), output_dir=folder, max_zero_answers=0)
        return what_it_was(folder)

    alone = {name: searched(name, tmp_path / f"{name} alone", meeting=False) for name in "ab"}
    with ThreadPoolExecutor(2) as threads:
        running = {name: threads.submit(searched, name, tmp_path / f"{name} beside", True) for name in "ab"}
        beside = {name: run.result() for name, run in running.items()}
    assert len({run_id for run_id, *_ in (*alone.values(), *beside.values())}) == 4
    for name in "ab":
        assert beside[name][1] == alone[name][1]
        for found, expected in zip(beside[name][2], alone[name][2], strict=True):
            assert found == expected, found[0]
        logs = [(tmp_path / f"{name} {how}" / "pipeline" / "log.txt").read_text() for how in ("alone", "beside")]
        assert f"llm_{name}" in logs[1]
        assert [line.split(": ")[0] for line in logs[0].splitlines() if line.endswith(": started")] == [
            line.split(": ")[0] for line in logs[1].splitlines() if line.endswith(": started")
        ]
        assert f"llm_{'ba'['ab'.index(name)]}" not in logs[1]


def test_a_client_made_outside_lives_through_the_whole_search():
    """The client's connections belong to one event loop, which all stages share."""
    with faulty_endpoint(lambda prompt: learner([{"content": prompt}])) as server:

        async def llm(messages):
            answer = await client.chat.completions.create(model=MODEL, messages=messages)
            return answer.choices[0].message.content

        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0)
        assert optimized(llm).test_score == 1.0
    assert server.script.requests > 100


def test_an_interrupt_in_a_notebook_ends_the_search():
    """The event loop runs in the main thread, the search in another."""
    cell = textwrap.dedent("""
        import asyncio, time
        import ease_lib

        async def llm(messages):
            print("asked", flush=True)
            await asyncio.sleep(600)

        async def cell():
            ease_lib.optimize([{"input": f"a {n}", "output": "b"} for n in range(40)], llm, progress=False)

        try:
            asyncio.run(cell())
        except KeyboardInterrupt:
            print("interrupted")
    """)
    with subprocess.Popen([sys.executable, "-c", cell], stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout.readline() == "asked\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.read().endswith("interrupted\n")
        watchdog.cancel()


def test_a_result_prints_as_its_verdict_and_scores(tmp_path):
    result = optimized(output_dir=tmp_path / "run")
    assert str(result).startswith(result.verdict)
    assert f"{result.test_score:.3f}" in str(result)
    assert len(repr(result)) < 200
    assert str(ease_lib.Result.read(tmp_path / "run")) == str(result)


def test_what_the_library_offers_is_listed():
    assert {"Result", "errors", "optimize"} <= set(dir(ease_lib))
    assert ease_lib.errors.DataError is DataError


def test_columns_may_be_a_list_and_a_baseline_a_text_or_messages():
    def llm(messages):
        return learner([{"content": messages[-1]["content"].replace("text: ", "")}])

    rows = [{**row, "number": str(number)} for number, row in enumerate(ROWS)]
    for baseline in ("Team of {input}?", [{"role": "user", "content": "Team of {input}?"}]):
        result = optimized(llm, rows=rows, input_columns=["text", "number"], baseline=baseline)
        assert result.exemplars[0]["input"].startswith("text: ")
        assert result.report["baseline"]["score"] == 0.0


def test_an_object_that_is_called_as_a_coroutine_answers():
    class Client:
        async def __call__(self, messages):
            return learner(messages)

    assert optimized(Client()).exemplars == optimized().exemplars


@pytest.mark.parametrize("llm", [functools.partial(learner), lambda messages: learner(messages)])
def test_a_function_without_a_name_needs_one_where_its_answers_are_kept(tmp_path, llm):
    with pytest.raises(ConfigError, match="without its own name"):
        optimized(llm, output_dir=tmp_path)
    assert optimized(llm, output_dir=tmp_path, llm_model="learner").test_score == optimized(llm).test_score


def test_a_metric_that_cannot_be_told_from_others_is_refused_where_its_scores_are_kept(tmp_path):
    metric = functools.partial(lambda right, answer, outputs: right * float(answer in outputs), 1.0)
    with pytest.raises(ConfigError, match="metric is a partial"):
        optimized(metric=metric, output_dir=tmp_path)
    assert optimized(metric=metric).test_score == optimized().test_score


def fails_on_words(text):
    raise ZeroDivisionError(f"{text.split()[-1]} is too much")


def shown_of(error):
    """The frames of a traceback as the caller is shown it, by function, and the whole text."""
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return frames, "".join(traceback.format_exception(error))


@pytest.mark.timeout(60)
def test_a_function_that_cannot_reach_its_server_ends_the_search():
    def away(messages):
        raise ConnectionError("nobody at home")

    with pytest.raises(ConfigError, match="away: the connection broke") as caught:
        optimized(away)
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize("is_coroutine", [False, True])
@pytest.mark.parametrize("answers", [0, 40])
def test_a_function_that_fails_is_shown_with_its_own_frames_and_what_it_was_given(is_coroutine, answers):
    """Whether it fails at the trial question or in the search."""
    asked = []

    def llm(messages):
        asked.append(messages)
        if len(asked) > answers:
            fails_on_words("that")
        return learner(messages) if len(asked) > 1 else "4"

    async def llm_of_coroutine(messages):
        return llm(messages)

    with pytest.raises((EndpointError, ConfigError), match="failed: ZeroDivisionError: that is too much") as caught:
        optimized(llm_of_coroutine if is_coroutine else llm, llm_concurrency=1)
    frames, text = shown_of(caught.value)
    assert frames[1:] == ["optimized", "optimize"]
    own = [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert own == (["llm_of_coroutine"] if is_coroutine else []) + ["llm", "fails_on_words"]
    assert f"was given {asked[answers]}"[:200] in text
    assert asked[answers][0]["content"] not in str(caught.value), "messages of errors are recorded"


def test_a_metric_that_fails_is_shown_with_its_own_frames_and_what_it_was_given():
    def metric(answer, outputs):
        return fails_on_words(answer)

    with pytest.raises((DataError, ConfigError), match="metric=function:metric failed on an answer: Zero") as caught:
        optimized(metric=metric)
    assert shown_of(caught.value)[0][1:] == ["optimized", "optimize"]
    own = [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert own == ["metric", "fails_on_words"]
    assert "function:metric was given the answer '" in shown_of(caught.value)[1]


def test_what_a_function_was_given_is_shortened():
    asked = []

    def llm(messages):
        asked.append(messages)
        if len(asked) > 1:  # behind the trial question
            fails_on_words("long")
        return "no"

    with pytest.raises(EndpointError) as caught:
        optimized(llm, rows=[{**row, "text": row["text"] + 3000 * " long"} for row in ROWS], max_zero_answers=0)
    (note,) = caught.value.__notes__
    assert len(note) < 600
    assert note.endswith("characters)")


def test_outputs_may_be_sets_and_lists():
    """Each item is accepted; a set has a fixed order, whatever the seed of hashes."""
    rows = [{**row, "team": {row["team"], "anyone", "Zoe"}} for row in ROWS]
    of_sets = optimized(rows=rows, max_zero_answers=0)
    assert {tuple(sorted(row.outputs)) for row in of_sets.test_rows} == {
        tuple(sorted(("anyone", "Zoe", team))) for team in KINDS.values()
    }
    listed = [{**row, "team": sorted(row["team"])} for row in rows]
    assert optimized(rows=listed, max_zero_answers=0).test_rows == of_sets.test_rows


class Team(enum.Enum):
    A = "anyone"


def test_bytes_and_members_of_an_enumeration_are_their_text():
    rows = [{**row, "more": b"caf\xc3\xa9", "kind": Team.A} for row in ROWS]
    result = optimized(rows=rows, input_columns="text,more,kind", max_zero_answers=0)
    assert "more: caf\u00e9\nkind: anyone" in result.test_rows[0].input


def test_a_column_whose_name_is_no_text_is_refused_by_row():
    with pytest.raises(DataError, match=r"row 0: keys must be str, .*names that are text"):
        optimized(rows=[{**row, ("a", "b"): 1} for row in ROWS])


NOTHING = [None, float("nan"), Decimal("NaN"), np.datetime64("NaT"), np.ma.masked, np.array(np.nan), pa.scalar(None)]


@pytest.mark.parametrize("role", ["input_columns", "output_column", "group_column", "time_column", "split_column"])
def test_a_row_without_a_value_is_left_out_whatever_its_column_is_for(role):
    def llm(messages):
        assert not re.search("nan|nat|none|masked|--", messages[-1]["content"].lower())
        return learner([{"content": messages[-1]["content"].replace("text: ", "")}])

    parts = ["train", "train", "validation", "test"]
    values = {
        "time_column": [f"2026-01-{1 + number // 3:02}" for number in range(len(ROWS))],
        "split_column": [parts[number // 3 % 4] for number in range(len(ROWS))],
        "output_column": [row["team"] for row in ROWS],
    }
    rows = [
        {**row, "more": value}
        for row, value in zip(ROWS, values.get(role, [f"Nr. {n // 3}" for n in range(len(ROWS))]), strict=True)
    ]
    rows = [*({**row, "more": value} for row, value in zip(rows, NOTHING, strict=False)), *rows]
    columns = {role: ["text", "more"] if role == "input_columns" else "more"}
    with pytest.warns(Notice, match="7 of 67 rows of rows.jsonl were left out: column 'more' is empty"):
        optimized(llm, rows=rows, max_zero_answers=0, **columns)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, RateLimited),
        (503, Overloaded),
        (401, AuthenticationFailed),
        (403, AuthenticationFailed),
        (402, QuotaExhausted),
        (400, BadRequest),
        (422, BadRequest),
    ],
)
def test_errors_of_requests_are_failures_by_their_status(status, kind):
    def llm(messages):
        response = requests.Response()
        response.status_code, response._content = status, b'{"error": {"message": "said so"}}'
        response.headers["Retry-After"] = "7"
        response.raise_for_status()

    client = FunctionClient(OwnFunction("llm", llm), 1, Notes())
    with pytest.raises(kind, match=f"llm answered {status}: said so") as caught:
        asyncio.run(client.complete("What?"))
    assert caught.value.retry_after == (7 if status in (429, 503) else None)


def test_notices_are_warnings_and_the_callers_logging_stays():
    logger = logging.getLogger("ease")
    handler = logging.NullHandler()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = True
    try:
        with pytest.warns(Notice, match="rows of the data are not used; raise pool_size") as warned:
            optimized(pool_size=10)
        found = handler in logger.handlers, logger.level, logger.propagate
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
    assert found == (True, logging.ERROR, True)
    assert {warning.filename for warning in warned if warning.category is Notice} == {__file__}


def test_the_history_is_rows_of_one_shape_as_data_frames_take_them():
    rows = optimized().history
    assert len({tuple(row) for row in rows}) == 1
    kinds = {name: {type(row[name]) for row in rows} - {type(None)} for name in rows[0]}
    assert all(len(kind) <= 1 and kind <= {int, float, str, list, bool} for kind in kinds.values()), kinds


def test_an_async_program_awaits_the_search_and_its_functions_run_in_its_loop():
    async def program():
        loop, beside = asyncio.get_running_loop(), 0

        async def llm(messages):
            assert asyncio.get_running_loop() is loop
            return learner(messages)

        search = asyncio.create_task(ease_lib.optimize_async(ROWS, llm, progress=False, **SETTINGS))
        while not search.done():
            await asyncio.sleep(0.01)
            beside += 1
        return await search, beside

    result, beside = asyncio.run(program())
    assert result.exemplars == optimized().exemplars
    assert beside > 5, "the program goes on"


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_an_async_search_that_is_cancelled_ends(is_coroutine):
    asked = []

    async def waits(messages):
        asked.append(messages)
        await asyncio.sleep(600)

    def answers_late(messages):
        asked.append(messages)
        time.sleep(0.05)
        return learner(messages)

    async def program():
        llm = waits if is_coroutine else answers_late
        search = asyncio.create_task(ease_lib.optimize_async(ROWS, llm, progress=False, **SETTINGS))
        while not asked:
            await asyncio.sleep(0.01)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        count = len(asked)
        await asyncio.sleep(0.3)
        assert len(asked) == count

    asyncio.run(program())
