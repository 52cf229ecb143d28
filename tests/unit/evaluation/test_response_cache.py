import asyncio
import sqlite3
import subprocess
import sys

import pytest

from ease_lib.errors import Overloaded, StoreError
from ease_lib.evaluation.llm_client import Completion
from ease_lib.evaluation.response_cache import CachingClient, open_cache, response_key

IDENTITY = {"endpoint": "e", "model": "m", "temperature": 0}


class CountingClient:
    def __init__(self, failures=0):
        self.calls, self.failures = 0, failures

    async def complete(self, prompt):
        self.calls += 1
        if self.calls <= self.failures:
            raise Overloaded("busy")
        return Completion(text=f"answer to {prompt}", prompt_tokens=3, completion_tokens=2, model="m", retries=1)


def ask(path, client, prompt="hi", **identity):
    with open_cache(path) as cache:
        return asyncio.run(CachingClient(client, cache, {**IDENTITY, **identity}).complete(prompt))


def test_an_answer_is_asked_once_over_processes_and_time(tmp_path):
    client = CountingClient()
    first, second = (ask(tmp_path / "c", client) for _ in range(2))
    assert client.calls == 1
    assert (first.cached, second.cached) == (False, True)
    assert (second.text, second.retries) == (first.text, 0)


@pytest.mark.parametrize("change", [{"endpoint": "x"}, {"model": "x"}, {"temperature": 1}, {"prompt": "hi "}])
def test_any_other_question_is_asked(tmp_path, change):
    client = CountingClient()
    ask(tmp_path / "c", client)
    ask(tmp_path / "c", client, **change)
    assert client.calls == 2


def test_failures_are_not_stored(tmp_path):
    client = CountingClient(failures=1)
    with pytest.raises(Overloaded):
        ask(tmp_path / "c", client)
    assert not ask(tmp_path / "c", client).cached


@pytest.mark.parametrize("content", ["{", '{"text": "other"}', None])
def test_a_damaged_entry_is_asked_again_and_mended(tmp_path, content, caplog):
    client = CountingClient()
    ask(tmp_path / "c", client)
    with sqlite3.connect(tmp_path / "c") as database:
        database.execute("UPDATE responses SET content = coalesce(?, 0)", (content,))
    with caplog.at_level("INFO", "ease"):
        assert not ask(tmp_path / "c", client).cached
    assert "a damaged answer" in caplog.text
    assert ask(tmp_path / "c", client).cached


def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path):
    (tmp_path / "c").write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match="not a usable response cache"):
        ask(tmp_path / "c", CountingClient())
    assert (tmp_path / "c").read_text().startswith("not a database")


def test_many_processes_write_at_once(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from ease_lib.evaluation.llm_client import Completion\n"
        "from ease_lib.evaluation.response_cache import open_cache\n"
        "with open_cache(Path(sys.argv[1])) as cache:\n"
        "    for n in range(50):\n"
        "        cache.put(str(n), Completion(text=str(n), prompt_tokens=1, completion_tokens=1, model='m'))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "c")]) for _ in range(6)]
    assert [writer.wait() for writer in writers] == [0] * 6
    with open_cache(tmp_path / "c") as cache:
        assert [cache.get(str(n)).text for n in range(50)] == [str(n) for n in range(50)]


def test_keys_do_not_depend_on_the_order_of_settings():
    assert response_key({"a": 1, "b": 2}, "p") == response_key({"b": 2, "a": 1}, "p")
