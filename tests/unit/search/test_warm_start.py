"""Answers of the last search, for the next one."""

import pytest

from ease_lib.artifacts.store import open_store
from ease_lib.errors import StoreError
from ease_lib.notes import Notes
from ease_lib.search.surrogate.answers import Answers
from ease_lib.search.warm_start import Memory, Names
from ease_lib.tasks.base import Exemplar


def rows(*texts, output="yes"):
    return [Exemplar(number, text, (output,)) for number, text in enumerate(texts)]


NAMES = Names.of(rows("a", "b", "c"), rows("x", "y"), [""])


def answers():
    found = Answers()
    found.add((0, (0, 2)), [0, 1], [1.0, None])
    found.add((0, (1,)), [1], [0.5])
    return found


@pytest.fixture
def memory(tmp_path):
    memory = Memory(open_store(str(tmp_path)), "subject", Notes())
    memory.keep("key", "search", memory.recall("search", NAMES), answers(), NAMES)
    return memory


def test_nothing_is_known_before_the_first_search(tmp_path):
    assert Memory(open_store(str(tmp_path)), "subject", Notes()).recall("search", NAMES).count == 0


def test_another_search_recalls_all_that_still_holds(memory):
    assert memory.recall("another", NAMES).answers == (((0, (0, 2)), (0, 1), (1.0, None)), ((0, (1,)), (1,), (0.5,)))


def test_positions_are_those_of_the_new_data(memory):
    changed = Names.of(rows("c", "new", "a"), rows("new", "x"), [""])
    assert memory.recall("another", changed).answers == (((0, (2, 0)), (1,), (1.0,)),)


def test_an_exemplar_whose_label_was_corrected_is_another_one(memory):
    changed = Names.of([*rows("a", output="no"), *rows("b", "c")], rows("x", "y"), [""])
    assert memory.recall("another", changed).answers == (((0, (1,)), (1,), (0.5,)),)


def test_the_same_search_again_recalls_what_it_did_the_first_time(memory):
    """So its journal is found again, and costs nothing."""
    assert memory.recall("search", NAMES).count == 0
    recalled = memory.recall("second", NAMES)
    memory.keep("key of the second", "second", recalled, answers(), NAMES)
    assert memory.recall("second", NAMES) == recalled


def test_no_text_is_kept(memory, tmp_path):
    secret = Names.of(rows("my secret"), rows("x"), [""])
    memory.keep("key", "search", memory.recall("search", secret), Answers(), secret)
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*.json"))


def test_what_is_recalled_is_part_of_the_record(memory, tmp_path):
    seen = Notes()
    recalled = Memory(open_store(str(tmp_path)), "subject", seen).recall("another", NAMES)
    assert [sha256 for sha256, _ in seen.files_read.values()] == [recalled.sha256]


def test_a_damaged_file_is_named(memory, tmp_path):
    (damaged,) = tmp_path.rglob("key.json")
    damaged.write_text("{")
    with pytest.raises(StoreError, match=r"key\.json is damaged"):
        memory.recall("another", NAMES)


def test_texts_that_stand_there_twice_are_recalled_one_by_one(tmp_path):
    """Each text is recalled as often as the new data have it, and no answer twice."""
    twice = Names.of(rows("a", "a", "b"), rows("x", "x", "y"), [""])
    found = Answers()
    found.add((0, (0, 1)), [0, 1, 2], [1.0, 0.0, 0.5])
    found.add((0, (1, 2)), [0], [1.0])
    found.add((0, (0, 2)), [0, 1], [0.5, 0.0])
    memory = Memory(open_store(str(tmp_path)), "subject", Notes())
    memory.keep("key", "search", memory.recall("search", twice), found, twice)
    assert memory.recall("another", twice).answers == (
        ((0, (0, 1)), (0, 1, 2), (1.0, 0.0, 0.5)),
        ((0, (0, 2)), (0,), (1.0,)),  # the first and the second "a" are the same exemplar to a prompt
        ((0, (0, 2)), (1,), (0.0,)),
    )
    once = Names.of(rows("b", "a"), rows("y", "x"), [""])
    assert memory.recall("another", once).answers == (((0, (1, 0)), (1,), (1.0,)),)
