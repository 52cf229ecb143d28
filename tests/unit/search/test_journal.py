import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ease_lib.artifacts.store import S3Store, open_store
from ease_lib.black_box.usage import Usage
from ease_lib.errors import JournalError
from ease_lib.notes import Notes
from ease_lib.search.journal import WORTH_COPYING, Evaluated, open_journal
from ease_lib.search.optimizers.history import Candidate, Observation


def record(iteration, score=0.5):
    candidate = Candidate(sequence=(3, 1), phase="search", acquisition=0.7)
    observation = Observation(candidate=candidate, score=score, validation_rows=20)
    return Evaluated(iteration=iteration, observation=observation, usage=Usage(requests=20, seconds=1.5), seconds=2.0)


def append(store, *records):
    with open_journal(open_store(str(store)), "key", Notes()) as journal:
        for each in records:
            journal.append(each)


def replay(store):
    with open_journal(open_store(str(store)), "key", Notes()) as journal:
        return list(journal.replay())


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    """A place for journals: a folder, and a prefix on a real S3 server."""
    if request.param == "folder":
        return str(tmp_path)
    return request.getfixturevalue("s3_prefix")


# --- on both ----------------------------------------------------------------------------------------------------------


def test_records_come_back_as_they_were_written(store):
    append(store, record(0, 0.1), record(1, 1 / 3))
    append(store, record(2))
    assert replay(store) == [record(0, 0.1), record(1, 1 / 3), record(2)]


def test_proposals_come_back_with_the_candidates_of_the_records(store):
    coming = {
        1: Candidate(sequence=(0, 2), phase="search", acquisition=1 / 3),
        2: Candidate(sequence=(), phase="initial"),
    }
    with open_journal(open_store(store), "key", Notes()) as journal:
        journal.propose({0: record(0).observation.candidate})
        journal.append(record(0))
        journal.propose(coming)
        journal.append(record(2))
    with open_journal(open_store(store), "key", Notes()) as journal:
        assert journal.replay() == [record(0), record(2)]
        assert journal.proposed() == {0: record(0).observation.candidate, **coming, 2: record(2).observation.candidate}


def test_records_come_back_in_order_of_iterations(store):
    append(store, record(1), record(0))
    assert [each.iteration for each in replay(store)] == [0, 1]


def confirmed(iteration):
    searched = record(iteration)
    candidate = replace(searched.observation.candidate, phase="confirmation")
    return replace(searched, observation=replace(searched.observation, candidate=candidate))


def spread(store, answers, *records):
    """The journal of a search for so many answers; what it replays, once these are appended."""
    with open_journal(open_store(store), "key", Notes(), answers=answers) as journal:
        found = list(journal.replay())
        for each in records:
            journal.append(each)
    return found


def test_more_answers_begin_with_what_the_most_below_them_hold_and_what_was_confirmed_counts_as_search(store):
    assert spread(store, 100, record(0)) == []
    assert spread(store, 20, record(0, 0.9)) == []
    assert spread(store, 200, record(1)) == [record(0)]
    assert spread(store, 150, confirmed(1)) == [record(0)]
    assert spread(store, 300) == [record(0), record(1)]
    assert spread(store, 151) == [record(0), replace(confirmed(1), observation=record(1).observation)]
    assert spread(store, 150) == [record(0), confirmed(1)]
    assert replay(store) == []


def test_proposals_are_continued_too(store):
    with open_journal(open_store(store), "key", Notes(), answers=100) as journal:
        journal.propose({0: record(0).observation.candidate, 1: confirmed(1).observation.candidate})
        journal.append(record(0))
    for _ in range(2):
        with open_journal(open_store(store), "key", Notes(), answers=200) as journal:
            assert journal.proposed() == {each: record(each).observation.candidate for each in (0, 1)}
            assert journal.replay() == [record(0)]


def test_a_search_that_is_under_way_or_damaged_is_not_continued_and_the_next_fewer_is(store, caplog):
    caplog.set_level("INFO", "ease")
    spread(store, 100, record(0))
    spread(store, 110, record(1))
    places = open_store(store).below("journals", "key")
    for name in [name for name in places.walk_names() if "110" in name]:
        places.write(name, (places.read(name) or b"").replace(b"key", b"KEY").replace(b"record", b"dorcer"))
    assert spread(store, 200) == [record(0)]
    assert "the search of 110 answers is not continued" in caplog.text
    if not store.startswith("s3://"):
        with open_journal(open_store(store), "key", Notes(), answers=120):
            assert spread(store, 210) == [record(0)]


