import json

import pytest

from ease_lib.errors import JournalError
from ease_lib.evaluation.objective import Usage
from ease_lib.study.history import Candidate, Observation
from ease_lib.study.journal import Record, open_journal


def record(score):
    candidate = Candidate(sequence=(3, 1), phase="search", acquisition=0.7)
    observation = Observation(candidate=candidate, score=score, validation_rows=20)
    return Record(observation=observation, usage=Usage(requests=20, seconds=1.5), seconds=2.0)


def append(folder, *scores):
    with open_journal(folder, "key") as journal:
        for score in scores:
            journal.append(record(score))


def replay(folder):
    with open_journal(folder, "key") as journal:
        return journal.replay()


def test_records_come_back_as_they_were_written(tmp_path):
    append(tmp_path, 0.1, 1 / 3)
    append(tmp_path, 0.5)
    assert replay(tmp_path) == [record(0.1), record(1 / 3), record(0.5)]


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_last_record_is_dropped_and_written_again(tmp_path, cut):
    append(tmp_path, 0.1, 0.2)
    path = tmp_path / "key.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert replay(tmp_path) == [record(0.1)]
    append(tmp_path, 0.3)
    assert replay(tmp_path) == [record(0.1), record(0.3)]


def test_a_torn_header_starts_afresh(tmp_path):
    append(tmp_path)
    path = tmp_path / "key.jsonl"
    path.write_bytes(path.read_bytes()[:10])
    assert replay(tmp_path) == []


def test_damage_in_the_middle_is_refused_and_left_alone(tmp_path):
    append(tmp_path, 0.1, 0.2)
    path = tmp_path / "key.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"garbage", *lines[2:]]))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="damaged in line 2; it was left as it is"):
        replay(tmp_path)
    assert path.read_bytes() == before


def test_the_journal_of_another_run_is_refused(tmp_path):
    append(tmp_path, 0.1)
    path = tmp_path / "key.jsonl"
    header, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(header), "key": "other"}) + "\n" + rest)
    with pytest.raises(JournalError, match="is not the journal of this run"):
        replay(tmp_path)


def test_two_runs_at_once_are_refused(tmp_path):
    with open_journal(tmp_path, "key"), pytest.raises(JournalError, match="in use by another run"):
        replay(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="choose another store_uri"):
        replay(tmp_path / "file")
