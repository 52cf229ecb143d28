import asyncio
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.black_box.cache import FILE, FOLDER, CachingClient, kept_entries, open_cache, remove_entries
from ease_lib.black_box.client import Completion, Sampling
from ease_lib.black_box.llm_identity import LLMIdentity
from ease_lib.errors import Overloaded, StoreError
from ease_lib.notes import Notes

ASKED = LLMIdentity(endpoint="e", model="m", api="chat", sampling=Sampling(max_tokens=8, stop="\n"))


class CountingClient:
    def __init__(self, failures=0):
        self.calls, self.failures = 0, failures

    async def complete(self, prompt, account=""):
        self.calls += 1
        await asyncio.sleep(0.01)
        if self.calls <= self.failures:
            raise Overloaded("busy")
        return Completion(text=f"answer to {prompt}", prompt_tokens=3, completion_tokens=2, model="m", retries=1)


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    """A place for answers: a folder, and a prefix on a real S3 server."""
    return str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3_prefix")


def ask(store, client, prompt="hi", **changes):
    with open_cache(open_store(str(store))) as cache:
        return asyncio.run(CachingClient(client, cache, replace(ASKED, **changes), Notes()).complete(prompt))


def test_an_answer_is_asked_once_over_processes_and_time(store):
    client = CountingClient()
    first, second = (ask(store, client) for _ in range(2))
    assert client.calls == 1
    assert (first.cached, second.cached) == (False, True)
    assert second.text == first.text


def test_answers_of_one_file_are_read_as_objects_hold_them_and_leave_no_text_when_they_are_removed(tmp_path):
    assert list(kept_entries(tmp_path / FILE)) == []
    client = CountingClient()
    ask(tmp_path, client)
    ask(tmp_path, client, "another")
    entries = dict(kept_entries(tmp_path / FILE))
    assert all(entry[64:].startswith(b'\n{"text": "answer to ') for entry in entries.values())
    remove_entries(tmp_path / FILE, [key for key, entry in entries.items() if b"another" not in entry])
    assert [b"another" in entry for _, entry in kept_entries(tmp_path / FILE)] == [True]
    assert not any(b"answer to hi" in file.read_bytes() for file in tmp_path.iterdir())


def test_of_many_removed_answers_no_page_of_the_file_keeps_a_copy(tmp_path):
    async def all_at_once(cache):
        asking = CachingClient(CountingClient(), cache, ASKED, Notes())
        await asyncio.gather(*(asking.complete(f"<{number}>{'-' * (number % 7 * 9)}") for number in range(300)))

    with open_cache(open_store(str(tmp_path))) as cache:
        asyncio.run(all_at_once(cache))
    numbers = {key: int(re.search(rb"<(\d+)>", entry)[1]) for key, entry in kept_entries(tmp_path / FILE)}
    remove_entries(tmp_path / FILE, [key for key, number in numbers.items() if number % 3])
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert [number for number in range(300) if f"<{number}>".encode() in held] == list(range(0, 300, 3))


@pytest.mark.parametrize(
    "change", [{"endpoint": "x"}, {"model": "x"}, {"sampling": Sampling(max_tokens=9, stop="\n")}, {"prompt": "hi "}]
)
def test_any_other_question_is_asked(tmp_path, change):
    client = CountingClient()
    ask(tmp_path, client)
    ask(tmp_path, client, **change)
    assert client.calls == 2


def test_equal_questions_at_once_are_asked_once(store):
    client = CountingClient()

    async def twenty_at_once(cache):
        asking = CachingClient(client, cache, ASKED, Notes())
        return await asyncio.gather(*(asking.complete("hi") for _ in range(20)))

    with open_cache(open_store(store)) as cache:
        answers = asyncio.run(twenty_at_once(cache))
    assert client.calls == 1
    assert sorted(answer.cached for answer in answers) == [False] + [True] * 19


def test_of_equal_questions_another_is_asked_where_the_first_gives_up(store):
    client = CountingClient()

    async def first_gives_up(cache):
        asking = CachingClient(client, cache, ASKED, Notes())
        askers = [asyncio.create_task(asking.complete("hi")) for _ in range(3)]
        while not client.calls:  # a bucket may be slow to say that it has no answer
            await asyncio.sleep(0)
        askers[0].cancel()
        return await asyncio.gather(*askers, return_exceptions=True)

    with open_cache(open_store(store)) as cache:
        given_up, *answers = asyncio.run(first_gives_up(cache))
    assert isinstance(given_up, asyncio.CancelledError)
    assert [each.text for each in answers] == ["answer to hi"] * 2
    assert client.calls == 2


def test_a_failure_is_one_of_all_who_asked_the_same(store):
    client = CountingClient(failures=1)

    async def three_at_once(cache):
        asking = CachingClient(client, cache, ASKED, Notes())
        return await asyncio.gather(*(asking.complete("hi") for _ in range(3)), return_exceptions=True)

    with open_cache(open_store(store)) as cache:
        assert [type(each) for each in asyncio.run(three_at_once(cache))] == [Overloaded] * 3
    assert client.calls == 1


def test_failures_are_not_stored(store):
    client = CountingClient(failures=1)
    with pytest.raises(Overloaded):
        ask(store, client)
    assert not ask(store, client).cached