def test_a_record_is_safe_from_a_kill_when_append_returns(store):
    """The writer is killed right after, without closing anything."""
    code = (
        "import os, signal, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_journal import Notes, open_journal, open_store, record\n"
        "with open_journal(open_store(sys.argv[1]), 'key', Notes()) as journal:\n"
        "    journal.append(record(0))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, store, str(Path(__file__).parent)], check=False)
    assert killed.returncode == -9
    assert replay(store) == [record(0)]


# --- files ------------------------------------------------------------------------------------------------------------


def journal_file(folder):
    return folder / "journals" / "key.jsonl"


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_last_record_is_dropped_and_written_again(tmp_path, cut):
    append(tmp_path, record(0), record(1))
    path = journal_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    assert replay(tmp_path) == [record(0)]
    append(tmp_path, record(1, 0.3))
    assert replay(tmp_path) == [record(0), record(1, 0.3)]


def test_a_torn_header_starts_afresh(tmp_path):
    append(tmp_path)
    journal_file(tmp_path).write_bytes(journal_file(tmp_path).read_bytes()[:10])
    assert replay(tmp_path) == []


@pytest.mark.parametrize("content", [b"garbage", b"\x00" * 50, b"garbage\nmore\n"])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path, content):
    journal_file(tmp_path).parent.mkdir()
    journal_file(tmp_path).write_bytes(content)
    with pytest.raises(JournalError, match="is damaged and was left as it is"):
        replay(tmp_path)
    assert journal_file(tmp_path).read_bytes() == content


@pytest.mark.parametrize("damage", [lambda line: b"garbage", lambda line: line.replace(b"0.5", b"0.9")])
def test_damage_in_the_middle_is_refused_and_left_alone(tmp_path, damage):
    append(tmp_path, record(0), record(1))
    path = journal_file(tmp_path)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], damage(lines[1]), *lines[2:]]))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="line 2 is damaged and was left as it is"):
        replay(tmp_path)
    assert path.read_bytes() == before


def test_the_journal_of_another_run_is_refused(tmp_path):
    append(tmp_path, record(0))
    path = journal_file(tmp_path)
    header, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(header), "key": "other"}) + "\n" + rest)
    with pytest.raises(JournalError, match="is not the journal of this run"):
        replay(tmp_path)


def test_an_iteration_twice_is_refused(tmp_path):
    append(tmp_path, record(0), record(0, 0.7))
    with pytest.raises(JournalError, match="has an iteration twice"):
        replay(tmp_path)


def test_two_runs_at_once_are_refused(tmp_path):
    with (
        open_journal(open_store(str(tmp_path)), "key", Notes()),
        pytest.raises(JournalError, match="in use by another run"),
    ):
        replay(tmp_path)


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("ease_lib.search.journal.fcntl.flock", no_locks)
    with pytest.raises(JournalError, match=r"cannot be locked \(No locks available\); take a store_uri on"):
        replay(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="choose another store_uri"):
        replay(tmp_path / "file")


def test_a_full_disk_leaves_no_half_line(tmp_path):
    append(tmp_path, record(0))
    code = (
        "import resource, signal, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_journal import append, record\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "append(sys.argv[1], record(1))\n"
    )
    limit = journal_file(tmp_path).stat().st_size + 30
    full = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot be written" in full.stderr
    assert replay(tmp_path) == [record(0)]
    append(tmp_path, record(1))
    assert replay(tmp_path) == [record(0), record(1)]


# --- S3 ---------------------------------------------------------------------------------------------------------------


def test_of_two_runs_on_s3_the_later_one_is_refused(s3_prefix):
    with (
        open_journal(open_store(s3_prefix), "key", Notes()) as first,
        open_journal(open_store(s3_prefix), "key", Notes()) as second,
    ):
        first.append(record(0, 0.1))
        with pytest.raises(JournalError, match="was written by another run of the same search"):
            second.append(record(0, 0.2))
    assert replay(s3_prefix) == [record(0, 0.1)]


