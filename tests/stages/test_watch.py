"""`ease watch`, on journals of real searches."""

import re
import shutil
import threading
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.cli import __main__ as cli
from ease_lib.cli import watch
from ease_lib.cli.watch import best_of, store_of, text_of
from ease_lib.errors import ConfigError, JournalError
from ease_lib.reporting.watch_page import watch_page
from ease_lib.running.graph import address
from ease_lib.search.watching import watched
from tests.recorded_run import STAGES, RecordedRun
from tests.support.faulty_endpoint import faulty_endpoint, status

SEARCH = {"method": "adaptive", "budget": 20, "validation_size": 20, "prefilter": "none"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, which must not be changed."""
    return RecordedRun(tmp_path_factory.mktemp("watched") / "run", **SEARCH).remembered()


def journal_of(folder):
    (path,) = folder.rglob("*.jsonl")
    return path


@pytest.fixture
def under_way(run, tmp_path):
    """A search read in the middle of a write: half of its journal, and half a line more."""
    lines = journal_of(run.folder).read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    copy = tmp_path / "store" / "journals" / journal_of(run.folder).parent.name / journal_of(run.folder).name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"".join(lines[:half]) + lines[half][:30])
    return tmp_path, half


def test_a_search_that_is_over_has_all_its_answers(run, capsys):
    assert cli.main(["watch", str(run.folder)]) == 0
    text = capsys.readouterr().out
    assert re.match(r"400 of 400 answers, \d+ sequences, \d+ requests", text)
    assert text.endswith("the search has all its answers; the report names the winner\n")


def test_the_middle_of_a_search_is_shown_and_its_journal_left_as_it_is(under_way):
    folder, half = under_way
    before = journal_of(folder).read_bytes()
    found = watched(store_of(str(folder)))
    assert 0 < found.answers < found.planned == 400
    assert len(found.history) < half
    assert found.under_way, "what was proposed and has no record"
    assert found.left_seconds >= 0
    assert [each.score for each in found.contenders]
    assert all(each.interval[0] <= each.score <= each.interval[1] for each in found.contenders)
    assert journal_of(folder).read_bytes() == before


def test_it_says_what_is_asked_and_when_nothing_comes(under_way):
    found = watched(store_of(str(under_way[0])))
    last = datetime.fromisoformat(found.last_answer)
    assert "asked now: exemplars " in text_of(found, last + timedelta(seconds=5))
    assert "no answer for" not in text_of(found, last + timedelta(seconds=5))
    assert "no answer for 100 s" in text_of(found, last + timedelta(seconds=100))


def test_the_texts_of_the_best_are_shown_where_the_artifacts_lie_beside(run, under_way, capsys):
    folder = under_way[0]
    assert best_of(watched(store_of(str(folder))), str(folder)) == [], "a store alone has no pool"
    (folder / "prefilter").mkdir()
    shutil.copy(run.path("kept"), folder / address("prefilter.kept"))
    found = watched(store_of(str(folder)))
    best = best_of(found, str(folder))
    pool = pq.read_table(run.path("kept"))["input"].to_pylist()
    assert [row.input for row in best] == [pool[position] for position in found.contenders[0].prompt[1]]
    assert cli.main(["watch", str(folder), "--once"]) == 0
    assert f"  1. {best[0].input} → {best[0].output}" in capsys.readouterr().out
    page = watch_page(found, "runs", 2.0, [replace(best[0], input="<script>x</script>")])
    assert "&lt;script&gt;x" in page
    assert best[0].origin in page
    assert best_of(watched(store_of(str(run.folder))), str(run.folder)) == [], "the report names the winner then"


def test_failures_are_shown_as_they_come(tmp_path):
    def answered(prompt):
        return "praise" if len(prompt) % 2 else "complaint"

    with faulty_endpoint(answered, status(429), status(400, "content filter"), status(503)) as server:
        values = {"llm_base_url": server.base_url, "llm_failures": "skip", "llm_coverage": 0.5}
        run = RecordedRun(tmp_path / "run", **SEARCH, **values).remembered(*STAGES)
    found = watched(store_of(str(run.folder)))
    assert (found.retries, found.refused) == (2, 1)
    said = "2 requests were tried again; 1 answer was refused"
    assert said in text_of(found, datetime.now(UTC)).splitlines()
    assert f"{said}." in watch_page(found, "runs", 2.0)
    assert found.tokens > 0


@pytest.mark.rooms("ease_lib/search", "ease_lib/reporting", "ease_lib/artifacts")
def test_a_search_in_a_bucket_is_watched_too(s3_prefix, tmp_path):
    RecordedRun(tmp_path / "run", store_uri=s3_prefix, **SEARCH)()
    names = open_store(s3_prefix).walk_names()
    found = watched(store_of(s3_prefix))
    assert found.is_over
    assert found.sequences == len({tuple(row["exemplar_ids"]) for row in found.history})
    assert open_store(s3_prefix).walk_names() == names, "nothing is written"


def test_before_the_search_there_is_nothing_to_see(tmp_path, capsys):
    assert cli.main(["watch", str(tmp_path), "--once"]) == 0
    assert capsys.readouterr().out == "no search has begun here yet\n"


def test_a_damaged_journal_is_named(under_way):
    folder, _ = under_way
    path = journal_of(folder)
    path.write_bytes(path.read_bytes().replace(b'"score":', b'"score":1', 1))
    with pytest.raises(JournalError, match="is damaged"):
        watched(store_of(str(folder)))


def test_the_page_loads_itself_anew_until_the_search_is_over(run, under_way):
    begun = watch_page(watched(store_of(str(under_way[0]))), "<b>runs</b>", 2.0)
    over = watch_page(watched(store_of(str(run.folder))), "runs", 2.0)
    assert 'http-equiv="refresh" content="2"' in begun
    assert "<h2>Asked now</h2>" in begun
    assert "<b>runs" not in begun
    assert "refresh" not in over
    assert "refresh" in watch_page(None, "runs", 0.1), "it may begin yet"


def test_the_page_is_served_on_this_machine_alone(run):
    served = threading.Event()
    printed = []

    class Server(watch.ThreadingHTTPServer):
        def serve_forever(self, *given):
            printed.append(self.server_address)
            served.set()
            super().serve_forever(*given)

    original, watch.ThreadingHTTPServer = watch.ThreadingHTTPServer, Server
    try:
        arguments = (lambda: watched(store_of(str(run.folder))), "runs", 0, 2.0)
        threading.Thread(target=watch.serve, args=arguments, daemon=True).start()
        assert served.wait(10)
    finally:
        watch.ThreadingHTTPServer = original
    (host, port) = printed[0]
    assert host == "127.0.0.1"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert b"400 of 400 answers" in answer.read()


def test_a_port_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="choose another port"):
        watch.serve(lambda: None, "runs", 70_000, 2.0)


def test_silence_is_counted_from_the_last_answer(run):
    assert watched(store_of(str(run.folder))).silent_seconds(datetime.now(UTC)) >= 0
