"""Published versions whose writer was killed, and the latest version."""

import contextlib

import pytest

from ease_lib.artifacts.result_files import BEST_SEQUENCE, PROMPT_TEXT
from ease_lib.artifacts.store import FileStore
from ease_lib.errors import LineageError
from ease_lib.lineage.publishing.versions import (
    Version,
    find_row,
    make_latest,
    move_latest,
    read_latest,
    write_version,
)
from ease_lib.lineage.verification import verify_versions
from ease_lib.notes import Notes
from ease_lib.tasks.base import row_hash


class Killed(BaseException):
    """Raised like a kill: nothing catches it."""


class KillingStore(FileStore):
    """A folder whose user is killed instead of its nth write."""

    def __init__(self, path, writes):
        super().__init__(path)
        self.writes = writes

    def write(self, name, content):
        self.writes -= 1
        if self.writes < 0:
            raise Killed
        super().write(name, content)


def write(store, version="v1", rows=("a", "b"), previous=None, notes=None):
    """Write a version whose exemplars are these texts; the SHA-256 of its manifest."""
    prompt = "".join(f"Input: {row}\nOutput: x\n\n" for row in rows).encode()
    new = Version(
        name=version,
        files={PROMPT_TEXT: prompt, BEST_SEQUENCE: b"{}\n"},
        head={"record": "", "record_sha256": ""},
        published_by="",
        rows=[row_hash(row) for row in rows],
        validation_rows=[],
        facts={"run": {"id": f"run of {version}"}},
    )
    return write_version(store, new, previous=previous, notes=notes or Notes())


def whole_names(folder):
    store = FileStore(str(folder))
    sha256 = write(store)
    make_latest(store, "v1", sha256, None)
    return store.walk_names()


@pytest.mark.parametrize("writes", range(7))
def test_a_publication_killed_at_any_write_is_whole_after_the_next_attempt(writes, tmp_path):
    wanted = whole_names(tmp_path / "whole")
    folder = str(tmp_path / "prompts")
    store = FileStore(folder)
    with contextlib.suppress(Killed):
        write(KillingStore(folder, writes))
    make_latest(store, "v1", write(store), None)
    assert store.walk_names() == wanted
    assert [found.version for found in find_row(folder, "b")] == ["v1"]
    assert list(verify_versions(folder)) == []


def test_the_record_of_an_attempt_that_finds_a_version_names_what_the_killed_one_wrote(tmp_path):
    store = FileStore(str(tmp_path))
    first, second = Notes(), Notes()
    for notes in (first, second):
        write(store, notes=notes)
    assert second.written == first.written


def published(folder, *versions):
    """Versions as `(name, rows)`, each the latest when it was written; the store."""
    store = FileStore(str(folder))
    for version, rows in versions:
        before = read_latest(store)
        make_latest(store, version, write(store, version, rows, before), before)
    return store


def latest_of(store):
    latest = read_latest(store)
    return latest and latest.version


def test_latest_moves_to_the_version_that_was_it_before_and_does_not_hold_the_row(tmp_path):
    store = published(tmp_path, ("v1", "ab"), ("v2", "b"), ("v3", "ax"), ("v4", "a"))
    write(store, "v5", "c")  # was refused
    assert move_latest(store, [row_hash("a")]).version == latest_of(store) == "v2"
    assert move_latest(store, [row_hash("a")]) is None
    assert list(verify_versions(str(tmp_path))) == []


def test_latest_moves_to_the_newest_where_none_before_it_is_left(tmp_path):
    store = published(tmp_path, ("v1", "a"), ("v3", "a"))
    write(store, "v2", "b")
    write(store, "v4", "c")
    assert move_latest(store, [row_hash("a")]).version == latest_of(store) == "v4"


def test_latest_goes_where_no_version_without_the_row_has_its_prompt(tmp_path):
    store = published(tmp_path, ("v1", "b"), ("v2", "a"))
    store.delete(f"versions/v1/{PROMPT_TEXT}")
    assert move_latest(store, [row_hash("a")]).after is None
    assert (latest_of(store), store.read("latest.json")) == (None, None)


def test_latest_stays_where_it_does_not_hold_the_row(tmp_path):
    store = published(tmp_path, ("v1", "a"), ("v2", "b"))
    assert move_latest(store, [row_hash("a")]) is None
    assert latest_of(store) == "v2"


def test_a_version_published_while_latest_is_moved_is_not_lost(tmp_path, monkeypatch):
    store = published(tmp_path, ("v1", "a"))
    swap = store.swap

    def late(name, content, expected):
        monkeypatch.setattr(store, "swap", swap)
        published(tmp_path, ("v2", "c"))
        return swap(name, content, expected)

    monkeypatch.setattr(store, "swap", late)
    assert move_latest(store, [row_hash("a")]) is None
    assert latest_of(store) == "v2"


def test_nobody_publishes_while_latest_goes_and_the_removal_ends_it(tmp_path, monkeypatch):
    store = published(tmp_path, ("v1", "a"))
    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(FileStore, "delete", kill)
        move_latest(store, [row_hash("a")])
    with pytest.raises(LineageError, match="is being removed; run the `ease forget` that did not end again"):
        read_latest(store)
    move_latest(store, [row_hash("a")])
    assert read_latest(store) is None


def kill(*_):
    raise Killed