def test_a_write_whose_answer_was_lost_may_be_repeated(s3_prefix):
    with open_journal(open_store(s3_prefix), "key", Notes()) as journal:
        journal.append(record(0))
        journal.append(record(0))
    assert replay(s3_prefix) == [record(0)]


def objects(s3, prefix):
    listed = s3.list_objects_v2(Bucket="ease-tests", Prefix=prefix.removeprefix("s3://ease-tests/"))["Contents"]
    return [each["Key"].rpartition("/")[2] for each in listed]


@pytest.fixture
def reads(monkeypatch):
    """Names of the objects that were read."""
    names = []
    read = S3Store.read
    monkeypatch.setattr(S3Store, "read", lambda store, name: (names.append(name), read(store, name))[1])
    return names


def test_a_search_that_ends_on_s3_leaves_a_copy_of_all_entries_which_the_next_reads(s3_prefix, s3, reads):
    entries = [record(iteration) for iteration in range(WORTH_COPYING)]
    notes, later = Notes(), Notes()
    with open_journal(open_store(s3_prefix), "key", notes) as journal:
        journal.propose({0: entries[0].observation.candidate})
        for each in entries:
            journal.append(each)
    assert "copy-00000051" in objects(s3, s3_prefix)
    reads.clear()
    with open_journal(open_store(s3_prefix), "key", later) as journal:
        assert (journal.replay(), list(journal.proposed())) == (entries, list(range(WORTH_COPYING)))
        journal.append(record(WORTH_COPYING))
    assert [name for name in reads if not name.startswith(".probe-")] == ["header.json", "copy-00000051"]
    (holder,) = notes.entries
    assert notes.entries[holder].items() <= later.entries[holder].items(), "lineage names the originals"
    reads.clear()
    assert replay(s3_prefix) == [*entries, record(WORTH_COPYING)]
    assert f"{WORTH_COPYING:06d}.json" in reads, "it is in no copy"


def test_a_search_that_fails_and_one_of_few_entries_leave_no_copy(s3_prefix, s3):
    append(s3_prefix, *map(record, range(WORTH_COPYING - 1)))
    with pytest.raises(JournalError):
        append(s3_prefix, record(WORTH_COPYING), record(WORTH_COPYING, 0.9))
    assert not [name for name in objects(s3, s3_prefix) if name.startswith("copy-")]


@pytest.mark.parametrize("change", [lambda content: b"", lambda content: content.replace(b"0.5", b"0.9", 1)])
def test_a_copy_that_was_changed_is_passed_over(s3_prefix, s3, change):
    entries = [record(iteration) for iteration in range(WORTH_COPYING)]
    append(s3_prefix, *entries)
    key = s3_prefix.removeprefix("s3://ease-tests/") + "/journals/key/copy-00000050"
    content = s3.get_object(Bucket="ease-tests", Key=key)["Body"].read()
    s3.put_object(Bucket="ease-tests", Key=key, Body=change(content))
    assert replay(s3_prefix) == entries


def test_an_entry_that_was_deleted_does_not_come_back_from_a_copy(s3_prefix, s3):
    append(s3_prefix, *map(record, range(WORTH_COPYING)))
    s3.delete_object(Bucket="ease-tests", Key=s3_prefix.removeprefix("s3://ease-tests/") + "/journals/key/000003.json")
    assert [each.iteration for each in replay(s3_prefix)] == [n for n in range(WORTH_COPYING) if n != 3]


def test_damage_on_s3_is_refused_and_left_alone(s3_prefix, s3):
    append(s3_prefix, record(0))
    key = s3_prefix.removeprefix("s3://ease-tests/") + "/journals/key/000000.json"
    s3.put_object(Bucket="ease-tests", Key=key, Body=b"garbage")
    with pytest.raises(JournalError, match=r"000000\.json is damaged"):
        replay(s3_prefix)
    assert s3.get_object(Bucket="ease-tests", Key=key)["Body"].read() == b"garbage"


def test_another_runs_journal_on_s3_is_refused(s3_prefix, s3):
    key = s3_prefix.removeprefix("s3://ease-tests/") + "/journals/key/header.json"
    s3.put_object(Bucket="ease-tests", Key=key, Body=b'{"version": "ease_journal/1", "key": "other"}')
    with pytest.raises(JournalError, match="is not the journal of this run"):
        replay(s3_prefix)