@pytest.mark.parametrize("content", ["{", '{"text": "other"}', None])
def test_a_damaged_entry_is_asked_again_and_mended(tmp_path, content, caplog):
    client = CountingClient()
    ask(tmp_path, client)
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("UPDATE responses SET content = coalesce(?, 0)", (content,))
    with caplog.at_level("INFO", "ease"):
        assert not ask(tmp_path, client).cached
    assert "a damaged answer" in caplog.text
    assert ask(tmp_path, client).cached


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"digest\n{}"])
def test_a_damaged_object_is_asked_again_and_mended(s3, s3_prefix, content, caplog):
    client = CountingClient()
    ask(s3_prefix, client)
    folder = f"{s3_prefix.removeprefix('s3://ease-tests/')}/{FOLDER}/"
    [stored] = s3.list_objects_v2(Bucket="ease-tests", Prefix=folder)["Contents"]
    s3.put_object(Bucket="ease-tests", Key=stored["Key"], Body=content)
    with caplog.at_level("INFO", "ease"):
        assert not ask(s3_prefix, client).cached
    assert "a damaged answer" in caplog.text
    assert ask(s3_prefix, client).cached


def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path):
    (tmp_path / FILE).write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match="not a usable response cache"):
        ask(tmp_path, CountingClient())
    assert (tmp_path / FILE).read_text().startswith("not a database")


@pytest.mark.rooms("ease_lib/black_box/cache.py")
def test_fifty_processes_share_one_cache(tmp_path):
    """All start with an empty file and write the same and other answers: no lock error, nothing lost or damaged."""
    code = (
        "import asyncio, sys\n"
        "from ease_lib.black_box.client import Completion\n"
        "from ease_lib.artifacts.store import open_store\n"
        "from ease_lib.black_box.cache import open_cache\n"
        "from ease_lib.notes import Notes\n"
        "async def fill(cache, writer):\n"
        "    for n in range(40):\n"
        "        for key in (f'common {n}', f'{writer} {n}'):\n"
        "            if await cache.get(key, Notes()) is None:\n"
        "                answer = Completion(text=key, prompt_tokens=1, completion_tokens=1, model='m')\n"
        "                await cache.put(key, answer, Notes())\n"
        "with open_cache(open_store(sys.argv[1])) as cache:\n"
        "    asyncio.run(fill(cache, sys.argv[2]))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(writer)], stderr=subprocess.PIPE, text=True)
        for writer in range(50)
    ]
    assert [writer.communicate()[1] for writer in writers] == [""] * 50
    keys = [f"{writer} {n}" for writer in ["common", *range(50)] for n in range(40)]
    with open_cache(open_store(str(tmp_path))) as cache, asyncio.Runner() as runner:
        assert [runner.run(cache.get(key, Notes())).text for key in keys] == keys


def answer(text):
    return Completion(text=text, prompt_tokens=3, completion_tokens=2, model="m")


def test_an_answer_that_was_put_survives_a_kill(tmp_path):
    code = (
        "import asyncio, os, sys\n"
        "from ease_lib.artifacts.store import open_store\n"
        "from ease_lib.black_box.cache import open_cache\n"
        "from ease_lib.notes import Notes\n"
        "from ease_lib.black_box.client import Completion\n"
        "async def store(cache):\n"
        "    one = lambda n: Completion(text=str(n), prompt_tokens=1, completion_tokens=1, model='m')\n"
        "    await asyncio.gather(*(cache.put(str(n), one(n), Notes()) for n in range(500)))\n"
        "    os.kill(os.getpid(), 9)\n"
        "with open_cache(open_store(sys.argv[1])) as cache:\n"
        "    asyncio.run(store(cache))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    with open_cache(open_store(str(tmp_path))) as cache:
        assert [asyncio.run(cache.get(str(number), Notes())).text for number in range(500)] == [
            str(n) for n in range(500)
        ]


def test_an_answer_that_nobody_waits_for_any_more_is_kept(store):
    async def give_up(cache):
        putting = asyncio.create_task(cache.put("a" * 64, answer("paid for"), Notes()))
        await asyncio.sleep(0)
        putting.cancel()

    with open_cache(open_store(store)) as cache:
        asyncio.run(give_up(cache))
    with open_cache(open_store(store)) as cache:
        assert asyncio.run(cache.get("a" * 64, Notes())).text == "paid for"


def test_on_a_full_disk_every_answer_is_kept_or_its_asker_learns_that_it_is_not(tmp_path):
    """Though answers that come together are written together."""

    async def put_all(cache):
        cache._database.execute("PRAGMA max_page_count = 40")
        puts = [[cache.put(f"{turn} {n}", answer("x" * 999), Notes()) for n in range(20)] for turn in range(10)]
        return [await asyncio.gather(*turn, return_exceptions=True) for turn in puts]

    with open_cache(open_store(str(tmp_path))) as cache:
        said = asyncio.run(put_all(cache))
    kept = {key for key, _ in kept_entries(tmp_path / FILE)}
    told = {f"{turn} {n}" for turn, outcomes in enumerate(said) for n, each in enumerate(outcomes) if each is None}
    assert told == kept
    assert 20 <= len(kept) < 200
    assert {type(each) for outcomes in said for each in outcomes} == {type(None), StoreError}


def test_who_puts_an_answer_learns_that_it_cannot_be_written(tmp_path):
    async def put_some(cache):
        return await asyncio.gather(
            *(cache.put(str(n), answer("x"), Notes()) for n in range(3)), return_exceptions=True
        )

    with open_cache(open_store(str(tmp_path))) as cache:
        with sqlite3.connect(tmp_path / FILE) as other:
            other.execute("DROP TABLE responses")
        failures = asyncio.run(put_some(cache))
    assert [type(failure) for failure in failures] == [StoreError] * 3
    assert "no such table" in str(failures[0])
